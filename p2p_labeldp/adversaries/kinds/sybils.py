"""Users of the learner's who claim the victim's features, so that they land in her cluster."""

from p2p_labeldp.adversaries.record import Adversary, Assignment, Measured, Setup
from p2p_labeldp.adversaries.roles import Sybil
from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import View
from p2p_labeldp.protocol.messages import Features
from p2p_labeldp.scenario import Scenario


def check(setup: Setup, scenario: Scenario, assignment: Assignment) -> None:
    if scenario.clusters.method == "given":
        raise RequestError(f'{assignment.where}: claims features, but clusters.method = "given" asks nobody for them')


ADVERSARY = Adversary(
    lambda entry: Measured.WATCHED,
    lambda entry: View.COALITION,
    replaces=lambda setup, scenario, entry, honest, moved: Sybil(
        honest.id, honest.label, honest.host, Features(setup.population.features[moved(entry.victim)])
    ),
    install=check,
    flips_hold=True,
    deployed=True,
)
