"""Invariants of the permutation: honest runs keep them, and a trace in which someone is asked twice does not."""

from __future__ import annotations

from pathlib import Path

import msgpack
import numpy as np
import pytest
from small import sixty

from p2p_labeldp.audit import audit_runs
from p2p_labeldp.audit.permuted import PermutedChecker
from p2p_labeldp.experiments.run import run
from p2p_labeldp.mechanisms.agreement import agreed_places
from p2p_labeldp.scenario import replace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    scenario = replace(sixty(), mechanism__exchange="permutation")
    run(scenario, out=tmp_path / "run")
    return tmp_path / "run"


def test_an_honest_run_keeps_them(folder: Path) -> None:
    found = audit_runs([folder]).runs[0]
    assert found.violations == []
    assert found.coins_recomputed
    assert found.invariants == len(PermutedChecker.invariants)


def test_who_asks_somebody_that_was_asked_is_found_without_a_seed_too(folder: Path) -> None:
    trace = folder / "trace.msgpack"
    with trace.open("rb") as file:
        header, *records = msgpack.Unpacker(file)
    asks = [record for record in records if record[4][0] == "ask" and record[4][1] == 0]
    rosters = [np.frombuffer(record[4][3], dtype="<i8").tolist() for record in records if record[4][0] == "roster"]
    first, second = (record for record in asks if record[2] in rosters[0][:2])
    second[3] = first[3]
    trace.write_bytes(b"".join(msgpack.packb(each) for each in (header, *records)))
    assert "one_asker" in {violation.invariant for violation in audit_runs([folder]).runs[0].violations}


def test_another_permutation_is_not_that_of_the_seed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("p2p_labeldp.audit.expected.agreed_places", lambda coins: np.roll(agreed_places(coins), 1))
    assert {violation.invariant for violation in audit_runs([folder]).runs[0].violations} == {"coins"}
