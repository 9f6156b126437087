"""Curves of delta(epsilon): through or above what is promised, above the truth, never better than either."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2p_labeldp.engines import run
from p2p_labeldp.engines.guarantees import guarantees
from p2p_labeldp.engines.outcome import Outcome
from p2p_labeldp.mechanisms.peer_to_peer import Parameters
from p2p_labeldp.privacy import Account, account
from p2p_labeldp.reporting.blocks import Figure, Table
from p2p_labeldp.reporting.privacy import privacy_section
from p2p_labeldp.reporting.promises import Curve, Promises, epsilon_of, promised
from p2p_labeldp.reporting.recorded import Promise, Recorded, Summary
from p2p_labeldp.reporting.report import page_of
from p2p_labeldp.reporting.words import GLOSSARY, factor, rounded_up
from p2p_labeldp.scenario import Scenario, parse_scenario

SCENARIO = """
[data]
name = "synthetic"
users = 60
groups = 3
[clusters]
method = "given"
minimum_size = 5
[mechanism]
alpha = 0.2
theta = 0.7
"""


def recorded_of(
    *settings: str, changes: dict[str, Any] | None = None, extra: str = "", engine: str = "vectorized"
) -> Recorded:
    """A run as its folder would tell it, without writing one; ``changes`` are made to its summary."""
    finished = run(parse_scenario(SCENARIO + extra, "", settings), engine=engine)
    told = finished.summary | (changes or {})
    summary = msgspec.json.decode(msgspec.json.encode(told), type=Summary)
    scenario: Scenario = finished.scenario
    clusters = np.asarray(finished.outcome.clusters, dtype=np.int64)
    return Recorded(Path("run"), summary, scenario, "", {}, ("0", "1"), clusters, None, None)


def at(curve: Curve, epsilon: float) -> float:
    """The curve as it is drawn, from point to point."""
    return float(np.interp(epsilon, curve.epsilons, curve.deltas))


def check_promises(recorded: Recorded, found: Promises) -> None:
    """Every finite promise has a curve, which gives at its epsilon its delta: not less, and hardly more."""
    privacy = recorded.summary.privacy
    finite = [view for view, promise in privacy.items() if epsilon_of(promise) < math.inf]
    assert [curve.view for curve in found.curves] == finite
    for curve in found.curves:
        epsilon, delta = epsilon_of(privacy[curve.view]), privacy[curve.view].delta
        assert at(curve, epsilon) >= delta * 0.999 - 1e-15
        # A curve of the flips alone or of an account may stand below a promise at epsilon 0 only.
        assert at(curve, epsilon) <= max(delta, 4e-16) * (1 + 1e-6)
        assert (np.diff(curve.deltas) <= 1e-15).all(), "falls"
        assert (np.diff(curve.epsilons) >= 0).all()


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["mechanism.rounds=2", "mechanism.theta=1"],
        ["mechanism.rounds=2", "mechanism.noise=fresh"],
        ["data.labels=3", "mechanism.theta=1"],
        ["mechanism.kind=shuffle", "mechanism.epsilon=1"],
        ["mechanism.kind=uniform_rr", "mechanism.epsilon=1"],
        ["mechanism.kind=cluster_rr", "mechanism.epsilon=1"],
        ["mechanism.kind=none"],
        ["mechanism.alpha=0"],
    ],
    ids=" ".join,
)
def test_every_curve_passes_through_its_promise(settings: list[str]) -> None:
    recorded = recorded_of(*settings)
    found = promised(recorded)
    check_promises(recorded, found)
    assert found.doubts == []


def test_every_point_of_a_curve_lies_above_the_account() -> None:
    """Also those on chords between computed ones; and between two points the line strays by less than can be seen."""
    recorded = recorded_of()
    curves = {curve.view: curve for curve in promised(recorded).curves}
    assert all(curve.how == "account" for curve in curves.values())
    for view in ("learner", "coalition", "shuffle", "network"):
        size = recorded.summary.privacy[view].cluster_size
        assert size is not None
        exact = account(
            view, cluster_size=size, alpha=0.2, theta=0.7, colluders=int(view == "coalition"), thorough=False
        )
        curve = curves[view]
        for place in range(0, len(curve.epsilons), 5):
            answer = exact.get_delta(curve.epsilons[place])
            assert curve.deltas[place] >= answer.delta - answer.error_bound - 1e-15, (view, place)
        for epsilon in np.linspace(0.01, curve.epsilons[-1] * 0.95, 9):
            drawn, truth = at(curve, float(epsilon)), exact.get_delta(float(epsilon)).delta
            if truth > 1e-9:
                assert math.log10(truth / drawn) < 0.01, "a third of a unit of the chart, which has 250 for 7 decades"


def test_a_chord_over_epsilon_itself_would_lie_below_the_flips_own_curve() -> None:
    flips = account("auditor", cluster_size=1, alpha=0.2, theta=1.0)
    ends = [flips.get_delta(epsilon).delta for epsilon in (0.0, 1.0)]
    assert flips.get_delta(0.5).delta > sum(ends) / 2, "so that chords are taken over e^epsilon"


@pytest.mark.parametrize(
    ("kind", "how"), [('kind = "liars"\nusers = [1]', {"flips"}), ('kind = "fresh_answers"\nusers = [1]', set())]
)
def test_where_someone_misbehaves_the_flips_alone_are_drawn_or_nothing(kind: str, how: set[str]) -> None:
    recorded = recorded_of(extra=f"\n[[adversaries]]\n{kind}\n", engine="actors")
    found = promised(recorded)
    assert {curve.how for curve in found.curves} == how
    check_promises(recorded, found)
    assert bool(found.without) == (not how)


def test_where_users_went_missing_no_view_of_the_crowd_gets_the_whole_crowds_curve() -> None:
    settings = ["network.latency=0.1", "network.round_limit=5", "network.hello_limit=5"]
    recorded = recorded_of(*settings, extra='\n[[faults]]\nrule = "crash"\ncount = 6\nat = 0.25\n', engine="actors")
    assert recorded.summary.missing
    found = promised(recorded)
    check_promises(recorded, found)
    how = {curve.view: curve.how for curve in found.curves}
    assert {view for view, rests in how.items() if rests == "account"}.isdisjoint({"learner", "shuffle", "coalition"})


def test_a_whole_clusters_curve_is_not_drawn_where_another_lost_users() -> None:
    """The promise may be that of a whole cluster, but elsewhere on the curve another one could be worse."""
    how = {curve.view: curve.how for curve in promised(recorded_of(changes={"missing": [1]})).curves}
    assert {how[view] for view in ("learner", "shuffle", "coalition")} == {"implied"}


def with_sizes(*settings: str, sizes: Sequence[int]) -> Recorded:
    """As a run whose clusters have these sizes would be recorded: the promises are the guarantees of such a run."""
    scenario = parse_scenario(SCENARIO, "", ["clusters.minimum_size=1", *settings])
    mechanism, labels = scenario.mechanism, scenario.data.labels
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    parameters = Parameters(mechanism.alpha, mechanism.theta, labels, mechanism.noise, mechanism.rounds)
    told = {
        "users": len(clusters), "labels": labels, "clusters": len(sizes), "reports": 1, "engine": "vectorized",
        "noisy_sha256": "", "mechanism": "peer_to_peer", "alpha": mechanism.alpha,
        "privacy": guarantees(Outcome(clusters, []), parameters, scenario.privacy.delta),
        "cluster_sizes": {"smallest": min(sizes), "largest": max(sizes)},
    }  # fmt: skip
    summary = msgspec.json.decode(msgspec.json.encode(told), type=Summary)
    return Recorded(Path("run"), summary, scenario, "", {}, ("0", "1"), clusters, None, None)


CROSSING = ("mechanism.alpha=0.01", "mechanism.theta=1", "mechanism.rounds=2", "privacy.delta=1e-6")


@pytest.mark.parametrize(
    ("settings", "sizes"),
    [
        (CROSSING, (3, 4)),
        (("privacy.delta=1e-18", "mechanism.theta=1"), (2, 9, 60)),
        (("privacy.delta=0.7", "mechanism.theta=1"), (2, 9, 60)),
        (("mechanism.rounds=2", "mechanism.noise=fresh"), (2, 9)),
    ],
    ids=["crossing", "tiny delta", "huge delta", "fresh"],
)
def test_a_curve_lies_above_the_account_of_every_size(settings: tuple[str, ...], sizes: tuple[int, ...]) -> None:
    """Also where another size is worse elsewhere on the curve, and where sizes tie at the table's delta."""
    recorded = with_sizes(*settings, sizes=sizes)
    found = promised(recorded)
    assert found.doubts == []
    mechanism = recorded.scenario.mechanism
    for curve in found.curves:
        assert curve.some == ()
        if curve.how != "account":
            continue
        for place in np.linspace(0, len(curve.epsilons) - 1, 5).astype(int).tolist():
            for size in sizes:
                exact = account(
                    curve.view, cluster_size=size, alpha=mechanism.alpha, theta=mechanism.theta,
                    labels=recorded.summary.labels, rounds=mechanism.rounds, noise=mechanism.noise,
                    colluders=int(curve.view == "coalition"), thorough=False,
                ).get_delta(curve.epsilons[place])  # fmt: skip
                assert curve.deltas[place] >= exact.delta - exact.error_bound * 1e-6 - 1e-13, (curve.view, size)


