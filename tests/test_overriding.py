"""Faults and adversaries of a scenario set and varied from a command line."""

from __future__ import annotations

import pytest

from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments.sweeps import make_plan
from p2p_labeldp.scenario import parse_scenario
from p2p_labeldp.scenario.entries import Liars, Loss, Observer, Silent

POISONED = """
[[adversaries]]
kind = "liars"
count = 5
label = 0
"""


def adversaries(*settings: str, text: str = POISONED) -> tuple[object, ...]:
    return parse_scenario(text, "it", settings).adversaries


def test_an_entry_is_changed_by_its_kind_or_by_its_position() -> None:
    for which in ("liars", "1"):
        assert adversaries(f"adversaries[{which}].lie=flipped") == (Liars(count=5, label=0, lie="flipped"),)


def test_an_entry_that_is_not_there_is_added() -> None:
    assert adversaries("adversaries[silent].users=[3, 4]") == (Liars(count=5, label=0), Silent(users=(3, 4)))
    assert adversaries("adversaries[observer].kind=observer", text="") == (Observer(),)
    both = parse_scenario("", "it", ["faults[loss].probability=.2", "faults[loss].start=1"])
    assert both.faults == (Loss(probability=0.2, start=1.0),)


def test_of_users_count_and_fraction_the_one_that_is_named_counts() -> None:
    assert adversaries("adversaries[liars].fraction=0.25") == (Liars(fraction=0.25, label=0),)


def test_naming_nobody_leaves_the_entry_out() -> None:
    assert adversaries("adversaries[liars].fraction=0") == ()
    assert adversaries("adversaries[liars].count=0", "adversaries[liars].fraction=0.5") == (
        Liars(fraction=0.5, label=0),
    )


def test_what_was_set_reads_back_from_the_resolved_scenario() -> None:
    scenario = parse_scenario(POISONED, "it", ["adversaries[liars].fraction=0.25", "faults[loss].probability=.2"])
    assert parse_scenario(scenario.to_toml()) == scenario


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("adversaries[liar].count=1", "did you mean 'liars'?"),
        ("adversaries[2].count=1", "there is no adversaries[2]; the scenario has 1"),
        ("adversaries[0].count=1", "there is no adversaries[0]"),
        ("adversaries[liars].cuont=1", "did you mean count?"),
        ("adversaries[liars].fraction=2", "fraction = 2 is not allowed; it must be a number from 0 to 1"),
        ("adversaries[liars].kind=silent", 'kind = "silent" is not allowed; the entry is liars'),
        ("adversaries[liars]=1", "adversaries[curious_peers].KEY=VALUE"),
        ("faults.loss=1", "faults[delay].KEY=VALUE"),
        ("faults[partition].start=2", "names no users"),
    ],
)
def test_what_cannot_be_set_is_said_with_what_can(setting: str, words: str) -> None:
    with pytest.raises(RequestError) as error:
        adversaries(setting)
    assert words in str(error.value)


def test_of_two_entries_of_a_kind_the_position_says_which() -> None:
    text = POISONED + POISONED
    with pytest.raises(RequestError, match=r"say which: adversaries\[1\] or adversaries\[2\]"):
        adversaries("adversaries[liars].count=1", text=text)
    assert adversaries("adversaries[2].count=1", text=text) == (Liars(count=5, label=0), Liars(count=1, label=0))


def test_accuracy_against_the_share_of_liars_is_one_sweep() -> None:
    """Its engine is that of messages, though the scenario itself has no adversary."""
    plan = make_plan(parse_scenario(""), ["adversaries[liars].fraction=0,.1,.2"], seeds=1)
    assert plan.engine == "actors"
    assert [len(plan.scenario_of(number).adversaries) for number in range(3)] == [0, 1, 1]
    assert plan.scenario_of(2).adversaries == (Liars(fraction=0.2),)


def test_those_who_only_look_are_swept_on_arrays() -> None:
    plan = make_plan(parse_scenario(""), ["adversaries[collusion].fraction=.1,.2"], seeds=1)
    assert plan.engine == "vectorized"


def test_a_wrong_value_is_refused_before_anything_runs() -> None:
    with pytest.raises(RequestError, match=r"--vary adversaries\[liars\].fraction=0,2: fraction = 2 is not allowed"):
        make_plan(parse_scenario(""), ["adversaries[liars].fraction=0,2"], seeds=1)
