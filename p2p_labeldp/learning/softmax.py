"""Softmax regression on soft targets: empirical risk minimisation by L-BFGS.

The loss is the weighted mean of cross-entropy, plus l2/2 ||W||^2; the bias is free. Cross-entropy is
convex in the logits whatever the target as long as its entries sum to 1, because logsumexp is and the rest
is linear. With a negative entry it has no lower bound: l2 > 0 is required then, and the bias (at the mean of
the features) is penalised like the weights.

Where the time goes: two matrix products per evaluation, logits and gradient. Rows are taken in blocks that
stay in the processor's cache between the two. The optimiser works on W and the bias *at the mean of the
features*, not at the origin: the objective is the same, but a shift of all features no longer looks like a
direction, and MNIST needs a third fewer iterations. Arithmetic on examples is in the features' own
precision, everything summed over blocks in double.

One thread, so that the model does not depend on the machine's number of cores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_labeldp.arrays import Doubles, Matrix
from p2p_labeldp.errors import RequestError
from p2p_labeldp.threads import one_thread

# About 3 MB of float32: the block fits a level-2 or level-3 cache, and numpy's overhead per call stays small.
_BLOCK_ENTRIES = 800_000


def as_chances(logits: Doubles) -> Doubles:
    """Rows of logits as probabilities, in their place."""
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    return logits


@dataclass(frozen=True, eq=False)
class SoftmaxModel:
    """p(y|x) = softmax(weights x + bias); weights (K, d), bias (K,)."""

    weights: Doubles
    bias: Doubles
    loss: float = math.nan
    iterations: int = 0

    @classmethod
    def of_one_label(cls, label: int, labels: int, features: int) -> SoftmaxModel:
        """What is known where one label is all there is: that it is certain."""
        bias = np.full(labels, -np.inf)
        bias[label] = 0.0
        return cls(np.zeros((labels, features)), bias)

    def predict_proba(self, features: Matrix) -> Doubles:
        return as_chances(self._logits(features))

    def predict(self, features: Matrix) -> NDArray[np.int64]:
        """The most probable label, the lowest one of equals."""
        best: NDArray[np.int64] = self._logits(features).argmax(axis=1).astype(np.int64)
        return best

    def _logits(self, features: Matrix) -> Doubles:
        with one_thread():
            product = features @ self.weights.T.astype(features.dtype)
        logits: Doubles = product.astype(np.float64) + self.bias
        return logits


def fit_softmax(
    features: Matrix,
    targets: Matrix,
    l2: float,
    max_iterations: int = 100,
    sample_weight: Doubles | None = None,
    tolerance: float = 1e-5,
    free_bias: bool = True,
) -> SoftmaxModel:
    """The model with the least loss on ``targets``, whose rows sum to 1.

    ``free_bias``: whether l2 leaves the bias alone, as far as no target is negative. Stops when an iteration lowers
    the loss by less than ``tolerance`` of itself, or after ``max_iterations``.
    """
    objective = Objective(features, targets, l2, sample_weight, free_bias)
    minimize = scipy.optimize.minimize  # which brings its own linear algebra along
    with one_thread():
        found = minimize(
            objective,
            np.zeros(objective.size),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_iterations, "ftol": tolerance, "gtol": 1e-7, "maxcor": 10},
        )
    weights, bias = objective.unpack(found.x)
    return SoftmaxModel(weights.T.copy(), bias, float(found.fun), int(found.nit))


class Objective:
    """The loss and its gradient as a function of one flat vector: W (d, K), then the bias at the mean."""

    def __init__(
        self,
        features: Matrix,
        targets: Matrix,
        l2: float,
        sample_weight: Doubles | None = None,
        free_bias: bool = True,
    ) -> None:
        if features.dtype not in (np.float32, np.float64):
            features = features.astype(np.float32)
        if features.ndim != 2 or targets.ndim != 2 or len(features) != len(targets) or not len(features):
            raise ValueError(f"features {features.shape} and targets {targets.shape} must have as many rows, not none")
        if not (math.isfinite(l2) and l2 >= 0):
            raise RequestError(f"learner.l2 is {l2}; a finite number, at least 0")
        if l2 == 0 and (targets < 0).any():
            raise RequestError(
                "learner.l2 is 0; it must be positive when flips are corrected: the loss has no minimum else"
            )
        if not np.allclose(targets.sum(axis=1), 1.0, atol=1e-5 * max(1.0, float(np.abs(targets).max()))):
            raise ValueError("every target must sum to 1")
        if sample_weight is not None and (sample_weight.shape != (len(features),) or (sample_weight < 0).any()):
            raise ValueError("sample_weight must be one number per example, none negative")
        self.features = features
        self.targets = targets.T.astype(features.dtype, order="C")
        self.l2 = l2
        # Corrected labels of a rare class may weigh less than nothing in all: a free bias would then run away.
        self.bias_l2 = l2 if not free_bias or bool((targets < 0).any()) else 0.0
        total = float(len(features)) if sample_weight is None else float(sample_weight.sum())
        self.shares = None if sample_weight is None else (sample_weight / total).astype(features.dtype)
        self.share = 1.0 / total
        self.mean: Doubles = features.mean(axis=0, dtype=np.float64)
        self.labels = targets.shape[1]
        self.width = features.shape[1]
        self.size = (self.width + 1) * self.labels
        rows = max(1, _BLOCK_ENTRIES // max(self.width, self.labels))
        self.blocks = [slice(start, start + rows) for start in range(0, len(features), rows)]

    def unpack(self, point: Doubles) -> tuple[Doubles, Doubles]:
        """W (d, K), and the bias at the origin."""
        weights = point[: -self.labels].reshape(self.width, self.labels)
        return weights, point[-self.labels :] - self.mean @ weights

    def __call__(self, point: Doubles) -> tuple[float, Doubles]:
        weights, bias = self.unpack(point)
        kind = self.features.dtype
        near_weights, near_bias = weights.T.astype(kind, order="C"), bias.astype(kind)[:, None]
        loss = 0.0
        slope = np.zeros((self.labels, self.width))
        slope_bias = np.zeros(self.labels)
        for block in self.blocks:
            # Labels by examples, so that what runs over the few labels runs along long rows.
            examples, target = self.features[block], self.targets[:, block]
            logits = near_weights @ examples.T
            logits += near_bias
            logits -= logits.max(axis=0)
            fit = np.einsum("ij,ij->j", logits, target)
            np.exp(logits, out=logits)
            norm = logits.sum(axis=0)
            losses = np.log(norm) - fit
            logits /= norm
            logits -= target  # from here on the derivative by the logits
            if self.shares is None:
                loss += float(losses.sum(dtype=np.float64))
            else:
                loss += float((losses * self.shares[block]).sum(dtype=np.float64))
                logits *= self.shares[block]
            slope += logits @ examples
            slope_bias += logits.sum(axis=1, dtype=np.float64)
        if self.shares is None:
            loss, slope, slope_bias = loss * self.share, slope * self.share, slope_bias * self.share
        # The bias at the origin is the point's bias minus mean @ W, so W moves it too.
        slope -= np.outer(slope_bias, self.mean)
        slope += self.l2 * weights.T
        loss += 0.5 * self.l2 * float((weights * weights).sum())
        centred = point[-self.labels :]
        loss += 0.5 * self.bias_l2 * float((centred * centred).sum())
        return loss, np.concatenate([slope.T.ravel(), slope_bias + self.bias_l2 * centred])
