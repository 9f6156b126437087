"""``p2p-labeldp scenarios``: what ships, one line each."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer

from p2p_labeldp.scenario import documentation, entry_documentation


def shipped() -> dict[str, Path]:
    """The scenarios that come with the package, by name; in a checkout, those of its scenarios folder."""
    package = Path(str(files("p2p_labeldp")))
    for folder in (package / "scenarios", package.parent / "scenarios"):
        if folder.is_dir():
            return {path.stem: path for path in sorted(folder.glob("*.toml"))}
    return {}


def headline(path: Path) -> str:
    """A scenario's first line says what it shows."""
    return path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").strip()


def command(
    keys: Annotated[bool, typer.Option("--keys", help="List every key a scenario may have instead.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """List the scenarios that ship, or every key a scenario may have."""
    if keys:
        every = [*documentation(), *entry_documentation()]
        entries = {name: [default, rule, doc] for name, default, rule, doc in every}
        lines = {name: f"{doc} ({rule}; {json.dumps(default)})" for name, (default, rule, doc) in entries.items()}
        found: dict[str, Any] = {"keys": entries}
    else:
        lines = {name: headline(path) for name, path in shipped().items()}
        found = {"scenarios": lines}
    if as_json:
        print(json.dumps(found))
        return
    width = max(map(len, lines), default=0)
    for name, line in lines.items():
        print(f"{name:<{width}}  {line}")
