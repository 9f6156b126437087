"""Exact and bounded epsilon for every view; calibration; the paper's bounds.

Start at ``account``: it answers for one cluster. ``account_clusters`` answers for a run, ``calibrate`` goes the other
way, ``to_dp_accounting`` hands the learner's view to dp-accounting, ``paper`` holds what the paper proves.
"""

from p2p_labeldp.privacy import paper
from p2p_labeldp.privacy.account import NOISES, Account, account
from p2p_labeldp.privacy.answer import Answer
from p2p_labeldp.privacy.calibrate import Calibration, calibrate, variance
from p2p_labeldp.privacy.clusters import ClusterAnswers, account_clusters
from p2p_labeldp.privacy.export import to_dp_accounting
from p2p_labeldp.privacy.views import SEES, VIEWS

__all__ = [
    "NOISES",
    "SEES",
    "VIEWS",
    "Account",
    "Answer",
    "Calibration",
    "ClusterAnswers",
    "account",
    "account_clusters",
    "calibrate",
    "paper",
    "to_dp_accounting",
    "variance",
]
