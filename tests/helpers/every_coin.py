"""Every coin of a tiny cluster, and what each view sees: the truth that accounts are held against.

Nothing here uses the package. Given everyone's noisy labels, no other coin depends on what anybody holds. So a view is
a channel, P(what is seen | noisy labels): a row for all noisy labels together, listed coin by coin. Flips come before
it; sticky rounds see the same noisy labels again, fresh ones are flipped anew. The victim is user 0, colluders are the
last users.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, reduce
from itertools import chain, combinations, permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Table = NDArray[np.float64]
Numbers = NDArray[np.int64]

REPORTED = ("learner", "metadata", "network", "auditor", "coalition")
ON_THE_WIRE = ("eavesdropper", "network")


def delta(
    view: str,
    users: int,
    alpha: float,
    theta: float,
    epsilon: float,
    *,
    labels: int = 2,
    rounds: int = 1,
    noise: str = "sticky",
    **exchange: Any,
) -> float:
    """The largest hockey-stick divergence: over the victim's labels, both directions, and all labels of the others."""
    return worst(_seen(view, users, alpha, theta, labels, rounds, noise, *exchange.items()), labels, epsilon)


def worst(seen: Table, labels: int, epsilon: float) -> float:
    """The same of P(seen | labels), a row for all labels together, the victim's first."""
    by_hers = seen.reshape(labels, -1, seen.shape[1])
    pairs = permutations(by_hers, 2)
    return max(float(np.maximum(one - math.exp(epsilon) * two, 0).sum(axis=-1).max()) for one, two in pairs)


@lru_cache(maxsize=4)
def _seen(
    view: str, users: int, alpha: float, theta: float, labels: int, rounds: int, noise: str, *exchange: Any
) -> Table:
    facts = dict(exchange)
    once = channel(view, users, labels, theta, **facts)
    # In the mixed exchange colluders deposit what they like, so that it is not flipped.
    given = _crooked(view, facts.get("colluders", 0)) if facts.get("exchange") == "mixed" else 0
    if noise == "fresh":
        return reduce(_both, [flipped(once, users, labels, alpha, given)] * rounds)
    return flipped(reduce(_both, [once] * rounds), users, labels, alpha, given)


def flipped(table: Table, users: int, labels: int, alpha: float, given: int = 0) -> Table:
    """P(seen | labels) from P(seen | noisy labels); the last ``given`` users show what they choose."""
    flip = np.full((labels, labels), alpha / (labels - 1))
    np.fill_diagonal(flip, 1 - alpha)
    flips = reduce(np.kron, [flip] * (users - given) + [np.eye(labels)] * given)
    return flips @ np.broadcast_to(table, (len(flips), table.shape[1]))


def channel(
    view: str, users: int, labels: int, theta: float, colluders: int = 0, exchange: str = "pull", relays: int | str = 0
) -> Table:
    """P(what is seen in a round | noisy labels). ``relays`` may be a case of them: "none" colludes, or "some"."""
    noisy = every_label(users, labels)
    if view == "shuffle":
        return listed([(noisy == label).sum(axis=0) for label in range(labels)])
    if exchange == "mixed":
        return _mixed(view, noisy, theta, colluders, relays)
    own = listed([*noisy[users - colluders :]])
    if exchange == "permutation":
        asked, kept, chance = _coins(permutations(range(users)), users, theta)
        shown = [_shown(view, user, noisy, asked[user], kept[user], colluders, True) for user in range(users)]
        return _both(own, listed([*chain(*shown)], chance))
    asked, kept, chance = _coins(([user] for user in range(users)), 1, theta)
    everyone = [_shown(view, user, noisy, asked[0], kept[0], colluders, False) for user in range(users)]
    return reduce(_both, [listed([*shown], chance) for shown in everyone], own)


def every_label(users: int, labels: int) -> Numbers:
    """What everyone may show: axes are user, all combinations, and one for the coins."""
    return np.indices([labels] * users).reshape(users, -1, 1)


