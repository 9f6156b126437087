"""DP-SGD's defaults on synthetic data: how much better another reach, batch or number of passes would do.

    python benchmarks/dp_sgd.py            # minutes
    python benchmarks/dp_sgd.py --quick    # one world
    python benchmarks/dp_sgd.py --held-out # worlds of another seed, the defaults alone

No default may come from the data sets that figures are drawn of. The worlds here are Gaussian groups with labels from
a linear hypothesis, of several sizes, dimensions, numbers of labels and scales of the features; and pictures: random
fields with the spectrum of images, values from 0 to 1, each label with several smooth prototypes. ``strokes`` are
mostly 0 and nearly separable; ``scenes`` and ``fog`` are grey everywhere, so that a common mean is most of an
example's norm, and their labels are noisy. Each line is one choice; its figure is test accuracy over that of the best
hypothesis (pictures: over that of softmax regression without privacy), a mean over the worlds, at each epsilon.
"""

import argparse
import math
import os
from dataclasses import dataclass, replace

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from p2p_labeldp.data import load
from p2p_labeldp.learning import fit_softmax
from p2p_labeldp.learning.dp_sgd import fit_dp_sgd
from p2p_labeldp.mechanisms.coins import SeededRandomness
from p2p_labeldp.mechanisms.dp_sgd import BATCH_SHARE, EPOCHS, REACH, plan_steps
from p2p_labeldp.scenario import Data

GROUPS = {
    "small": Data(name="synthetic", users=5_000, groups=20, dimensions=10, labels=2, sharpness=4.0),
    "wide": Data(name="synthetic", users=20_000, groups=50, dimensions=100, labels=10, sharpness=6.0),
    "near": Data(
        name="synthetic", users=20_000, groups=50, dimensions=100, labels=10, sharpness=20.0, separation=0.3, spread=0.1
    ),
    "wider": Data(name="synthetic", users=20_000, groups=100, dimensions=500, labels=5, sharpness=6.0),
}
EPSILONS = (0.1, 0.5, 2.0)
REACHES = (3.0, 5.0, 10.0, 20.0, 30.0, 100.0)


@dataclass(frozen=True)
class World:
    features: np.ndarray
    labels: np.ndarray
    test_features: np.ndarray
    test_labels: np.ndarray
    label_count: int
    best: float
    """The accuracy that others are divided by."""


def groups(data: Data, seed: int) -> World:
    found = load(data, seed)
    best = float((found.test_conditional.argmax(axis=1) == found.test_labels).mean())
    return World(found.features, found.labels, found.test_features, found.test_labels, len(found.classes), best)


@dataclass(frozen=True)
class Pictures:
    """Pictures of 10 labels: ``side`` pixels a side in ``channels`` colours."""

    side: int
    channels: int
    prototypes: int
    """Of each label."""
    signal: float
    """A prototype's share beside what is the example's own."""
    smoothness: float
    """The prototypes' spectrum falls with this power of the frequency; the examples' own with the first."""
    sparse: bool

    def world(self, seed: int, users: int = 20_000, tests: int = 4_000, labels: int = 10) -> World:
        rng = np.random.default_rng(seed)
        prototypes = self._fields(rng, labels * self.prototypes, self.smoothness)
        which = rng.integers(labels * self.prototypes, size=users + tests)
        field = self._fields(rng, users + tests, 1.0)
        field += self.signal * prototypes[which]
        field /= math.sqrt(1 + self.signal**2)
        features = np.clip(field - 1, 0, 1) if self.sparse else np.clip(0.5 + 0.25 * field, 0, 1)
        drawn = which % labels
        train, test = slice(users), slice(users, None)
        model = fit_softmax(features[train], np.eye(labels)[drawn[train]], l2=1e-4)
        best = float((model.predict(features[test]) == drawn[test]).mean())
        return World(features[train], drawn[train], features[test], drawn[test], labels, best)

    def _fields(self, rng: np.random.Generator, count: int, power: float) -> np.ndarray:
        shape = (count, self.channels, self.side, self.side // 2 + 1)
        across, down = np.fft.fftfreq(self.side)[:, None], np.fft.rfftfreq(self.side)
        frequency = np.maximum(np.hypot(across, down), 1 / self.side)
        waves = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        if self.channels > 1:
            waves = 0.8 * waves[:, :1] + 0.6 * waves  # colours go together
        found = np.fft.irfft2(waves / frequency**power, s=(self.side, self.side))
        return (found / found.std()).reshape(count, -1).astype(np.float32)


PICTURES = {
    "strokes": Pictures(24, 1, 3, 1.0, 1.5, sparse=True),
    "scenes": Pictures(20, 3, 10, 0.4, 2.0, sparse=False),
    "fog": Pictures(28, 1, 3, 0.4, 2.0, sparse=False),
}


def score(world: World, epsilon: float, reach: float, epochs: float, share: float) -> float:
    """Test accuracy over the best."""
    count = len(world.labels)
    steps = plan_steps(count, epsilon=epsilon, delta=1e-5, epochs=epochs, batch_size=max(1, round(share * count)))
    weights = (world.features.shape[1] + 1) * world.label_count
    rate = steps.rate_for(weights, steps.sampling_rate * count) * reach / REACH
    chosen = replace(steps, learning_rate=rate)
    randomness = SeededRandomness(np.random.default_rng(1))
    model = fit_dp_sgd(world.features, world.labels, world.label_count, chosen, randomness)
    return float((model.predict(world.test_features) == world.test_labels).mean()) / world.best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--held-out", action="store_true")
    options = parser.parse_args()
    seed = 2 if options.held_out else 1
    worlds = {name: groups(data, seed) for name, data in list(GROUPS.items())[: 1 if options.quick else None]}
    worlds |= {} if options.quick else {name: pictures.world(seed) for name, pictures in PICTURES.items()}
    choices = [(REACH, EPOCHS, BATCH_SHARE)]
    if not options.held_out:
        choices = [(reach, EPOCHS, BATCH_SHARE) for reach in REACHES]
        choices += [(REACH, epochs, BATCH_SHARE) for epochs in (3.0, 30.0)]
        choices += [(REACH, EPOCHS, share) for share in (1 / 30, 1 / 3)]
    print(f"{'reach':>6} {'passes':>7} {'batch':>6}  " + " ".join(f"{f'epsilon {each:g}':>12}" for each in EPSILONS))
    for reach, epochs, share in choices:
        found = {
            name: [score(world, each, reach, epochs, share) for each in EPSILONS] for name, world in worlds.items()
        }
        means = np.mean(list(found.values()), axis=0)
        print(f"{reach:>6g} {epochs:>7g} {share:>6.3f}  " + " ".join(f"{each:>12.4f}" for each in means), flush=True)
        for name, each in found.items():
            print(f"{name:>21}  " + " ".join(f"{value:>12.4f}" for value in each), flush=True)


if __name__ == "__main__":
    main()
