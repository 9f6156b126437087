"""Curves of delta(epsilon): through or above the guarantee, above the truth, never better than either."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pytest

from p2p_labeldp.mechanisms import Plan, make_plan
from p2p_labeldp.privacy import VIEWS, Account, Guarantee, Parameters, View, account
from p2p_labeldp.runs.curves import chords, curves, implied, least_delta
from p2p_labeldp.runs.guarantees import Circumstances, Table, guarantees
from p2p_labeldp.runs.summary import Curve

PARAMETERS = Parameters(alpha=0.2, theta=0.7)
SEARCHED = (View.LEARNER, View.COALITION, View.SHUFFLE)


def exchange(parameters: Parameters = PARAMETERS) -> Plan:
    return make_plan("peer_to_peer", labels=parameters.labels, sizes=(), parameters=parameters, alpha=parameters.alpha)


def curves_of(
    sizes: Iterable[int], parameters: Parameters = PARAMETERS, delta: float = 1e-4, lost: int = 0, **more: object
) -> tuple[Table, dict[str, Curve]]:
    found = Circumstances(dict.fromkeys(sizes, lost), delta, **more)  # type: ignore[arg-type]
    table = guarantees(exchange(parameters), found)
    return table, curves(exchange(parameters), found, table)


def at(curve: Curve, epsilon: float) -> float:
    """On the chord over e^epsilon."""
    return float(np.interp(math.exp(epsilon), np.exp(curve.epsilons), curve.deltas))


def check(table: Table, found: dict[str, Curve]) -> None:
    """Every finite guarantee has a curve, which gives at its epsilon at most its delta, and hardly less."""
    assert list(found) == [view for view, guarantee in table.items() if guarantee.epsilon < math.inf]
    for view, curve in found.items():
        guarantee = table[View(view)]
        assert at(curve, guarantee.epsilon) <= guarantee.delta * (1 + 1e-9)
        if guarantee.epsilon > 0:
            assert at(curve, guarantee.epsilon) >= guarantee.delta * 0.999 - 1e-15
        assert all(left < right for left, right in pairwise(curve.epsilons))
        assert all(left >= right - 1e-15 for left, right in pairwise(curve.deltas)), "falls"


@pytest.mark.parametrize(
    "parameters",
    [
        PARAMETERS,
        Parameters(alpha=0.2, rounds=2),
        Parameters(alpha=0.2, theta=0.7, rounds=2, noise="fresh"),
        Parameters(alpha=0.3, labels=3),
        Parameters(alpha=0.0),
        Parameters(alpha=0.5),
    ],
    ids=str,
)
def test_every_curve_passes_through_its_guarantee(parameters: Parameters) -> None:
    check(*curves_of([18, 20, 22], parameters))


@pytest.mark.parametrize("kind", ["shuffle", "uniform_rr", "cluster_rr", "none"])
def test_so_it_is_with_other_mechanisms(kind: str) -> None:
    plan = make_plan(kind, labels=2, sizes=[20, 30], epsilon=None if kind == "none" else 1.0, delta=1e-4)
    table = guarantees(plan, Circumstances({20: 0, 30: 0}, 1e-4))
    found = curves(plan, Circumstances({20: 0, 30: 0}, 1e-4), table)
    check(table, found)
    assert {curve.how for curve in found.values()} <= {"implied"}


def test_every_point_of_a_curve_lies_above_the_account() -> None:
    """Also those on chords between computed ones; and chords stray by less than can be seen."""
    table, found = curves_of([20])
    for view in VIEWS:
        curve, colluders = found[view], int(view == View.COALITION)
        exact = account(view, PARAMETERS, cluster_size=20, colluders=colluders, thorough=False)
        assert curve.how == "account"
        assert table[view].cluster_size == 20
        for epsilon, delta in list(zip(*chords(curve, 1e-9), strict=True))[::7]:
            answer = exact.get_delta(epsilon)
            assert delta >= answer.delta - (answer.error_bound or 0) - 1e-15, view
            if answer.delta > 1e-9:
                assert math.log10(delta / answer.delta) < 0.2, "six units of the chart, which has 250 for 7 decades"


def test_a_chord_over_epsilon_itself_would_lie_below_the_flips_own_curve() -> None:
    flips = account(View.AUDITOR, PARAMETERS, cluster_size=1)
    ends = [flips.get_delta(epsilon).delta for epsilon in (0.0, 1.0)]
    assert flips.get_delta(0.5).delta > sum(ends) / 2, "so that chords are taken over e^epsilon"


CROSSING = Parameters(alpha=0.05, labels=10)


@pytest.mark.parametrize(
    ("parameters", "delta", "sizes"),
    [
        (CROSSING, 1e-3, (20, 60)),
        (Parameters(alpha=0.2), 1e-18, (2, 9, 60)),
        (Parameters(alpha=0.2), 0.7, (2, 9, 60)),
        (Parameters(alpha=0.2, theta=0.7, rounds=2, noise="fresh"), 1e-4, (2, 9)),
    ],
    ids=["crossing", "tiny delta", "huge delta", "fresh"],
)
def test_a_curve_lies_above_the_account_of_every_size(
    parameters: Parameters, delta: float, sizes: tuple[int, ...]
) -> None:
    """Also where another size is worse elsewhere on the curve, and where sizes tie at the table's delta."""
    _, found = curves_of(sizes, parameters, delta)
    for view, curve in found.items():
        assert curve.sizes == ()
        if curve.how != "account":
            continue
        for epsilon, drawn in list(zip(curve.epsilons, curve.deltas, strict=True))[::4]:
            for size in sizes:
                colluders = int(view == View.COALITION)
                exact = account(view, parameters, cluster_size=size, colluders=colluders, thorough=False)
                found_there = exact.get_delta(epsilon)
                # Where the guarantee is the better of two bounds, the point is its delta.
                assert drawn >= min(found_there.delta, delta) - 1e-9 * found_there.delta - 1e-13, (view, size)


