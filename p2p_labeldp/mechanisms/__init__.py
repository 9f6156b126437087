"""Labels in, noisy labels out, on numpy arrays; knows nothing of actors."""

from p2p_labeldp.mechanisms.coins import Coins, SeededCoins, SystemCoins, make_coins
from p2p_labeldp.mechanisms.peer_to_peer import Parameters, Release, Rosters, exchange, noisy_sha256

__all__ = [
    "Coins", "Parameters", "Release", "Rosters", "SeededCoins", "SystemCoins", "exchange", "make_coins",
    "noisy_sha256",
]  # fmt: skip
