"""The learner's part: gathers features and reports, and writes the results when the coordinator has told what it knows.

It has no rows but its own test examples: users' features come from their hosts, and no label does but in reports. Hosts
that ask for it are handed the model.

It takes the reports of those who count in a round, as in a simulation, until then. Nothing is lost by not waiting
for all of them before it says that it is done: no host is done before the learner has all that it said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.deployment.items import (
    LARGEST_FEATURE,
    Column,
    Directory,
    Examples,
    Facts,
    Item,
    Ready,
    Wanted,
    Written,
    encode_result,
    whole_numbers,
)
from p2p_labeldp.deployment.logs import Log
from p2p_labeldp.deployment.parts import Part
from p2p_labeldp.deployment.roles import SINGLES, gatherer_of
from p2p_labeldp.engines.outcome import Outcome, withheld_line
from p2p_labeldp.errors import RunError
from p2p_labeldp.mechanisms.plan import Plan
from p2p_labeldp.protocol.beforehand import parameters_of, plan_beforehand
from p2p_labeldp.protocol.learner import Learner
from p2p_labeldp.protocol.messages import COORDINATOR, LEARNER, Fault, Outgoing, Refused
from p2p_labeldp.protocol.wire import Envelope
from p2p_labeldp.scenario import Scenario


@dataclass(frozen=True, eq=False)
class Known:
    """Everyone's features as far as they came, by user id, and whose did."""

    features: NDArray[np.float32]
    came: NDArray[np.bool_]


@dataclass(frozen=True)
class Left:
    """What the results hold for hosts that ask: the model's file, empty where nothing was learned, and its card."""

    model: bytes = b""
    card: bytes = b""


Write = Callable[[Outcome, Facts, Directory, float, Known], Left]
"""(what came of it, the coordinator's facts, the hosts, seconds it took, features): write results, once or again."""


class _Gatherer(Learner):
    described = False
    """Whether all features are known that will be: what is expected of a user's label follows from hers."""

    @property
    def finished(self) -> bool:
        return self.expired or self.stage == self.rounds

    @property
    def waits_for_features(self) -> bool:
        return not self.described and self.priors_due

    def priors(self) -> Sequence[Outgoing]:
        return super().priors() if self.described else ()


