"""What liars do to the learner, beside plain randomized response, and what a robust learner wins back.

    python benchmarks/poisoning.py                  three tables: about a minute
    python benchmarks/poisoning.py --plot FILE      and a picture of the first two

Liars keep to the protocol but for the label they push: label 1, in answers and in reports. The first table
measures a cluster's share of it against the formulas; the second, the test accuracy that is left; the third, what
``learner.robust`` does when nobody lies, when one cluster lies (the one with the fewest ones, all its users) and
when liars are spread over all. Means over seeds, with the standard error where it matters.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from poisoned import poisoned_reports, poisoned_share, poisoned_share_alone

from p2p_labeldp.data import Dataset, kmeans_clusters, load
from p2p_labeldp.learning import fit_softmax, one_hot, trimmed_reports, unflip
from p2p_labeldp.mechanisms import SeededCoins
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.scenario import Data

FRACTIONS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
ROBUST = (0.0, 0.05, 0.1, 0.2)
ALPHA = 0.1

PROBLEMS: dict[str, tuple[Data, int]] = {
    "digits, odd or even, 12 clusters": (Data(name="digits", target="parity"), 12),
    "digits, odd or even, 40 clusters": (Data(name="digits", target="parity"), 40),
    "digits, ten labels, 20 clusters": (Data(name="digits"), 20),
    "breast cancer, 10 clusters": (Data(name="breast_cancer"), 10),
    "synthetic, 4 features, 20 clusters": (
        Data(name="synthetic", users=3000, groups=20, dimensions=4, sharpness=3.0),
        20,
    ),
    "synthetic, a rare disease, 24 clusters": (
        Data(name="synthetic", users=6000, groups=24, dimensions=3, spread=0.25, sharpness=3.0, rate=0.1),
        24,
    ),
}
"""Name, to the data and how many k-means clusters."""


@dataclass(frozen=True)
class World:
    """One data set, clustered, with what every mechanism draws."""

    seed: int
    data: Dataset
    clusters: NDArray[np.int64]

    @classmethod
    def of(cls, data: Data, count: int, seed: int) -> World:
        loaded = load(data, seed)
        return cls(seed, loaded, kmeans_clusters(loaded.features, count, 30, seed).assignment)

    def spread(self, fraction: float) -> NDArray[np.bool_]:
        """Liars drawn from everyone."""
        users = len(self.data.labels)
        return np.isin(np.arange(users), np.random.default_rng(self.seed).permutation(users)[: round(fraction * users)])

    def targeted(self) -> NDArray[np.bool_]:
        """Everyone in the cluster with the fewest ones."""
        ones = np.bincount(self.clusters, self.data.labels == 1) / np.bincount(self.clusters)
        return self.clusters == int(ones.argmin())

    def reports(self, liars: NDArray[np.bool_], alone: bool = False) -> NDArray[np.int64]:
        """What everyone reports; ``alone``: her own noisy label, as if each were a cluster by herself."""
        parameters = Parameters(ALPHA, 1.0, len(self.data.classes))
        clusters = np.arange(len(liars)) if alone else self.clusters
        return poisoned_reports(self.data.labels, clusters, parameters, SeededCoins(self.seed), liars, 1)[1]

    def accuracy(self, reports: NDArray[np.int64], robust: float = 0.0) -> float:
        data, weights = self.data, np.ones(len(reports))
        targets = one_hot(reports, len(data.classes))
        if robust:
            targets = trimmed_reports(targets, weights, self.clusters, data.features, robust)
        model = fit_softmax(data.features, unflip(targets, ALPHA), 1e-4)
        return float((model.predict(data.test_features) == data.test_labels).mean())


def shares(seeds: int) -> list[tuple[float, ...]]:
    """Per fraction of liars: measured and expected share of ones with the exchange, and the same without."""
    size = 1000
    labels = (np.arange(size) % 10 == 0).astype(np.int64)
    noisy = 0.1 * (1 - ALPHA) + 0.9 * ALPHA
    rows = []
    for fraction in FRACTIONS:
        liars = np.arange(size) < fraction * size
        measured = []
        for clusters in (np.zeros(size, dtype=np.int64), np.arange(size)):
            found = [
                poisoned_reports(labels, clusters, Parameters(ALPHA, 0.5), SeededCoins(seed), liars, 1)[1].mean()
                for seed in range(seeds)
            ]
            measured.append(float(np.mean(found)))
        copied, alone = measured
        rows.append((fraction, copied, poisoned_share(noisy, fraction), alone, poisoned_share_alone(noisy, fraction)))
    return rows


def accuracies(worlds: list[World]) -> list[tuple[float, ...]]:
    """Per fraction of liars: mean accuracy with the exchange and without, each with its standard error."""
    rows = []
    for fraction in FRACTIONS:
        row = [fraction]
        for alone in (False, True):
            found = [world.accuracy(world.reports(world.spread(fraction), alone)) for world in worlds]
            row += [float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(len(found)))]
        rows.append(tuple(row))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=6, help="worlds per figure")
    parser.add_argument("--plot", help="where to draw the first two tables")
    arguments = parser.parse_args()
    shifted = shares(200)
    print("A cluster's share of the pushed label (1,000 users, a tenth of them ones, alpha .1, theta .5)\n")
    print("liars   exchange  expected   alone  expected   ratio of shifts")
    noisy = shifted[0][2]
    for fraction, copied, expected, alone, expected_alone in shifted:
        ratio = f"{(copied - noisy) / (alone - noisy):.2f}" if fraction else ""
        print(f"{fraction:5.2f}  {copied:9.4f} {expected:9.4f} {alone:7.4f} {expected_alone:9.4f}   {ratio}")
    name = "digits, odd or even, 12 clusters"
    lost = accuracies([World.of(*PROBLEMS[name], seed) for seed in range(arguments.seeds)])
    print(f"\nTest accuracy with liars among all users ({name}, alpha .1, flips undone)\n")
    print("liars   exchange            alone")
    for fraction, copied, error, alone, error_alone in lost:
        print(f"{fraction:5.2f}   {copied:.3f} +- {error:.3f}   {alone:.3f} +- {error_alone:.3f}")
    print("\nTest accuracy of a learner who doubts clusters that stand out, by learner.robust\n")
    print(f"{'':40}{'liars':18}" + "".join(f"{robust:>8g}" for robust in ROBUST))
    for name, (data, count) in PROBLEMS.items():
        worlds = [World.of(data, count, seed) for seed in range(arguments.seeds)]
        for who in ("nobody", "one cluster", "a fifth of all"):
            row = []
            for robust in ROBUST:
                found = []
                for world in worlds:
                    liars = world.targeted() if who == "one cluster" else world.spread(0.2 if who[0] == "a" else 0.0)
                    found.append(world.accuracy(world.reports(liars), robust))
                row.append(float(np.mean(found)))
            print(f"{name if who == 'nobody' else '':40}{who:18}" + "".join(f"{mean:8.3f}" for mean in row))
    if arguments.plot:
        draw(arguments.plot, shifted, lost)


def draw(path: str, shifted: list[tuple[float, ...]], lost: list[tuple[float, ...]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    fractions = np.linspace(0, FRACTIONS[-1], 100)
    noisy = shifted[0][2]
    for column, formula, name, colour in (
        (1, poisoned_share, "exchange", "C0"),
        (3, poisoned_share_alone, "randomized response", "C1"),
    ):
        left.plot(fractions, [formula(noisy, fraction) for fraction in fractions], colour, label=name)
        left.plot([row[0] for row in shifted], [row[column] for row in shifted], "o", color=colour)
        error = [row[column + 1] for row in lost]
        right.errorbar(
            [row[0] for row in lost], [row[column] for row in lost], error, fmt="o-", color=colour, label=name
        )
    left.set(xlabel="fraction of liars", ylabel="share of the pushed label", title="lines: formulas; points: measured")
    right.set(xlabel="fraction of liars", ylabel="test accuracy", title="digits, odd or even")
    left.legend()
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
