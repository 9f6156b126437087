"""The deployment's own code under seeded disasters: every seed holds, repeats itself, and tells nobody a label."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import planted_disasters
import pytest

from p2p_labeldp.data import Dataset
from p2p_labeldp.deployment import node
from p2p_labeldp.deployment.simulated import people
from p2p_labeldp.deployment.simulated.__main__ import COMMAND, main
from p2p_labeldp.deployment.simulated.people import dataset_of as people_of
from p2p_labeldp.deployment.simulated.plan import KINDS, Plan, draw
from p2p_labeldp.deployment.simulated.run import UNWRITTEN, simulate
from p2p_labeldp.deployment.simulated.swarm import Swarm, swarm
from p2p_labeldp.deployment.simulated.verdict import LATE, LOST, NEVER
from p2p_labeldp.network import links

QUICK = 15  # seeds of the usual suite; 200 of the slow one
TOGETHER = 5


def assert_all_hold(seeds: Sequence[int]) -> Swarm:
    found = swarm(seeds)
    told = [f"{failure}\n  {COMMAND} --seed {seed} --trace" for seed, failure in found.failed.items()]
    assert not told, "\n".join(told)
    return found


@pytest.mark.parametrize("first", range(0, QUICK, TOGETHER))
def test_whatever_a_seed_brings_about_everything_holds(first: int) -> None:
    assert_all_hold(range(first, first + TOGETHER))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(QUICK, 200, 17))
def test_two_hundred_seeds_hold(first: int) -> None:
    assert_all_hold(range(first, min(first + 17, 200)))


@pytest.mark.parametrize("seed", [50])
def test_a_seed_writes_the_same_history_in_every_process(seed: int) -> None:
    """Under two values of PYTHONHASHSEED, and here."""
    here = simulate(seed).history
    expected = f"{here.sha256} {here.content_sha256}\n"
    for hashing in ("0", "4711"):
        words = [sys.executable, "-m", "p2p_labeldp.deployment.simulated", "--seed", str(seed), "--digest"]
        environment = {**os.environ, "PYTHONHASHSEED": hashing}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout == expected, done.stderr


def test_a_seed_that_fails_is_replayed_the_same_in_another_process() -> None:
    """A bug is planted there; the failure and every line before it are the same under any PYTHONHASHSEED."""
    words = [sys.executable, str(Path(planted_disasters.__file__)), "a_redrawn_coin", "6"]
    told = set()
    for hashing in ("0", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": hashing}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1, done.stderr
        told.add(done.stdout)
    (failure,) = told
    assert "bytes of chance that the journal does not hold" in failure


def with_other_labels(dataset: Dataset) -> Dataset:
    labels = (dataset.labels + 1 + np.arange(len(dataset.labels)) % 2) % len(dataset.classes)
    return dataclasses.replace(dataset, labels=labels, conditional=None)


@pytest.mark.parametrize(("seed", "exchange"), [(50, "pull"), (5, "mixed")])
def test_other_labels_change_nothing_but_labels(seed: int, exchange: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every size, order, batch, time and step of everyone is the same: none of it is a function of labels."""
    assert draw(seed).scenario.mechanism.exchange == exchange
    before = simulate(seed).history

    def other(plan: Plan) -> Dataset:
        return with_other_labels(people_of(plan))

    monkeypatch.setattr(people, "dataset_of", other)
    after = simulate(seed)
    assert not after.failures
    assert after.history.sha256 == before.sha256
    assert after.history.content_sha256 != before.content_sha256


def test_a_plan_can_be_written_down_and_run_again() -> None:
    plan = draw(27)
    assert Plan.from_json(plan.to_json()) == plan
    assert {each.kind for seed in range(300) for each in draw(seed).disasters} | {"clock_skew"} == set(KINDS)


def test_the_last_words_that_a_verdict_looks_for_are_ones_that_programs_say() -> None:
    shipped = [*Path(node.__file__).parent.glob("*.py"), *Path(links.__file__).parent.glob("*.py")]
    said = "".join(path.read_text(encoding="utf-8") for path in shipped)
    assert [words for words in (*NEVER, *LOST, *LATE, UNWRITTEN) if words not in said] == []


def test_a_replay_shows_what_happened(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    assert main(["--seed", "50", "--trace", "--svg", str(tmp_path / "a.svg")]) == 0
    printed = capsys.readouterr().out
    assert "DISASTER" in printed
    assert "users-1      sends        to=coordinator item=0 what=join" in printed
    assert printed.endswith("all is well\n")
    assert (tmp_path / "a.svg").read_text().startswith("<svg")


def test_a_swarm_that_was_interrupted_goes_on_where_its_results_end(tmp_path: Path) -> None:
    results, told = tmp_path / "results.jsonl", list[int]()
    first = swarm(range(2), results=results)
    lines = results.read_text().splitlines()
    results.write_text("\n".join([*lines, lines[0][:40]]))  # killed in the middle of a line
    both = swarm(range(3), lambda record: told.append(record.seed), results)
    assert told == [2]
    assert len(both.records) == 3
    assert both.records[:2] == first.records
    assert results.read_text().splitlines()[:2] == lines


def test_a_seed_that_fails_is_shrunk_to_what_it_takes_and_can_be_seen(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports that leave in the order of answers take no disaster, no other host and few users."""
    planted_disasters.BUGS["reports_in_the_order_of_answers"](monkeypatch)
    picture, smallest = tmp_path / "a.svg", tmp_path / "plan.json"
    assert main(["--seed", "9", "--svg", str(picture), "--shrink", str(smallest)]) == 1
    printed = capsys.readouterr().out
    assert "not in the order of users" in picture.read_text()
    found, drawn = Plan.from_json(smallest.read_text()), draw(9)
    assert (found.hosts, found.disasters) == (1, ())
    assert found.scenario.data.users < drawn.scenario.data.users
    assert f"again: {COMMAND} --plan {smallest} --trace" in printed
    assert main(["--plan", str(smallest)]) == 1
    assert "not in the order of users" in capsys.readouterr().out
