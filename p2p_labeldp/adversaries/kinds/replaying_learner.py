"""A learner who tells users to begin rounds that nobody began."""

from p2p_labeldp.adversaries.leaders import Replayer
from p2p_labeldp.adversaries.record import Adversary, Assignment, Measured, Setup
from p2p_labeldp.scenario import Scenario


def install(setup: Setup, scenario: Scenario, assignment: Assignment) -> None:
    setup.learner = Replayer(setup.learner, getattr(assignment.entry, "times", 1))


ADVERSARY = Adversary(lambda entry: Measured.NOTED, install=install, alone="learner", flips_hold=True)
