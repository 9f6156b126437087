"""A simulation as a page shows it: shown every message, it counts a few times a second and keeps what can be drawn.

All it costs a run is in ``see``: a look at each message for those of the few users that a diagram may show, and a
snapshot every ``INTERVAL``. Kinds of messages, clusters and faults are counted by the run itself anyway.
"""

from __future__ import annotations

import time
import types
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.audit.trace import Event
from p2p_labeldp.engines.actors import Simulation
from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms import Holder
from p2p_labeldp.protocol.auditor import Record
from p2p_labeldp.protocol.coordinator import Phase
from p2p_labeldp.protocol.messages import Ask, Deposit, kind_of
from p2p_labeldp.reporting.exchanges import MOST_MESSAGES, MOST_USERS, Known, chosen_clusters, exchange_of
from p2p_labeldp.reporting.messages import diagram
from p2p_labeldp.reporting.traffic import traffic_of
from p2p_labeldp.reporting.watching.gate import FASTEST, Gate
from p2p_labeldp.reporting.watching.watched import INTERVAL, Values, Watched
from p2p_labeldp.reporting.words import entry_words
from p2p_labeldp.runs.execute import Executed
from p2p_labeldp.runs.guarantees import Table
from p2p_labeldp.scenario import Scenario

REDRAWN = 0.5  # seconds between two drawings of the diagram of such a run
SHOWN_CLUSTERS = 48
CHOICES = 6  # clusters whose diagram can be chosen: messages that are kept cost a run more than those looked at
FOLLOWED = 120  # users of a cluster whose messages are kept: enough to find ten who ask each other
KEPT = 40_000  # messages at most
FEW, SOME = 4, 8  # users of a diagram before anyone has asked, and where nobody asks anybody


