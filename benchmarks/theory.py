"""What the paper's theorems say about learning and about hardness, measured; one figure each.

    python benchmarks/theory.py --out theory            # minutes
    python benchmarks/theory.py --out theory --quick    # under a minute, with fewer and smaller points

Excess risk is that of log loss on synthetic data, exact given the model, since p(y|x) is known: the mean over test
examples of the divergence from p(.|x) to the model's prediction. The theorems bound bounded losses from above, at rates
1/sqrt(n) and phi + alpha; log loss is smooth around its minimum, so it may fall at the square of these rates and no
slower than the rates themselves. Both stand in the figures as reference lines through one of the points.
"""

import argparse
import math
import os
import time
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from p2p_labeldp.data import Dataset, kmeans_clusters, load
from p2p_labeldp.data.quality import phi
from p2p_labeldp.learning import Reports, fit_softmax, targets_of
from p2p_labeldp.mechanisms import Plan, SeededCoins, make_plan, release
from p2p_labeldp.mechanisms.coins import SeededRandomness
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.privacy import Parameters, account
from p2p_labeldp.scenario import Data, Learner

L2 = 1e-4
TESTS = 20_000
DATA_SEED = 1
Series = dict[str, list[float]]


def synthetic(users: int, **settings: float) -> Dataset:
    """Users from one world: the same centres and hypothesis whatever their number."""
    made = {"groups": 20, "dimensions": 4, "labels": 2, "spread": 0.5, "sharpness": 2.0} | settings
    fraction = min(max(TESTS / (users + TESTS), 0.01), 0.9)
    return load(Data(name="synthetic", users=users, test_fraction=fraction, **made), DATA_SEED)


def released(plan: Plan, labels: NDArray[np.int64], clusters: NDArray[np.int64], seed: int) -> Reports:
    """What the learner receives."""
    seen = release(plan, labels, clusters, SeededCoins(seed), SeededRandomness(np.random.default_rng(seed)))
    users, noisy = seen.rounds[0]
    return Reports(users, noisy.astype(np.int64), clusters, seen.shares)


def excess_risk(data: Dataset, plan: Plan, clusters: NDArray[np.int64], seed: int, correct: bool) -> float:
    """Of the model fitted to what was released: E_x of sum_y p(y|x) log(p(y|x) / model(y|x))."""
    settings = Learner(l2=L2, correct_flips=correct)
    found = targets_of(plan, settings, data.features, released(plan, data.labels, clusters, seed))
    model = fit_softmax(data.features[found.users], found.targets, L2, max_iterations=300, tolerance=1e-10)
    predicted = np.maximum(model.predict_proba(data.test_features), 1e-300)
    truth = data.test_conditional
    return float((truth * np.log(np.maximum(truth, 1e-300) / predicted)).sum(axis=1).mean())


def typical_excess(
    data: Dataset, plan: Plan, clusters: NDArray[np.int64], trials: int, *, correct: bool = True
) -> float:
    """The median: where little is left of the labels, a corrected loss can run away in single trials."""
    return float(np.median([excess_risk(data, plan, clusters, trial, correct) for trial in range(trials)]))


def exchanged(data: Dataset, alpha: float) -> Plan:
    """The peer-to-peer mechanism at a given alpha; what that costs is of no interest here."""
    return exchange_of(Parameters(alpha, 1.0, data.label_count))


def show(title: str, name: str, values: Sequence[float], series: Series) -> None:
    print(f"\n{title}")
    print(f"  {name:>10} " + " ".join(f"{label:>26}" for label in series))
    for place, value in enumerate(values):
        print(f"  {value:>10.4g} " + " ".join(f"{column[place]:>26.5g}" for column in series.values()), flush=True)


def lines(axes: Axes, values: Sequence[float], series: Series) -> None:
    for (label, column), marker in zip(series.items(), "os^vDP", strict=False):
        axes.plot(values, column, marker=marker, markersize=4, label=label)


def reference(axes: Axes, x: Sequence[float], y: Sequence[float], label: str, style: str) -> None:
    axes.plot(x, y, style, color="0.45", linewidth=1, label=label)


def save(figure: Figure, axes: Axes, out: Path, name: str, **settings: object) -> None:
    axes.set(**settings)
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=8)
    for suffix in ("png", "svg"):
        figure.savefig(out / f"{name}.{suffix}", dpi=130)
    print(f"  wrote {out / name}.png and .svg")


