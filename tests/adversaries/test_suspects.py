"""An audit of a run with adversaries: what was expected of them, what was found, and what nobody explains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from asking import Command
from recorded import broken, read_trace, write_trace
from small import sixty

from p2p_labeldp.adversaries.suspects import suspects
from p2p_labeldp.audit import audit_runs
from p2p_labeldp.audit.runs import RunAudit
from p2p_labeldp.experiments import run


@pytest.fixture
def played(tmp_path: Path) -> Path:
    """A run with a dozen liars."""
    scenario = sixty("adversaries[liars].count=12", "adversaries[liars].lie=flipped", "mechanism.rounds=1")
    run(scenario, out=tmp_path / "run")
    return tmp_path / "run"


def audited(path: Path) -> RunAudit:
    return audit_runs([path], suspects=suspects).runs[0]


def test_what_liars_break_is_explained_by_them(played: Path) -> None:
    found = audited(played)
    assert sorted(found.suspects) == json.loads((played / "summary.json").read_text())["adversaries"][0]["members"]
    assert found.explained["liars"]["coins"] > 0
    assert found.violations == []


def test_without_their_names_every_lie_is_a_violation(played: Path) -> None:
    assert broken(played) >= {"coins"}


def test_what_an_honest_user_breaks_beside_them_is_unexplained(played: Path) -> None:
    """The first answer of someone who is no liar is altered."""
    liars = audited(played).suspects
    header, records = read_trace(played)
    honest = next(record for record in records if record[4][0] == "answer" and record[2] not in liars)
    honest[4][2] = (honest[4][2] + 1) % 3
    write_trace(played, header, records)
    found = audited(played)
    assert {violation.party for violation in found.violations} >= {honest[2]}
    assert not liars.keys() & {violation.party for violation in found.violations}


def test_the_command_says_what_was_expected_and_what_was_found(played: Path, command: Command) -> None:
    status, out, _ = command("audit", str(played))
    assert status == 0
    assert "expected: liars, 12 parties that may break the rules; found: coins " in out
    assert "nothing is unexplained" in out
    (found,) = json.loads(command("audit", str(played), "--json")[1])["runs"]
    assert (found["expected"], found["violations"]) == ({"liars": 12}, [])


def test_those_who_only_look_are_expected_to_break_nothing() -> None:
    assert suspects({"adversaries": [{"kind": "collusion", "members": [1, 2]}]}) == {}


def test_a_coordinator_who_misbehaves_explains_what_its_victim_does() -> None:
    summary = {"adversaries": [{"kind": "isolating_coordinator", "members": [4], "victim": 7}]}
    assert suspects(summary) == dict.fromkeys((4, -1, 7), "isolating_coordinator")
