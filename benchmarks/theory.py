"""What the paper states about learning, privacy and hardness, measured: slopes with intervals and a verdict for each.

    python benchmarks/theory.py --seed 1                        # about two minutes
    python benchmarks/theory.py --quick                         # fewer trials: under half a minute
    python benchmarks/theory.py --seeds 1 2 --page docs/theory.md   # the page's tables anew

**The loss is one that the theorems cover**: bounded, and minimised exactly. Hypotheses are thresholds on [0, 1]
(h_t(x) = 1 for x > t, dimension 1), the loss is w1 for a missed label 1 and w0 for a missed label 0, both in 0..1. So
the minimiser over the noisy data is one pass over sorted examples, and the excess risk of a threshold is known in
closed form: p(1|x) lies g above the decision boundary w0/(w0+w1) right of one half and g below it to the left, and a
threshold that is off by u costs (w0+w1) g u.

**Theorems bound the worst distribution**, so the measured quantity is the largest mean excess risk over margins g. A
bound C x^r is *attained* where the slope of log risk against log x is r, *holds, and more* where risk is smaller by a
power on the side that the bound is about (many users, small alpha, small epsilon), and *refuted over this range* where
the whole interval of the slope is on the wrong side of r. Intervals are 95 % percentile bootstraps over trials.
Exact quantities have no interval.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from rates import RATES, Setting, distortion_bound, exchanged_epsilon_rate
from scipy.special import logsumexp

from p2p_labeldp.data.quality import phi as heterogeneity
from p2p_labeldp.mechanisms import Plan, SeededCoins, make_plan, release
from p2p_labeldp.mechanisms.algorithm_1 import noisy_shares, renormalised
from p2p_labeldp.mechanisms.coins import SeededRandomness
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.privacy import Parameters, View, account
from p2p_labeldp.privacy.paper import centralized_epsilon, centralized_epsilon_as_printed, lemma_epsilon, theorem_alpha

Floats = NDArray[np.float64]
TOLERANCE = 0.1  # in a slope: ranges are finite, and logarithms are left out of rates
RESAMPLES = 400
EQUAL = (1.0, 1.0)
UNEQUAL = (1 / 3, 1.0)  # flips move this loss's decisions, while the zero-one loss tolerates them

UNPROVED = (
    ("Peer-to-peer utility (Theorem 4)", "stated; the supplement has no proof"),
    ("Corollaries 1 and 2", "stated; follow from Theorem 2 by arithmetic that is not printed"),
    (
        "Peer-to-peer with s >= 1/(phi epsilon^2): sqrt(d/(epsilon n)) + phi",
        "stated as a combination of Theorems 3 and 4",
    ),
    ("Technical lemma (1 + s/x)^(s x^a) <= e^(2a-1) + 3/x^a", "stated without proof"),
    ("What one peer sees: log((1-alpha)/alpha), and (0, 1/s)", '"straightforward to show"'),
    ("Centralized privacy (Theorem 1)", "its proof takes the histogram's sensitivity to be 1/n; it is 2/n"),
)


@dataclass(frozen=True)
class Row:
    """One line of the verdict table."""

    statement: str
    varied: str
    expected: str
    measured: str
    verdict: str

    def line(self) -> str:
        return f"| {self.statement} | {self.varied} | {self.expected} | {self.measured} | **{self.verdict}** |"


HEAD = "| statement | varied | says | measured | verdict |\n|---|---|---|---|---|"


class Bench:
    """How much to do, and the seed of everything random."""

    def __init__(self, seed: int, quick: bool) -> None:
        self.seed = seed
        self.trials = 40 if quick else 160
        self.quick = quick
        self._next = 0

    def coins(self) -> int:
        """A seed that nothing else has."""
        self._next += 1
        return self.seed * 10_000_000 + self._next


# Learning thresholds


def margin_risk(
    bench: Bench, plan: Plan, users: int, clusters: int, margin: float, weights: tuple[float, float],
    centre: float = 0.5, undo: float = 0.0,
) -> Floats:  # fmt: skip
    """The excess risk of each trial: users, labels, the mechanism and the minimiser, all afresh.

    ``undo`` is beta: the share of uniform draws that the modified loss undoes.
    """
    w0, w1 = weights
    boundary = w0 / (w0 + w1)
    found = np.empty(bench.trials)
    for trial in range(bench.trials):
        seed = bench.coins()
        random = np.random.default_rng(seed)
        x = np.sort(random.random(users))
        labels = (random.random(users) < boundary + np.where(x > centre, margin, -margin)).astype(np.int64)
        groups = np.minimum((x * clusters).astype(np.int64), clusters - 1)
        groups = np.unique(groups, return_inverse=True)[1].astype(np.int64)
        seen = release(plan, labels, groups, SeededCoins(seed), SeededRandomness(random))
        who, noisy = seen.rounds[0]
        ones = (noisy - undo / 2) / (1 - undo)  # the soft target of label 1
        # Thresholds below the first example, between any two and above the last.
        loss = np.concatenate([[0.0], np.cumsum(w1 * ones - w0 * (1 - ones))])
        place = int(loss.argmin())
        edges = np.concatenate([[0.0], x[who], [1.0]])
        threshold = (edges[place] + edges[place + 1]) / 2
        found[trial] = (w0 + w1) * margin * abs(threshold - centre)
    return found


def worst_margin(measure: Callable[[float], Floats], margins: Sequence[float]) -> Floats:
    """The trials at the margin whose mean is largest."""
    return max((measure(margin) for margin in margins), key=lambda trials: float(trials.mean()))


def slope(x: Sequence[float], trials: Sequence[Floats], seed: int) -> tuple[float, float, float]:
    """Of log mean against log x, with its 95 % interval by resampling trials."""
    logs = np.log(np.asarray(x))
    random = np.random.default_rng(seed)

    def fit(means: Floats) -> float:
        return float(np.polyfit(logs, np.log(np.maximum(means, 1e-12)), 1)[0])

    resampled = [fit(np.array([random.choice(each, len(each)).mean() for each in trials])) for _ in range(RESAMPLES)]
    low, high = np.percentile(resampled, [2.5, 97.5])
    return fit(np.array([each.mean() for each in trials])), float(low), float(high)


def verdict(rate: float, low: float, high: float, small: bool = False) -> str:
    """Of a bound on risk of order x^rate for large x, or for ``small`` x: a slope too high, or too low, refutes it."""
    above, below = low > rate + TOLERANCE, high < rate - TOLERANCE
    if below if small else above:
        return "refuted over this range"
    return "holds, and more" if above or below else "holds, attained"


def slope_row(
    bench: Bench, statement: str, varied: str, rate: float, x: Sequence[float], trials: Sequence[Floats],
    small: bool = False,
) -> Row:  # fmt: skip
    found, low, high = slope(x, trials, bench.seed)
    shown = f"{found:.2f} [{low:.2f}, {high:.2f}]"
    span = f"{varied} from {min(x):.3g} to {max(x):.3g}"
    return Row(statement, span, f"slope {rate:g}", shown, verdict(rate, low, high, small))


def margins_of(scale: float, weights: tuple[float, float]) -> list[float]:
    """Around the hardest margin, as far as there are such probabilities."""
    most = min(weights) / sum(weights)
    return sorted({min(most, factor * scale) for factor in (0.5, 1.0, 2.0, 4.0)})


def uniform(epsilon: float) -> tuple[Plan, float]:
    """Randomized response, and beta."""
    plan = make_plan("uniform_rr", labels=2, sizes=[1], epsilon=epsilon)
    return plan, 2 * plan.parameters.alpha


def users_and_epsilon(bench: Bench) -> list[Row]:
    """Corollary 1, and Theorem 2 with beta = lambda."""
    rows, counts = [], [1000, 3000, 10_000, 30_000]
    for kind, epsilon in (("not private", math.inf), ("Corollary 1 (uniform randomized response)", 1.0)):
        plan, beta = (
            uniform(min(epsilon, 700.0)) if epsilon < math.inf else (make_plan("none", labels=2, sizes=[1]), 0.0)
        )
        trials = []
        for users in counts:
            scale = 1 / (math.sqrt(users) * (1 - beta))

            def measure(margin: float, users: int = users, plan: Plan = plan, beta: float = beta) -> Floats:
                return margin_risk(bench, plan, users, 1, margin, EQUAL, undo=beta)

            trials.append(worst_margin(measure, margins_of(scale, EQUAL)))
        rows.append(slope_row(bench, kind, "n", -0.5, counts, trials))
    epsilons, users, trials = [0.125, 0.25, 0.5, 1.0], 20_000, []
    for epsilon in epsilons:
        plan, beta = uniform(epsilon)

        def risk(margin: float, plan: Plan = plan, beta: float = beta) -> Floats:
            return margin_risk(bench, plan, users, 1, margin, EQUAL, undo=beta)

        trials.append(worst_margin(risk, margins_of(1 / (math.sqrt(users) * (1 - beta)), EQUAL)))
    rows.append(
        slope_row(bench, "Corollary 1 (uniform randomized response)", "epsilon", -1.0, epsilons, trials, small=True)
    )
    return rows


def exchange_terms(bench: Bench) -> list[Row]:
    """Theorem 4: sqrt(d/(theta n)) + phi + alpha, each term where the others are small."""
    name = "Theorem 4 (peer-to-peer utility)"
    rows, users, thetas, trials = [], 30_000, [0.03, 0.1, 0.3, 1.0], []
    for theta in thetas:
        plan = exchange_of(Parameters(0.0, theta))
        measure = _measure(bench, plan, users, 20, EQUAL)
        trials.append(worst_margin(measure, margins_of(1 / math.sqrt(theta * users), EQUAL)))
    rows.append(slope_row(bench, name, "theta n", -0.5, [theta * users for theta in thetas], trials))

    # phi: the boundary cuts a third off one cluster. Finer clusters, smaller phi.
    phis, trials = [], []
    for clusters in (3, 9, 27, 81):
        centre, found = cut_cluster(clusters)
        phis.append(found)
        few = Bench(bench.coins(), True)
        trials.append(margin_risk(few, exchange_of(Parameters(0.0, 1.0)), 50_000, clusters, 0.4, EQUAL, centre))
    rows.append(slope_row(bench, name, "phi", 1.0, phis, trials, small=True))

    alphas, trials = [0.02, 0.05, 0.1, 0.2], []
    for alpha in alphas:
        measure = _measure(Bench(bench.coins(), True), exchange_of(Parameters(alpha, 1.0)), 100_000, 20, UNEQUAL)
        # Flips move p by alpha (1 - 2p): margins below that are decided wrongly.
        trials.append(worst_margin(measure, [factor * alpha * 0.5 for factor in (0.5, 0.8, 1.0)]))
    rows.append(slope_row(bench, f"{name}, unequal weights", "alpha", 1.0, alphas, trials, small=True))
    counts, trials = [1000, 3000, 10_000, 30_000], []
    for users in counts:
        measure = _measure(bench, exchange_of(Parameters(0.2, 1.0)), users, 20, EQUAL)
        trials.append(worst_margin(measure, margins_of(1 / (math.sqrt(users) * 0.6), EQUAL)))
    rows.append(slope_row(bench, f"{name}, zero-one loss, alpha = .2: a residual", "n", 0.0, counts, trials))
    return rows


def cut_cluster(clusters: int) -> tuple[float, float]:
    """A boundary that cuts a third off the middle one of so many clusters, and phi at the margin .4."""
    centre = (clusters // 2 + 1 / 3) / clusters
    x = (np.arange(20_000) + 0.5) / 20_000
    p = 0.5 + np.where(x > centre, 0.4, -0.4)
    return centre, heterogeneity(np.stack([1 - p, p], axis=1), (x * clusters).astype(np.int64))


def _measure(
    bench: Bench, plan: Plan, users: int, clusters: int, weights: tuple[float, float]
) -> Callable[[float], Floats]:
    return lambda margin: margin_risk(bench, plan, users, clusters, margin, weights)


def centralized_residual(bench: Bench) -> list[Row]:
    """Corollary 2's residual in epsilon: K^2 phi / (1 + (e^epsilon - 1) phi), with tau = phi as it asks for."""
    clusters, users = 9, 50_000
    centre, phi = cut_cluster(clusters)
    epsilons, risks = [0.5, 1.0, 2.0, 3.0], []
    for epsilon in epsilons:
        chance = 1 / (1 + math.expm1(epsilon) * phi)
        options = {"sigma": 1 / epsilon, "tau": phi, "lambda_": chance}
        plan = make_plan("centralized", labels=2, sizes=[users // clusters], **options)
        few = Bench(bench.coins(), True)
        risks.append(float(margin_risk(few, plan, users, clusters, 0.4, EQUAL, centre).mean()))
    allowed = [4 * phi / (1 + math.expm1(epsilon) * phi) for epsilon in epsilons]
    most = max(risk / bound for risk, bound in zip(risks, allowed, strict=True))
    shown = f"at most {most:.3f} of it; risk {risks[0]:.4f} to {risks[-1]:.4f}"
    told = "holds" if most <= 1 else "refuted"
    formula = "K^2 phi/(1+(e^epsilon-1) phi)"
    return [Row("Corollary 2 (cluster-based), residual", "epsilon from 0.5 to 3", formula, shown, told)]


# Distortion


def distortion(bench: Bench) -> list[Row]:
    """The lemma on psi, 2 K tau + 2 sqrt(2) K sigma / s: clusters of one label, where clipping moves most."""
    labels, clusters = 10, 400
    rows = []

    def psi(tau: float, sigma: float, size: int) -> Floats:
        counts = np.zeros((clusters, labels), dtype=np.int64)
        counts[:, 0] = size
        randomness = SeededRandomness(np.random.default_rng(bench.coins()))
        q = noisy_shares(counts, sigma, tau, randomness)
        truth = counts / size
        return np.asarray(np.abs(q - truth).sum(axis=1))

    name = "Lemma on psi (distortion)"
    settings: list[tuple[str, float, list[float], list[Floats], list[float]]] = []
    taus = [0.003, 0.01, 0.03, 0.1]
    found = [psi(tau, 0.001, 1000) for tau in taus]
    settings.append(("tau", 1.0, taus, found, [distortion_bound(labels, tau, 0.001, 1000) for tau in taus]))
    sigmas = [1.0, 3.0, 10.0, 30.0]
    found = [psi(0.0, sigma, 1000) for sigma in sigmas]
    settings.append(("sigma", 1.0, sigmas, found, [distortion_bound(labels, 0.0, sigma, 1000) for sigma in sigmas]))
    sizes = [100, 300, 1000, 3000]
    found = [psi(0.0, 2.0, size) for size in sizes]
    settings.append(
        (
            "cluster size s",
            -1.0,
            [float(s) for s in sizes],
            found,
            [distortion_bound(labels, 0.0, 2.0, s) for s in sizes],
        )
    )
    for varied, rate, x, trials, bounds in settings:
        row = slope_row(bench, name, varied, rate, x, trials, small=rate > 0)
        most = max(float(each.mean()) / bound for each, bound in zip(trials, bounds, strict=True))
        verdict_ = row.verdict if most <= 1 else "refuted"
        rows.append(
            Row(name, row.varied, row.expected + ", and a bound", f"{row.measured}; {most:.2f} of the bound", verdict_)
        )
    return rows


# Privacy and hardness


def exchange_privacy(bench: Bench) -> list[Row]:
    """Theorem 3 and its lemma against the exact account, at their own alpha and delta = 1/s^2."""
    rows: list[Row] = []

    def exact(size: int, theta: float) -> tuple[float, float | None]:
        alpha = theorem_alpha(size, theta)
        assert alpha is not None, "inside the theorem's domain"
        delta = 1 / size**2
        stated = account(View.LEARNER, Parameters(alpha, theta), cluster_size=size, thorough=False).get_epsilon(delta)
        return stated.epsilon, lemma_epsilon(size, alpha, theta, delta)

    for varied, points in (
        ("cluster size s", [(12_000, 1.0), (100_000, 1.0)]),
        ("theta", [(1_000_000, 0.03), (1_000_000, 0.3)]),
    ):
        found = [exact(size, theta) for size, theta in points]
        orders = [exchanged_epsilon_rate(size, theta) for size, theta in points]
        most = max(epsilon / order for (epsilon, _), order in zip(found, orders, strict=True))
        below = all(lemma is None or epsilon <= lemma for epsilon, lemma in found)
        ends = [size if varied != "theta" else theta for size, theta in points]
        rows.append(
            Row("Theorem 3 (peer-to-peer privacy)", f"{varied} from {ends[0]:g} to {ends[-1]:g}",
                f"order {orders[0]:.3f} to {orders[-1]:.3f}",
                f"{found[0][0]:.4f} to {found[-1][0]:.4f} (exact): at most {most:.3f} of it",
                "holds" if below and most <= 1 else "refuted")
        )  # fmt: skip
    return rows


def centralized_privacy(bench: Bench) -> list[Row]:
    """Theorem 1's counterexample, exactly: 100 against 101 ones of 200 users, the event that all noisy labels are 0."""
    users, sigma, tau, chance, most = 200, 2.0, 0.05, 0.99, 120
    noise = np.arange(-most, most + 1)
    ratio = math.exp(-1 / sigma)
    mass = np.log((1 - ratio) / (1 + ratio)) + np.abs(noise) * math.log(ratio)
    both = (mass[:, None] + mass[None, :]).ravel()
    logs = []
    for ones in (100, 101):
        counts = np.stack([np.repeat(users - ones + noise, len(noise)), np.tile(ones + noise, len(noise))], axis=1)
        zero = chance * renormalised(counts / users, tau)[:, 0]
        logs.append(float(logsumexp(both + (users - ones) * np.log(zero + 1 - chance) + ones * np.log(zero))))
    found = abs(logs[0] - logs[1])
    printed, corrected = centralized_epsilon_as_printed(sigma, tau, chance), centralized_epsilon(sigma, tau, chance)
    shown = f"log ratio {found:.3f} (exact); corrected bound {corrected:.3f}"
    told = "refuted; corrected: holds" if printed < found <= corrected else "not refuted here"
    return [Row("Theorem 1 (centralized privacy)", "one label of 200", f"epsilon {printed:.3f}", shown, told)]


def subsampling(bench: Bench) -> list[Row]:
    """The remark that subsampling without exchange does not amplify."""
    thetas = (0.01, 0.1, 1.0)
    found = {
        make_plan("subsampled_rr", labels=2, sizes=[500], alpha=0.1, parameters=Parameters(0.0, theta)).stated.epsilon
        for theta in thetas
    }
    local = math.log(9)
    exchange = [
        account(View.LEARNER, Parameters(0.1, theta), cluster_size=500, thorough=False).get_epsilon(4e-6).epsilon
        for theta in thetas
    ]
    shown = f"{min(found):.3f} to {max(found):.3f}; with the exchange {exchange[0]:.3f} to {exchange[-1]:.3f}"
    told = "holds" if max(abs(each - local) for each in found) < 1e-9 else "refuted"
    what = "Remark: subsampling alone does not amplify"
    return [Row(what, "theta from 0.01 to 1", f"epsilon {local:.3f}", shown, told)]


def hardness(bench: Bench) -> list[Row]:
    """Theorem 5: precision * recall * e^-epsilon <= s/(K-s) on average over the proof's data sets."""
    labels, clusters, sets = 50, 200, 2 if bench.quick else 8
    most = 0.0
    for size in (2, 5, 10):
        groups = np.repeat(np.arange(clusters), size)
        for kind, options in (("uniform_rr", {}), ("cluster_rr", {"tau": 0.01}), ("rr_with_prior", {})):
            for epsilon in (0.5, 2.0, 4.0):
                plan = make_plan(kind, labels=labels, sizes=[size], epsilon=epsilon, **options)
                hits = said = 0
                for _ in range(sets):
                    random = np.random.default_rng(bench.coins())
                    true = random.permuted(np.tile(np.arange(labels), (clusters, 1)), axis=1)[:, :size].ravel()
                    seen = release(plan, true, groups, SeededCoins(bench.coins()), SeededRandomness(random))
                    model, truth = (np.zeros((clusters, labels), dtype=bool) for _ in range(2))
                    model[groups, seen.rounds[0][1]] = True
                    truth[groups, true] = True
                    hits, said = hits + int((model & truth).sum()), said + int(model.sum())
                found = hits / said * hits / (sets * clusters * size) * math.exp(-epsilon)
                most = max(most, found / (size / (labels - size)))
    told, varied = "holds" if most <= 1 else "refuted", "s = 2, 5, 10; epsilon = .5, 2, 4; K = 50"
    return [Row("Theorem 5 (hardness)", varied, "s/(K-s)", f"at most {most:.2f} of it", told)]


PARTS = (
    users_and_epsilon, exchange_terms, centralized_residual, distortion, exchange_privacy, centralized_privacy,
    subsampling, hardness,
)  # fmt: skip


def rows_of(seed: int, quick: bool) -> list[Row]:
    bench, found = Bench(seed, quick), []
    for part in PARTS:
        began = time.perf_counter()
        new = part(bench)
        found += new
        for row in new:
            print(row.line(), flush=True)
        print(f"  ({part.__name__}: {time.perf_counter() - began:.1f} s)", flush=True)
    return found


def rates_table() -> str:
    """Table 1 at two settings."""
    settings = (
        Setting(n=60_000, d=10, epsilon=0.5, phi=0.05, s=600),
        Setting(n=1_000_000, d=10, epsilon=0.1, phi=0.01, s=10_000),
    )
    head = "| mechanism | rate | conditions | " + " | ".join(
        f"n = {at.n:,}, d = {at.d:g}, epsilon = {at.epsilon:g}, phi = {at.phi:g}, s = {at.s:,}" for at in settings
    )
    lines = [head + " |", "|---" * (3 + len(settings)) + "|"]
    for rate in RATES:
        shown = ["does not apply" if (value := rate(at)) is None else f"{value:.3g}" for at in settings]
        lines.append(f"| {rate.name} | `{rate.formula}` | {rate.conditions} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def write_page(page: Path, tables: dict[int, list[Row]]) -> None:
    """Put the tables between their marks."""
    parts = {"rates": rates_table(), "unproved": "\n".join(f"- **{what}**: {why}." for what, why in UNPROVED)}
    for number, (seed, rows) in enumerate(tables.items(), 1):
        parts[f"verdicts-{number}"] = f"Seed {seed}:\n\n{HEAD}\n" + "\n".join(row.line() for row in rows)
    text = page.read_text(encoding="utf-8")
    for name, part in parts.items():
        text, count = re.subn(
            rf"(<!-- {name} -->\n).*?(\n<!-- end -->)",
            lambda found, part=part: found[1] + part + found[2],
            text,
            flags=re.S,
        )
        if count != 1:
            raise SystemExit(f"{page}: no place for {name}")
    page.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", "--seed", type=int, nargs="+", default=[1])
    parser.add_argument("--quick", action="store_true", help="fewer trials")
    parser.add_argument("--page", type=Path, help="a Markdown page whose tables are written anew")
    arguments = parser.parse_args()
    tables = {seed: rows_of(seed, arguments.quick) for seed in arguments.seeds}
    for what, why in UNPROVED:
        print(f"no proof: {what}: {why}")
    if arguments.page is not None:
        write_page(arguments.page, tables)


if __name__ == "__main__":
    main()
