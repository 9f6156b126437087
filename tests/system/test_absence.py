"""Users who cannot reach each other: what the learner sees, who reports included, against what is guaranteed.

A pattern of cuts says of every ask whether it can be answered. For up to four users every coin is enumerated with
every pattern of cuts: noisy labels and choices, so that these are the exact distributions of what the learner sees:
who is missing, who reports, and which label. Where an ask stays unanswered nothing but the flips can be counted on;
where nothing is cut it is the learner's profile. The roles themselves are stepped to show that this is what they do.

A cut that nobody happened to ask across leaves no trace in a run, and yet whoever knows of it learns that nobody did.
That is outside of the learner's guarantee, which presumes that everyone can reach her cluster; it costs no more
than the chance of it times the local profile, which is shown too.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from transcripts import Tossed

from p2p_labeldp.privacy import Parameters, account
from p2p_labeldp.protocol import Coordinator, Host, Learner, User
from p2p_labeldp.protocol.messages import Ask, Features

ALPHA = 0.2
LOCAL = math.log((1 - ALPHA) / ALPHA)
EPSILONS = (0.0, 0.2, 0.5, 1.0, LOCAL - 1e-3, LOCAL)
MISSING = 2
Floats = NDArray[np.float64]


def local_profile(epsilon: float) -> float:
    return max(0.0, 1 - ALPHA - math.exp(epsilon) * ALPHA)


def seen(noisy: tuple[int, ...], asked: tuple[int, ...], cut: NDArray[np.bool_]) -> tuple[int, ...]:
    """What the learner sees of each user: the label she reports, or that she is missing."""
    return tuple(MISSING if cut[user, peer] else noisy[peer] for user, peer in enumerate(asked))


def stepped(noisy: tuple[int, ...], asked: tuple[int, ...], cut: NDArray[np.bool_], target: bool) -> tuple[int, ...]:
    """The same from the roles themselves, with asks lost on their way."""
    size = len(noisy)
    coins = [[0.9, (peer + 0.5) / size, 0.0, 0.5] for peer in asked]
    host = Host(Parameters(ALPHA, 1.0), Tossed([np.array(coins)]), 0, size)
    users = [User(user, label, host) for user, label in enumerate(noisy)]
    coordinator = Coordinator(
        size, 1, 1, lambda ids, _: np.zeros_like(ids), 1.0, 1.0, target=(lambda _: True) if target else None
    )
    learner = Learner(size, 1, 2, 1.0, 1.0)
    roles = [*users, host, None, learner, coordinator]
    row = Features(np.zeros(1, dtype=np.float32))
    queue = deque((user.id, *user.hello(row)) for user in users)
    while queue or not coordinator.finished:
        if not queue:
            queue.extend((-1, *out) for out in coordinator.expire())
            continue
        sender, receiver, message = queue.popleft()
        if type(message) is Ask and cut[sender, receiver]:
            continue
        queue.extend((receiver, *out) for out in roles[receiver].receive(sender, message))  # type: ignore[union-attr]
    assert learner.finished
    reporters, labels = learner.reports(0)
    reports = dict(zip(reporters.tolist(), labels.tolist(), strict=True))
    return tuple(reports.get(user, MISSING) for user in range(size))


@cache
def choices(size: int) -> NDArray[np.int64]:
    return np.array(list(itertools.product(range(size), repeat=size)))


@cache
def noisy_labels(size: int) -> NDArray[np.int64]:
    return np.array(list(itertools.product((0, 1), repeat=size)))


@cache
def flips(size: int) -> Floats:
    """The chance of noisy labels, a column, given true ones, a row; both in the order of ``noisy_labels``."""
    differ = (noisy_labels(size)[:, None] != noisy_labels(size)[None]).sum(axis=2)
    return ALPHA**differ * (1 - ALPHA) ** (size - differ)  # type: ignore[no-any-return]


def distributions(size: int, cut: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.bool_]]:
    """Of what the learner sees, a column for each, given everyone's labels, a row; and in which nobody is missing."""
    asked, noisy = choices(size), noisy_labels(size)
    missing = cut[np.arange(size), asked]
    codes = np.where(missing, MISSING, noisy[:, asked]) @ 3 ** np.arange(size)
    kinds = 3**size
    cells = np.bincount((np.arange(len(noisy))[:, None] * kinds + codes).ravel(), minlength=len(noisy) * kinds)
    complete = ((np.arange(kinds)[:, None] // 3 ** np.arange(size)) % 3 != MISSING).all(axis=1)
    return flips(size) @ cells.reshape(len(noisy), kinds) / len(asked), complete


def delta(found: Floats, epsilon: float) -> float:
    """The worst of all neighbours: everyone's labels, and one of them another."""
    rows = np.arange(len(found))
    bits = [1 << place for place in range(len(found).bit_length() - 1)]
    worst = [np.maximum(0.0, found - math.exp(epsilon) * found[rows ^ bit]).sum(axis=1).max() for bit in bits]
    return float(max(worst))


@cache
def cuts(size: int) -> list[NDArray[np.bool_]]:
    """Every pattern; of those that are one another with users renamed, the first."""
    weights = 1 << np.arange(size * size).reshape(size, size)
    every = (np.arange(1 << size * size)[:, None, None] & weights) > 0
    renamed = [(every[:, order][:, :, order] * weights).sum(axis=(1, 2)) for order in map(list, _orders(size))]
    return [(code & weights) > 0 for code in np.unique(np.min(renamed, axis=0)).tolist()]


def _orders(size: int) -> list[tuple[int, ...]]:
    return list(itertools.permutations(range(size)))


PATTERNS = {2: 10, 3: 104, 4: 3044}  # directed graphs with loops, up to isomorphism (OEIS A000595)


@pytest.mark.parametrize("size", [2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_whatever_is_cut_the_learner_is_kept_to_the_local_guarantee(size: int) -> None:
    patterns = cuts(size)
    assert len(patterns) == PATTERNS[size]
    for cut in patterns:
        found, _ = distributions(size, cut)
        assert np.allclose(found.sum(axis=1), 1)
        for epsilon in EPSILONS:
            assert delta(found, epsilon) <= local_profile(epsilon) + 1e-12


@pytest.mark.parametrize("size", PATTERNS)
def test_where_nothing_is_cut_the_learner_is_kept_to_its_own_profile(size: int) -> None:
    found, complete = distributions(size, np.zeros((size, size), dtype=np.bool_))
    assert (found[:, ~complete] == 0).all()
    accountant = account("learner", Parameters(alpha=ALPHA), cluster_size=size)
    for epsilon in EPSILONS:
        assert delta(found, epsilon) == pytest.approx(accountant.get_delta(epsilon).delta, abs=1e-9)


@pytest.mark.parametrize("size", [2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_a_cut_that_nobody_asked_across_costs_at_most_its_chance(size: int) -> None:
    """What is seen of runs in which nobody is missing, though some could not have asked everyone."""
    beyond = 0
    whole, _ = distributions(size, np.zeros((size, size), dtype=np.bool_))
    for cut in cuts(size):
        found, complete = distributions(size, cut)
        chance = float(np.prod(1 - cut.mean(axis=1)))
        for epsilon in EPSILONS:
            cost = delta(found[:, complete], epsilon)
            assert cost <= chance * local_profile(epsilon) + 1e-12
            beyond += cost > delta(whole, epsilon) + 1e-12
    assert beyond > 0, "so that what is presumed has to be said"


@pytest.mark.parametrize("size", [2, 3, 4])
def test_this_is_what_the_roles_do(size: int) -> None:
    """Every coin and cut of two users; of more, some drawn at random."""
    generator = np.random.default_rng(size)
    cases = itertools.product(noisy_labels(size), choices(size), range(1 << size * size))
    drawn = list(cases) if size == 2 else None
    for number in range(len(drawn) if drawn else 300):
        if drawn:
            noisy, asked, code = drawn[number]
        else:
            noisy = noisy_labels(size)[generator.integers(2**size)]
            asked = choices(size)[generator.integers(size**size)]
            code = int(generator.integers(1 << size * size))
        cut = (code & (1 << np.arange(size * size).reshape(size, size))) > 0
        facts = tuple(noisy.tolist()), tuple(asked.tolist()), cut
        expected = seen(*facts)
        assert stepped(*facts, target=False) == expected
        # With a target for epsilon a cluster of which anyone is missing releases nothing at all.
        assert stepped(*facts, target=True) == ((MISSING,) * size if MISSING in expected else expected)
