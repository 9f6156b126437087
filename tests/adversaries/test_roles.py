"""Each misbehaving role does what its name says and nothing else; what honest users do stays as it was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from recorded import broken
from small import unmeasured, with_adversaries

from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms import SeededCoins
from p2p_labeldp.protocol.messages import LEARNER
from p2p_labeldp.runs.summary import Adversary
from p2p_labeldp.scenario import parse_scenario

Play = Callable[..., SimpleNamespace]

VICTIM = 7
KINDS: dict[str, dict[str, Any]] = {
    "liars": {"fraction": 0.2},
    "two_faced": {"count": 5},
    "silent": {"count": 2},
    "fresh_answers": {"users": [VICTIM]},
    "focus": {"victim": VICTIM, "count": 8},
    "repeat_askers": {"victim": VICTIM, "count": 3, "times": 4},
    "sybils": {"victim": VICTIM, "count": 10},
    "isolating_coordinator": {"victim": VICTIM},
    "replaying_learner": {"times": 2},
}


def said(played: SimpleNamespace, kind: str, senders: set[int] | None = None) -> list[tuple[Any, ...]]:
    """(sender, receiver, kind, fields) of every message of a kind; tasks take turns in no particular order."""
    return sorted(e[3:] for e in played.said(kind) if senders is None or e.sender in senders)


def mates(played: SimpleNamespace, user: int) -> list[int]:
    clusters = played.run.outcome.clusters
    return np.flatnonzero(clusters == clusters[user]).tolist()


def answers(played: SimpleNamespace) -> dict[int, dict[int, list[int]]]:
    """Answerer, to asker, to the labels she was answered."""
    found: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for event in played.said("answer"):
        found[event.sender][event.receiver].append(event.fields[1])
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_role_does_depends_on_neither_hosting_nor_the_order_of_messages(kind: str, play: Play) -> None:
    entry = {"kind": kind} | KINDS[kind]
    digests = {
        play(entry, hosting=hosting, **network).run.summary.noisy_sha256
        for hosting in ("user", "cluster")
        for network in ({}, {"network__latency": 0.5, "network__jitter": 2.0})
    }
    assert len(digests) == 1


# Liars.


def test_liars_answer_and_report_the_label_they_push_and_keep_to_theta(play: Play) -> None:
    played, honest = play({"kind": "liars", "fraction": 0.3, "label": 1}), play()
    liars = set(played.run.assignments[0].members)
    assert len(liars) == 36
    assert {e.fields[1] for e in played.said("answer") if e.sender in liars} == {1}
    assert {e.fields[1] for e in played.said("report") if e.sender in liars} == {1}
    assert played.run.outcome.rounds[0][0].tolist() == honest.run.outcome.rounds[0][0].tolist()
    assert said(played, "ask") == said(honest, "ask")


@pytest.mark.parametrize(("answers", "reports"), [(True, False), (False, True)])
def test_liars_may_lie_in_answers_or_in_reports_alone(answers: bool, reports: bool, play: Play) -> None:
    entry = {"kind": "liars", "fraction": 0.4, "label": 0, "answers": answers, "reports": reports}
    played, honest = play(entry), play()
    liars = set(played.run.assignments[0].members)
    for kind, lies in (("answer", answers), ("report", reports)):
        labels = {e.fields[1] for e in played.said(kind) if e.sender in liars}
        assert labels == ({0} if lies else {0, 1})
        if not answers:
            assert said(played, "answer") == said(honest, "answer")


def test_a_flipping_liar_never_says_her_true_label(play: Play) -> None:
    played = play({"kind": "liars", "fraction": 0.3, "lie": "flipped"})
    truth = played.run.dataset.labels
    liars = set(played.run.assignments[0].members)
    lies = [e for kind in ("answer", "report") for e in played.said(kind) if e.sender in liars]
    assert lies
    assert all(e.fields[1] == 1 - truth[e.sender] for e in lies)


def test_liars_of_one_cluster_are_honest_elsewhere(play: Play) -> None:
    played, honest = play({"kind": "liars", "fraction": 0.5, "label": 1, "cluster": 2}), play()
    clusters = played.run.outcome.clusters
    elsewhere = set(np.flatnonzero(clusters != 2).tolist())
    for kind in ("answer", "report"):
        assert said(played, kind, elsewhere) == said(honest, kind, elsewhere)
    liars = set(played.run.assignments[0].members) - elsewhere
    assert {e.fields[1] for e in played.said("report") if e.sender in liars} == {1}


def test_the_audit_sees_a_liars_report_where_she_was_answered_otherwise(play: Play) -> None:
    assert "report_is_answer" in broken(play({"kind": "liars", "fraction": 0.3, "answers": False}).path)


def test_the_audit_sees_a_liars_answer_by_her_coins(play: Play) -> None:
    """She tells everyone the same, so that nothing else gives her away."""
    assert broken(play({"kind": "liars", "fraction": 0.3, "reports": False}).path) == {"coins"}


# Answers.


def test_two_faced_users_are_found_by_the_audit(play: Play) -> None:
    played = play({"kind": "two_faced", "fraction": 0.3})
    assert "same_answer" in broken(played.path)
    faced = set(played.run.assignments[0].members)
    faces = {user: {label for labels in by.values() for label in labels} for user, by in answers(played).items()}
    assert any(len(faces[user]) > 1 for user in faced & set(faces))
    assert all(len(labels) == 1 for user, labels in faces.items() if user not in faced)


def test_who_asks_a_silent_user_is_missing_after_the_limit(play: Play) -> None:
    played, honest = play({"kind": "silent", "users": [3, 40]}), play()
    unanswered = sorted(e.sender for e in honest.said("ask") if e.receiver in (3, 40))
    assert unanswered
    assert played.run.outcome.missing == unanswered
    assert played.run.outcome.virtual_seconds == 60.0
    assert said(played, "report") == said(honest, "report", set(range(120)) - set(unanswered))


def test_focused_colluders_all_ask_the_victim_in_every_round(play: Play) -> None:
    played = play({"kind": "focus", "victim": VICTIM, "count": 10}, mechanism__rounds=3)
    colluders = set(played.run.assignments[0].members)
    assert colluders < set(mates(played, VICTIM)) - {VICTIM}
    asked = [(e.sender, e.fields[0]) for e in played.said("ask") if e.receiver == VICTIM and e.sender in colluders]
    assert sorted(asked) == [(user, round_) for user in sorted(colluders) for round_ in range(3)]
    assert played.run.outcome.missing == []


def test_a_colluder_out_of_the_victims_reach_behaves_honestly(play: Play) -> None:
    honest = play()
    stranger = next(user for user in range(120) if user not in mates(honest, VICTIM))
    played = play({"kind": "focus", "victim": VICTIM, "users": [stranger]})
    assert played.run.summary.noisy_sha256 == honest.run.summary.noisy_sha256


# Clusters.


def test_sybils_land_in_the_cluster_of_the_victim_whose_features_they_claim(play: Play) -> None:
    honest = play()
    strangers = [user for user in range(120) if user not in mates(honest, VICTIM)][:30]
    played = play({"kind": "sybils", "victim": VICTIM, "users": strangers})
    assert set(strangers) < set(mates(played, VICTIM))
    assert broken(played.path) == set(), "features are theirs to claim"


def test_sybils_change_clusters_that_were_found_before_for_an_epsilon(play: Play) -> None:
    honest = play(mechanism__alpha=0.1, mechanism__epsilon=2.0, clusters__minimum_size=20)
    strangers = [user for user in range(120) if user not in mates(honest, VICTIM)][:30]
    entry = {"kind": "sybils", "victim": VICTIM, "users": strangers}
    played = play(entry, mechanism__alpha=0.1, mechanism__epsilon=2.0, clusters__minimum_size=20)
    assert set(strangers) < set(mates(played, VICTIM))


@pytest.mark.parametrize("way", ["sybil_cluster", "inconsistent"])
def test_an_isolating_coordinator_leaves_the_victim_among_its_own_who_all_ask_her(way: str, play: Play) -> None:
    played = play({"kind": "isolating_coordinator", "victim": VICTIM, "way": way, "size": 15}, mechanism__theta=1.0)
    own = set(played.run.assignments[0].members)
    assert len(own) == 14
    assert set(answers(played)[VICTIM]) - {VICTIM} == own
    assert {e.receiver for e in played.said("ask") if e.sender == VICTIM} <= own | {VICTIM}
    assert played.run.outcome.missing == []
    assert all(user == VICTIM or user in own for user in mates(played, VICTIM))


def test_an_inconsistent_coordinator_tells_the_others_rosters_without_her(play: Play) -> None:
    played = play({"kind": "isolating_coordinator", "victim": VICTIM, "way": "inconsistent"})
    rosters = [np.frombuffer(e.fields[2], dtype="<i8").tolist() for e in played.said("roster")]
    own = played.run.assignments[0].members
    assert [roster for roster in rosters if VICTIM in roster] == [sorted([VICTIM, *own])]
    assert all(sum(user in roster for roster in rosters) == 2 for user in own)
    assert "rosters" in broken(played.path)


def test_a_cluster_of_one_shows_the_learner_her_own_noisy_label(play: Play) -> None:
    entry = {"kind": "isolating_coordinator", "victim": VICTIM, "way": "small_cluster"}
    played = play(entry, defences__abstain=False, mechanism__theta=1.0)
    users, labels = played.run.outcome.rounds[0]
    truth = int(played.run.dataset.labels[VICTIM])
    flipped = SeededCoins(0).block(0, VICTIM, VICTIM + 1)[0, 0] < 0.2
    assert labels[users == VICTIM].tolist() == [1 - truth if flipped else truth]
    assert played.run.assignments[0].members == ()


# The learner.


def test_a_replaying_learner_is_refused_by_everyone_and_changes_nothing(play: Play) -> None:
    rounds: dict[str, Any] = {"mechanism__rounds": 2}
    honest, played = play(**rounds), play({"kind": "replaying_learner", "times": 3}, **rounds)
    orders = [e for e in played.said("round") if e.sender == LEARNER]
    refusals = played.said("refusal")
    assert len(orders) == len(refusals) == 3 * 120
    assert all(e.fields[2:] == ("misdirected", "only the coordinator may send this, not the learner") for e in refusals)
    assert played.run.summary.noisy_sha256 == honest.run.summary.noisy_sha256
    assert "addresses" in broken(played.path)


# Who plays what.


def test_who_only_looks_changes_nothing_in_either_engine(play: Play) -> None:
    looking = [{"kind": "collusion", "count": 9}, {"kind": "curious_peers", "users": [3]}, {"kind": "observer"}]
    honest, played = play(), play(*looking)
    by_arrays = unmeasured(played.run.scenario, engine="vectorized")
    assert {each.summary.noisy_sha256 for each in (honest.run, played.run, by_arrays)} == {
        honest.run.summary.noisy_sha256
    }
    assert [part.members for part in by_arrays.assignments] == [part.members for part in played.run.assignments]
    assert [len(part.members) for part in played.run.assignments] == [9, 1, 0]
    assert played.run.summary.adversaries[1] == Adversary("curious_peers", (3,))


@pytest.mark.parametrize("kind", KINDS)
def test_the_vectorized_engine_refuses_adversaries_who_change_messages(kind: str) -> None:
    scenario = with_adversaries(parse_scenario(""), {"kind": "observer"}, {"kind": kind} | KINDS[kind])
    with pytest.raises(RequestError, match=rf"^adversaries\[2\] \({kind}\): changes messages"):
        unmeasured(scenario, engine="vectorized")


def test_drawn_users_are_those_of_the_seed_and_avoid_named_ones(play: Play) -> None:
    drawn, named = {"kind": "liars", "fraction": 0.5}, {"kind": "silent", "users": list(range(50))}
    first, again, other = play(drawn, named), play(drawn, named), play(drawn, named, coins__seed=1)
    assert first.run.assignments == again.run.assignments
    assert first.run.assignments[0].members != other.run.assignments[0].members
    assert min(first.run.assignments[0].members) >= 50


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{"kind": "liars", "users": [3, 12]}, {"kind": "silent", "users": [12]}],
         r"adversaries\[2\] \(silent\): user 12 is one of adversaries\[1\] \(liars\) already"),
        ([{"kind": "silent", "users": [120]}], r"adversaries\[1\] \(silent\): there is no user 120"),
        ([{"kind": "observer"}, {"kind": "focus", "count": 2, "victim": 120}],
         r"adversaries\[2\] \(focus\): there is no user 120 to be its victim"),
        ([{"kind": "focus", "users": [5], "victim": 5}], r"adversaries\[1\] \(focus\): user 5 is the victim"),
        ([{"kind": "replaying_learner"}] * 2,
         r"adversaries\[2\] \(replaying_learner\): the learner is adversaries\[1\] \(replaying_learner\) already"),
        ([{"kind": "isolating_coordinator"}] * 2, r"adversaries\[2\] .*: the coordinator is adversaries\[1\]"),
        ([{"kind": "isolating_coordinator", "size": 121}], r"adversaries\[1\] .*: size = 121 is not allowed"),
        ([{"kind": "focus", "count": 60}], r"adversaries\[1\] \(focus\): needs 60 users, but only \d+ can be drawn"),
        ([{"kind": "liars", "count": 2, "label": 2}], r"adversaries\[1\] \(liars\): label = 2 is not allowed"),
    ],
)  # fmt: skip
def test_parts_that_cannot_be_played_are_refused_in_one_line(
    entries: list[dict[str, Any]], message: str, play: Play, tmp_path: Any
) -> None:
    with pytest.raises(RequestError, match=f"^{message}") as caught:
        play(*entries)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir()), "nothing is written"


def test_sybils_have_nothing_to_claim_where_clusters_are_given(play: Play) -> None:
    with pytest.raises(RequestError, match=r"^adversaries\[1\] \(sybils\): claims features"):
        play({"kind": "sybils", "count": 3}, clusters__method="given")


def test_onlookers_may_have_another_part_besides(play: Play) -> None:
    played = play({"kind": "collusion", "users": [3, 4]}, {"kind": "silent", "users": [4]})
    assert [part.members for part in played.run.assignments] == [(3, 4), (4,)]
