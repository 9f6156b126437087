"""A deployment of this machine as a page shows it: what is done to its nodes, and what they say in their logs.

Who is done and what was sent only the coordinator and the auditor know; they say it to the program that has started
them (``deployment.counts``), and nobody keeps it. The page orders nothing: a deployment does not wait for anyone.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import trio

from p2p_labeldp.deployment.local import Told
from p2p_labeldp.deployment.phases import Phase as Place
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.protocol.coordinator import Phase
from p2p_labeldp.reporting.watching.gate import Gate
from p2p_labeldp.reporting.watching.watched import Values, Watched
from p2p_labeldp.runs.guarantees import Circumstances, Table, guarantees
from p2p_labeldp.runs.run import foreseen
from p2p_labeldp.scenario import Scenario

START, HOSTS = "start", "hosts"
LATEST = 60  # events that are shown
BEFORE_THE_END = (START, HOSTS, Place.MEETING, Phase.HELLOS, Phase.EXCHANGE)
"""Stages in which nobody hangs up who has nothing to do any more."""
COUNTED = {HOSTS: "hosts have come", Phase.HELLOS: "users have joined", Phase.EXCHANGE: "users done"}
"""What the coordinator counts in a stage."""
WORDS = {
    "joined": "{host} has come",
    "dealt": "{users} users of {hosts} hosts take part",
    "clustered": "{clusters} clusters of {users} users",
    "exchanged": "the exchange is over; missing users: {missing}",
    "replayed": "has read its journal again; entries: {count}",
    "written": "has written its results",
    "away": "continues without {nodes}",
    "limit": "waits no longer for those missing in {phase}",
    "refused": "refused {peer}: {reason}",
    "shunned": "hears {peer} no more",
    "warning": "{warning}",
    "unreachable": "cannot reach {peer}: {reason}",
    "broken": "{reason}",
}
"""What a node's log line says on the page; other lines are not for it."""
BAD = frozenset({"away", "limit", "refused", "shunned", "warning", "unreachable", "broken"})


@dataclass
class _Seen:
    """A node, from outside."""

    mark: str = ""
    state: str = "starting"
    restarts: int = 0
    waits_for: str = ""
    peers: dict[str, str] = field(default_factory=dict)
    """Of each connection that stands, the peer's name by its key."""


