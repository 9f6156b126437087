"""Learning from noisy labels: soft targets that undo a known noise, and softmax regression on them."""

from p2p_labeldp.learning.robust import trimmed_reports
from p2p_labeldp.learning.softmax import SoftmaxModel, fit_softmax
from p2p_labeldp.learning.targets import one_hot, pooled_reports, unflip, unflipped_targets

__all__ = ["SoftmaxModel", "fit_softmax", "one_hot", "pooled_reports", "trimmed_reports", "unflip", "unflipped_targets"]
