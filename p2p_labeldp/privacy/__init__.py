"""Exact and bounded epsilon for every view; calibration; the paper's bounds."""

from p2p_labeldp.privacy.account import NOISES, Account, account
from p2p_labeldp.privacy.answer import Answer
from p2p_labeldp.privacy.views import SEES, VIEWS

__all__ = ["NOISES", "SEES", "VIEWS", "Account", "Answer", "account"]