def test_sizes_do_cross() -> None:
    """Without that the test above would show nothing: the cluster with the larger epsilon has the lower delta at 0."""
    small, large = (account("learner", cluster_size=size, alpha=0.01, theta=1.0, rounds=2) for size in (3, 4))
    worst = with_sizes(*CROSSING, sizes=(3, 4)).summary.privacy["learner"].cluster_size
    assert worst == 4
    assert small.get_delta(0.0).delta > large.get_delta(0.0).delta
    eavesdropper = with_sizes("privacy.delta=0.7", "mechanism.theta=1", sizes=(2, 60)).summary.privacy["eavesdropper"]
    assert eavesdropper.cluster_size == 2, "a tie, though the other is seen more"


def test_a_caption_names_the_sizes_whose_curve_it_is() -> None:
    recorded = with_sizes(sizes=(5, 8, 11, 14))
    found = promised(recorded)
    assert {curve.view: curve.some for curve in found.curves}["learner"] == (5, 14)
    (figure,) = (block for block in privacy_section(recorded, found).blocks if isinstance(block, Figure))
    assert "clusters of 5 and 14 users; to users of clusters of other sizes only the table's pair" in figure.caption
    assert "Every pair on a curve holds" not in figure.caption


def test_without_the_sizes_only_the_pair_is_counted_on() -> None:
    recorded = replace(with_sizes(sizes=(5, 8)), clusters=None)
    found = promised(recorded)
    assert {curve.how for curve in found.curves} == {"implied"}
    assert found.doubts == []