class LearnerPart(Part):
    address = LEARNER

    def __init__(self, key: str, log: Log, scenario: Scenario, write: Write) -> None:
        super().__init__(key, log, scenario)
        self._write = write
        self._known: Known | None = None
        self._role: _Gatherer | None = None
        self._written = False
        self._begun = 0.0  # by this node's own clock: another's may be hours away
        self._columns: dict[str, list[NDArray[np.int64]]] = {"clusters": [], "missing": []}
        self.dials["auditor"] = scenario.deployment.auditor

    @property
    def stage(self) -> object:
        return None if self._role is None else (self._role.stage, self._role.waits_for_features)

    @property
    def limit(self) -> float | None:
        if self._role is not None and self._role.waits_for_features:
            return self._scenario.network.round_limit / 2  # so that users still have the other half of the round
        return None if self._role is None or self._role.finished else self._role.limit

    @property
    def waits_for(self) -> str:
        if self._role is None:
            return "the coordinator to name the hosts"
        return "the coordinator to end the run" if self._role.finished else "reports"

    @property
    def finished(self) -> bool:
        return self._role is not None and self._role.finished

    def give_up(self, unreached: Sequence[str]) -> None:
        assert self._role is not None
        if self._role.waits_for_features:
            self.log("limit", phase="features")
            self._tell_priors()
            return
        self.log("limit", phase="reports")
        self._role.expire()

    def hear(self, key: str, name: str, item: Item) -> None:
        if type(item) is Directory:
            self.know(item)
            self._prepare(item)
        elif type(item) is Column and key == "coordinator" and item.name in self._columns:
            self._columns[item.name].append(whole_numbers(item.values))
        elif type(item) is Examples:
            self._take_examples(key, item)
        elif type(item) is Wanted:
            self._note_wish(key)
        elif type(item) is Facts:
            self._finish(item)
        else:
            super().hear(key, name, item)

    def receive(self, envelope: Envelope) -> Iterable[Outgoing]:
        if self._role is None:
            raise Refused(Fault.OUT_OF_ORDER, "the learner knows no users yet")
        if self._written:
            raise Refused(Fault.OUT_OF_ORDER, "the results are written")
        return self._role.receive(envelope.sender, envelope.message)

    def _prepare(self, directory: Directory) -> None:
        self._begun = self.now
        network, rounds = self._scenario.network, self._rounds
        # No round is closed later than this after the one before, whatever is lost on the way; as the coordinator's
        # limits start anew when it is restarted, a node may be away for as long again.
        patience = network.hello_limit + rounds * network.round_limit + 2 * self._scenario.deployment.away_limit
        between = gatherer_of(self._scenario)
        if between != "learner":
            patience += network.round_limit
        plan = plan_beforehand(self._scenario, directory.labels)
        self._role = _Gatherer(
            directory.users,
            rounds,
            directory.labels,
            patience,
            network.round_limit,
            COORDINATOR if between == "learner" else SINGLES[between],
            None if plan.stages is None else partial(self._expected, plan),
        )
        self._known = Known(
            np.zeros((directory.users, self._scenario.data.schema.features), dtype=np.float32),
            np.zeros(directory.users, dtype=np.bool_),
        )
        self.say("coordinator", Ready())

    def _take_examples(self, key: str, part: Examples) -> None:
        """Features of a host's own users, each once."""
        holder = None if self.shares is None else self.shares.by_key.get(key)
        if holder is None or self._known is None or self._written:
            raise Refused(Fault.MISDIRECTED, "features are told by the hosts of a run")
        width = self._known.features.shape[1]
        if not part.features or len(part.features) % (4 * width):
            raise Refused(Fault.MALFORMED, f"{len(part.features)} bytes are not rows of {width} features")
        rows = np.frombuffer(part.features, dtype="<f4").reshape(-1, width)
        here = slice(part.first, part.first + len(rows))
        if not holder.first <= here.start < here.stop <= holder.last:
            raise Refused(Fault.MISDIRECTED, "features are told of one's own users")
        if self._known.came[here].any():
            raise Refused(Fault.DUPLICATE, "these features are known")
        if not np.isfinite(rows).all():
            raise Refused(Fault.MALFORMED, "features must be finite numbers")
        self._known.features[here] = np.clip(rows, -LARGEST_FEATURE, LARGEST_FEATURE)
        self._known.came[here] = True
        if self._known.came.all():
            self._tell_priors()

    def _tell_priors(self) -> None:
        """Of mechanisms with stages: what is expected of the others, as soon as the first stage is complete."""
        assert self._role is not None
        self._role.described = True
        for user, message in self._role.priors():
            self.send(LEARNER, user, message)

    def _expected(self, plan: Plan, users: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
        from p2p_labeldp.learning import learned_prior

        assert self._known is not None
        return learned_prior(plan, self._scenario.learner, self._known.features, users, labels)

    def _note_wish(self, key: str) -> None:
        """A host that wants the model gets it when it is there."""
        if self.shares is None or key not in self.shares.by_key or key in self.asked or self._written:
            raise Refused(Fault.OUT_OF_ORDER, "the model is asked for once, by a host of the run, before it is written")
        self.asked.append(key)

    def _finish(self, facts: Facts) -> None:
        if self._role is None:
            raise Refused(Fault.OUT_OF_ORDER, "there is no run to finish")
        directory = self.dealt.directory
        clusters = np.concatenate([np.empty(0, dtype=np.int64), *self._columns["clusters"]])
        missing = {user for part in self._columns["missing"] for user in part.tolist()}
        for round_ in range(self._role.rounds):
            missing.update(self._role.lost(round_))
        if len(clusters) != directory.users:
            raise RunError(f"the coordinator tells clusters of {len(clusters)} users, of {directory.users}")
        self._written = True
        rounds = [self._role.reports(round_) for round_ in range(self._role.rounds)]
        self.withheld = sorted({*facts.withheld, *self._held_back(clusters, rounds[0][0])})
        outcome = Outcome(
            clusters=clusters,
            rounds=rounds,
            messages=dict(sorted(facts.kinds.items())),
            outcomes=facts.outcomes,
            missing=sorted(missing),
            withheld=self.withheld,
            warnings=list(facts.warnings),
            stopped=sorted(facts.stopped),
            reduced=sorted(facts.reduced),
            shares=self._role.shares,
            prior=self._role.prior,
        )
        assert self._known is not None
        left = self._write(outcome, facts, directory, max(0.0, self.now - self._begun), self._known)
        self._known = None
        self.log("written", run=self.run)
        if self.withheld:
            self.log("warning", warning=withheld_line(self.withheld))
        for key in self.asked:
            for part in (*encode_result("model.npz", left.model), *encode_result("model-card.md", left.card)):
                self.say(key, part)
        self.say("coordinator", Written())

    def _held_back(self, clusters: NDArray[np.int64], reported: NDArray[np.int64]) -> list[int]:
        """Clusters that a shuffler passed nothing of, though an epsilon was asked for and they are large enough."""
        if gatherer_of(self._scenario) != "shuffler" or self._scenario.mechanism.epsilon == 0:
            return []
        smallest = parameters_of(self._scenario, self.dealt.directory.labels).minimum_size
        sizes = np.bincount(clusters[clusters >= 0])
        came = np.bincount(clusters[reported], minlength=len(sizes))
        return np.flatnonzero((sizes >= max(1, smallest)) & (came == 0)).tolist()
