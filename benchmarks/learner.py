"""How much softmax regression costs beside scikit-learn's saga, at equal test accuracy on MNIST.

    python benchmarks/learner.py [--data-dir DIR] [--times 3]      about ten minutes

Both solve the same problem: 60,000 digits as float32 pixels in [0, 1], the same l2, no penalty of the intercept. The
target is the accuracy on the 10,000 test digits of our learner run as the engines run it, less 0.0005 (five
digits). saga is given the least number of passes over the data, each time from the start, that reaches the target; the
time of that run alone counts, not of the tries before it. Two ratios follow:

* to the finish: saga stopped at the target, ours run to its own stopping rule. Unfavourable to ours.
* to the target: ours too is given the least number of iterations that reaches the target.

scikit-learn's lbfgs, at its default settings, stands beside them for orientation. Every figure is CPU time of the fit
alone, one thread, in a process of its own, best of several taken in turn; memory is what the fit adds at its peak to
a process that already holds the data.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import sys
import time
import warnings
from functools import partial
from pathlib import Path

from turns import Figures, apart, quickest

L2 = 1e-4
# Test digits that may be wrong beyond those of ours run to the finish, as a share.
SLACK = 0.0005
PASSES = (5, 10, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200)
# As many iterations as the engines allow.
WHOLE = 100
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def measure(what: str, passes: int, data_dir: Path | None) -> Figures:
    """Fit once in this process: CPU seconds, test accuracy, iterations, bytes of memory."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    from p2p_labeldp.data import load
    from p2p_labeldp.learning import fit_softmax, one_hot
    from p2p_labeldp.scenario import Data

    data = load(Data(name="mnist"), seed=0, data_dir=data_dir)
    strength = 1 / (L2 * len(data.labels))
    before = _reset_peak()
    began = time.process_time()
    if what == "ours":
        model = fit_softmax(data.features, one_hot(data.labels, 10), L2, passes)
        seconds, iterations = time.process_time() - began, model.iterations
        predicted = model.predict(data.test_features)
    else:
        settings = {"max_iter": passes, "tol": 0.0} if what == "saga" else {}
        theirs = LogisticRegression(solver=what, C=strength, random_state=0, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs.fit(data.features, data.labels)
        seconds, iterations = time.process_time() - began, int(theirs.n_iter_.max())
        predicted = theirs.predict(data.test_features)
    accuracy = float((predicted == data.test_labels).mean())
    return {
        "seconds": seconds,
        "accuracy": accuracy,
        "iterations": iterations,
        "before": before,
        "peak": _peak(),
        "features": float(data.features.nbytes),
    }


def _peak() -> float:
    """The largest resident set so far, in bytes; since the last reset where that is possible."""
    status = Path("/proc/self/status")
    if status.exists():
        return 1024.0 * int(status.read_text().split("VmHWM:")[1].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def _reset_peak() -> float:
    """Forget the peak of loading the data, which is higher than that of most fits; Linux only."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def fitted(what: str, passes: int, data_dir: Path | None) -> Figures:
    """The same in a new process."""
    where = [] if data_dir is None else ["--data-dir", data_dir]
    found: Figures = apart(__file__, what, passes, *where, environment=os.environ | ONE_THREAD)
    return found


def passes_needed(what: str, target: float, data_dir: Path | None) -> int:
    """The least number of passes at which the test accuracy is ``target`` or more."""

    def reached(passes: int) -> bool:
        accuracy = fitted(what, passes, data_dir)["accuracy"]
        print(f"{what}, {passes:>3} passes: {accuracy:.4f}", file=sys.stderr)
        return accuracy >= target

    failed = 0
    for passes in PASSES:
        if reached(passes):
            # Between the tries there may be a smaller number that does.
            return next((between for between in range(failed + 1, passes) if reached(between)), passes)
        failed = passes
    raise SystemExit(f"{what} has not reached {target:.4f} after {PASSES[-1]} passes")


def table(times: int, data_dir: Path | None) -> None:
    target = fitted("ours", WHOLE, data_dir)["accuracy"] - SLACK
    saga, early = (passes_needed(what, target, data_dir) for what in ("saga", "ours"))
    rows = {
        "ours, to the finish": ("ours", WHOLE),
        "ours, to the target": ("ours", early),
        "saga, to the target": ("saga", saga),
        "lbfgs, default": ("lbfgs", WHOLE),
    }
    best = quickest(times, {name: partial(fitted, what, passes, data_dir) for name, (what, passes) in rows.items()})
    print(f"softmax regression on MNIST, l2 = {L2:g}, one thread (CPU; best of {times}); target {target:.4f}")
    print(f"{'':>20} {'iterations':>10} {'accuracy':>9} {'seconds':>8} {'added MiB':>10} {'peak MiB':>9}")
    for name, found in best.items():
        print(
            f"{name:>20} {found['iterations']:>10.0f} {found['accuracy']:>9.4f} {found['seconds']:>8.2f} "
            f"{(found['peak'] - found['before']) / 2**20:>10.0f} {found['peak'] / 2**20:>9.0f}"
        )
    slow = best["saga, to the target"]["seconds"]
    print(f"the training features alone take {best['saga, to the target']['features'] / 2**20:.0f} MiB")
    print(f"saga over ours, to the finish: {slow / best['ours, to the finish']['seconds']:.1f}")
    print(f"saga over ours, to the target: {slow / best['ours, to the target']['seconds']:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--measure", nargs=2, metavar=("WHAT", "PASSES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure[0], int(options.measure[1]), options.data_dir)))
    else:
        table(max(1, options.times), options.data_dir)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
