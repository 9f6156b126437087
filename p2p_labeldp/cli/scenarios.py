"""``p2p-labeldp scenarios``: what ships, one line each."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer

from p2p_labeldp.errors import RequestError, meant
from p2p_labeldp.scenario import documentation, entry_documentation


def shipped() -> dict[str, Path]:
    """The scenarios that come with the package, by name; in a checkout, those of its scenarios folder."""
    package = Path(str(files("p2p_labeldp")))
    for folder in (package / "scenarios", package.parent / "scenarios"):
        if folder.is_dir():
            return {path.stem: path for path in sorted(folder.glob("*.toml"))}
    return {}


def names() -> list[str]:
    """For completion in a shell."""
    return list(shipped())


def find_shipped(name: str) -> Path:
    """The file of a shipped scenario."""
    every = shipped()
    if name in every:
        return every[name]
    raise RequestError(f"{name}: neither a file nor a shipped scenario; {meant(name, every)}")


def headline(path: Path) -> str:
    """A scenario's first line says what it shows."""
    return path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").strip()


def command(
    keys: Annotated[bool, typer.Option("--keys", help="List every key a scenario may have instead.")] = False,
    show: Annotated[
        str | None,
        typer.Option("--show", metavar="NAME", help="Print a shipped scenario's text.", autocompletion=names),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """List the scenarios that ship, print one, or list every key that a scenario may have."""
    if show is not None:
        text = find_shipped(show).read_text(encoding="utf-8")
        print(json.dumps({"scenario": show, "text": text}) if as_json else text, end="\n" if as_json else "")
        return
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