def listed(fields: Sequence[Numbers], chance: Table | None = None) -> Table:
    """P(fields | noisy labels), whose axes are noisy labels and coins of these chances."""
    chance = np.ones(1) if chance is None else chance
    shape = np.broadcast_shapes((1, chance.size), *(field.shape for field in fields))
    code = np.zeros(shape, dtype=np.int64)
    for place, field in enumerate(fields):
        assert field.max() < 10
        code = (_numbered(code) if place % 10 == 9 else code) * 10 + field
    code = _numbered(code)
    width = int(code.max()) + 1
    code += np.arange(shape[0])[:, None] * width
    weights = np.broadcast_to(chance, shape).ravel()
    table: Table = np.bincount(code.ravel(), weights, shape[0] * width).astype(np.float64)
    return _merged(table.reshape(shape[0], width))


def _numbered(code: Numbers) -> Numbers:
    return np.unique(code, return_inverse=True)[1].reshape(code.shape)


def _both(first: Table, second: Table) -> Table:
    """Two independent parts of what is seen; one row where the noisy labels do not matter."""
    table = first[:, :, None] * second[:, None]
    return _merged(table.reshape(len(table), -1))


def _merged(table: Table) -> Table:
    """Outcomes that are equally likely under all noisy labels, but for a factor, tell the same: they are one."""
    table = table[:, table.any(axis=0)]
    likely = np.round(table / table.sum(axis=0), 12)
    same = np.unique(likely, axis=1, return_inverse=True)[1].ravel()
    found = np.zeros((len(table), int(same.max()) + 1))
    np.add.at(found.T, same, table.T)
    return found


def _coins(choices: Iterable[Sequence[int]], users: int, theta: float) -> tuple[Numbers, Numbers, Table]:
    """Equally likely choices, and which of so many users keep: axes are user, one for noisy labels, coins."""
    keeps = [*product((0, 1), repeat=users)] if theta < 1 else [(1,) * users]
    chosen, kept = (np.array(each) for each in zip(*product(choices, keeps), strict=True))
    sent = kept.sum(axis=1)
    chance = theta**sent * (1 - theta) ** (users - sent) * (len(keeps) / len(kept))
    return chosen.T[:, None], kept.T[:, None], chance


def _shown(
    view: str, user: int, noisy: Numbers, asked: Numbers, kept: Numbers, colluders: int, permuted: bool
) -> Iterator[Numbers]:
    """What a view sees of whom a user asked, what she heard and whether she kept it. Members know a permutation."""
    users = len(noisy)
    answer = np.take_along_axis(noisy, asked[None], axis=0)[0]
    asking, knows = view == "peer" and user == users - 1, permuted and (view == "peer" or colluders > 0)
    if view in REPORTED:
        yield np.where(kept == 1, answer + 1, 0)
    if view in ("metadata", "auditor", *ON_THE_WIRE) or asking or knows:
        yield asked
    if view == "auditor" or asking:
        yield answer
    if view in ON_THE_WIRE:
        yield np.where(asked != user, answer + 1, 0)
    if view == "coalition":  # whom they asked, what they heard, and who asked them
        mine = user >= users - colluders
        yield np.where((asked >= users - colluders) | mine, asked + 1, 0)
        yield answer if mine else np.zeros_like(answer)


def relay_cases(users: int, colluders: int, relays: int) -> dict[str, float]:
    """How often all relays collude, or some, or none: by listing every set of relays."""
    found = {"all": 0, "some": 0, "none": 0}
    sets = [*combinations(range(users), relays)]
    for chosen in sets:
        inside = sum(user >= users - colluders for user in chosen)
        found["all" if inside == relays else "some" if inside else "none"] += 1
    return {case: count / len(sets) for case, count in found.items() if count}


def _crooked(view: str, colluders: int) -> int:
    return 1 if view in ("peer", "relay") else colluders


