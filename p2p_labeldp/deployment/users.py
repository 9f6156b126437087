"""A user host's part: it carries its share of the users, and speaks for nobody else.

Its examples are its own; labels leave it flipped, in answers to the users of the same clusters, or not at
all. Where the scenario asks for an epsilon the coordinator works out the flips, since it alone knows all
clusters; the host believes it only after its own account of the clusters it has users in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.data import Dataset
from p2p_labeldp.deployment.agreement import data_of
from p2p_labeldp.deployment.items import (
    Begin,
    Declined,
    Directory,
    Ended,
    Item,
    Join,
    Noise,
    Over,
    Quiet,
    Ready,
    encode_column,
)
from p2p_labeldp.deployment.parts import Log, Part
from p2p_labeldp.errors import RunError
from p2p_labeldp.mechanisms.coins import Coins
from p2p_labeldp.mechanisms.plan import LARGEST_DELTA
from p2p_labeldp.privacy import Parameters, View, account
from p2p_labeldp.protocol.host import Host
from p2p_labeldp.protocol.messages import (
    COORDINATOR,
    HOST,
    LEARNER,
    Assignment,
    Done,
    Envelope,
    Fault,
    Features,
    Goodbye,
    Message,
    Outgoing,
    Refused,
    Report,
    Round,
)
from p2p_labeldp.protocol.user import User
from p2p_labeldp.runs.clusters import ClusterPlan
from p2p_labeldp.scenario import Scenario


class UsersPart(Part):
    address = HOST

    def __init__(
        self,
        key: str,
        log: Log,
        scenario: Scenario,
        dataset: Dataset,
        parameters: Parameters,
        coins: Coins,
    ) -> None:
        super().__init__(key, log, scenario)
        self._parameters = parameters
        self._dataset: Dataset | None = dataset
        self._data = data_of(dataset)
        self._everyone = len(dataset.labels)
        ClusterPlan(scenario, self._everyone, dataset.given_clusters)  # where data name no clusters, it says so now
        self._features: NDArray[np.float32] = np.empty((0, dataset.features.shape[1]), dtype=np.float32)
        self._coins = coins
        self._begun = False
        self._noise: Noise | None = None
        self._quiet = False
        self._reports: list[tuple[int, Report]] = []  # of a round that is not closed yet for all users of this host
        self._dones: dict[int, list[tuple[int, Done]]] = {}  # by round, of which the coordinator is not told yet
        self._told = -1  # the newest round of which it is
        self.host: Host | None = None
        self.users: list[User] = []
        self._first = 0
        deployment = scenario.deployment
        self.dials["coordinator"] = deployment.coordinator

    def join(self, address: str, now: float) -> None:
        """The first thing a host says."""
        self._step(self.clock + 1, now)
        self.say("coordinator", Join(address, self._data))

    @property
    def waits_for(self) -> str:
        if self.directory is None:
            return "the coordinator to hand out shares"
        if not self._begun:
            return "the coordinator to begin"
        if self.host is not None and not self.host.left:
            return "the round to end"
        return "the coordinator to dismiss everyone"

    @property
    def closed(self) -> int:
        return 0 if self.host is None else self.host.closed

    @property
    def stage(self) -> object:
        return None if self.host is None else (self.host.closed, self.limit)

    @property
    def limit(self) -> float | None:
        """Before the coordinator's limit on the round is over: what it is told then counts."""
        waits = self.host is not None and self.host.closed in self._dones
        return self._scenario.network.round_limit / 2 if waits else None

    @property
    def done(self) -> bool:
        return not self._quiet and self.host is not None and self.host.left

    def arrived(self) -> None:
        self._quiet = True
        self.say("coordinator", Quiet())

    def hear(self, key: str, name: str, item: Item) -> None:
        if type(item) is Directory:
            self.knows(key, item)
            self._take_share()
        elif type(item) is Declined:
            self.only(key, "coordinator")
            raise RunError(f"the coordinator gives this host no share: {item.reason}")
        elif type(item) is Ended:
            self.end(key, item)
        elif type(item) is Begin:
            self.only(key, "coordinator")
            self._begin()
        elif type(item) is Noise:
            self.only(key, "coordinator")
            self._take_noise(item)
        elif type(item) is Over:
            self.leave(key, item)
        else:
            super().hear(key, name, item)

    def carries(self, receiver: int) -> bool:
        return receiver == HOST or 0 <= receiver - self._first < len(self.users)

    def receive(self, envelope: Envelope) -> Iterable[Outgoing]:
        if self.host is None:
            raise Refused(Fault.OUT_OF_ORDER, "this host has no share yet")
        if envelope.receiver == HOST:
            for sender, receiver, message in self.host.receive(envelope.sender, envelope.message):
                self.send(sender, receiver, message)
            if type(envelope.message) in (Round, Goodbye):
                self._release()
            return ()
        if type(envelope.message) is Assignment and envelope.sender == COORDINATOR:
            self._check_noise(envelope.message)
        return self.users[envelope.receiver - self._first].receive(envelope.sender, envelope.message)

    def keys_for(self, receiver: int, message: Message) -> Sequence[str]:
        # The common case of a user asking or answering another one at the same host.
        if 0 <= receiver - self._first < len(self.users):
            return (self.key,)
        return super().keys_for(receiver, message)

    def send(self, sender: int, receiver: int, message: Any) -> None:
        if type(message) is Report:
            self._reports.append((sender, message))
        elif type(message) is Done and message.round > self._told:
            held = self._dones.setdefault(message.round, [])
            held.append((sender, message))
            if len(held) == len(self.users):
                self._tell_done(message.round)
        else:
            super().send(sender, receiver, message)

    def give_up(self) -> None:
        """Some users wait for answers that may never come: say who is done, and from now on whoever is."""
        if self.host is not None:
            self._tell_done(self.host.closed)

    def _tell_done(self, round_: int) -> None:
        """That users are done is told of all at once, in the order of users: when it is told says nothing of whom."""
        self._told = round_
        self._pass_on(COORDINATOR, self._dones.pop(round_, []))

    def _release(self) -> None:
        """Reports leave when all users of this host were told of the close, in the order of users."""
        assert self.host is not None
        self._dones.pop(self.host.closed - 1, None)  # the round was closed without them
        reports, self._reports = self._reports, []
        self._pass_on(LEARNER, reports)

    def _pass_on(self, receiver: int, held: list[tuple[int, Any]]) -> None:
        for user, message in sorted(held, key=lambda pair: pair[0]):
            super().send(user, receiver, message)

    def _take_share(self) -> None:
        assert self.shares is not None
        assert self.directory is not None
        assert self._dataset is not None
        mine = self.shares.by_key.get(self.key)
        if mine is None:
            raise RunError("the coordinator has dealt the shares without this host; it came too late")
        if self.directory.users != self._everyone:
            raise RunError(f"the coordinator counts {self.directory.users} users, this host {self._everyone}")
        self._first = mine.first
        self.host = Host(self._parameters, self._coins, mine.first, mine.last)
        self.host.defend(self._scenario.defences, self._scenario.clusters)
        share = slice(mine.first, mine.last)
        labels, given = self._dataset.labels[share].tolist(), self._dataset.given_clusters
        self._features = np.asarray(self._dataset.features[share], dtype=np.float32).copy()
        self._dataset = None  # the examples of others are none of this host's business
        self.users = [User(mine.first + place, label, self.host) for place, label in enumerate(labels)]
        self.log("share", first=mine.first, last=mine.last, hosts=len(self.shares.hosts))
        if self._scenario.clusters.method == "given":
            assert given is not None
            for part in encode_column("clusters", given[share]):
                self.say("coordinator", part)
        self.say("coordinator", Ready())

    def _begin(self) -> None:
        if self._begun or self.shares is None:
            raise Refused(Fault.OUT_OF_ORDER, "the host has begun, or has no share")
        self._begun = True
        deployment = self._scenario.deployment
        self.dials |= {"learner": deployment.learner, "auditor": deployment.auditor}
        # Of two hosts the one with the smaller key calls.
        self.dials |= {other.key: other.address for other in self.shares.hosts if self.key < other.key}
        for user, row in zip(self.users, self._features, strict=True):
            self.send(user.id, *user.hello(Features(row)))
        self._features = self._features[:0]

    def _take_noise(self, noise: Noise) -> None:
        asked = self._scenario.mechanism.epsilon
        if self.host is None or self._noise is not None or asked == 0:
            raise Refused(Fault.OUT_OF_ORDER, "nobody asked for noise now")
        delta = self._scenario.privacy.delta
        if delta and noise.delta != delta:
            raise RunError(f"the coordinator's delta is {noise.delta:g}, not privacy.delta = {delta:g}")
        if not 0 < noise.delta <= min(LARGEST_DELTA, 1 / self._everyone) and not delta:
            raise RunError(f"the coordinator's delta {noise.delta:g} is more than this host accepts")
        self._noise = noise
        self.host.parameters = replace(self._parameters, alpha=noise.alpha)

    def _check_noise(self, assignment: Assignment) -> None:
        """Before a user's label is flipped: is it flipped often enough for the cluster she was put into?"""
        mechanism = self._scenario.mechanism
        if mechanism.epsilon == 0 or assignment.size < self._parameters.minimum_size:
            return
        if self._noise is None:
            raise Refused(Fault.OUT_OF_ORDER, "the flips are not known yet")
        assert self.host is not None
        spent = _spent(assignment.size, self.host.parameters, self._noise.delta)
        if spent > mechanism.epsilon * (1 + 1e-9):
            raise RunError(
                f"the coordinator's alpha {self._noise.alpha:g} would spend epsilon {spent:.4g} in a cluster of "
                f"{assignment.size}; mechanism.epsilon is {mechanism.epsilon:g}"
            )


@lru_cache(maxsize=4096)
def _spent(size: int, parameters: Parameters, delta: float) -> float:
    return account(View.LEARNER, parameters, cluster_size=size, thorough=False).get_epsilon(delta).epsilon
