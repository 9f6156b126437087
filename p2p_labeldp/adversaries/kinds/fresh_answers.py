"""Users with the classic bug: new noise for every asker."""

from p2p_labeldp.adversaries.record import Adversary, Measured
from p2p_labeldp.adversaries.roles import FreshAnswerer
from p2p_labeldp.streams import KeyedStream, Purpose

ADVERSARY = Adversary(
    lambda entry: Measured.NOTED,
    replaces=lambda setup, scenario, entry, honest, moved: FreshAnswerer(
        honest.id, honest.label, honest.host, KeyedStream(scenario.coins.seed, Purpose.ADVERSARIES)
    ),
    deployed=True,
)
