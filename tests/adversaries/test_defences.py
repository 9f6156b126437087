"""Each defence stops its attack, and costs nothing in an honest run."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from small import sixty

from p2p_labeldp.audit import audit_runs
from p2p_labeldp.data import kmeans_clusters, load
from p2p_labeldp.experiments import run
from p2p_labeldp.mechanisms import SeededCoins
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol import Host
from p2p_labeldp.protocol.checking import AssignmentCheck
from p2p_labeldp.protocol.messages import COORDINATOR, Centre, Features, Refused, Roster
from p2p_labeldp.scenario import Clusters, Data, Defences, load_scenario, parse_scenario, replace

Play = Callable[..., SimpleNamespace]
Floats = NDArray[np.float32]

VICTIM = 7
ISOLATING = {"kind": "isolating_coordinator", "victim": VICTIM}


def words(played: SimpleNamespace) -> list[tuple[str, int]]:
    """Everything the victim said that depends on her label, or on anyone's: kind and receiver."""
    return [(kind, e.receiver) for kind in ("answer", "report") for e in played.said(kind) if e.sender == VICTIM]


def heard_of(played: SimpleNamespace) -> bool:
    return bool(words(played)) or VICTIM in played.run.outcome.rounds[0][0]


# Abstaining.


def test_in_a_cluster_of_her_own_the_victim_abstains_unless_that_is_switched_off(play: Play) -> None:
    alone = ISOLATING | {"way": "small_cluster"}
    defended, open_ = play(alone), play(alone, defences__abstain=False)
    assert not heard_of(defended)
    assert defended.run.summary.outcomes_by_round[0]["abstained"] == 1
    assert heard_of(open_)
    assert open_.run.summary.outcomes_by_round[0]["abstained"] == 0


@pytest.mark.parametrize("size", [2, 9])
def test_below_the_minimum_nobody_in_her_cluster_says_anything(size: int, play: Play) -> None:
    played = play(ISOLATING | {"way": "small_cluster", "size": size})
    assert not heard_of(played)
    assert played.run.summary.outcomes_by_round[0]["abstained"] == size


def test_switched_off_in_an_honest_run_small_clusters_take_part_and_the_audit_knows(play: Play) -> None:
    settings = {"clusters__method": "given", "clusters__minimum_size": 40}
    on, off = play(**settings), play(**settings, defences__abstain=False)
    assert on.run.summary.outcomes_by_round[0]["abstained"] > 0
    assert off.run.summary.outcomes_by_round[0]["abstained"] == 0
    assert audit_runs([on.path]).passed
    assert audit_runs([off.path]).passed
    by_arrays = run(off.run.scenario, engine="vectorized").summary
    assert by_arrays.noisy_sha256 == off.run.summary.noisy_sha256


# One answer.

PESTERING = {"kind": "repeat_askers", "victim": VICTIM, "count": 4, "times": 6}
CARELESS = {"kind": "fresh_answers", "users": [VICTIM]}


def test_a_second_ask_is_refused_unless_that_is_switched_off(play: Play) -> None:
    once, often = play(PESTERING), play(PESTERING, defences__one_answer=False)
    colluders = set(once.run.assignments[0].members)
    told = {name: [to for kind, to in words(each) if to in colluders] for name, each in (("1", once), ("6", often))}
    assert sorted(told["1"]) == sorted(colluders)
    assert sorted(told["6"]) == sorted(6 * list(colluders))
    assert len(once.said("refusal")) == 4 * 5
    assert not often.said("refusal")


def test_asking_again_teaches_nothing_where_there_is_one_flip_and_all_where_there_is_not(play: Play) -> None:
    def labels(*entries: dict[str, Any], **changes: Any) -> set[int]:
        return {e.fields[1] for e in play(*entries, **changes).said("answer") if e.sender == VICTIM}

    assert len(labels(PESTERING, defences__one_answer=False)) == 1
    assert len(labels(CARELESS, PESTERING, defences__one_answer=False)) == 2


@pytest.mark.parametrize("latency", [0.0, 0.5])
def test_early_asks_count_too(latency: float, play: Play) -> None:
    """With jitter most asks overtake the victim's assignment."""
    network = {"network__latency": latency, "network__jitter": 3.0}
    assert len(play(PESTERING, **network).said("refusal")) == 4 * 5
    assert not play(PESTERING, defences__one_answer=False, **network).said("refusal")


