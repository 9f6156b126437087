"""Roles that misbehave, and attacks that read a view and nothing else."""

from p2p_labeldp.adversaries.attacks import ATTACKS, LIKELIHOOD_RATIO, Attack
from p2p_labeldp.adversaries.bounds import Bounds
from p2p_labeldp.adversaries.game import GameResult, Reconstruction, judge, reconstruct

__all__ = [
    "ATTACKS", "LIKELIHOOD_RATIO", "Attack", "Bounds", "GameResult", "Reconstruction", "judge", "reconstruct",
]  # fmt: skip
