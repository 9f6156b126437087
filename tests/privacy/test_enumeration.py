"""Every formula against every coin, in every exchange."""

import itertools

import every_coin
import pytest
from accounting import accounted

from p2p_labeldp.privacy import views_of
from p2p_labeldp.privacy.views import CLOSED_FORM

FORMULAS = {
    "pull": CLOSED_FORM,
    "permutation": (*CLOSED_FORM, "coalition"),
    "mixed": ("eavesdropper",),
}
"""Views that are exact for any number of labels, and over fresh rounds; in one round a peer is too."""


def parties(users):
    """Every view of every exchange and every coalition, with each number of relays."""
    for exchange in FORMULAS:
        if exchange == "mixed" and users == 1:
            continue
        for view in views_of(exchange):
            for colluders in range(1, users) if view == "coalition" else (0,):
                relays = (0,) if exchange != "mixed" else range(1, users + 1) if colluders else (2,)
                for chosen in relays:
                    yield {"exchange": exchange, "view": str(view), "colluders": colluders, "relays": chosen}


def each_party(*sizes, slow=()):
    """A test for each party among so many users."""
    return pytest.mark.parametrize(
        ("users", "party"),
        [
            pytest.param(
                users,
                party,
                id="-".join(str(value) for value in (users, *party.values()) if value),
                marks=[pytest.mark.slow] if users in slow else [],
            )
            for users in sizes
            for party in parties(users)
        ],
    )


def agrees(party, users, settings, epsilons, **more):
    """An exact delta is that of every coin, any other is above it. Gives both."""
    facts = {name: value for name, value in party.items() if name != "view"} | more
    exchange, view = party["exchange"], party["view"]
    formula = view in FORMULAS[exchange] or (exchange == "mixed" and view == "peer" and more.get("rounds", 1) == 1)
    for alpha, theta in settings:
        # The learner of a permutation is sent some of the shuffled labels, which bound her view.
        bounded = exchange == "permutation" and view == "learner" and theta < 1
        bounded |= not formula and (more.get("labels", 2) > 2 or more.get("noise") == "fresh")
        accountant = accounted(view, cluster_size=users, alpha=alpha, theta=theta, **facts)
        for epsilon in epsilons:
            truth, found = every_coin.delta(view, users, alpha, theta, epsilon, **facts), accountant.get_delta(epsilon)
            if found.method == "exact":
                assert found.delta == pytest.approx(truth, abs=1e-12, rel=0)
            else:
                assert bounded
                assert truth - 1e-13 <= found.delta <= 1
            yield truth, found.delta


@each_party(1, 2, 3, 4)
def test_delta_is_that_of_every_coin(users, party):
    settings = itertools.product((0.05, 0.3, 0.7), (0.4, 1.0))
    if party["exchange"] == "mixed":
        settings = ((0.1, 1.0), (0.3, 0.6))
    assert list(agrees(party, users, settings, (0.0, 0.2, 1.0)))


@each_party(2, 3, slow=(3,))
def test_sticky_rounds_are_those_of_every_coin(users, party):
    assert list(agrees(party, users, ((0.1, 0.5), (0.3, 1.0)), (0.1, 0.7), rounds=2))


@each_party(2, 3, slow=(3,))
def test_fresh_rounds_are_composed_and_their_bounds_are_tight(users, party):
    for alpha, theta, rounds in ((0.1, 0.5, 2), (0.3, 1.0, 3 if users == 2 else 2)):
        for truth, found in agrees(party, users, ((alpha, theta),), (0.1, 0.7), rounds=rounds, noise="fresh"):
            if party["exchange"] == "pull" and party["view"] in ("learner", "shuffle"):
                assert found <= truth * 1.01 + 1e-9
            if (party["exchange"], party["view"]) != ("permutation", "learner"):
                assert found <= truth * 1.3 + 1e-3


@each_party(1, 2, 3)
@pytest.mark.parametrize("alpha", [0.05, 0.4, 0.9])
def test_three_labels_are_bounded_above_every_coin(users, party, alpha):
    assert list(agrees(party, users, ((alpha, 0.5), (alpha, 1.0)), (0.0, 0.3, 1.2), labels=3))


@each_party(2, 3, slow=(3,))
def test_four_labels_are_bounded_above_every_coin(users, party):
    assert list(agrees(party, users, ((0.05, 1.0), (0.4, 0.5), (0.9, 1.0)), (0.0, 0.6), labels=4))


@each_party(4, slow=(4,))
def test_three_labels_of_four_users_are_bounded_above_every_coin(users, party):
    assert list(agrees(party, users, ((0.05, 1.0), (0.4, 0.5), (0.9, 1.0)), (0.0, 0.6), labels=3))


@pytest.mark.parametrize("labels", [3, 4])
@each_party(2)
def test_rounds_of_more_labels_are_bounded_above_every_coin(users, party, labels):
    for alpha, theta in ((0.1, 0.5), (0.5, 1.0)):
        assert list(agrees(party, 2, ((alpha, theta),), (0.1, 0.7), labels=labels, rounds=2))
        for truth, found in agrees(party, 2, ((alpha, theta),), (0.1, 0.7), labels=labels, rounds=2, noise="fresh"):
            assert found <= truth * 1.3 + 1e-3  # of the clones alone it was several times as much


@pytest.mark.parametrize("noise", ["sticky", "fresh"])
@pytest.mark.parametrize(("alpha", "labels"), [(0.0, 2), (1.0, 3)])
@each_party(2)
def test_outcomes_that_only_one_label_can_cause_are_counted_over_rounds(users, party, alpha, labels, noise):
    assert list(agrees(party, users, ((alpha, 0.5),), (0.0, 3.0), labels=labels, rounds=2, noise=noise))
