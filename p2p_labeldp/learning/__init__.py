"""Learning from noisy labels: soft targets that undo a known noise, pooled by cluster, and the models that fit them."""

from p2p_labeldp.learning.learner import Reports, Targets, learn, learned_prior, targets_of
from p2p_labeldp.learning.metrics import Metrics, baseline, measured
from p2p_labeldp.learning.model import Model
from p2p_labeldp.learning.models import model_of, require_model
from p2p_labeldp.learning.robust import trimmed_reports
from p2p_labeldp.learning.softmax import SoftmaxModel, fit_softmax
from p2p_labeldp.learning.targets import one_hot, pooled_reports, positive_part, undrawn, unflip

__all__ = [
    "Metrics", "Model", "Reports", "SoftmaxModel", "Targets", "baseline", "fit_softmax", "learn", "learned_prior",
    "measured", "model_of", "one_hot", "pooled_reports", "positive_part", "require_model", "targets_of",
    "trimmed_reports", "undrawn", "unflip",
]  # fmt: skip
