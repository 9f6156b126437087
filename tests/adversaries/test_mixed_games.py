"""Games of the mixed exchange: what every view tells, by the best attack, beside what is proved about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from games import play, play_actors
from small import TWO_LABELS, sixty

from p2p_labeldp.adversaries.evidence import evidence_of_all
from p2p_labeldp.audit.array_views import views_of_exchange
from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments.run import run
from p2p_labeldp.mechanisms.coins import SeededCoins
from p2p_labeldp.privacy import Parameters, views_of

SIZE = 6
VIEWS = [view for view in views_of("mixed") if view != "shuffle"]


def mixed(**more: Any) -> Parameters:
    return Parameters(**({"alpha": 0.2, "exchange": "mixed", "relays": 2} | more))


SETTINGS = {
    "two labels": mixed(theta=0.6),
    "three labels": mixed(alpha=0.4, labels=3),
    "one relay": mixed(relays=1),
    "two rounds, sticky": mixed(rounds=2),
    "two rounds, fresh": mixed(rounds=2, noise="fresh"),
}
COLLUDERS = {"coalition": 2}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("view", VIEWS)
def test_no_attack_beats_what_is_proved_and_the_best_one_comes_near(view: str, setting: str) -> None:
    """Intervals at 99.9 %: of the 40 games one in 25 suites would leave its bound by chance; the seed is fixed."""
    found = play(view, SIZE, SETTINGS[setting], 1000, 1, colluders=COLLUDERS.get(view, 0))
    assert found.bounds is not None
    assert found.beaten == ()
    if found.bounds.exact and view != "coalition":  # whose worst case is one of the colluders' own labels
        assert found.bounds.advantage in found.advantage


@pytest.mark.parametrize("setting", ["two labels", "three labels", "two rounds, sticky"])
@pytest.mark.parametrize("view", [view for view in VIEWS if view != "relay"])
def test_actors_and_arrays_show_an_adversary_the_same(view: str, setting: str) -> None:
    """Digit for digit; a relay's view is left out, since on arrays whoever looks as a relay is one."""
    one, other = (
        each(view, SIZE, SETTINGS[setting], 40, 3, colluders=COLLUDERS.get(view, 0)) for each in (play, play_actors)
    )
    assert one == other


def test_a_coalition_sees_by_who_relays() -> None:
    """Its own draws and noisy labels; the opened batch where it has a relay; whose label is whose with all of them."""
    runs, parameters = 300, mixed()
    seen = views_of_exchange(
        np.zeros((runs, 4), dtype=np.int64), parameters, SeededCoins(1), "coalition", members=(2, 3),
        background=dict.fromkeys((1, 2, 3), 0),
    )  # fmt: skip
    assert seen.draws is not None
    assert seen.opened is not None
    assert seen.tied is not None
    assert (seen.draws[:, 0, 2:] >= 0).all()
    assert (seen.draws[:, 0, :2] < 0).all()
    some, everyone = seen.opened[:, 0, 0] >= 0, seen.tied[:, 0, 0] >= 0
    # Two of four relay: none, some and all of the two with 1/6, 2/3 and 1/6; five standard deviations are .11, .14.
    assert abs((~some).mean() - 1 / 6) < 0.11
    assert abs(everyone.mean() - 1 / 6) < 0.11
    assert (some | ~everyone).all()


@pytest.mark.parametrize(("alpha", "deposited"), [(0.0, 1), (1.0, 0)])
def test_a_coalition_knows_what_its_own_users_deposited_if_it_knows_their_labels(alpha: float, deposited: int) -> None:
    """Two users with label 1 are its own, and it knows the label of one of them; of the others it knows one."""
    labels, background = np.tile([0, 0, 1, 1], (3, 1)), {1: 0, 2: 1}
    views = views_of_exchange(
        labels, mixed(alpha=alpha), SeededCoins(1), "coalition", members=(2, 3), background=background
    )
    evidence = evidence_of_all(views, 0)
    assert evidence.pool == 4
    assert evidence.known[:, 0].tolist() == [[1 - deposited, deposited]] * 3
    assert evidence.hidden[:, 0].tolist() == [[1, 0, 1]] * 3
    without_coins = evidence_of_all(replace(views, coins=np.full_like(views.coins, np.nan)), 0)
    assert not without_coins.known.any()
    assert without_coins.hidden[:, 0].tolist() == [[1, 1, 1]] * 3


def test_whoever_watches_the_network_sees_the_reports_and_nothing_else() -> None:
    labels = np.arange(12)[None] % 2
    views = {
        name: views_of_exchange(labels, mixed(theta=0.5), SeededCoins(1), name)
        for name in ("learner", "metadata", "network", "eavesdropper")
    }
    for name in ("metadata", "network"):
        np.testing.assert_array_equal(views[name].reports, views["learner"].reports)
    for view in views.values():
        assert (view.asks, view.answers, view.draws, view.opened) == (None, None, None, None)
    assert views["eavesdropper"].reports is None


def test_views_that_need_a_member_say_so() -> None:
    labels = np.zeros((1, 4), dtype=np.int64)
    with pytest.raises(RequestError, match=r"^the view relay needs a member: the relay herself$"):
        views_of_exchange(labels, mixed(), SeededCoins(1), "relay")
    with pytest.raises(RequestError, match=r"^members needs the view peer, relay or coalition, not learner$"):
        views_of_exchange(labels, mixed(), SeededCoins(1), "learner", members=(1,))


@pytest.mark.slow
def test_colluders_of_a_mixed_run_are_measured_beside_their_bound() -> None:
    colluders = '[[adversaries]]\nkind = "collusion"\nfraction = 0.1\n'
    scenario = sixty("mechanism.exchange=mixed", "mechanism.relays=3", text=TWO_LABELS + colluders)
    (row,) = run(scenario).summary.attacks
    assert row.view == "coalition"
    assert row.bound is not None
    assert row.advantage is not None
    assert row.advantage[1] <= row.bound < 0.4
    assert row.beaten == ()
