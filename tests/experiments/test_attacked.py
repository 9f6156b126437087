"""The attack table of a run: every adversary measured, none beyond what is proved."""

from __future__ import annotations

from typing import Any

import pytest
from small import ONE_CLUSTER, with_adversaries

from p2p_labeldp.experiments import run
from p2p_labeldp.privacy import View
from p2p_labeldp.runs.summary import Attack
from p2p_labeldp.scenario import Scenario, make_entry, parse_scenario, replace

SMALL = parse_scenario(ONE_CLUSTER, overrides=["data.users=120", "data.groups=6", "mechanism.theta=0.8"])


@pytest.fixture(autouse=True)
def _smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("p2p_labeldp.experiments.attacked.MOST_USERS", 8_000)


def rows_of(scenario: Scenario, **options: Any) -> tuple[Attack, ...]:
    return run(scenario, **options).summary.attacks


def test_a_run_without_adversaries_has_no_table() -> None:
    assert rows_of(SMALL) == ()


@pytest.mark.parametrize(
    ("table", "view"),
    [
        ({"kind": "collusion", "fraction": 0.2}, "coalition"),
        ({"kind": "curious_peers", "count": 3}, "peer"),
        ({"kind": "observer", "sees": "metadata"}, "metadata"),
        ({"kind": "observer", "sees": "content"}, "network"),
        ({"kind": "observer", "sees": "content", "reports": False}, "eavesdropper"),
        ({"kind": "focus", "victim": 3, "count": 4}, "coalition"),
        ({"kind": "repeat_askers", "victim": 3, "count": 2, "times": 3}, "coalition"),
        ({"kind": "isolating_coordinator", "victim": 3, "way": "sybil_cluster", "size": 8}, "coalition"),
        ({"kind": "isolating_coordinator", "victim": 3, "way": "inconsistent", "size": 8}, "coalition"),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else value,
)
def test_no_adversary_beats_the_bound_of_her_view(table: dict[str, Any], view: str) -> None:
    """Each lower limit is at 99.9 %: by chance one of these fails once in hundreds of changes of the seed."""
    (row,) = rows_of(with_adversaries(SMALL, table))
    assert row.view == view
    assert row.beaten == ()
    assert row.advantage is not None
    assert row.bound is not None
    value, low, high = row.advantage
    assert low <= value <= high
    assert low <= row.bound <= 1
    assert row.trials >= 60


def test_colluders_who_all_ask_the_victim_reach_the_local_bound() -> None:
    (row,) = rows_of(with_adversaries(SMALL, {"kind": "focus", "victim": 3, "count": 4}))
    assert row.bound == pytest.approx(1 - 2 * 0.2)
    assert row.advantage[2] >= row.bound - 1e-12


@pytest.mark.slow
def test_new_noise_for_every_asker_is_averaged_away_and_one_flip_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("p2p_labeldp.experiments.attacked.MOST_USERS", 24_000)
    colluders = {"kind": "focus", "victim": 3, "users": [9, 15, 21, 27, 33, 39, 45, 51, 57, 63, 69]}
    tables = [{"kind": "fresh_answers", "users": [3]}, colluders]
    _, buggy = rows_of(with_adversaries(SMALL, *tables, clusters__method="given", data__groups=1))
    (honest,) = rows_of(with_adversaries(SMALL, colluders, data__groups=1))
    assert buggy.bound is None
    assert "new noise for every asker" in buggy.note
    assert buggy.advantage[1] > honest.bound
    assert honest.beaten == ()


def test_a_victim_who_abstains_gives_nothing_away() -> None:
    table = {"kind": "isolating_coordinator", "victim": 3, "way": "small_cluster", "size": 2}
    (row,) = rows_of(with_adversaries(SMALL, table))
    assert row.note == "user 3 abstained: there is nothing of hers to see"
    (open_,) = rows_of(with_adversaries(SMALL, table, defences__abstain=False))
    assert open_.advantage is not None


def test_liars_are_measured_by_what_they_moved() -> None:
    (row,) = rows_of(with_adversaries(SMALL, {"kind": "liars", "fraction": 0.3, "label": 1}))
    assert row.share > row.honest_share + 0.1
    assert 0 <= row.honest_accuracy <= 1


def test_an_observer_of_metadata_without_reports_learns_nothing() -> None:
    (row,) = rows_of(with_adversaries(SMALL, {"kind": "observer", "sees": "metadata", "reports": False}))
    assert row.note == "sees no label and no report"


def test_those_who_only_look_are_measured_on_arrays_too() -> None:
    scenario = with_adversaries(SMALL, {"kind": "collusion", "fraction": 0.2})
    assert rows_of(scenario, engine="vectorized") == rows_of(scenario)


def test_where_everyone_is_gone_there_is_nothing_to_attack() -> None:
    gone = make_entry("faults", {"rule": "crash", "fraction": 1.0})
    (row,) = rows_of(with_adversaries(SMALL, {"kind": "collusion", "fraction": 0.2}, faults=[gone]))
    assert row.note.startswith("there is nobody to see: all abstained")


def test_an_abstaining_cluster_full_of_colluders_does_not_hide_the_others() -> None:
    scenario = with_adversaries(SMALL, {"kind": "collusion", "users": list(range(40))})
    smallest = int(run(scenario).summary.cluster_sizes.smallest)
    (row,) = rows_of(replace(scenario, clusters__minimum_size=smallest + 1))
    assert row.advantage is not None


def test_a_run_guarantees_no_more_than_its_adversaries_leave() -> None:
    honest = run(SMALL).summary.privacy[View.LEARNER]
    liars = with_adversaries(SMALL, {"kind": "liars", "fraction": 0.5, "reports": False})
    lied = run(liars).summary.privacy[View.LEARNER]
    assert lied.epsilon > honest.epsilon
    assert lied.method == "upper_bound"