def canvas() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    return figure, figure.subplots()


def against_users(out: Path, quick: bool) -> None:
    counts = [1000, 3000, 10_000, 30_000] if quick else [1000, 3000, 10_000, 30_000, 100_000, 300_000]
    trials = 4 if quick else 10
    epsilon = 1.0
    series: Series = {"not private": [], "uniform_rr, beta = lambda": [], "cluster_rr, tau = .05": []}
    # A model from n labels is itself random: every trial takes fresh users of the same world.
    for users in counts:
        pool = synthetic(users * trials)
        parts = [subset(pool, slice(trial * users, (trial + 1) * users)) for trial in range(trials)]
        for name, kind, options in (
            ("not private", "none", {}),
            ("uniform_rr, beta = lambda", "uniform_rr", {}),
            ("cluster_rr, tau = .05", "cluster_rr", {"tau": 0.05}),
        ):
            found = []
            for part in parts:
                sizes = np.bincount(part.given_clusters)
                plan = make_plan(kind, epsilon=epsilon, labels=2, sizes=sizes.tolist(), **options)
                found.append(typical_excess(part, plan, part.given_clusters, 1))
            series[name].append(float(np.median(found)))
    show(f"Excess risk against the number of users, total epsilon {epsilon:g}", "users", counts, series)
    figure, axes = canvas()
    lines(axes, counts, series)
    first = series["uniform_rr, beta = lambda"][0]
    reference(axes, counts, [first * math.sqrt(counts[0] / n) for n in counts], "theorem's rate, n^-1/2", "--")
    reference(axes, counts, [first * counts[0] / n for n in counts], "its square, n^-1", ":")
    title = f"epsilon = {epsilon:g}, heterogeneity phi = {phi(pool.conditional, pool.given_clusters):.2f}"
    save(figure, axes, out, "excess-risk-users", xscale="log", yscale="log", xlabel="users n", ylabel="excess risk",
         title=title)  # fmt: skip


def subset(data: Dataset, rows: slice) -> Dataset:
    return Dataset(
        name=data.name,
        features=data.features[rows],
        labels=data.labels[rows],
        test_features=data.test_features,
        test_labels=data.test_labels,
        classes=data.classes,
        given_clusters=np.unique(data.given_clusters[rows], return_inverse=True)[1].reshape(-1).astype(np.int64),
        conditional=data.conditional[rows],
        test_conditional=data.test_conditional,
    )


def against_phi(out: Path, quick: bool) -> None:
    """One population, clustered more and more finely: phi falls, everything else stays."""
    users, trials = (20_000, 2) if quick else (200_000, 5)
    counts = [2, 4, 8, 16, 40, 100] if quick else [2, 4, 8, 16, 40, 100, 250]
    data = synthetic(users)
    epsilon, tau = 2.0, 0.01
    measured: list[float] = []
    series: Series = {"cluster_rr, tau = .01": [], "peer_to_peer, alpha = .02, corrected": []}
    for count in counts:
        clusters = kmeans_clusters(data.features, count, 20, DATA_SEED).assignment
        measured.append(phi(data.conditional, clusters))
        sizes = np.bincount(clusters)
        central = make_plan("cluster_rr", epsilon=epsilon, labels=2, sizes=sizes.tolist(), tau=tau)
        series["cluster_rr, tau = .01"].append(typical_excess(data, central, clusters, trials))
        series["peer_to_peer, alpha = .02, corrected"].append(
            typical_excess(data, exchanged(data, 0.02), clusters, trials)
        )
    show(f"Excess risk against phi, {users} users, total epsilon {epsilon:g} for cluster_rr", "phi", measured, series)
    figure, axes = canvas()
    lines(axes, measured, series)
    top = series["cluster_rr, tau = .01"][0]
    reference(axes, measured, [top * x / measured[0] for x in measured], "theorem's rate, phi", "--")
    reference(axes, measured, [top * (x / measured[0]) ** 2 for x in measured], "its square, phi^2", ":")
    save(figure, axes, out, "excess-risk-phi", xscale="log", yscale="log", xlabel="cluster heterogeneity phi",
         ylabel="excess risk", title=f"{users:,} users in {counts[0]} to {counts[-1]} k-means clusters")  # fmt: skip


