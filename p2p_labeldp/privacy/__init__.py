"""Exact and bounded epsilon for every view; calibration; the paper's bounds.

Start at ``account``: it answers for one cluster. ``account_clusters`` answers for a run, ``calibrate`` goes the other
way, ``to_dp_accounting`` exports the learner's view to dp-accounting, ``paper`` has the paper's bounds.
"""

from p2p_labeldp.privacy import paper
from p2p_labeldp.privacy.account import Account, ClusterGuarantees, account, account_clusters
from p2p_labeldp.privacy.calibrate import Calibration, calibrate, variance
from p2p_labeldp.privacy.export import to_dp_accounting
from p2p_labeldp.privacy.guarantee import REPETITION, Guarantee, Method, Relation, read_guarantee, together
from p2p_labeldp.privacy.parameters import Noise, Parameters
from p2p_labeldp.privacy.relays import Cases, cases, relays_to_withstand, withstand
from p2p_labeldp.privacy.views import MIXED_VIEWS, RECORDS, VIEWS, View, sees, views_of
from p2p_labeldp.scenario import Exchange

__all__ = [
    "MIXED_VIEWS",
    "RECORDS",
    "REPETITION",
    "VIEWS",
    "Account",
    "Calibration",
    "Cases",
    "ClusterGuarantees",
    "Exchange",
    "Guarantee",
    "Method",
    "Noise",
    "Parameters",
    "Relation",
    "View",
    "account",
    "account_clusters",
    "calibrate",
    "cases",
    "paper",
    "read_guarantee",
    "relays_to_withstand",
    "sees",
    "to_dp_accounting",
    "together",
    "variance",
    "views_of",
    "withstand",
]
