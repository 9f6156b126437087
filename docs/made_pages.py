"""Pages that MkDocs makes anew at every build, beside those of this folder; ``mkdocs.yml`` names this as a hook.

The home page is README.md, with links made relative to this folder. The command line and the scenario's keys are asked
of the program, so that neither can be out of date. The notebook becomes a page of its cells and what they printed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
WIDTH = 100
ELSEWHERE = {"CONTRIBUTING.md": "contributing.md", "docs/quickstart.ipynb": "quickstart.md"}
"""Files outside of this folder that are pages of the site, and the notebook, which becomes one."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called by MkDocs with the files that it found."""
    made = {
        "index.md": moved((ROOT / "README.md").read_text(encoding="utf-8")),
        "quickstart.md": notebook(ROOT / "docs" / "quickstart.ipynb"),
        "command-line.md": command_line(),
        "scenario-keys.md": scenario_keys(),
        "contributing.md": moved((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")),
        "changelog.md": moved((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")),
    }
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs, which takes a block that has a file's name for a paragraph: the name goes above it."""
    return re.sub(r"^```(\w+) ([\w./-]+)$", r"`\2`:\n\n```\1", markdown, flags=re.MULTILINE)


def moved(text: str) -> str:
    """A file of the project's folder, with its links as they are from here."""
    for there, here in ELSEWHERE.items():
        text = text.replace(f"]({there})", f"]({here})")
    return re.sub(r'(\]\(|src=")docs/', r"\1", text)


def notebook(path: Path) -> str:
    """Its cells, one after another, with what each printed below it."""
    parts = ["[Download this notebook](quickstart.ipynb)"]
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        printed = "".join("".join(output.get("text", "")) for output in cell["outputs"])
        parts.append(f"```python\n{source}\n```\n\n```text\n{printed.rstrip()}\n```")
    parts[:2] = [parts[1], parts[0]]  # the title first
    return "\n\n".join(parts) + "\n"


def command_line() -> str:
    """``--help`` of every command."""
    from typer.main import get_command

    from p2p_labeldp.cli import app

    opening = (
        "# The command line\n\n"
        "Made from the program. Exit status: 0 done; 1 a check failed; 2 the request was wrong, explained in one line; "
        "3 the run broke or was interrupted. `--json` prints one JSON object on standard output and nothing else.\n"
    )
    return opening + "".join(
        f"\n## {name}\n\n```text\n{text.rstrip()}\n```\n" for name, text in helps(get_command(app), "p2p-labeldp")
    )


def helps(command: Any, path: str, parent: Any = None) -> Iterator[tuple[str, str]]:
    """A command's help and those of its own commands."""
    context = command.make_context(path, [], parent=parent, resilient_parsing=True)
    context.terminal_width = context.max_content_width = WIDTH
    yield path, command.get_help(context)
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from helps(inner, f"{path} {name}")


def scenario_keys() -> str:
    """Every key by section, with what is allowed, its default and its meaning."""
    from p2p_labeldp.scenario import documentation, entry_documentation

    lines = ["# Scenario keys", "", "Made from the program; `p2p-labeldp scenarios --keys` prints the same.", ""]
    section = ""
    for name, default, allowed, meaning in (*documentation(), *entry_documentation()):
        place, _, key = name.rpartition(".")
        if place != section:
            section = place
            lines += ["", f"## {place}", "", "| key | default | allowed | meaning |", "|---|---|---|---|"]
        shown = json.dumps(default, default=str, ensure_ascii=False)
        cells = (f"`{key}`", "" if default == "" else f"`{shown}`", allowed, meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"
