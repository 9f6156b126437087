"""Users who misbehave when they are drawn as relays of the mixed exchange."""

from __future__ import annotations

from collections.abc import Callable

from p2p_labeldp.adversaries.mixers import CrookedMember, TwoFacedHost
from p2p_labeldp.adversaries.record import Adversary, Assignment, Measured, Setup
from p2p_labeldp.protocol.mixing_host import MixingHost
from p2p_labeldp.protocol.user import User
from p2p_labeldp.scenario import Scenario
from p2p_labeldp.scenario.entries import CrookedRelays


def install(setup: Setup, scenario: Scenario, assignment: Assignment) -> None:
    entry, old = assignment.entry, list[bytes]()
    assert isinstance(entry, CrookedRelays)
    if entry.way == "equivocate":
        setup.host.__class__ = TwoFacedHost
    for user in assignment.members:
        setup.users[user] = crooked(setup.users[user], entry, old)


def crooked(honest: User, entry: CrookedRelays, old: list[bytes]) -> User:
    assert isinstance(honest.host, MixingHost)
    return CrookedMember(honest.id, honest.label, honest.host, entry, old)


def replaces(setup: Setup, scenario: Scenario, entry: CrookedRelays, honest: User, moved: Callable[[int], int]) -> User:
    """As installed; what they keep of earlier attempts is shared."""
    return honest if isinstance(honest, CrookedMember) else crooked(honest, entry, [])


ADVERSARY = Adversary(
    lambda entry: Measured.NOTED, install=install, replaces=replaces, flips_hold=True, exchanges=("mixed",)
)
