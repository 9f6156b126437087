"""Users who never answer."""

from p2p_labeldp.adversaries.record import Adversary, Measured
from p2p_labeldp.adversaries.roles import Silent

ADVERSARY = Adversary(
    lambda entry: Measured.NOTED,
    replaces=lambda setup, scenario, entry, honest, moved: Silent(honest.id, honest.label, honest.host),
    flips_hold=True,
    deployed=True,
)
