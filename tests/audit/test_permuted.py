"""Invariants of the permutation: honest runs keep them, and a trace in which someone is asked twice does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from recorded import broken, read_trace, write_trace
from small import sixty

from p2p_labeldp.audit import audit_runs
from p2p_labeldp.audit.permuted import PermutedChecker
from p2p_labeldp.experiments.run import run
from p2p_labeldp.mechanisms.mixing import agreed_places
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
    header, records = read_trace(folder)
    asks = [record for record in records if record[4][0] == "ask" and record[4][1] == 0]
    rosters = [np.frombuffer(record[4][3], dtype="<i8").tolist() for record in records if record[4][0] == "roster"]
    first, second = (record for record in asks if record[2] in rosters[0][:2])
    second[3] = first[3]
    write_trace(folder, header, records)
    assert "one_asker" in broken(folder)


def test_another_permutation_is_not_that_of_the_seed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("p2p_labeldp.audit.expected.agreed_places", lambda coins: np.roll(agreed_places(coins), 1))
    assert broken(folder) == {"coins"}