# Checking the assignment.


@pytest.mark.parametrize(
    "way",
    [
        {"way": "sybil_cluster"},
        {"way": "sybil_cluster", "size": 40},
        {"way": "inconsistent"},
        {"way": "small_cluster", "size": 10},
        {"way": "small_cluster", "size": 30},
    ],
    ids=lambda way: "-".join(map(str, way.values())),
)
@pytest.mark.parametrize("hosting", ["user", "cluster"])
def test_who_checks_her_assignment_abstains_where_features_did_not_put_her(
    way: dict[str, Any], hosting: str, play: Play
) -> None:
    assert heard_of(play(ISOLATING | way, hosting=hosting, mechanism__theta=1.0))
    defended = play(ISOLATING | way, hosting=hosting, mechanism__theta=1.0, defences__check_assignment=True)
    assert not heard_of(defended)
    assert defended.run.outcome.missing == []


def test_given_clusters_leave_rosters_to_compare_and_nothing_else(play: Play) -> None:
    settings = {"clusters__method": "given", "defences__check_assignment": True}
    assert not heard_of(play(ISOLATING | {"way": "inconsistent"}, **settings))
    assert heard_of(play(ISOLATING | {"way": "sybil_cluster"}, mechanism__theta=1.0, **settings))


def test_sybils_who_claim_her_features_are_beyond_the_check(play: Play) -> None:
    """k-means puts them with her: that is what features are for, and nobody else can tell that they are invented."""
    played = play({"kind": "sybils", "victim": VICTIM, "count": 40}, defences__check_assignment=True)
    assert played.run.summary.outcomes_by_round[0]["abstained"] == 0


def test_checking_costs_an_honest_run_a_message_for_each_cell_and_nothing_else(play: Play) -> None:
    without, checked = play(mechanism__rounds=2), play(mechanism__rounds=2, defences__check_assignment=True)
    assert checked.run.summary.noisy_sha256 == without.run.summary.noisy_sha256
    kinds = dict(checked.run.summary.messages_by_kind)
    assert kinds.pop("centre") == 4
    assert kinds == without.run.summary.messages_by_kind
    assert audit_runs([checked.path]).passed
    assert not without.said("centre")


def test_default_defences_leave_the_quick_start_as_it_was() -> None:
    scenario = load_scenario(Path(__file__).parents[2] / "scenarios" / "quickstart.toml")
    for each in (scenario, replace(scenario, defences__check_assignment=True)):
        assert run(each).summary.noisy_sha256.startswith("6653380a31d15334")


# The check never accuses an honest coordinator.


def distrusted(features: Floats, count: int, minimum: int, seed: int) -> tuple[int, int]:
    """How many clusters of an honest k-means are distrusted, and how many users a nearer *mean* would accuse."""
    found = kmeans_clusters(features, count, minimum, seed)
    assert found.home is not None
    assert found.cells is not None
    check = AssignmentCheck(count)
    for user, row in enumerate(features):
        check.claim(user, row)
    for cluster, row in zip(found.home.tolist(), found.cells, strict=True):
        check.centre(cluster, row)
    rosters = {c: array("q", np.flatnonzero(found.assignment == c).tolist()) for c in range(found.count)}
    nearest = ((features[:, None, :] - found.centres) ** 2).sum(axis=2).argmin(axis=1)
    return sum(not check.trusts(c, rosters) for c in rosters), int((nearest != found.assignment).sum())


def some_features(seed: int) -> dict[str, Floats]:
    draw = np.random.default_rng(seed)
    return {
        "digits": load(Data(name="digits", users=400), seed).features,
        "breast_cancer": load(Data(name="breast_cancer"), seed).features,
        "synthetic": load(Data(name="synthetic", users=400, groups=7), seed).features,
        "far from the origin": draw.random((300, 5), dtype=np.float32) + np.float32(1e4),
        "close together": draw.random((300, 3), dtype=np.float32) * np.float32(1e-3) + np.float32(100),
        "ties": draw.integers(0, 3, (300, 2)).astype(np.float32),
        "fewer points than clusters": np.repeat(draw.random((3, 4), dtype=np.float32), 50, axis=0),
        "outliers": draw.standard_cauchy((300, 4)).astype(np.float32),
        "many dimensions": draw.standard_normal((300, 200)).astype(np.float32),
    }