class WatchedSimulation(Watched):
    """An ``Observer`` of a run. Single users appear only where ``shown``."""

    kind = "simulation"
    stages = (
        ("data", "data"),
        (Phase.HELLOS, "users join"),
        (Phase.EXCHANGE, "exchange"),
        (Phase.OVER, "labels released"),
        ("learning", "learning"),
        ("report", "report"),
    )

    def __init__(self, scenario: Scenario, title: str, *, paused: bool = False) -> None:
        super().__init__(scenario, title, Gate(paused=paused))
        self._live: Values = {}
        self._known: Known | None = None
        self._peers = True
        self._groups: dict[int, list[int]] = {}
        self._placed = False
        self._followed: frozenset[int] = frozenset()
        self._kept: list[Record] = []
        self._next = 0.0
        self._simulation: Simulation | None = None
        self._last: Record | None = None
        self._place: object = None
        self._drawn: tuple[tuple[int, int], float, Values] | None = None

    # The run's side.

    def told(self, stage: str, done: int, total: int) -> None:
        if stage != "messages":  # of which ``see`` knows more
            self._look_again()
            self._stage = "learning" if stage == "attacks" else stage
            self.change()

    def _look_again(self) -> None:
        if self._simulation is not None:
            self._snapshot(self._simulation)
            self._simulation = None

    def planned(self, run: Executed, expected: Table) -> None:
        plan = run.resolved.plan
        self.guarantee("Expected, if everyone takes part", expected, plan.kind)
        if self.shown:
            self._peers = plan.holder is Holder.PEERS
            known = {user: each.entry.name.replace("_", " ") for each in run.assignments for user in each.members}
            self.follow(run.outcome.clusters, tuple(map(str, run.dataset.classes)), run.dataset.labels, known)
        self._stage = Phase.HELLOS
        self.change()

    def follow(
        self,
        clusters: NDArray[np.integer],
        classes: tuple[str, ...],
        true_labels: NDArray[np.int64],
        adversaries: Mapping[int, str] = types.MappingProxyType({}),
    ) -> None:
        """Keep messages for the diagram."""
        assert self.shown, "nobody is drawn who may be real"
        self._known = Known(self.scenario, classes, true_labels, adversaries)
        self._group(clusters)

    def see(self, simulation: Simulation, batch: list[Record]) -> int:
        followed = self._followed
        if followed:
            self._kept += [record for record in batch if record[2] in followed or record[3] in followed]
            if len(self._kept) > KEPT:
                self._followed = frozenset()
        self._last, self._place, self._simulation = batch[-1], simulation.coordinator.stage, simulation
        if time.monotonic() >= self._next:
            self._snapshot(simulation)
        return self.gate.through(lambda: self._snapshot(simulation))

    def _snapshot(self, simulation: Simulation) -> None:
        now = time.monotonic()
        self._next = now + INTERVAL
        coordinator, network, faults = simulation.coordinator, simulation.network, simulation.faults
        if coordinator.phase != Phase.HELLOS and not self._placed:
            self._placed = True
            if self._followed:
                self._group(coordinator.clusters)
        self._rates.put({str(kind.__struct_config__.tag): count for kind, count in network.kinds.items()})
        heard, sizes = coordinator.filled()
        self._stage = coordinator.phase
        self._live = {
            "sent": 0 if self._last is None else self._last[0] + 1,
            "virtual": network.now,
            "round": max(0, coordinator.round),
            "rounds": coordinator.rounds,
            "users": [coordinator.users - coordinator.awaited, coordinator.users],
            "filled": heard.tolist(),
            "sizes": sizes.tolist(),
            "faults": [] if faults is None else [rule.fired for rule in faults.rules],
            "delivery": {} if faults is None else dict(faults.delivery),
            "away": (0, 0) if faults is None else faults.away(network.now),
        }
        self.change()

    def _group(self, clusters: NDArray[np.integer]) -> None:
        """Whose messages are kept: some users of each of the clusters that can be chosen."""
        sizes = dict(enumerate(np.bincount(clusters[clusters >= 0]).tolist()))
        self._groups = {
            cluster: np.flatnonzero(clusters == cluster)[:FOLLOWED].tolist()
            for cluster in chosen_clusters(sizes, CHOICES)
        }
        self._followed = frozenset(user for group in self._groups.values() for user in group)

    # The server's side.

    def state(self) -> Values:
        live, gate = self._live, self.gate
        return super().state() | {
            "control": {"paused": gate.paused, "pace": gate.pace, "held": gate.slow},
            "sent": live.get("sent", 0),
            "virtual": live.get("virtual", 0.0),
            "round": [live["round"] + 1, live["rounds"]] if live else None,
            "users": live.get("users"),
            "clusters": _clusters(live),
            "faults": self._faults(live),
            "away": live.get("away"),
            "delivery": live.get("delivery"),
            "last": self._words(self._last) if gate.slow else "",
            "choices": [[cluster, len(group)] for cluster, group in self._groups.items()] if self.shown else [],
        }

    def _faults(self, live: Values) -> list[tuple[str, int]]:
        fired = live.get("faults") or [0] * len(self.scenario.faults)
        return [(entry_words(type(entry)), count) for entry, count in zip(self.scenario.faults, fired, strict=True)]

    def _words(self, last: Record | None) -> str:
        """The latest message, for whoever goes from one to the next."""
        if last is None:
            return ""
        number, _, sender, receiver, message = last
        if self._known is None:
            return f"{number + 1:,}: {kind_of(message)}: {message.record.purpose}"
        users = (sender,) if sender >= 0 else (receiver,) if receiver >= 0 else ()
        found = traffic_of([_event(last)], len(self._known.true_labels) if self._known.true_labels is not None else 0)
        drawn = exchange_of(self._known, found, 0, np.array(users, dtype=np.int64), users).arrows
        said = drawn[0].words if drawn else f"{kind_of(message)}: {message.record.purpose}"
        return f"{number + 1:,}: {said}"

    def diagram(self, cluster: int | None) -> Values | None:
        """Drawn once for everyone who looks at the same cluster, and not again before something has changed."""
        known, groups = self._known, self._groups
        if known is None or not groups or not self._live:
            return None
        cluster = cluster if cluster in groups else next(iter(groups))
        now, kept = time.monotonic(), len(self._kept)
        if self._drawn is not None and self._drawn[0][0] == cluster:
            waits = not self.gate.slow and not self.over and now - self._drawn[1] < REDRAWN
            if waits or self._drawn[0][1] == kept:
                return self._drawn[2]
        figure = self._draw(known, cluster, groups[cluster], self._kept[:kept])
        self._drawn = (cluster, kept), now, figure
        return figure

    def _draw(self, known: Known, cluster: int, group: list[int], kept: list[Record]) -> Values:
        inside = frozenset(group)
        theirs = [record for record in kept if record[2] in inside or record[3] in inside]
        users = self._lanes(group, inside, theirs)
        records = [record for record in theirs if record[2] in users or record[3] in users][-MOST_MESSAGES:]
        assert known.true_labels is not None
        traffic = traffic_of([_event(record) for record in records], len(known.true_labels))
        sizes = self._live["sizes"]
        members = np.arange(sizes[cluster] if cluster < len(sizes) else len(group))  # of which only the number counts
        found = exchange_of(known, traffic, cluster, members, tuple(sorted(users)))
        figure = diagram(known, traffic, found, "a few, and whoever asked them or was asked by them")
        return {"cluster": cluster, "title": figure.title, "drawing": str(figure.drawing), "caption": figure.caption}

    def _lanes(self, group: list[int], inside: frozenset[int], records: list[Record]) -> dict[int, None]:
        """Some users, then whoever asks them or is asked by them, as they do: the picture hangs together."""
        first = MOST_USERS if len(group) <= MOST_USERS else FEW if self._peers else SOME
        lanes = dict.fromkeys(group[:first])
        for _, _, sender, receiver, message in records:
            if len(lanes) >= MOST_USERS:
                break
            between = type(message) in (Ask, Deposit) and sender in inside and receiver in inside
            if between and (sender in lanes or receiver in lanes):  # one of them is new at most
                lanes |= {sender: None, receiver: None}
        return lanes

    def order(self, command: Values) -> None:
        gate = self.gate
        what = command.get("do")
        if what == "play":
            pace = command.get("pace", 0)
            if not isinstance(pace, int | float) or not 0 <= pace <= FASTEST:
                raise RequestError(f"pace must be a number from 0 to {FASTEST:g}")
            gate.play(float(pace))
        elif what == "pause":
            gate.pause()
        elif what == "step":
            gate.step(self._reached(command.get("to"), command.get("cluster")))
        else:
            raise RequestError("do must be play, pause or step")
        self.change()

    def _reached(self, to: Any, cluster: Any) -> Any:
        """Whether a simulation that was let go on has come to the next message of a cluster, or to the next stage."""
        if to is None:
            return None
        if to == "stage":
            place = self._place
            return lambda: self._place != place
        if to == "cluster":
            group = frozenset(self._groups.get(cluster, ()) if isinstance(cluster, int) else ())
            since = self._last
            if not group:
                raise RequestError("cluster must be one of those to choose from")
            return lambda: self._last is not since and self._last is not None and not group.isdisjoint(self._last[2:4])
        raise RequestError("to must be stage or cluster")


def _clusters(live: Values) -> Values | None:
    """As many as can be shown, and how many of all are full."""
    filled, sizes = live.get("filled", []), live.get("sizes", [])
    if not sizes:
        return None
    each = [[cluster, *pair] for cluster, pair in enumerate(zip(filled, sizes, strict=True)) if pair[1]]
    return {"each": each[:SHOWN_CLUSTERS], "full": sum(done == size for _, done, size in each), "all": len(each)}


def _event(record: Record) -> Event:
    number, at, sender, receiver, message = record
    return Event(number, number, at, sender, receiver, kind_of(message), msgspec.structs.astuple(message))
