"""A deployment without processes, sockets or disks: parts, their journals as lists, and streams that can be looked at.

Items are delivered one at a time, in an order drawn from a seed; any node can be killed between two of
them, that is rebuilt from its journal. Whatever it had said before must be what it says again.
"""

from __future__ import annotations

import hmac
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from p2p_labeldp.audit.folder import SUMMARY
from p2p_labeldp.data import Dataset, load
from p2p_labeldp.data.rows import Rows
from p2p_labeldp.deployment.auditing import AuditorPart
from p2p_labeldp.deployment.coordinating import CoordinatorPart
from p2p_labeldp.deployment.disk import RealDisk
from p2p_labeldp.deployment.dividing import claims_of, rows_of, study_of
from p2p_labeldp.deployment.intermediary import IntermediaryPart
from p2p_labeldp.deployment.items import Directory, Facts
from p2p_labeldp.deployment.journal import EXPIRED, JOINED, SETTLED, TAKEN, Entry
from p2p_labeldp.deployment.learning import Known, LearnerPart, Left
from p2p_labeldp.deployment.parts import Part
from p2p_labeldp.deployment.results import writer
from p2p_labeldp.deployment.roles import SINGLES, singles_of
from p2p_labeldp.deployment.users import UsersPart
from p2p_labeldp.engines.outcome import Outcome
from p2p_labeldp.mechanisms.coins import ExpandedEntropy, make_coins, randomness_of
from p2p_labeldp.mechanisms.mixing import Rooted, Secrets
from p2p_labeldp.mechanisms.plan import Plan
from p2p_labeldp.protocol.beforehand import plan_beforehand
from p2p_labeldp.runs import Summary, read_summary
from p2p_labeldp.scenario import Scenario
from p2p_labeldp.streams import Purpose


class KeptCoins:
    """Coins of any source, kept in a dictionary as a journal keeps them; secrets are theirs, or of a root."""

    def __init__(self, coins: Any, kept: dict[tuple[int, int, int], Any]) -> None:
        self._coins, self._kept = coins, kept
        self.secrets = coins.secrets if isinstance(coins, Rooted) else Secrets(b"a root of secrets")

    def block(self, round_: int, start: int, stop: int) -> Any:
        return self._kept.setdefault((round_, start, stop), self._coins.block(round_, start, stop))


