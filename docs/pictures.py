"""Draws the README's picture of a run: ``python docs/pictures.py`` writes docs/quickstart.svg."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console

from p2p_labeldp.cli.run import summary_table
from p2p_labeldp.engines import run
from p2p_labeldp.scenario import load_scenario


def main() -> None:
    here = Path(__file__).parent
    finished = run(load_scenario(here.parent / "scenarios" / "quickstart.toml"))
    summary = finished.summary | {"out": "runs/quickstart"}
    console = Console(record=True, width=88, highlight=False, file=io.StringIO())
    console.print("[bold]$ p2p-labeldp run scenarios/quickstart.toml[/bold]")
    console.print(summary_table(summary))
    picture = console.export_svg(title="p2p-labeldp", unique_id="quickstart")
    # Fonts would be fetched from elsewhere; the reader's own monospace font does as well.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    (here / "quickstart.svg").write_text(picture)


if __name__ == "__main__":
    main()