def against_alpha(out: Path, quick: bool) -> None:
    users, trials = (20_000, 2) if quick else (200_000, 5)
    data = synthetic(users)
    clusters = kmeans_clusters(data.features, 100 if quick else 400, 20, DATA_SEED).assignment
    alphas = [0.005, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4]
    series: Series = {"peer_to_peer as in the paper": [], "with the flips corrected": []}
    for alpha in alphas:
        for name, correct in zip(series, (False, True), strict=True):
            series[name].append(typical_excess(data, exchanged(data, alpha), clusters, trials, correct=correct))
    show(f"Excess risk against alpha, {users} users", "alpha", alphas, series)
    figure, axes = canvas()
    lines(axes, alphas, series)
    top, last = series["peer_to_peer as in the paper"][-1], alphas[-1]
    reference(axes, alphas, [top * x / last for x in alphas], "theorem's rate, alpha", "--")
    reference(axes, alphas, [top * (x / last) ** 2 for x in alphas], "its square, alpha^2", ":")
    title = f"{users:,} users, phi = {phi(data.conditional, clusters):.2f}, theta = 1"
    save(figure, axes, out, "excess-risk-alpha", xscale="log", yscale="log", xlabel="flip probability alpha",
         ylabel="excess risk", title=title)  # fmt: skip


def against_epsilon(out: Path, quick: bool) -> None:
    users, trials = (20_000, 3) if quick else (100_000, 10)
    data = synthetic(users)
    clusters = kmeans_clusters(data.features, 60, 20, DATA_SEED).assignment
    sizes = np.bincount(clusters)
    epsilons = [0.1, 0.25, 0.5, 1.0, 2.0, 4.0]
    kinds = {
        "uniform_rr, beta = lambda": ("uniform_rr", {}),
        "cluster_rr, tau = .05": ("cluster_rr", {"tau": 0.05}),
        "rr_with_prior": ("rr_with_prior", {}),
    }
    series: Series = {name: [] for name in kinds}
    for epsilon in epsilons:
        for name, (kind, options) in kinds.items():
            plan = make_plan(kind, epsilon=epsilon, labels=2, sizes=sizes.tolist(), **options)
            series[name].append(typical_excess(data, plan, clusters, trials))
    show(f"Excess risk against total epsilon, {users} users", "epsilon", epsilons, series)
    figure, axes = canvas()
    lines(axes, epsilons, series)
    uniform, heterogeneity = series["uniform_rr, beta = lambda"][3], phi(data.conditional, clusters)
    residual = [heterogeneity / (1 + math.expm1(epsilon) * heterogeneity) for epsilon in epsilons]
    scale = series["cluster_rr, tau = .05"][-1] / residual[-1]
    reference(axes, epsilons, [uniform / e for e in epsilons], "uniform_rr's theorem, 1/epsilon", "--")
    reference(axes, epsilons, [uniform / e**2 for e in epsilons], "its square", ":")
    reference(axes, epsilons, [scale * r for r in residual], "cluster_rr's residual term", "-.")
    save(figure, axes, out, "excess-risk-epsilon", xscale="log", yscale="log", xlabel="total epsilon",
         ylabel="excess risk", title=f"{users:,} users, 60 clusters, phi = {heterogeneity:.2f}")  # fmt: skip


def association(kind: str, options: dict[str, float], epsilon: float, size: int, labels: int, sets: int) -> float:
    """precision * recall * e^-epsilon, over random data sets of the proof: each cluster has ``size`` distinct labels.

    The model says (c, y) wherever a noisy label y was released in cluster c.
    """
    clusters_count = 200
    clusters = np.repeat(np.arange(clusters_count), size)
    plan = make_plan(kind, epsilon=epsilon, labels=labels, sizes=[size] * clusters_count, **options)
    hits = said = 0
    for seed in range(sets):
        generator = np.random.default_rng(seed)
        true = generator.permuted(np.tile(np.arange(labels), (clusters_count, 1)), axis=1)[:, :size]
        noisy = released(plan, true.ravel(), clusters, seed).labels
        model, truth = (np.zeros((clusters_count, labels), dtype=bool) for _ in range(2))
        model[clusters, noisy] = True
        truth[clusters, true.ravel()] = True
        hits += int((model & truth).sum())
        said += int(model.sum())
    precision, recall = hits / said, hits / (sets * clusters_count * size)
    return precision * recall * math.exp(-epsilon)


