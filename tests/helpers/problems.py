"""Exchanges as hypothesis draws them, and the mechanism by the book: slow, and written from the design's text."""

from __future__ import annotations

import math

from hypothesis import strategies as st
from numpy.random import Generator, Philox

from p2p_labeldp.privacy import Parameters

Case = tuple[list[int], list[int], Parameters]
"""Everyone's label and cluster, and what is exchanged how."""
SHARES = st.one_of(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), st.floats(0, 1))


@st.composite
def cases(draw: st.DrawFn, exchanges: tuple[str, ...] = ("pull",)) -> Case:
    label_count = draw(st.one_of(st.integers(2, 10), st.sampled_from([255, 256, 257, 1000])))
    clusters = draw(st.lists(st.integers(0, 4), min_size=1, max_size=25))
    if draw(st.booleans()):
        clusters.sort()
    labels = draw(st.lists(st.integers(0, label_count - 1), min_size=len(clusters), max_size=len(clusters)))
    parameters = Parameters(
        alpha=draw(SHARES),
        theta=draw(SHARES),
        labels=label_count,
        noise=draw(st.sampled_from(["sticky", "fresh"])),
        rounds=draw(st.integers(1, 3)),
        minimum_size=draw(st.integers(1, 6)),
        exchange=draw(st.sampled_from(exchanges)),
    )
    return labels, clusters, parameters


Reports = list[tuple[int, int, int]]
"""(round, user, label)."""


def by_the_book(labels: list[int], clusters: list[int], parameters: Parameters, seed: int) -> Reports:
    """One user at a time, in the words of the design: coins, flip, choice, keep."""
    label_count = parameters.labels
    reports: Reports = []
    for round_ in range(parameters.rounds):
        u = [Generator(Philox(key=[seed, round_], counter=i)).random(4).tolist() for i in range(len(labels))]
        first = [Generator(Philox(key=[seed, 0], counter=i)).random(4).tolist() for i in range(len(labels))]
        noisy = []
        for i, y in enumerate(labels):
            coins = first[i] if parameters.noise == "sticky" else u[i]
            flips = coins[0] < parameters.alpha
            noisy.append((y + 1 + math.floor(coins[3] * (label_count - 1))) % label_count if flips else y)
        for i in range(len(labels)):
            mates = sorted(j for j in range(len(labels)) if clusters[j] == clusters[i])
            if len(mates) < parameters.minimum_size:
                continue
            chosen = mates[math.floor(u[i][1] * len(mates))]
            if u[i][2] < parameters.theta:
                reports.append((round_, i, noisy[chosen]))
    return reports