@pytest.mark.parametrize("seed", range(6))
def test_honest_k_means_is_always_trusted_merged_clusters_and_ties_included(seed: int) -> None:
    draw = np.random.default_rng(seed)
    accused = 0
    for name, features in some_features(seed).items():
        count, minimum = int(draw.integers(2, 40)), int(draw.integers(1, 60))
        wrong, by_means = distrusted(features, count, minimum, seed)
        assert wrong == 0, name
        accused += by_means
    assert accused > 0, "the nearest mean would not do: cells that were merged have none"


def honest_check(most: int = 2) -> AssignmentCheck:
    """Users 0 to 3 stand at 0, 1, 10 and 11, with centres at 0.5 and 10.5."""
    check = AssignmentCheck(most)
    for user, where in enumerate((0.0, 1.0, 10.0, 11.0)):
        check.claim(user, np.array([where], dtype=np.float32))
    check.centre(0, np.array([0.5], dtype=np.float32))
    check.centre(1, np.array([10.5], dtype=np.float32))
    return check


def verdicts(check: AssignmentCheck, rosters: dict[int, list[int]]) -> list[bool]:
    return [check.trusts(cluster, rosters) for cluster in rosters]


def test_one_misplaced_member_spoils_her_cluster_and_no_other() -> None:
    assert verdicts(honest_check(), {0: [0, 1], 1: [2, 3]}) == [True, True]
    assert verdicts(honest_check(), {0: [0, 1, 2], 1: [3]}) == [False, True]
    assert verdicts(honest_check(), {0: [0], 1: [2, 3], 2: [1]}) == [True, True, False]


def test_users_of_other_hosts_are_for_those_hosts_to_check() -> None:
    assert verdicts(honest_check(), {0: [0, 1, 99], 1: [2, 3]}) == [True, True]


def test_whoever_is_listed_twice_spoils_both_rosters() -> None:
    assert verdicts(honest_check(3), {0: [0, 1], 1: [2, 3], 5: [1, 50]}) == [False, True, False]


def test_more_centres_than_clusters_were_asked_for_or_none_spoil_everything() -> None:
    """With a centre for each user any assignment would be the nearest."""
    many = honest_check()
    many.centre(2, np.array([1.0], dtype=np.float32))
    assert verdicts(many, {0: [0], 1: [2, 3], 2: [1]}) == [False, False, False]
    assert verdicts(AssignmentCheck(2), {0: [0, 1]}) == [False]
    assert verdicts(AssignmentCheck(0), {0: [0, 1]}) == [True]


def host(check: bool = True) -> Host:
    carried = Host(Parameters(0.1, 1.0), SeededCoins(0), 0, 4)
    carried.defend(Defences(check_assignment=check), Clusters(count=2))
    return carried


def test_rosters_and_centres_after_the_verdict_are_refused() -> None:
    carried = host()
    carried.receive(COORDINATOR, Centre(0, Features(np.zeros(1, dtype=np.float32))))
    carried.receive(COORDINATOR, Roster(0, 0, np.arange(2, dtype="<i8").tobytes()))
    assert carried.check is not None
    assert carried.check.trusts(0, carried.rosters)
    for late in (Roster(1, 0, np.arange(2, dtype="<i8").tobytes()), Centre(1, Features(np.zeros(1, dtype=np.float32)))):
        with pytest.raises(Refused, match="out_of_order: users have begun"):
            carried.receive(COORDINATOR, late)


def test_centres_are_refused_where_nobody_checks_and_where_they_are_no_points_of_the_features() -> None:
    with pytest.raises(Refused, match="misdirected"):
        host(check=False).receive(COORDINATOR, Centre(0, Features(np.zeros(1, dtype=np.float32))))
    carried = host()
    assert carried.check is not None
    carried.check.claim(0, np.zeros(2, dtype=np.float32))
    with pytest.raises(Refused, match="malformed: a centre of 3 features"):
        carried.receive(COORDINATOR, Centre(0, Features(np.zeros(3, dtype=np.float32))))


def test_a_scenario_switches_defences() -> None:
    assert parse_scenario("").defences == Defences(abstain=True, one_answer=True, check_assignment=False)
    off = sixty("defences.one_answer=false", "defences.abstain=false", "defences.check_assignment=true")
    assert off.defences == Defences(abstain=False, one_answer=False, check_assignment=True)
