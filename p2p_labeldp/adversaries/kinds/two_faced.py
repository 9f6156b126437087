"""Users who answer different askers differently."""

from p2p_labeldp.adversaries.record import Adversary, Measured
from p2p_labeldp.adversaries.roles import TwoFaced

ADVERSARY = Adversary(
    lambda entry: Measured.NOTED,
    replaces=lambda setup, scenario, entry, honest, moved: TwoFaced(honest.id, honest.label, honest.host),
    flips_hold=True,
    deployed=True,
)