def _mixed(view: str, noisy: Numbers, theta: float, colluders: int, relays: int | str) -> Table:
    """Packets have one size and whole batches travel, so that who sees the wire sees nothing of labels."""
    users = len(noisy)
    likely = {relays: 1.0} if isinstance(relays, str) else relay_cases(users, colluders, relays)
    likely = likely if view == "coalition" else {"some" if view in ("auditor", "relay") else "none": 1.0}
    tables = []
    for case, share in likely.items():
        # Whoever deposits a packet finds it in the sealed batch; all relays together know whose each is.
        known = users if case == "all" else _crooked(view, colluders)
        drawn = [_drawing(view, noisy, user >= users - known, case, theta) for user in range(users)]
        told = reduce(_both, drawn, listed([] if case == "none" else [*noisy]))
        places = [*permutations(range(users), known)]
        tables += [
            share / len(places) * (_batches(noisy, each) @ np.broadcast_to(told, (noisy.shape[1], told.shape[1])))
            for each in places
        ]
    return _merged(np.hstack(tables))


def _drawing(view: str, batch: Numbers, member: bool, case: str, theta: float) -> Table:
    """P(what is seen of the place that is drawn for a user, and of her report | labels in the order of the batch)."""
    place, kept, chance = _coins(([place] for place in range(len(batch))), 1, theta)
    label = np.take_along_axis(batch, place, axis=0)[0]
    fields = [np.where(kept[0] == 1, label + 1, 0)] if view in REPORTED else []
    return listed([*fields, *([label] if member else []), *([] if case == "none" else place)], chance)


def _batches(noisy: Numbers, places: Sequence[int]) -> Table:
    """P(labels in the order of the batch | noisy labels): the last users' are at these places, the others' at any."""
    users, labels = len(noisy), int(noisy.max()) + 1
    left = [place for place in range(users) if place not in places]
    found = np.zeros((noisy.shape[1], noisy.shape[1]))
    orders = [*permutations(left)]
    for order in orders:
        batch = noisy[np.argsort([*order, *places]), :, 0]
        found[np.arange(len(found)), np.ravel_multi_index(tuple(batch), [labels] * users)] += 1 / len(orders)
    return found


# Larger clusters.


def vectors(users: int, labels: int) -> list[tuple[int, ...]]:
    """How many users hold each label, in every way."""
    if labels == 1:
        return [(users,)]
    return [(count, *rest) for count in range(users + 1) for rest in vectors(users - count, labels - 1)]


def counted(
    view: str, others: Sequence[int], alpha: float, theta: float, epsilon: float, most: int | None = None
) -> float:
    """The divergence for one data set by counts alone: who holds or reports a label does not matter.

    ``others``: how many of them hold each label; the victim's are 0 and 1. Of the learner with up to ``most`` reports,
    which is less than that with all of them.
    """
    users, labels = sum(others) + 1, len(others)
    pair = [_noisy_counts((label, *others), alpha) for label in (0, 1)]
    if view == "shuffle":
        return worst(np.array(pair), 2, epsilon)
    most = users if most is None else most
    arrive = stats.binom.pmf(range(most + 1), users, theta)
    drawn = [likely * _drawn(reports, users, labels) for reports, likely in enumerate(arrive)]
    return worst(np.array(pair) @ np.hstack(drawn), 2, epsilon)


def _noisy_counts(held: tuple[int, ...], alpha: float) -> Table:
    """The distribution of the counts of noisy labels, in the order of `vectors`: the victim's label, others' counts."""
    victim, *others = held
    labels, users = len(others), sum(others) + 1
    grid = np.zeros((users + 1,) * (labels - 1))  # all counts but the last
    grid.flat[0] = 1.0
    for label in [victim, *np.repeat(range(labels), others)]:
        chances = np.full(labels, alpha / (labels - 1))
        chances[label] = 1 - alpha
        grid = chances[-1] * grid + sum(chances[axis] * np.roll(grid, 1, axis) for axis in range(labels - 1))
    found: Table = grid[tuple(np.array(vectors(users, labels)).T[:-1])]
    return found


@lru_cache(maxsize=64)
def _drawn(reports: int, users: int, labels: int) -> Table:
    """P(counts of reported labels | counts of noisy labels): a row for each of the latter."""
    said, shares = np.array(vectors(reports, labels)), np.array(vectors(users, labels)) / users
    found: Table = stats.multinomial.pmf(said[None], reports, shares[:, None])
    return found
