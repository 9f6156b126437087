"""The learner's view as a privacy loss distribution of dp-accounting, to be composed with other mechanisms.

Which n1 is the worst may change with epsilon, so the distribution stands for the whole curve: delta, the worst over
every n1 and both directions, at points along it, connected pessimistically (dp-accounting's connect-the-dots). Its
epsilon is never below ours and exceeds it by a little that vanishes with the number of points. The curve is its own
mirror, delta(-epsilon) = 1 - e^-epsilon (1 - delta(epsilon)), because both directions are in it.

dp-accounting is optional: the extra ``accounting``.
"""

import math
from typing import Any

import numpy as np

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy.account import Account

# Losses beyond the epsilon of this delta count as total.
_LEAST_DELTA = 1e-15


def to_dp_accounting(accountant: Account, *, points: int = 160, interval: float = 1e-4) -> Any:
    """A dp_accounting.pld PrivacyLossDistribution that is at least as far apart as the view.

    ``interval`` is its discretization: only distributions with the same one compose.
    """
    try:
        from dp_accounting.pld import pld_pmf
        from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    except ImportError:
        raise RequestError("dp-accounting is not installed: pip install p2p-labeldp[accounting]") from None
    if points < 2 or not interval > 0:
        raise RequestError(f"points must be at least 2 and interval above 0, not {points} and {interval}")
    largest = accountant.get_epsilon(_LEAST_DELTA).epsilon
    if largest == math.inf:
        raise RequestError("a view with infinite epsilon has no privacy loss distribution to export")
    top = max(1, math.ceil(largest / interval))
    positive = np.unique(np.linspace(0, top, points).round().astype(np.int64))
    deltas = np.minimum.accumulate(accountant.curve(positive * interval))
    mirrored = 1 - np.exp(-positive[:0:-1] * interval) * (1 - deltas[:0:-1])
    epsilons = np.concatenate([-positive[:0:-1], positive])
    curve = np.minimum.accumulate(np.concatenate([mirrored, deltas]))
    return PrivacyLossDistribution(pld_pmf.create_pmf_pessimistic_connect_dots(interval, epsilons, curve))
