"""Draws the pictures of the documents anew: ``python docs/pictures.py`` (a few minutes; the report needs chromium).

docs/quickstart.svg is what the quick start prints, docs/report.png and docs/report-exchange.png are parts of its page,
docs/sweep.png is the plot of a sweep, docs/privacy-curves.png has the delta(epsilon) of every view.
"""

from __future__ import annotations

import base64
import dataclasses
import io
import re
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

import msgspec
from browser import CHROMIUM, Browser
from rich.console import Console

from p2p_labeldp.cli import main as command
from p2p_labeldp.cli.summary import summary_lines
from p2p_labeldp.cli.tables import print_facts
from p2p_labeldp.experiments import run
from p2p_labeldp.mechanisms import make_plan
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.reporting import write_report
from p2p_labeldp.reporting.curves import curves_plot
from p2p_labeldp.reporting.files import save
from p2p_labeldp.runs.curves import curves
from p2p_labeldp.runs.guarantees import Circumstances, guarantees
from p2p_labeldp.scenario import load_scenario

HERE = Path(__file__).parent
SCENARIOS = HERE.parent / "scenarios"
WIDTH, HEIGHT = 1100, 1150


def terminal_and_report(folder: Path) -> None:
    """The quick start, as text and as a page."""
    finished = run(load_scenario(SCENARIOS / "quickstart.toml"), out=folder / "quickstart")
    summary = msgspec.structs.replace(finished.summary, out="runs/quickstart")
    console = Console(record=True, width=88, highlight=False, file=io.StringIO())
    console.print("[bold]$ p2p-labeldp run scenarios/quickstart.toml[/bold]")
    print_facts(summary_lines(summary), console)
    picture = console.export_svg(title="p2p-labeldp", unique_id="quickstart")
    # Fonts would be fetched from elsewhere; the reader's own monospace font does as well.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    (HERE / "quickstart.svg").write_text(picture)
    page = write_report(folder / "quickstart")
    if CHROMIUM is None:
        print("the pictures of the report stay as they were: there is no chromium")
        return
    with Browser(folder / "browser") as browser:
        tab = browser.open(page.resolve(), width=WIDTH, height=HEIGHT)
        top = tab.call("Page.captureScreenshot", format="png")
        (HERE / "report.png").write_bytes(base64.b64decode(top["data"]))
        tab.screenshot(HERE / "report-exchange.png", "#exchange figure")


def sweep(folder: Path) -> None:
    """Few large clusters or many small ones, at several epsilons."""
    arguments = ["--vary", "clusters.count=1,2,4,8,16,32", "--vary", "mechanism.epsilon=0.3,1,3", "--seeds", "10"]
    base = folder / "breast-cancer.toml"
    base.write_text('[data]\nname = "breast_cancer"\n[privacy]\ndelta = 1e-4\n')
    status = command(["sweep", str(base), *arguments, "--out", str(folder / "sweep")])
    if status:
        raise SystemExit(status)
    shutil.copy(folder / "sweep" / "accuracy-by-clusters.count.png", HERE / "sweep.png")


def privacy_curves() -> None:
    """Every view's delta(epsilon), for one setting."""
    size, delta = 500, 4e-6
    plan = make_plan("peer_to_peer", labels=2, sizes=[size], delta=delta, parameters=Parameters(0.1, 0.5), alpha=0.1)
    found = Circumstances({size: 0}, delta, colluders={size: 3})
    table = guarantees(plan, found)
    drawn = curves(plan, found, table, finer=3)
    title = f"{size} users in a cluster, alpha 0.1, theta 0.5, two labels"
    plot = dataclasses.replace(curves_plot(table, drawn, title), caption="")  # the page says more below the picture
    save([plot], HERE / "privacy-curves.png")


if __name__ == "__main__":
    privacy_curves()
    with tempfile.TemporaryDirectory() as name:
        terminal_and_report(Path(name))
        sweep(Path(name))
