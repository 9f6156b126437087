"""DP-SGD's defaults on synthetic data: how much better another reach, batch or number of passes would do.

    python benchmarks/dp_sgd.py            # minutes
    python benchmarks/dp_sgd.py --quick    # one world

No default may come from the data sets that figures are drawn of. The worlds here are Gaussian groups with labels from a
linear hypothesis, of several sizes, dimensions, numbers of labels and scales of the features. Each line is one choice;
its figure is test accuracy over that of the best hypothesis, a mean over the worlds, at each epsilon.
"""

import argparse
import os
from dataclasses import replace

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from p2p_labeldp.data import Dataset, load
from p2p_labeldp.learning.dp_sgd import fit_dp_sgd
from p2p_labeldp.mechanisms.coins import SeededRandomness
from p2p_labeldp.mechanisms.dp_sgd import BATCH_SHARE, EPOCHS, REACH, plan_steps
from p2p_labeldp.scenario import Data

WORLDS = (
    Data(name="synthetic", users=5_000, groups=20, dimensions=10, labels=2, sharpness=4.0),
    Data(name="synthetic", users=20_000, groups=50, dimensions=100, labels=10, sharpness=6.0),
    Data(
        name="synthetic", users=20_000, groups=50, dimensions=100, labels=10, sharpness=20.0, separation=0.3, spread=0.1
    ),
    Data(name="synthetic", users=20_000, groups=100, dimensions=500, labels=5, sharpness=6.0),
)
EPSILONS = (0.1, 0.5, 2.0)
REACHES = (3.0, 10.0, 30.0, 100.0, 300.0)


def score(data: Dataset, epsilon: float, reach: float, epochs: float, share: float) -> float:
    """Test accuracy over that of the best hypothesis."""
    count = len(data.labels)
    steps = plan_steps(count, epsilon=epsilon, delta=1e-5, epochs=epochs, batch_size=max(1, round(share * count)))
    weights = (data.features.shape[1] + 1) * data.label_count
    rate = steps.rate_for(weights, steps.sampling_rate * count) * reach / REACH
    chosen = replace(steps, learning_rate=rate)
    model = fit_dp_sgd(data.features, data.labels, data.label_count, chosen, SeededRandomness(np.random.default_rng(1)))
    best = float((data.test_conditional.argmax(axis=1) == data.test_labels).mean())
    return model.accuracy(data.test_features, data.test_labels) / best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    worlds = [load(world, 1) for world in (WORLDS[:1] if quick else WORLDS)]
    choices = [(reach, EPOCHS, BATCH_SHARE) for reach in REACHES]
    choices += [(REACH, epochs, BATCH_SHARE) for epochs in (3.0, 30.0)]
    choices += [(REACH, EPOCHS, share) for share in (1 / 30, 1 / 3)]
    print(f"{'reach':>6} {'passes':>7} {'batch':>6}  " + " ".join(f"{f'epsilon {each:g}':>12}" for each in EPSILONS))
    for reach, epochs, share in choices:
        found = [np.mean([score(data, each, reach, epochs, share) for data in worlds]) for each in EPSILONS]
        print(f"{reach:>6g} {epochs:>7g} {share:>6.3f}  " + " ".join(f"{each:>12.4f}" for each in found), flush=True)


if __name__ == "__main__":
    main()