def label_association(out: Path, quick: bool) -> None:
    labels, sets = 50, 3 if quick else 30
    epsilons = [0.5, 1.0, 2.0, 4.0, 6.0] if quick else [0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]
    kinds: dict[str, tuple[str, dict[str, float]]] = {
        "uniform_rr": ("uniform_rr", {}),
        "cluster_rr, tau = .01": ("cluster_rr", {"tau": 0.01}),
        "lambda = 1, tau = 0": ("centralized", {"tau": 0.0, "lambda_": 1.0}),
        "rr_with_prior": ("rr_with_prior", {}),
    }
    sizes = (2, 5, 10)
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    panels = figure.subplots(1, len(sizes), sharey=True)
    worst = 0.0
    for axes, size in zip(panels, sizes, strict=True):
        bound = size / (labels - size)
        series = {
            name: [association(kind, options, epsilon, size, labels, sets) for epsilon in epsilons]
            for name, (kind, options) in kinds.items()
        }
        worst = max(worst, *(value / bound for column in series.values() for value in column))
        show(f"Label association, K = {labels}, s = {size}: bound s/(K-s) = {bound:.4f}", "epsilon", epsilons, series)
        lines(axes, epsilons, series)
        axes.axhline(bound, color="0.45", linestyle="--", linewidth=1, label="s / (K - s)")
        axes.set(yscale="log", xlabel="total epsilon", title=f"s = {size}, K = {labels}")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("precision * recall * e^-epsilon")
    panels[-1].legend(fontsize=7, loc="lower left")
    for suffix in ("png", "svg"):
        figure.savefig(out / f"label-association.{suffix}", dpi=130)
    print(f"  the largest is {worst:.3f} of its bound; wrote {out / 'label-association'}.png and .svg")


def subsampling(out: Path, quick: bool) -> None:
    """Randomized response on {0, 1, nothing} beside the exchange, both with reports kept at rate theta."""
    size, alpha = 500, 0.1
    delta, draws = 1 / size**2, 10**6
    thetas = [0.02, 0.05, 0.1, 0.25, 0.5, 1.0]
    local = math.log((1 - alpha) / alpha)
    series: Series = {"without exchange": [], "without exchange, measured": [], "with exchange": []}
    generator = np.random.default_rng(0)
    for theta in thetas:
        # theta * max(0, (1-alpha) - e^epsilon alpha) = delta
        series["without exchange"].append(math.log((1 - alpha - delta / theta) / alpha))
        said_one = [generator.binomial(draws, theta * chance) for chance in (alpha, 1 - alpha)]
        series["without exchange, measured"].append(math.log(said_one[1] / said_one[0]))
        accountant = account("learner", Parameters(alpha=alpha, theta=theta), cluster_size=size)
        series["with exchange"].append(accountant.get_epsilon(delta).epsilon)
    show(f"Subsampling, n = {size}, alpha = {alpha:g}, delta = 1/n^2; the flips alone give {local:.4f}", "theta",
         thetas, series)  # fmt: skip
    figure, axes = canvas()
    axes.plot(thetas, series["without exchange"], marker="s", markersize=4, label="without exchange, at delta = 1/n²")
    axes.plot(thetas, series["without exchange, measured"], "x", label="without exchange, log ratio over 10⁶ draws")
    axes.plot(
        thetas, series["with exchange"], marker="o", markersize=4, label="with exchange (learner), at delta = 1/n²"
    )
    axes.axhline(local, color="0.45", linestyle="--", linewidth=1, label="the flips alone")
    save(figure, axes, out, "subsampling", xscale="log", ylim=(0, 1.15 * local), xlabel="share of reports sent, theta",
         ylabel="epsilon", title=f"clusters of {size}, alpha = {alpha:g}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("theory"), help="folder for the figures")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller points: under a minute")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    for part in (against_users, against_phi, against_alpha, against_epsilon, label_association, subsampling):
        began = time.perf_counter()
        part(arguments.out, arguments.quick)
        print(f"  {time.perf_counter() - began:.1f} s")
    print(f"\n{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