def said(recorded: Recorded) -> str:
    """Everything that the page says, its figures' drawings left out."""
    page = page_of(recorded, None)
    texts = [page.verdict, *page.lead, *page.warnings, *(word for tile in page.tiles for word in tile)]
    for section in page.sections:
        for block in section.blocks:
            texts.append(getattr(block, "words", ""))
            table = block.data if isinstance(block, Figure) else block
            texts += [cell for row in getattr(table, "rows", ()) for cell in (*row, *table.head)]  # type: ignore[union-attr]
    return "\n".join(texts)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["privacy.delta=0.7", "mechanism.theta=1"], "up to 0.7 (delta) more probable"),
        (["privacy.delta=0.7", "mechanism.alpha=0.5"], "says nothing about any label"),
        (["privacy.delta=0.7", "mechanism.theta=0"], "says nothing about any label"),
        (["clusters.minimum_size=1000"], "Everyone abstained, so that there is nothing to see"),
        (["mechanism.alpha=0"], "Nothing is promised against the learner"),
        ([], "times as likely with one label of a user as with another, plus delta"),
        (["mechanism.kind=uniform_rr", "mechanism.epsilon=1"], "2.72 times as likely with one label of a user as with"),
    ],
)
def test_the_verdict_says_what_epsilon_and_delta_mean(settings: list[str], words: str) -> None:
    recorded = recorded_of(*settings)
    verdict = page_of(recorded, None).verdict
    assert words in verdict
    assert ("says nothing" in verdict) == ("says nothing" in words)


def test_nothing_is_said_of_odds_or_of_a_promise_that_fails_with_probability_delta() -> None:
    text = said(recorded_of()) + " ".join(meaning for _, meaning in GLOSSARY)
    for false in ("odds", "-fold", "may fail", "whatever else the onlooker knows", "has all of them"):
        assert false not in text, false


def test_a_limit_without_delta_is_that_of_the_flips_over_all_rounds() -> None:
    for settings, rounds in (
        ([], 1),
        (["mechanism.rounds=2"], 1),
        (["mechanism.rounds=2", "mechanism.noise=fresh"], 2),
    ):
        limit = rounded_up(rounds * math.log(4), 4)
        assert f"(epsilon {limit} at delta 0)" in said(recorded_of(*settings)), "flips of one in five"
    assert "A limit without any delta" not in said(recorded_of("mechanism.alpha=0"))


def test_trust_is_not_told_of_flips_that_protect_nobody() -> None:
    text = said(recorded_of(extra='\n[[adversaries]]\nkind = "fresh_answers"\nusers = [1]\n', engine="actors"))
    assert "flips alone protect" not in text
    assert "new noise for every asker: from those who pool nothing protects their labels" in text
    assert "A limit without any delta" not in text
    rounds = recorded_of("mechanism.rounds=2", "mechanism.noise=fresh")
    assert "one noisy label in each of 2 rounds" in said(rounds)


