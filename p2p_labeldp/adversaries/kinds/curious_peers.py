"""Honest users who look at what they were told, each for herself."""

from p2p_labeldp.adversaries.record import Adversary, Measured
from p2p_labeldp.privacy import View
from p2p_labeldp.scenario import EXCHANGES

ADVERSARY = Adversary(
    lambda entry: Measured.WATCHED, lambda entry: View.PEER, misbehaves=False, exchanges=EXCHANGES, deployed=True
)
