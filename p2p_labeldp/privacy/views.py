"""The views: who observes what, and those whose delta(epsilon) has a closed form.

In most views the noisy labels that are seen are tied to their owners: then all that matters is the chance
that the victim's one noisy label is among them, and what that label costs by itself:

    delta(epsilon) = chance * rr(epsilon),   rr(epsilon) = max(0, high - e^epsilon low)

where ``high`` and ``low`` are the larger and the smaller of 1 - alpha and alpha / (labels - 1). This is exact: with
probability 1 - chance nothing seen depends on the victim's label. The chance is a power because every user picks
whom to ask independently: the victim is not asked with probability 1 - 1/n, not asked by someone whose
report is sent with 1 - theta/n. With sticky noise R rounds are R n chances to see the same noisy label.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from p2p_labeldp.privacy.binomial import Floats
from p2p_labeldp.privacy.reports import exponential
from p2p_labeldp.scenario import EXCHANGES


class View(StrEnum):
    """Who observes. Those down to the relay are views of the exchange, which ``account`` knows."""

    LEARNER = "learner"
    PEER = "peer"
    METADATA = "metadata"
    EAVESDROPPER = "eavesdropper"
    NETWORK = "network"
    AUDITOR = "auditor"
    COALITION = "coalition"
    SHUFFLE = "shuffle"
    RELAY = "relay"
    MODEL = "model"
    CURATOR = "curator"
    SHUFFLER = "shuffler"
    USER_HOST = "user_host"


@dataclass(frozen=True)
class ViewRecord:
    """What is true of a view, whatever the mechanism."""

    who: str
    sees: str
    accounted: bool = True
    """Whether it is a view of the exchange."""
    closed_form: bool = False
    """Whether its cost is a formula where users ask each other."""
    mixed: str = ""
    """What it sees in the mixed exchange, where that is something else."""
    pull: bool = True
    """Whether there is such a party where users ask each other."""
    reports: bool = True
    """Whether it sees the reports."""
    sealed: str = ""
    """The view that it comes to in the mixed exchange, where labels travel sealed; empty where that depends on the
    relays (``account``)."""


RECORDS: dict[View, ViewRecord] = {
    View.LEARNER: ViewRecord(
        "the learner", "the reports: which user sent which label, not whose label it is", sealed=View.LEARNER
    ),
    View.PEER: ViewRecord(
        "a peer",
        "the one answer she got to her own question, each round",
        closed_form=True,
        mixed="the one label that was drawn for her, not whose it is, each round; she is no relay",
        reports=False,
    ),
    View.METADATA: ViewRecord(
        "the learner with a metadata observer",
        "the reports, and who asked whom",
        closed_form=True,
        mixed="the reports, and who sent how much to whom, and when",
        sealed=View.LEARNER,
    ),
    View.EAVESDROPPER: ViewRecord(
        "an eavesdropper",
        "every answer on the wire, and who gave it, but no report",
        closed_form=True,
        mixed="every packet on the wire, all of them sealed, but no report",
        reports=False,
        sealed=View.LEARNER,
    ),
    View.NETWORK: ViewRecord(
        "a network observer",
        "every answer and every report on the wire",
        closed_form=True,
        mixed="every sealed packet and every report on the wire",
        sealed=View.LEARNER,
    ),
    View.AUDITOR: ViewRecord(
        "the auditor",
        "everything traced, questions to oneself included",
        closed_form=True,
        mixed="everything traced: sealed packets, the keys that were released, every draw and every report",
        sealed=View.SHUFFLE,
    ),
    View.COALITION: ViewRecord(
        "the learner with colluding users",
        "the reports, and what the colluders in the cluster know",
        mixed="the reports, and what the colluders in the cluster know, some of whom may be its relays",
    ),
    View.SHUFFLE: ViewRecord(
        "a shuffled view", "the noisy labels of the whole cluster without their owners", sealed=View.SHUFFLE
    ),
    View.RELAY: ViewRecord(
        "a relay",
        "the noisy labels of the whole cluster without their owners, her own with it, and every draw",
        pull=False,
        reports=False,
    ),
    View.MODEL: ViewRecord("whoever sees the model", "the fitted model, every iterate of it", accounted=False),
    View.CURATOR: ViewRecord("the curator", "every label that is handed over, with its owner", accounted=False),
    View.SHUFFLER: ViewRecord("the shuffler", "every noisy label, with its owner", accounted=False),
    View.USER_HOST: ViewRecord("a user host", "the answers that its own users got, and the model", accounted=False),
}
VIEWS = tuple(view for view, record in RECORDS.items() if record.accounted and record.pull)
"""Of the pull exchange, and of the permutation."""
MIXED_VIEWS = tuple(view for view, record in RECORDS.items() if record.accounted)
"""Of the mixed exchange."""


def views_of(exchange: str) -> tuple[View, ...]:
    """The views of an exchange, which ``account`` knows."""
    return MIXED_VIEWS if EXCHANGES[exchange].relayed else VIEWS


def sees(view: View, exchange: str) -> str:
    """What a view sees in an exchange, in words."""
    record = RECORDS[view]
    return record.mixed if EXCHANGES[exchange].relayed and record.mixed else record.sees


CLOSED_FORM = tuple(view for view, record in RECORDS.items() if record.closed_form)
"""Where users ask each other."""


def has_closed_form(view: View, exchange: str) -> bool:
    """Whether its cost in an exchange is a formula, which holds however many went missing."""
    return RECORDS[view].closed_form and not EXCHANGES[exchange].relayed


@dataclass(frozen=True)
class LocalNoise:
    """The flip of one label, and the guarantee it gives by itself."""

    high: float
    low: float

    @classmethod
    def flip(cls, alpha: float, labels: int) -> "LocalNoise":
        stays, moves = 1 - alpha, alpha / (labels - 1)
        # 1 - alpha and alpha may both be rounded: equal up to that means no information at all.
        if math.isclose(stays, moves, rel_tol=1e-15):
            return cls(stays, stays)
        return cls(max(stays, moves), min(stays, moves))

    @property
    def epsilon(self) -> float:
        return math.inf if self.low == 0 else math.log(self.high) - math.log(self.low)

    def deltas(self, epsilons: npt.ArrayLike) -> Floats:
        """rr(epsilon), rounded up by a unit in the last place of ``high``."""
        raw = self.high - exponential(epsilons) * self.low
        result: Floats = np.where(raw > -4e-16 * self.high, np.maximum(raw, 0.0) + 4e-16 * self.high, 0.0)
        return result


def _at_least_once(chance: float, times: float) -> float:
    """1 - (1 - chance)^times."""
    if chance >= 1:
        return 1.0 if times > 0 else 0.0
    return -math.expm1(times * math.log1p(-chance))


def chance_seen(view: str, cluster_size: int, theta: float, rounds: int = 1, colluders: int = 0) -> float:
    """The chance that the victim's noisy label is seen for what it is, over rounds with sticky noise.

    "coalition" is here the learner with colluders who also sees who asked whom: more than a coalition sees.
    """
    n = cluster_size
    once = 1 / n
    sent = theta / n
    match view:
        case "peer":
            return _at_least_once(once, rounds)
        case "metadata":
            return _at_least_once(sent, n * rounds)
        case "eavesdropper":
            return _at_least_once(once, (n - 1) * rounds)
        case "auditor":
            return _at_least_once(once, n * rounds)
        case "network" | "coalition":
            asked = n - 1 if view == "network" else colluders
            by_report = 1 if view == "network" else n - colluders
            missed = 1 - _at_least_once(once, asked * rounds)
            return 1 - missed * (1 - _at_least_once(sent, by_report * rounds))
    raise AssertionError(view)


def chance_permuted(view: str, cluster_size: int, theta: float, rounds: int = 1, colluders: int = 0) -> float:
    """The same where whom everyone asks is a secret permutation: each label is asked for once, by any member alike.

    Who sees the questions knows whose label each report carries, and so does every member: she knows the permutation.
    "learner" is here the metadata view, which sees more.
    """
    n = cluster_size
    once = {
        "peer": 1 / n,
        "learner": theta,
        "metadata": theta,
        "eavesdropper": 1 - 1 / n,
        "network": 1 - (1 - theta) / n,
        "auditor": 1.0,
        "coalition": 1 - (1 - theta) * (1 - colluders / n),
    }
    return _at_least_once(once[view], rounds)


@dataclass(frozen=True)
class ClosedForm:
    """delta(epsilon) = chance * rr(epsilon), and its inverse, rounded up."""

    chance: float
    noise: LocalNoise

    def epsilon(self, delta: float) -> float:
        if self.chance == 0 or delta >= self.chance * (self.noise.high - self.noise.low):
            return 0.0
        if self.noise.low == 0:
            return math.inf
        left = self.noise.high - delta / self.chance
        value = math.log(left) - math.log(self.noise.low)
        return min(self.noise.epsilon, value + 8e-16 * (1 + value + self.noise.high / left))

    def delta(self, epsilon: float) -> float:
        return min(1.0, self.chance * float(self.noise.deltas(epsilon)))