class Model:
    def __init__(
        self,
        scenario: Scenario,
        hosts: int,
        seed: int = 0,
        parts: dict[str, Any] | None = None,
        *,
        dataset: Dataset | None = None,
        tossed: Any = None,
        wants: dict[str, Any] | None = None,
    ) -> None:
        """``dataset`` and the coins ``tossed`` are the scenario's unless given; ``wants`` the model, by key.

        Each host has its share of the data set's users, in their order; ids go by the hosts' names.
        """
        self.dataset = dataset or load(scenario.data, scenario.coins.seed)
        self.scenario = study_of(scenario, self.dataset, hosts)
        self._tossed = tossed or make_coins(scenario.coins.source, scenario.coins.seed)
        self.hosts = [f"{place:064x}" for place in range(1, hosts + 1)]
        self.names = [*singles_of(self.scenario), *self.hosts]
        self.generator = np.random.default_rng(seed)
        self.journals: dict[str, list[Entry]] = defaultdict(list)
        self.coins: dict[str, dict[tuple[int, int, int], Any]] = defaultdict(dict)
        self.streams: dict[tuple[str, str], list[tuple[int, bytes]]] = defaultdict(list)
        self.delivered: dict[tuple[str, str], int] = defaultdict(int)
        self.results: list[tuple[Outcome, Facts, Directory, float, Known]] = []
        self.trace = b""
        self.left = Left(b"a model", b"its card")
        self.wants = wants or {}
        self.logged: list[tuple[str, str, dict[str, Any]]] = []
        self.away: set[str] = set()
        self.now = 1000.0
        self._other = parts or {}
        self.parts: dict[str, Part] = {name: self.make(name) for name in self.names}
        for name in self.hosts:
            self.do(name, Entry(self.now, JOINED, name=f"host-{name[-2:]}:7430"))

    def make(self, name: str) -> Part:
        def log(event: str, **facts: Any) -> None:
            self.logged.append((name, event, facts))

        if name in self._other:
            made: Part = self._other[name](name, log, self)
            return made
        if name == "coordinator":
            return CoordinatorPart(name, log, self.scenario, "a run", signing=self.signing(name))
        if name == "auditor":
            return AuditorPart(name, log, self.scenario, self._write_trace)
        if name == "learner":
            return LearnerPart(name, log, self.scenario, self._write_results)
        if name in SINGLES:
            coins = self.scenario.settled().coins
            randomness = randomness_of(coins, Purpose.CURATOR, ExpandedEntropy(b"a root of randomness"))
            return IntermediaryPart(name, log, self.scenario, self._plan(), randomness)
        return self.make_users(name, log, UsersPart)

    def make_users(self, name: str, log: Any, kind: type[UsersPart]) -> UsersPart:
        coins = KeptCoins(self._tossed, self.coins[name])
        wanted, signing = self.wants.get(name), self.signing(name)
        return kind(name, log, self.scenario, self.rows(name), self._plan(), coins, wanted, signing)

    def signing(self, name: str) -> Any:
        return StampedKey(name) if self.scenario.mechanism.exchange == "mixed" else None

    def _plan(self) -> Plan:
        return plan_beforehand(self.scenario, len(self.dataset.classes))

    def rows(self, name: str) -> Rows:
        """A host's own."""
        users, hosts, place = len(self.dataset.labels), len(self.hosts), self.hosts.index(name)
        chosen = np.arange(users * place // hosts, users * (place + 1) // hosts)
        return rows_of(self.dataset, chosen, claims_of(self.scenario, self.dataset))

    def _write_results(self, *facts: Any) -> Left:
        self.results.append(facts)  # type: ignore[arg-type]
        return self.left

    def _write_trace(self, parts: Any) -> None:
        self.trace = b"".join(parts)

    def do(self, name: str, entry: Entry) -> None:
        self.journals[name].append(entry)
        self.parts[name].apply(entry)
        for key, clock, body in self.parts[name].said():
            self.streams[name, key].append((clock, body))

    def kill(self, name: str) -> None:
        """Rebuild a node from its journal; all it says again is what it said."""
        self.parts[name] = self.make(name)
        again: dict[tuple[str, str], list[tuple[int, bytes]]] = defaultdict(list)
        for entry in self.journals[name]:
            self.parts[name].apply(entry)
            for key, clock, body in self.parts[name].said():
                again[name, key].append((clock, body))
        before = {pair: said for pair, said in self.streams.items() if pair[0] == name and said}
        assert dict(again) == before, f"{name} says something else after {len(self.journals[name])} entries"

    def waiting(self) -> list[tuple[str, str]]:
        """Streams with something to deliver, to and from nodes that are there."""
        return [
            pair
            for pair in sorted(self.streams)
            if self.delivered[pair] < len(self.streams[pair]) and not self.away & set(pair)
        ]

    def step(self) -> bool:
        """Deliver one item, or let one node settle; False where nothing is to be done."""
        self.now += 0.001
        for name, part in self.parts.items():
            arrived = all(self.delivered[name, key] == len(self.streams[name, key]) for key in SINGLES)
            if part.done and arrived and name not in self.away:
                self.do(name, Entry(self.now, SETTLED))
                return True
        waiting = self.waiting()
        if not waiting:
            return False
        sender, receiver = waiting[int(self.generator.integers(len(waiting)))]
        self.deliver(sender, receiver)
        return True

    def deliver(self, sender: str, receiver: str) -> None:
        clock, body = self.streams[sender, receiver][self.delivered[sender, receiver]]
        self.delivered[sender, receiver] += 1
        name = sender if sender in SINGLES else f"users-{sender[-2:]}"
        self.do(receiver, Entry(self.now, TAKEN, sender, name, clock, body))

    def expire(self, name: str) -> None:
        self.do(name, Entry(self.now, EXPIRED, name=",".join(sorted(self.away - {name}))))

    def expire_round(self) -> None:
        """Hosts wait for half as long as the coordinator does."""
        for name in self.hosts:
            if name not in self.away and self.parts[name].limit is not None:
                self.expire(name)
        self.run()
        self.expire("coordinator")

    def run(self, steps: int = 100_000) -> None:
        for _ in range(steps):
            if not self.step():
                return
        raise AssertionError("no end in sight")

    def run_with(self, kills: int = 0, seed: int = 0) -> None:
        """To its end, hosts coming in the order of their names, which is public; ``kills`` nodes in 200 steps."""
        for name in self.hosts:
            self.deliver(name, "coordinator")
        chance = np.random.default_rng(seed)
        while self.step():
            if chance.random() < kills / 200:
                self.kill(self.names[int(chance.integers(len(self.names)))])
        assert all(part.over for part in self.parts.values())

    def until(self, event: str) -> None:
        """Until somebody has logged this."""
        while not any(said == event for _, said, _ in self.logged):
            assert self.step()

    def summary(self) -> Summary:
        """What the learner's folder would say, from what it was told."""
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "run"
            test = Rows(self.dataset.test_features, self.dataset.test_labels)
            writer(place, self.scenario, test, RealDisk())(*self.results[-1])
            return read_summary(place / SUMMARY)

    @property
    def digest(self) -> str:
        return self.results[-1][0].sha256()

    def write(self, place: Path) -> None:
        """The trace, to be audited."""
        place.write_bytes(self.trace)


class StampedKey:
    """What a host signs in a model: a keyed hash that everyone can check, in place of a certificate's key."""

    size = 32

    def __init__(self, name: str) -> None:
        self._name, self.chain = name, b"certificate of " + name.encode()

    def sign(self, statement: bytes) -> bytes:
        return hmac.digest(self._name.encode(), statement, "sha256")

    def check_of(self, key: str, chain: bytes) -> Callable[[bytes, bytes], bool]:
        if chain != b"certificate of " + key.encode():
            raise ValueError("its certificate is not the one that it is known by")
        return lambda statement, signature: signature == StampedKey(key).sign(statement)