def test_a_target_that_was_not_met_is_not_told_to_be_met() -> None:
    settings = ["network.latency=0.1", "network.round_limit=5", "network.hello_limit=5", "mechanism.epsilon=0.5"]
    recorded = recorded_of(*settings, extra='\n[[faults]]\nrule = "crash"\ncount = 6\nat = 0.25\n', engine="actors")
    got = epsilon_of(recorded.summary.privacy["learner"])
    assert got > 0.5
    text = said(recorded)
    assert f"but it was not met: users went missing; epsilon {rounded_up(got, 4)} is promised" in text
    assert "chosen to meet it" not in text
    assert "but everyone abstained" in said(recorded_of("mechanism.epsilon=0.5", "clusters.minimum_size=1000"))
    assert "and the noise was chosen to meet it" in said(recorded_of("mechanism.epsilon=0.5"))


def test_colluders_of_a_run_are_judged_together() -> None:
    recorded = recorded_of(extra='\n[[adversaries]]\nkind = "collusion"\nusers = [0, 1, 2]\n')
    found = promised(recorded).colluding
    assert found is not None
    assert found.colluders == 3
    assert recorded.clusters is not None
    sizes = np.bincount(recorded.clusters)
    inside = np.bincount(recorded.clusters[:3], minlength=len(sizes))
    least = max(
        account("coalition", cluster_size=int(size), alpha=0.2, theta=0.7, colluders=int(pooled), thorough=False)
        .get_epsilon(found.delta).epsilon
        for size, pooled in zip(sizes, inside, strict=True)
        if pooled
    )  # fmt: skip
    assert epsilon_of(found) == least > epsilon_of(recorded.summary.privacy["learner"])
    page = page_of(recorded, None)
    assert f"Against the learner with 3 colluders, epsilon is {rounded_up(least)}" in page.verdict
    assert page.tiles[0][:2] == (rounded_up(least), "epsilon against the learner with 3 colluders")
    assert "this run’s 3 colluders" in said(recorded)


def test_no_number_of_a_promise_is_shown_below_it() -> None:
    recorded = recorded_of()
    found = promised(recorded)
    table, figure = (
        block for block in privacy_section(recorded, found).blocks if isinstance(block, Table | Figure)
    )  # fmt: skip
    assert isinstance(table, Table)
    assert isinstance(figure, Figure)
    assert figure.data is not None
    for row, promise in zip(table.rows, recorded.summary.privacy.values(), strict=True):
        assert float(row[2].removeprefix("≤ ")) >= epsilon_of(promise)
        assert float(row[3]) >= promise.delta
        assert float(row[4]) >= math.exp(epsilon_of(promise))
    shown = {curve.view: curve for curve in found.curves}["learner"]
    rows = [row for row in figure.data.rows if row[0] == "the learner"]
    step = max(1, (len(shown.epsilons) - 1) // 8)
    for row, epsilon, delta in zip(rows, shown.epsilons[::step], shown.deltas[::step], strict=True):
        assert (float(row[1]) >= epsilon, float(row[2]) >= delta) == (True, True)


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [(1.16455, 3, "1.17"), (0.02439, 2, "0.025"), (0.1, 3, "0.1"), (6.25e-8, 3, "6.25e-08"), (0, 3, "0"),
     (0.9999, 3, "1"), (2.0001, 3, "2.01"), (math.inf, 3, "inf")],
)  # fmt: skip
def test_numbers_are_rounded_up(value: float, digits: int, shown: str) -> None:
    assert rounded_up(value, digits) == shown


@given(value=st.floats(0, 1e300), digits=st.integers(1, 8))
def test_no_number_is_rounded_down_and_none_by_more_than_its_last_digit(value: float, digits: int) -> None:
    shown = float(rounded_up(value, digits))
    assert value <= shown <= value * (1 + 1.0000001 * 10.0 ** (1 - digits)) + 5e-324


@given(epsilon=st.floats(0, 30))
def test_no_factor_is_shown_below_itself(epsilon: float) -> None:
    assert float(factor(epsilon).replace(",", "")) >= math.exp(epsilon)


def test_everyone_abstaining_is_no_reason_for_doubt() -> None:
    recorded = recorded_of("clusters.minimum_size=1000")
    found = promised(recorded)
    check_promises(recorded, found)
    assert found.doubts == []


