"""Learning from noisy labels: soft targets that undo a known noise, pooled by cluster, and softmax regression."""

from p2p_labeldp.learning.learner import Model, Reports, Targets, learn, learned_prior, targets_of
from p2p_labeldp.learning.robust import trimmed_reports
from p2p_labeldp.learning.softmax import SoftmaxModel, fit_softmax
from p2p_labeldp.learning.targets import one_hot, pooled_reports, positive_part, undrawn, unflip

__all__ = [
    "Model", "Reports", "SoftmaxModel", "Targets", "fit_softmax", "learn", "learned_prior", "one_hot", "pooled_reports",
    "positive_part", "targets_of", "trimmed_reports", "undrawn", "unflip",
]  # fmt: skip
