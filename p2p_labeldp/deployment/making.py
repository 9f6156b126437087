"""A node's part, made of what the node has: its scenario, its key, its journal, its rows.

Of each role only what it needs is imported: a host for one person stays small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from p2p_labeldp.data.rows import Rows
from p2p_labeldp.deployment.admission import require_same_rows
from p2p_labeldp.deployment.certified import CertifiedKey
from p2p_labeldp.deployment.erasure import RoundKeys
from p2p_labeldp.deployment.journal import MIXING, PASSING, Journal, JournaledCoins
from p2p_labeldp.deployment.logs import Logger
from p2p_labeldp.deployment.outputs import files_writer, prepare_place, trace_writer
from p2p_labeldp.deployment.parts import Part
from p2p_labeldp.deployment.world import World
from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms.coins import ExpandedEntropy, make_coins, randomness_of
from p2p_labeldp.mechanisms.plan import Plan
from p2p_labeldp.mechanisms.planning import require_installed
from p2p_labeldp.protocol.beforehand import plan_beforehand
from p2p_labeldp.scenario import EXCHANGES, Scenario
from p2p_labeldp.streams import Purpose

EXACT = "figures about the test examples are exact, and go to every host that asks for the model"


@dataclass(frozen=True)
class Making:
    scenario: Scenario
    key: str
    log: Logger
    world: World
    journal: Journal
    certificates: Path
    place: Path | None
    """Where results go that the role leaves, or the model that it asks for; None where that was not said."""
    rows: Rows | None
    run: Callable[[], str]
    """The run's name, once there is a part that knows it."""
    allowed: frozenset[str] | None
    """Names of hosts that may join; None where that is for everyone's certificate to say."""
    keys: RoundKeys | None
    """Those of the mixed exchange."""

    def part(self, role: str) -> Part:
        if role == "coordinator":
            return self._coordinator()
        if role == "auditor":
            return self._auditor()
        if self.rows is not None:
            require_same_rows(self.journal, self.rows, (self.certificates / "key.pem").read_bytes())
        plan = plan_beforehand(self.scenario, len(self.scenario.data.schema.classes))  # or why there can be none
        if role == "learner":
            return self._learner()
        return self._users(plan) if role == "users" else self._intermediary(plan)

    def _coordinator(self) -> Part:
        from p2p_labeldp.deployment.coordinating import CoordinatorPart

        run = self.journal.fact("run", self.world.entropy(8).hex())
        # Who was on the list when the run began, so that a node that starts again says the same.
        listed = self.journal.fact("allowed", ",".join(sorted(self.allowed or ())))
        expected = [name for name in listed.split(",") if name]
        root = self._root(MIXING) if self._relayed else b""
        return CoordinatorPart(self.key, self.log, self.scenario, run, root, expected, self._signing())

    def _auditor(self) -> Part:
        from p2p_labeldp.deployment.auditing import AuditorPart

        return AuditorPart(self.key, self.log, self.scenario, trace_writer(self._out(), self.run, self.world.disk))

    def _learner(self) -> Part:
        from p2p_labeldp.deployment.learning import LearnerPart
        from p2p_labeldp.deployment.results import writer
        from p2p_labeldp.learning import require_model

        scenario = self.scenario
        require_installed(scenario.mechanism.kind)
        require_model(scenario.learner)
        if self.rows is not None and not scenario.ships:
            self.log("warning", warning=EXACT)
        write = writer(self._out(), scenario, self.rows, self.world.disk)
        return LearnerPart(self.key, self.log, scenario, write)

    def _intermediary(self, plan: Plan) -> Part:
        from p2p_labeldp.deployment.intermediary import IntermediaryPart

        entropy = ExpandedEntropy(self._root(PASSING))
        randomness = randomness_of(self.scenario.coins, Purpose.CURATOR, entropy)
        return IntermediaryPart(self.key, self.log, self.scenario, plan, randomness)

    def _users(self, plan: Plan) -> Part:
        from p2p_labeldp.deployment.users import UsersPart

        scenario = self.scenario
        if self.rows is None:
            raise RequestError("--rows is missing; it names the file with this host's own rows")
        coins = make_coins(scenario.coins.source, scenario.coins.seed, self.world.entropy)
        if scenario.coins.source == "system":
            coins = JournaledCoins(coins, self.journal, self.keys)
        else:
            self.log("warning", warning='coins.source = "seeded": whoever knows the seed can undo every flip')
        keep = None
        if self.place is not None:
            keep = files_writer(prepare_place(self.place, self.journal.used), self.run, self.world.disk)
        return UsersPart(
            self.key, self.log, scenario, self.rows, plan, coins, keep, self._signing(), self._pool_writer()
        )

    def _out(self) -> Path:
        return prepare_place(self.place or self.journal.path.parent / "results", self.journal.used)

    def _pool_writer(self) -> Callable[[bytes], None] | None:
        """Where what colluders among this host's users know goes; None where the scenario has no adversaries."""
        if not self.scenario.adversaries:
            return None
        from p2p_labeldp.deployment.misbehaving import POOLED

        kinds = ", ".join(dict.fromkeys(entry.name for entry in self.scenario.adversaries))
        self.log("warning", warning=f"the scenario has adversaries, and this host carries theirs: {kinds}")
        return lambda content: self.world.disk.write(self.journal.path.parent / POOLED, [content])

    @property
    def _relayed(self) -> bool:
        return EXCHANGES[self.scenario.mechanism.exchange].relayed

    def _signing(self) -> CertifiedKey | None:
        """The key of this node's certificate, for statements of the mixed exchange."""
        return CertifiedKey.load(self.certificates) if self._relayed else None

    def _root(self, fact: str) -> bytes:
        """What all that a node draws is made from; the same after a restart."""
        return bytes.fromhex(self.journal.fact(fact, self.world.entropy(32).hex()))
