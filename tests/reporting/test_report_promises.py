"""Curves of delta(epsilon): through or above what is promised, above the truth, never better than either."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from p2p_labeldp.engines import run
from p2p_labeldp.privacy import account
from p2p_labeldp.reporting.promises import Curve, Promises, epsilon_of, promised
from p2p_labeldp.reporting.recorded import Promise, Recorded, Summary
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
    return Recorded(Path("run"), summary, scenario, "", {}, ("0", "1"), None, None, None)


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
    monkeypatch.setattr("p2p_labeldp.reporting.promises.account", lambda view, **_: asked.append(view))
    (curve,) = promised(recorded).curves
    assert (curve.how, asked) == ("implied", [])
