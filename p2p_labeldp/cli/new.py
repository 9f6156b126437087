"""``p2p-labeldp new``: a scenario to begin with, every key of it explained.

It is written from the keys' own documentation, so that it is never out of date. Keys at the top stand for the study's
question; all others are there as comments with their defaults, ready to be uncommented.
"""

from __future__ import annotations

import csv
import json
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from p2p_labeldp.cli.output import Json, print_json
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import documentation, entry_documentation, parse_scenario
from p2p_labeldp.scenario.rules import MAX_WHOLE
from p2p_labeldp.scenario.schema import SchemaTable
from p2p_labeldp.systems import put_in_place

_WIDTH = 100


def command(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="The study's name: writes STUDY.toml.")],
    table: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Your own examples.")] = None,
    label: Annotated[
        str | None, typer.Option("--label", metavar="COLUMN", help="The label's column in --csv; label without this.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a commented scenario of your own to start from."""
    place = Path(study if study.endswith(".toml") else f"{study}.toml")
    if place.exists():
        raise RequestError(f"{place}: exists already; choose another name")
    text = scenario_text(place.stem, _examples(table, label))
    try:
        with put_in_place(place) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RequestError(f"{place}: cannot be written: {error.strerror or error}") from None
    if as_json:
        print_json({"scenario": str(place)})
    else:
        print(f"{place}; next: p2p-labeldp run {place}")


def _examples(table: Path | None, column: str | None) -> dict[str, Any]:
    if table is None:
        if column is not None:
            raise RequestError("--label is for a CSV file: name it with --csv")
        return {"data.name": "digits", "data.target": "parity"}
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            columns = next(csv.reader(file), [])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RequestError(f"--csv {table}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    label = "label" if column is None else column
    if label not in columns:
        raise RequestError(f"--label {label}: {table} has no such column; there are {', '.join(columns)}")
    return {"data.name": "csv", "data.path": str(table), "data.label_column": label}


def scenario_text(title: str, examples: dict[str, Any]) -> str:
    """A scenario in TOML, its keys explained; those of ``examples`` and of the question are set."""
    chosen = examples | {"clusters.count": 12, "clusters.minimum_size": 20, "mechanism.epsilon": 1.0}
    lines = [
        f"# {title}: who could learn what, and how good is the model?",
        "#",
        "#   p2p-labeldp run FILE            one run, with a page",
        "#   p2p-labeldp threats FILE        every observer's epsilon",
        "#   p2p-labeldp sweep FILE --vary mechanism.epsilon=0.5,1,2 --seeds 5",
        "#",
        "# Keys that are commented out have the value shown.",
    ]
    section = ""
    for dotted, default, rule, doc in documentation():
        mine, _, name = dotted.partition(".")
        if mine == "deployment":
            continue  # flags of `deploy` and `node` say the same
        if mine != section:
            section = mine
            lines += ["", f"[{section}]"]
        lines += _comment(f"{doc}: {rule}")
        if rule == str(SchemaTable()):
            continue  # it comes after the keys of its section, from a command of its own
        shown = json.dumps(chosen.get(dotted, default), ensure_ascii=False)
        lines.append(f"{name} = {shown}" if dotted in chosen else f"# {name} = {shown}")
    lines += ["", "# Adversaries and faults, any number of them: uncomment one, or write others.", ""]
    for kind in ("adversaries[liars]", "faults[loss]"):
        lines += [f"# [[{kind.partition('[')[0]}]]"]
        for dotted, default, rule, doc in entry_documentation():
            place, _, name = dotted.rpartition(".")
            if place == kind:
                value = 0.1 if name == "fraction" else default
                left_out = "# # " if name in ("users", "count", "end", "cluster") else "# "
                lines += [f"# {line}" for line in _comment(f"{doc}: {rule}")]
                lines.append(f"{left_out}{name} = {json.dumps(value)}")
        lines.append("")
    text = "\n".join(lines)
    parse_scenario(text, title)
    return text


def _comment(text: str) -> list[str]:
    text = text.removesuffix(f" to {MAX_WHOLE}") + " up" * text.endswith(f" to {MAX_WHOLE}")
    return textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="#   ", break_long_words=False)
