"""Users who never find their packet in the batch of the mixed exchange."""

from p2p_labeldp.adversaries.mixers import Refuser
from p2p_labeldp.adversaries.record import Adversary, Measured
from p2p_labeldp.protocol.mixing_host import MixingHost
from p2p_labeldp.protocol.user import User
from p2p_labeldp.scenario import Exchange


def refuser(honest: User) -> Refuser:
    assert isinstance(honest.host, MixingHost)
    return Refuser(honest.id, honest.label, honest.host)


ADVERSARY = Adversary(
    lambda entry: Measured.NOTED,
    replaces=lambda setup, scenario, entry, honest, moved: refuser(honest),
    flips_hold=True,
    hidden_from=True,
    exchanges=(Exchange.MIXED,),
    deployed=True,
)
