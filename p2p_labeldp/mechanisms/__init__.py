"""One module for each mechanism, and what they share: coins, the exchange and Algorithm 1 on arrays; no actors.

``make_plan`` fixes a mechanism's noise, ``release`` turns labels into what the learner receives.
"""

from p2p_labeldp.mechanisms.coins import Coins, Randomness, SeededCoins, SystemCoins, make_coins, randomness_of
from p2p_labeldp.mechanisms.exchange import Rosters, exchange, noisy_sha256
from p2p_labeldp.mechanisms.plan import Holder, Plan, PriorOf, Released, release
from p2p_labeldp.mechanisms.planning import make_plan, mechanism_of, require_installed

__all__ = [
    "Coins", "Holder", "Plan", "PriorOf", "Randomness", "Released", "Rosters", "SeededCoins", "SystemCoins", "exchange",
    "make_coins", "make_plan", "mechanism_of", "noisy_sha256", "randomness_of", "release", "require_installed",
]  # fmt: skip
