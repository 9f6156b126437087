"""What tests of misbehaviour share: a scenario with adversaries, run with its trace at hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small import unmeasured, with_adversaries

from p2p_labeldp.audit.trace import Event, Trace
from p2p_labeldp.runs import Run
from p2p_labeldp.scenario import parse_scenario

BLOBS = """
[data]
name = "synthetic"
users = 120
groups = 4
separation = 3.0
[clusters]
count = 4
minimum_size = 10
[mechanism]
alpha = 0.2
theta = 0.8
"""


def messages(path: Path, kind: str) -> list[Event]:
    """Every message of a kind that a run folder's trace has."""
    return [event for event in Trace.open(path / "trace.msgpack") if event.kind == kind]


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., SimpleNamespace]:
    """Run 120 users in four k-means clusters with these adversaries; keys of the scenario may be changed.

    What the adversaries achieved is not measured. Gives the ``run``, its ``path`` and ``said(kind)``: the messages of
    that kind.
    """

    def make(*adversaries: dict[str, Any], text: str = BLOBS, hosting: str = "user", **changes: Any) -> SimpleNamespace:
        scenario = with_adversaries(parse_scenario(text), *adversaries, **changes)
        path = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        finished: Run = unmeasured(scenario, hosting=hosting, out=path)
        return SimpleNamespace(run=finished, path=path, said=lambda kind: messages(path, kind))

    return make
