"""Users who push a label."""

from p2p_labeldp.adversaries.record import Adversary, Assignment, Measured, Setup
from p2p_labeldp.adversaries.roles import Liar
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Scenario


def check(setup: Setup, scenario: Scenario, assignment: Assignment) -> None:
    entry, labels = assignment.entry, setup.host.parameters.labels
    label = getattr(entry, "label", 0)
    if getattr(entry, "lie", "") == "label" and label >= labels:
        raise RequestError(f"{assignment.where}: label = {label} is not allowed; it must be below {labels}")


ADVERSARY = Adversary(
    lambda entry: Measured.PUSHED,
    replaces=lambda setup, scenario, entry, honest, moved: Liar(honest.id, honest.label, honest.host, entry),
    install=check,
    flips_hold=True,
    deployed=True,
)
