"""Small sweeps for tests of several rooms, and what is in their folders."""

from __future__ import annotations

from pathlib import Path

from small import TWENTY_FOUR

from p2p_labeldp.experiments.sweeps import Plan, make_plan
from p2p_labeldp.scenario import parse_scenario

VARY = ("mechanism.alpha=.05,.2", "mechanism.theta=.5,1")


def plan_of(*vary: str, seeds: int = 3, text: str = TWENTY_FOUR, engine: str | None = None) -> Plan:
    return make_plan(parse_scenario(text), vary or VARY, seeds=seeds, engine=engine)


def journaled(folder: Path) -> list[str]:
    """The rows of a sweep's journal, in whatever order they came."""
    return sorted(line for line in (folder / "sweep.jsonl").read_text().splitlines() if '"metrics"' in line)


def everything(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