def test_sizes_do_cross() -> None:
    """Without that the test above would show nothing: the size with the larger epsilon has the lower delta at 0."""
    table, _ = curves_of((2, 60), Parameters(alpha=0.2), 0.7)
    assert table[View.EAVESDROPPER].cluster_size == 2, "a tie, though the label is seen more often in the other"
    accounts = [account(View.EAVESDROPPER, Parameters(alpha=0.2), cluster_size=size) for size in (2, 60)]
    deltas = [one.get_delta(0.0).delta for one in accounts]
    assert deltas[0] < deltas[1]


def test_of_many_sizes_those_that_were_evaluated_are_named() -> None:
    _, found = curves_of((5, 8, 11, 14))
    assert {view: found[view].sizes for view in SEARCHED} == dict.fromkeys(SEARCHED, (5, 14))
    assert found[View.NETWORK].sizes == (), "a closed form: all sizes are evaluated"


def test_where_someone_misbehaves_the_flips_alone_count_or_nothing() -> None:
    table, found = curves_of([20, 30], misbehaving=("liars",))
    check(table, found)
    assert {curve.how for curve in found.values()} == {"flips"}
    assert curves_of([20, 30], misbehaving=("fresh_answers",))[1] == {}
    assert curves_of([20, 30], replaced=True)[1] == {}


def test_where_users_went_missing_no_searched_view_has_the_whole_crowds_curve() -> None:
    table, found = curves_of([20, 30], lost=3)
    check(table, found)
    assert {view for view, curve in found.items() if curve.how == "flips"} == set(SEARCHED)
    local = account(View.AUDITOR, PARAMETERS, cluster_size=1)
    for epsilon, delta in zip(found[View.LEARNER].epsilons, found[View.LEARNER].deltas, strict=True):
        assert delta >= local.get_delta(epsilon).delta - 1e-15


def test_where_everyone_abstains_the_pair_alone_is_told() -> None:
    table, found = curves_of([])
    check(table, found)
    assert {curve.how for curve in found.values()} == {"implied"}


def test_colluders_of_a_run_have_a_curve_of_their_own() -> None:
    one, three = (curves_of([20], colluders={20: count})[1][View.COALITION] for count in (1, 3))
    exact = account(View.COALITION, PARAMETERS, cluster_size=20, colluders=3, thorough=False)
    assert at(three, 0.5) >= exact.get_delta(0.5).delta > at(one, 0.5)


def test_large_clusters_get_a_curve_without_asking_their_account(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    learner = Guarantee(epsilon=0.2, delta=1e-9, view=View.LEARNER, method="exact", cluster_size=1_000_000)
    monkeypatch.setattr(Account, "get_delta", lambda *_: asked.append("delta"))
    found = curves(exchange(), Circumstances({1_000_000: 0}, 1e-9), {View.LEARNER: learner})
    assert (found[View.LEARNER].how, asked) == ("implied", [])


def test_what_one_pair_implies_lies_above_any_mechanism_that_has_it() -> None:
    """Among them randomized response, whose curve it is, and the learner's."""
    for view, theta in ((View.AUDITOR, 1.0), (View.LEARNER, 0.5), (View.PEER, 1.0)):
        exact = account(view, Parameters(alpha=0.1, theta=theta), cluster_size=40)
        pair = exact.get_epsilon(1e-4)
        curve = implied(pair)
        for epsilon in np.linspace(0, pair.epsilon, 9):
            assert at(curve, epsilon) >= exact.get_delta(epsilon).delta * (1 - 1e-9)


def test_what_one_pair_implies_is_attained() -> None:
    """By whoever tells the label with probability delta and randomizes it to epsilon otherwise: no curve is lower."""
    epsilon0, delta0 = 1.3, 0.02
    kept = math.exp(epsilon0) / (1 + math.exp(epsilon0))
    seen = [[delta0, 0.0, (1 - delta0) * kept, (1 - delta0) * (1 - kept)],
            [0.0, delta0, (1 - delta0) * (1 - kept), (1 - delta0) * kept]]  # fmt: skip
    drawn = chords(implied(Guarantee(epsilon=epsilon0, delta=delta0, view=View.LEARNER)), 1e-6)
    for epsilon, delta in zip(*drawn, strict=True):
        truth = sum(max(0.0, one - math.exp(epsilon) * other) for one, other in zip(*seen, strict=True))
        assert delta == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 30.0, 700.0])
def test_chords_stay_between_the_ends_at_any_epsilon(epsilon: float) -> None:
    curve = implied(Guarantee(epsilon=epsilon, delta=1e-5, view=View.LEARNER))
    epsilons, deltas = chords(curve, 1e-8)
    assert all(left <= right for left, right in pairwise(epsilons))
    assert all(left >= right for left, right in pairwise(deltas))
    assert (epsilons[0], deltas[0]) == (curve.epsilons[0], curve.deltas[0])
    assert (epsilons[-1], deltas[-1]) == (curve.epsilons[-1], curve.deltas[-1])


def test_an_axis_ends_below_every_delta() -> None:
    table, _ = curves_of([20], delta=3e-6)
    assert least_delta(table) == pytest.approx(1e-9)
