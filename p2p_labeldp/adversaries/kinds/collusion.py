"""Honest but curious users who pool what they saw with the learner."""

from p2p_labeldp.adversaries.record import Adversary, Measured
from p2p_labeldp.privacy import View
from p2p_labeldp.scenario import EXCHANGES

ADVERSARY = Adversary(
    lambda entry: Measured.WATCHED, lambda entry: View.COALITION, misbehaves=False, exchanges=EXCHANGES, deployed=True
)
