"""A synthetic population of any size, generated from a few numbers where it is needed: nothing holds all of it.

It is ``synthetic`` without spread: ``groups`` centres N(0, separation^2 I), everyone of a group has its centre as
features, her label is a draw from softmax(weights x + bias). Groups are equal (sizes differ by one at most) and user
ids are in the order of groups, so whoever knows the recipe can make any block of users alone, bit for bit:

    word of user i = Philox(key=[seed, TRAIN], counter=i // 4), word i % 4 of that block, its upper 24 bits
    label of user i = how many of her group's thresholds are at most that word

Thresholds are whole numbers of 2^-24: p(y|x) is what labels are drawn with exactly, and sums of it over a group of up
to 2^29 users have no rounding error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_labeldp.arrays import Labels
from p2p_labeldp.data.dataset import Dataset, Floats, Probabilities
from p2p_labeldp.data.record import DataSet
from p2p_labeldp.data.sets.synthetic import MOST_TEST_EXAMPLES, USERS_UNLESS_TOLD, check_keys, hypothesis
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Data
from p2p_labeldp.streams import Purpose, stream

MOST_USERS = 10**12  # times a million groups still fits in 64 bits
MOST_HELD = 10**8  # in one process, which holds features, p(y|x) and what the learner makes of them
MOST_COORDINATES = 10**8  # of all groups' centres, which whoever has the recipe holds
BITS = 24
BLOCK = 1 << 15  # users at a time
TILE = 1 << 10  # groups at a time: how an exponential rounds may hang on its place in an array


@dataclass(frozen=True, eq=False)
class People:
    """Consecutive groups of a crowd: all that it takes to make their users, in a few bytes per group."""

    first: int
    """The id of the first user."""
    sizes: NDArray[np.int64]
    thresholds: NDArray[np.uint32]
    """(groups, labels - 1), ascending in each row."""
    seed: int
    purpose: Purpose = Purpose.TRAIN

    @property
    def users(self) -> int:
        return int(self.sizes.sum())

    def groups(self) -> NDArray[np.int32]:
        """Everyone's group, counted from the first one here."""
        return np.repeat(np.arange(len(self.sizes), dtype=np.int32), self.sizes)

    def labels(self, groups: NDArray[np.int32]) -> NDArray[np.unsignedinteger]:
        """Everyone's label, in the smallest type; ``groups`` is what ``groups()`` gave."""
        count = self.thresholds.shape[1]
        found = np.zeros(len(groups), dtype=np.min_scalar_type(count))
        columns = np.ascontiguousarray(self.thresholds.T)
        for start in range(0, len(groups), BLOCK):
            group = groups[start : start + BLOCK]
            words = _words(self.seed, self.purpose, self.first + start, self.first + start + len(group))
            here = found[start : start + BLOCK]
            for column in columns:
                here += words >= column.take(group)
        return found