class WatchedDeployment(Watched):
    """Its ``hear`` is for ``deploy``. Of users there are numbers alone, whatever the data."""

    kind = "deployment"
    stages = (
        (START, "nodes start"),
        (HOSTS, "hosts join"),
        (Place.MEETING, "hosts meet"),
        (Phase.HELLOS, "users join"),
        (Phase.EXCHANGE, "exchange"),
        (Place.CLOSING, "last messages arrive"),
        (Place.TRACING, "trace"),
        (Place.WRITING, "learning"),
        (Place.LEAVING, "nodes leave"),
        ("report", "report"),
    )

    def __init__(self, scenario: Scenario, title: str, data_dir: Path | None = None) -> None:
        super().__init__(scenario, title, Gate())
        self._data_dir = data_dir
        self._guard = threading.Lock()
        self._nodes: dict[str, _Seen] = {}
        self._events: deque[tuple[float, str, bool]] = deque(maxlen=LATEST)
        self._users: tuple[int, int, str] | None = None
        self._kinds: dict[str, int] = {}
        self._clusters: dict[int, tuple[int, int]] = {}
        self._full = (0, 0)
        self.hear: Told = self._hear

    # The deployment's side.

    def told(self, stage: str, done: int, total: int) -> None:
        stage = Place.CLOSING if stage == Phase.OVER else stage
        with self._guard:
            if stage in dict(self.stages):
                self._stage = stage
            if stage in COUNTED and total:
                self._users = done, total, COUNTED[stage]
        self.change()

    def _hear(self, name: str, event: dict[str, object]) -> None:
        with self._guard:
            node = self._nodes.get(name)
            if node is None:
                node = self._nodes[name] = _Seen()
            self._note(name, node, event)
        self.change()

    def _note(self, name: str, node: _Seen, facts: dict[str, object]) -> None:
        event, peer = str(facts.get("event")), str(facts.get("peer", ""))
        if event == "started":
            if node.mark == "down":
                node.restarts += 1
                self._happened(f"{name} was started again")
            node.mark, node.state = "", "starting"
        elif event == "killed":
            node.mark, node.state, node.waits_for = "down", "killed", ""
            node.peers.clear()
            self._happened(f"{name} was killed", bad=True)
        elif event == "cut":
            node.mark, node.state = "mute", "cut off"
            self._happened(f"{name} was cut off: all of its links, in both directions", bad=True)
        elif event == "mended":
            node.mark, node.state = "up", "up"
            self._happened(f"{name} goes on")
        elif event == "ended":
            well = facts.get("status") == 0
            node.mark, node.state, node.waits_for = ("", "left", "") if well else ("down", "ended", "")
            node.peers.clear()
            how = "has left" if well else f"ended with status {facts.get('status')}"
            self._happened(f"{name} {how}", bad=not well)
        elif event == "listening":
            node.mark, node.state = "up", "up"
        elif event == "connected":
            node.peers[peer] = str(facts.get("name", peer))
        elif event == "disconnected":
            lost = node.peers.pop(peer, peer)
            if self._stage in BEFORE_THE_END:
                self._happened(f"{name} lost its connection to {lost}: {facts.get('reason')}", bad=True)
        elif event == "waiting":
            node.waits_for = str(facts.get("for", ""))
        elif event == "counted":
            self._kinds[str(facts["kind"])] = int(str(facts["count"]))
            self._rates.put(dict(self._kinds))
        elif event == "filled":
            self._fill(facts)
        elif event in WORDS and (event != "unreachable" or self._stage not in (START, HOSTS)):
            if event == "exchanged" and self._users is not None:
                self._users = self._users[1] - int(str(facts["missing"])), self._users[1], COUNTED[Phase.EXCHANGE]
            said = WORDS[event].format_map(_Facts(facts))
            self._happened(f"{name}: {said}", bad=event in BAD)

    def _fill(self, facts: dict[str, object]) -> None:
        for place, pair in enumerate(str(facts["clusters"]).split(), int(str(facts["first"]))):
            done, _, size = pair.partition("/")
            self._clusters[place] = int(done), int(size)
        self._full = int(str(facts["done"])), int(str(facts["total"]))

    def _happened(self, words: str, *, bad: bool = False) -> None:
        self._events.appendleft((time.monotonic() - self._began, words, bad))

    # The server's side.

    def state(self) -> Values:
        with self._guard:
            nodes = [
                {
                    "name": name,
                    "mark": node.mark,
                    "state": node.state,
                    "connected": len(node.peers),
                    "restarts": node.restarts,
                    "waits_for": node.waits_for,
                }
                for name, node in self._nodes.items()
            ]
            each = [[cluster, *pair] for cluster, pair in sorted(self._clusters.items())]
            return super().state() | {
                "nodes": nodes,
                "up": sum(node.mark == "up" for node in self._nodes.values()),
                "restarts": sum(node.restarts for node in self._nodes.values()),
                "events": list(self._events),
                "users": self._users,
                "sent": self._rates.sent,
                "clusters": {"each": each, "full": self._full[0], "all": self._full[1]} if each else None,
            }

    async def look(self) -> None:
        """Work out what is to be expected, as each node could: the run neither waits for it nor uses it."""
        try:
            table = await trio.to_thread.run_sync(expected, self.scenario, self._data_dir, abandon_on_cancel=True)
        except (RequestError, RunError):  # the run itself says what is wrong
            return
        if table is not None and self._guarantees is None:
            self.guarantee("Expected, if everyone takes part", table, self.scenario.mechanism.kind)
            self.change()


class _Facts(dict[str, object]):
    """A log line's; what it lacks is not known."""

    def __missing__(self, key: str) -> str:
        return "?"


def expected(scenario: Scenario, data_dir: Path | None) -> Table | None:
    """Every view's guarantee for the clusters of all users; None where adversaries decide on it."""
    if scenario.adversaries:
        return None
    resolved, sizes = foreseen(scenario.settled(deployed=True), data_dir)
    return guarantees(resolved.plan, Circumstances(sizes, resolved.delta))
