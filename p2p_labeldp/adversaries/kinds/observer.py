"""Someone on the network between all users and the learner."""

from p2p_labeldp.adversaries.record import Adversary, Measured
from p2p_labeldp.privacy import View
from p2p_labeldp.scenario import EXCHANGES
from p2p_labeldp.scenario.entries import Observer


def view(entry: Observer) -> View | None:
    """None where neither a label nor a report is seen."""
    if entry.sees == "metadata":
        return View.METADATA if entry.reports else None
    return View.NETWORK if entry.reports else View.EAVESDROPPER


ADVERSARY = Adversary(lambda entry: Measured.WATCHED, view, misbehaves=False, exchanges=EXCHANGES, deployed=True)
