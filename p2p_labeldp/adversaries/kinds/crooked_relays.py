"""Users who misbehave when they are drawn as relays of the mixed exchange."""

from __future__ import annotations

from collections.abc import Callable

from p2p_labeldp.adversaries.mixers import CrookedMember, TwoFacedHost
from p2p_labeldp.adversaries.record import Adversary, Assignment, Measured, Setup
from p2p_labeldp.protocol.mixing_host import MixingHost
from p2p_labeldp.protocol.user import User
from p2p_labeldp.scenario import Exchange, Scenario
from p2p_labeldp.scenario.entries import CrookedRelays


def install(setup: Setup, scenario: Scenario, assignment: Assignment) -> None:
    """The one host of a simulation shows its users two batches as if it were two; a deployment has several."""
    assert isinstance(assignment.entry, CrookedRelays)
    if assignment.entry.way == "equivocate" and setup.coordinator is not None:
        setup.host.__class__ = TwoFacedHost


def replaces(setup: Setup, scenario: Scenario, entry: CrookedRelays, honest: User, moved: Callable[[int], int]) -> User:
    """Those of one simulation, or one host, share what they keep of earlier attempts."""
    assert isinstance(honest.host, MixingHost)
    kept = (user.old for user in setup.users if isinstance(user, CrookedMember))
    return CrookedMember(honest.id, honest.label, honest.host, entry, next(kept, []))


ADVERSARY = Adversary(
    lambda entry: Measured.NOTED,
    install=install,
    replaces=replaces,
    flips_hold=True,
    hidden_from=True,
    exchanges=(Exchange.MIXED,),
    deployed=True,
)
