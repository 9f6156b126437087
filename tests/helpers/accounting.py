"""Accounts of settings written as keywords, for tests that vary them."""

from __future__ import annotations

from typing import Any

from p2p_labeldp.privacy import Account, Parameters, account

NOISE = ("alpha", "theta", "labels", "noise", "rounds", "exchange", "relays")


def accounted(view: str, **settings: Any) -> Account:
    """The account of ``view`` for the exchange's parameters and the cluster's among ``settings``."""
    noise = {name: settings.pop(name) for name in NOISE if name in settings}
    return account(view, Parameters(**noise), **settings)