def better(view: str, factor: float) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The privacy table with one epsilon made smaller."""
    return lambda privacy: privacy | {view: privacy[view] | {"epsilon": privacy[view]["epsilon"] * factor}}


@pytest.mark.parametrize("view", ["learner", "network"])
def test_a_summary_that_promises_too_much_is_doubted(view: str) -> None:
    honest = run(parse_scenario(SCENARIO, ""), engine="vectorized").summary["privacy"]
    found = promised(recorded_of(changes={"privacy": better(view, 0.5)(honest)}))
    assert len(found.doubts) == 1
    assert view in found.doubts[0]


def test_a_bound_that_promises_too_much_is_doubted_and_so_is_a_cluster_that_is_not_there() -> None:
    honest = recorded_of("data.labels=3")
    assert promised(honest).doubts == []
    told = msgspec.to_builtins(honest.summary.privacy)
    for view, changes, words in (
        ("coalition", {"epsilon": 0.1, "method": "upper_bound"}, ["promises epsilon 0.1 at delta"]),
        ("metadata", {"epsilon": 0.1, "method": "upper_bound"}, ["promises epsilon 0.1 at delta"]),
        ("learner", {"cluster_size": 500}, ["a cluster of 500 users, but no cluster"]),
        ("learner", {"cluster_size": 500, "epsilon": 0.2}, ["a cluster of 500", "promises epsilon 0.2 at delta"]),
    ):
        privacy = told | {view: told[view] | changes}
        summary = msgspec.convert(msgspec.to_builtins(honest.summary) | {"privacy": privacy}, Summary)
        found = promised(replace(honest, summary=summary))
        assert len(found.doubts) == len(words), found.doubts
        for doubt, expected in zip(found.doubts, words, strict=True):
            assert expected in doubt
        assert {curve.view: curve.how for curve in found.curves}[view] in ("implied", "account")
        assert page_of(replace(honest, summary=summary), None).warnings


def test_flips_that_the_scenario_does_not_have_are_doubted() -> None:
    found = promised(recorded_of(changes={"alpha": 0.4}))
    assert "says alpha 0.4, but the scenario 0.2" in found.doubts[0]


def test_what_one_pair_implies_lies_above_any_mechanism_that_has_it() -> None:
    """Among them randomized response, whose curve it is, and the learner's."""
    for view, theta in (("auditor", 1.0), ("learner", 0.5), ("peer", 1.0)):
        exact = account(view, cluster_size=40, alpha=0.1, theta=theta)
        pair = exact.get_epsilon(1e-4)
        recorded = recorded_of(
            "mechanism.kind=uniform_rr", "mechanism.epsilon=1",
            changes={"privacy": {"learner": {"epsilon": pair.epsilon, "delta": 1e-4, "method": "exact"}}},
        )  # fmt: skip
        (curve,) = promised(recorded).curves
        assert curve.how == "implied"
        for epsilon in np.linspace(0, pair.epsilon, 9):
            assert at(curve, epsilon) >= exact.get_delta(epsilon).delta * (1 - 1e-9)


def test_what_one_pair_implies_is_attained() -> None:
    """By whoever tells the label with probability delta and randomizes it to epsilon otherwise: no curve is lower."""
    epsilon0, delta0 = 1.3, 0.02
    kept = math.exp(epsilon0) / (1 + math.exp(epsilon0))
    laws = [[delta0, 0.0, (1 - delta0) * kept, (1 - delta0) * (1 - kept)],
            [0.0, delta0, (1 - delta0) * (1 - kept), (1 - delta0) * kept]]  # fmt: skip
    recorded = recorded_of(
        "mechanism.kind=uniform_rr", "mechanism.epsilon=1",
        changes={"privacy": {"learner": {"epsilon": epsilon0, "delta": delta0, "method": "exact"}}},
    )  # fmt: skip
    (curve,) = promised(recorded).curves
    for epsilon, delta in zip(curve.epsilons, curve.deltas, strict=True):
        truth = sum(max(0.0, one - math.exp(epsilon) * other) for one, other in zip(*laws, strict=True))
        assert delta == pytest.approx(truth, rel=1e-12)


def test_large_clusters_get_a_curve_without_asking_their_account(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Promise(epsilon=0.2, delta=1e-9, method="exact", cluster_size=1_000_000)
    asked: list[str] = []
    recorded = recorded_of(changes={"privacy": {"learner": msgspec.to_builtins(told)}})
    recorded = replace(recorded, clusters=np.zeros(1_000_000, dtype=np.int64))
    monkeypatch.setattr(Account, "get_delta", lambda *_: asked.append("delta"))
    (curve,) = promised(recorded).curves
    assert (curve.how, asked) == ("implied", [])