def _words(seed: int, purpose: Purpose, start: int, stop: int) -> NDArray[np.uint32]:
    block = start // 4
    philox = np.random.Philox(key=np.array([seed, int(purpose)], dtype=np.uint64), counter=block)
    drawn = philox.random_raw(4 * (-(-stop // 4) - block))[start - 4 * block : stop - 4 * block]
    return (drawn >> np.uint64(64 - BITS)).astype(np.uint32)


@dataclass(frozen=True, eq=False)
class Crowd:
    """The recipe: a scenario's ``[data]`` section and a seed."""

    users: int
    labels: int
    seed: int
    centres: NDArray[np.float32]
    weights: Probabilities
    bias: Probabilities

    @classmethod
    def of(cls, data: Data, seed: int) -> Crowd:
        check_keys(data)
        users = data.users or USERS_UNLESS_TOLD
        if users > MOST_USERS:
            raise RequestError(f"data.users = {users} is not allowed; a crowd has at most {MOST_USERS}")
        if data.groups > users:
            raise RequestError(f"data.groups = {data.groups} is not allowed; it must be at most the users, {users}")
        if data.groups * data.dimensions > MOST_COORDINATES:
            raise RequestError(
                f"data.dimensions = {data.dimensions} is not allowed with {data.groups} groups; "
                f"it must be at most {MOST_COORDINATES // data.groups}"
            )
        world = stream(seed, Purpose.WORLD)
        shape = data.groups, data.dimensions
        centres = (data.separation * world.standard_normal(shape)).astype(np.float32)
        directions = world.standard_normal((data.labels, data.dimensions))
        weights, bias = hypothesis(data, centres, directions)
        return cls(users, data.labels, seed, centres, weights, bias)

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(str(label) for label in range(self.labels))

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many users each group has."""
        return np.diff(_starts(self.users, len(self.centres), 0, len(self.centres)))

    def people(self, low: int, high: int) -> People:
        """The users of groups ``low`` to ``high - 1``."""
        starts = _starts(self.users, len(self.centres), low, high)
        return People(int(starts[0]), np.diff(starts), self._thresholds(low, high), self.seed)

    def dataset(self, test_fraction: float) -> Dataset:
        """Everyone at once, with test examples from the same groups: an ordinary data set."""
        if self.users > MOST_HELD:
            raise RequestError(
                f"data.users = {self.users} is not allowed in one process; it must be at most {MOST_HELD}, "
                "or the run be on a cluster: --engine vectorized --dask ADDRESS"
            )
        thresholds = self._thresholds(0, len(self.centres))
        edges = np.pad(thresholds.astype(np.float64), ((0, 0), (1, 1)), constant_values=((0, 0), (0, 1 << BITS)))
        chances = np.diff(edges, axis=1) / (1 << BITS)
        tests = math.ceil(test_fraction * self.users / (1 - test_fraction))
        features, labels, groups = self._examples(self.users, thresholds, Purpose.TRAIN)
        test_features, test_labels, test_groups = self._examples(
            min(max(1, tests), MOST_TEST_EXAMPLES), thresholds, Purpose.TEST
        )
        return Dataset(
            name="crowd",
            features=features,
            labels=labels,
            test_features=test_features,
            test_labels=test_labels,
            classes=self.classes,
            given_clusters=groups,
            conditional=chances[groups],
            test_conditional=chances[test_groups],
        )

    def _examples(self, count: int, thresholds: NDArray[np.uint32], purpose: Purpose) -> tuple[Floats, Labels, Labels]:
        starts = _starts(count, len(self.centres), 0, len(self.centres))
        people = People(0, np.diff(starts), thresholds, self.seed, purpose)
        groups = people.groups()
        return self.centres[groups], people.labels(groups).astype(np.int64), groups.astype(np.int64)

    def _thresholds(self, low: int, high: int) -> NDArray[np.uint32]:
        """Those of groups ``low`` to ``high - 1``, found in the same tiles whichever groups are asked for."""
        first = low - low % TILE
        tiles = [self._tile(start) for start in range(first, high, TILE)]
        return np.concatenate(tiles)[low - first : high - first]

    def _tile(self, start: int) -> NDArray[np.uint32]:
        centres = self.centres[start : start + TILE].astype(np.float64)
        rises = np.tile(self.bias, (len(centres), 1))
        for coordinate, weight in zip(centres.T, self.weights.T, strict=True):
            rises += np.multiply.outer(coordinate, weight)
        chances = scipy.special.softmax(rises, axis=1)
        thresholds: NDArray[np.float64] = np.rint(np.cumsum(chances[:, :-1], axis=1) * (1 << BITS))
        return thresholds.astype(np.uint32)


def _starts(users: int, groups: int, low: int, high: int) -> NDArray[np.int64]:
    """The first user of groups ``low`` to ``high``; of the last, the first behind everyone."""
    return np.arange(low, high + 1, dtype=np.int64) * users // groups


DATA_SET = DataSet("a synthetic crowd", lambda data, seed, _: Crowd.of(data, seed).dataset(data.test_fraction))
