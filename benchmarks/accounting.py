"""How long the exact account takes, beside the direct sum measured in the same run.

    python benchmarks/accounting.py            # a minute or two
    python benchmarks/accounting.py --large    # also clusters of a million users

The direct sum is what one would write first: point masses of scipy as matrices, a matrix product over N1 for every m,
then the hockey-stick sum at each epsilon of a bisection. It is given the windows on m that the account uses, and
its matrices are kept between epsilons, so it does nothing twice.
"""

import argparse
import math
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy import stats

from p2p_labeldp.privacy import Parameters, View, account
from p2p_labeldp.privacy.account import _delta, _delta_answer, _epsilon, _epsilon_answer
from p2p_labeldp.privacy.bounds import _blanket, _clones
from p2p_labeldp.privacy.reports import Reports
from p2p_labeldp.privacy.worst import worst_epsilon


def direct_sum(cluster_size: int, alpha: float, theta: float, delta: float) -> float:
    """epsilon at delta over every n1, both directions, by summing everything; good to 1e-9."""
    n = cluster_size
    counts = np.arange(n + 1)
    distributions = np.zeros((n + 1, n + 1))
    for ones in range(n + 1):
        stays = stats.binom.pmf(np.arange(ones + 1), ones, 1 - alpha)
        distributions[ones] = np.convolve(stays, stats.binom.pmf(np.arange(n - ones + 1), n - ones, alpha))
    low, high = stats.binom.ppf(1e-13, n, theta), stats.binom.isf(1e-13, n, theta)
    received = []
    for sent in range(int(low), int(high) + 1):
        weight = stats.binom.pmf(sent, n, theta)
        received.append(
            weight * (distributions @ stats.binom.pmf(counts[None, : sent + 1], sent, (counts / n)[:, None]))
        )
    table = np.concatenate(received, axis=1)
    zero, one = table[:-1], table[1:]

    def worst(epsilon: float, rows: np.ndarray) -> np.ndarray:
        grown = math.exp(epsilon)
        up = np.maximum(one[rows] - grown * zero[rows], 0).sum(axis=1)
        return np.maximum(up, np.maximum(zero[rows] - grown * one[rows], 0).sum(axis=1))

    left, right, rows = 0.0, math.log((1 - alpha) / alpha), np.arange(n)
    while right - left > 1e-9:
        middle = (left + right) / 2
        above = worst(middle, rows) > delta
        if above.any():
            # Only pairs above delta here can be the worst: a fair direct sum drops the others.
            left, rows = middle, rows[above]
        else:
            right = middle
    return right


def timed(task, repeat: int = 1) -> tuple[float, float]:
    """The result and the least seconds of a few repetitions."""
    seconds = math.inf
    for _ in range(repeat):
        _epsilon.cache_clear()
        _epsilon_answer.cache_clear()
        _delta.cache_clear()
        _delta_answer.cache_clear()
        _blanket.cache_clear()
        _clones.cache_clear()
        start = time.perf_counter()
        result = task()
        seconds = min(seconds, time.perf_counter() - start)
    return result, seconds


def search(cluster_size: int, alpha: float, theta: float, delta: float):
    """The account alone, without the figures that stand beside it."""
    reports = Reports(cluster_size - 1, cluster_size, cluster_size, theta, alpha, alpha)
    return worst_epsilon(reports, delta, math.log((1 - alpha) / alpha))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="also clusters of a million users")
    large = parser.parse_args().large

    print("Against the direct sum, cluster size 400, theta 0.5, every n1:")
    for alpha in (0.1, 0.02, 0.3):
        delta = 1 / 400**2
        slow, slow_seconds = timed(lambda a=alpha, d=delta: direct_sum(400, a, 0.5, d))
        found, seconds = timed(lambda a=alpha, d=delta: search(400, a, 0.5, d), repeat=5)
        print(
            f"  alpha {alpha:<5} direct {slow_seconds:7.3f} s   account {seconds * 1e3:7.1f} ms   "
            f"ratio 1/{slow_seconds / seconds:<6.0f} epsilon {found.value:.9f}, direct {slow:.9f}, "
            f"error bound {found.error_bound:.1e}"
        )

    print("Growth with the cluster size (searched completely unless it says bound):")
    print(f"  {'size':>8} {'alpha':>6} {'theta':>6} {'seconds':>9}  epsilon")
    sizes = (100, 1000, 2000, 10_000, 20_000)
    rows = [(n, alpha, theta) for n in sizes for alpha, theta in ((0.1, 0.5), (0.1, 1.0))]
    rows += [(2000, 0.45, 0.5), (20_000, 0.45, 1.0)]
    if large:
        rows += [(10**6, 0.1, 1.0), (10**6, 0.1, 0.5), (10**6, 0.4, 0.5)]
    for n, alpha, theta in rows:
        delta = 1 / n**2
        found, seconds = timed(lambda n=n, a=alpha, t=theta, d=delta: search(n, a, t, d))
        kind = "" if found.exact else f"  bound; searched {found.searched:.9f}"
        print(f"  {n:>8} {alpha:>6} {theta:>6} {seconds:>9.3f}  {found.value:.9f}{kind}", flush=True)
    if large:
        for theta in (1.0, 0.5):
            quick = account("learner", Parameters(alpha=0.1, theta=theta), cluster_size=10**6, thorough=False)
            answer, seconds = timed(lambda q=quick: q.get_epsilon(1e-12))
            print(
                f"  {10**6:>8} {0.1:>6} {theta:>6} {seconds:>9.3f}  {answer.epsilon:.9f}  {answer.method}, not thorough"
            )

    print("A run with 100 distinct cluster sizes (200 to 596), theta 0.5, with everything that stands beside:")
    from p2p_labeldp.privacy import account_clusters

    _, seconds = timed(lambda: account_clusters("learner", Parameters(alpha=0.1, theta=0.5), range(200, 600, 4), 1e-6))
    print(f"  {seconds:.2f} s")

    print("Ten labels, theta 1, delta 1/n^2: the bound alone, and with what a data set attains:")
    for n, alpha in ((1000, 0.6), (1000, 0.1), (20_000, 0.6), (20_000, 0.1)):
        flipped = Parameters(alpha, labels=10)
        quick = account("learner", flipped, cluster_size=n, thorough=False)
        whole = account("learner", flipped, cluster_size=n)
        _, seconds = timed(lambda a=quick, n=n: a.get_epsilon(1 / n**2), repeat=3)
        answer, thorough = timed(lambda a=whole, n=n: a.get_epsilon(1 / n**2))
        print(
            f"  {n:>8} {alpha:>6} {seconds:>9.3f} s, {thorough:>7.3f} s  epsilon {answer.epsilon:.6f}, "
            f"attained {answer.attained_epsilon:.6f}, first release "
            f"{whole.profile.bounds.first_release_epsilon(1 / n**2):.6f}",
            flush=True,
        )

    print("Flips for 100 cluster sizes (305 to 1,398), ten labels, theta 1, delta 1/305^2:")
    from p2p_labeldp.mechanisms.solve import flips

    sizes = [int(size) for size in np.linspace(305, 1398, 100)]
    for epsilon in (0.1, 0.5, 2.0):
        found, seconds = timed(lambda e=epsilon: flips(View.LEARNER, Parameters(0.0, labels=10), sizes, e, 1 / 305**2))
        print(f"  epsilon {epsilon:<4} alpha {found.alpha:.6f}, spent {found.epsilon:.6f}: {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
