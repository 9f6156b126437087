"""Colluders of the learner in the victim's cluster who all ask her."""

from p2p_labeldp.adversaries.record import Adversary, Measured
from p2p_labeldp.adversaries.roles import Focused
from p2p_labeldp.privacy import View

ADVERSARY = Adversary(
    lambda entry: Measured.PLAYED,
    lambda entry: View.COALITION,
    replaces=lambda setup, scenario, entry, honest, moved: Focused(
        honest.id, honest.label, honest.host, moved(entry.victim)
    ),
    beside_victim=True,
    flips_hold=True,
)
