"""A whole scenario: its sections and entries, checked against each other."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass, field
from typing import Any

from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario.entries import ARRAYS, Entry
from p2p_labeldp.scenario.exchanges import EXCHANGES, Exchange
from p2p_labeldp.scenario.schema import Schema, as_toml
from p2p_labeldp.scenario.sections import (
    DATA_SETS,
    MECHANISMS,
    SECTIONS,
    Clusters,
    Coins,
    Data,
    Defences,
    Deployment,
    Learner,
    Mechanism,
    Network,
    Privacy,
)


@dataclass(frozen=True)
class Scenario:
    """Everything a run depends on."""

    data: Data = field(default_factory=lambda: SECTIONS["data"]())
    clusters: Clusters = field(default_factory=lambda: SECTIONS["clusters"]())
    mechanism: Mechanism = field(default_factory=lambda: SECTIONS["mechanism"]())
    learner: Learner = field(default_factory=lambda: SECTIONS["learner"]())
    privacy: Privacy = field(default_factory=lambda: SECTIONS["privacy"]())
    coins: Coins = field(default_factory=lambda: SECTIONS["coins"]())
    network: Network = field(default_factory=lambda: SECTIONS["network"]())
    defences: Defences = field(default_factory=lambda: SECTIONS["defences"]())
    deployment: Deployment = field(default_factory=lambda: SECTIONS["deployment"]())
    faults: tuple[Entry, ...] = ()
    adversaries: tuple[Entry, ...] = ()

    def __post_init__(self) -> None:
        self._check_data()
        if self.data.users and self.clusters.method == "kmeans" and self.clusters.count > self.data.users:
            raise RequestError(
                f"clusters.count = {self.clusters.count} is not allowed; "
                f"it must be at most the number of users, {self.data.users}"
            )
        self._check_limits()
        self._check_kind()
        self._check_entries()

    @property
    def data_seed(self) -> int:
        """What examples and clusters are drawn from: a comparison keeps them while the coins change."""
        return self.coins.seed if self.data.seed < 0 else self.data.seed

    @property
    def ships(self) -> bool:
        """Whether the examples come with the package or are made up: no label of a real person is among them."""
        return DATA_SETS[self.data.name].ships

    def settled(self, *, deployed: bool = False) -> Scenario:
        """With the source of its coins decided: a seed undoes every flip, so that real labels get none unasked."""
        if self.coins.source != "auto":
            return self
        source = "system" if deployed or not self.ships else "seeded"
        return dataclasses.replace(self, coins=dataclasses.replace(self.coins, source=source))

    def _check_data(self) -> None:
        data = self.data
        if data.name == "csv" and not (data.path or data.schema):
            raise RequestError('data.path is missing; a data set "csv" needs the file\'s path, or a study data.schema')

    def _check_limits(self) -> None:
        """Limits are for what goes wrong; a message on its way within its time must not run into one."""
        slowest = self.network.latency + self.network.jitter
        for name, limit, hops in (
            ("hello_limit", self.network.hello_limit, 1),
            ("round_limit", self.network.round_limit, self._hops),
        ):
            if limit <= hops * slowest:
                raise RequestError(
                    f"network.{name} = {limit:g} is not allowed; it must be above {hops * slowest:g}, "
                    f"which {hops} message{'s' if hops > 1 else ''} may take"
                )

    @property
    def _hops(self) -> int:
        """Messages one after the other in a round."""
        hops, for_each_relay = EXCHANGES[self.mechanism.exchange].hops
        return hops + for_each_relay * self.mechanism.relays

    def _check_kind(self) -> None:
        mechanism = self.mechanism
        reads = MECHANISMS[mechanism.kind]
        if mechanism.rounds > 1 and not reads.exchanged:
            raise RequestError(
                f"mechanism.rounds = {mechanism.rounds} is not allowed with {mechanism.kind}; it must be 1"
            )
        self._check_exchange()
        given = "alpha" in reads.instead or mechanism.sigma > 0 < mechanism.lambda_
        if mechanism.epsilon == 0 and reads.epsilon and not (reads.instead and given):
            instead = f", or {' and '.join(reads.instead)}" if reads.instead else ""
            raise RequestError(f"mechanism.epsilon is missing; {mechanism.kind} needs it{instead}")

    def _check_exchange(self) -> None:
        """Relays are for the mixed exchange, and that is a way to run Algorithm 2."""
        mechanism = self.mechanism
        relayed = {name: value for name in ("relays", "withstand") if (value := getattr(mechanism, name))}
        if mechanism.exchange != Exchange.PULL and mechanism.kind != "peer_to_peer":
            raise RequestError(
                f'mechanism.exchange = "{mechanism.exchange}" is not allowed with {mechanism.kind}; '
                "it is for peer_to_peer"
            )
        if EXCHANGES[mechanism.exchange].relayed:
            if not relayed:
                raise RequestError(
                    f'mechanism.relays is missing; exchange "{mechanism.exchange}" needs it, or withstand'
                )
            if len(relayed) == 2:
                raise RequestError(
                    "mechanism.relays and mechanism.withstand exclude each other: relays follow from withstand; "
                    "leave one out"
                )
            if mechanism.relays > self.clusters.minimum_size:
                raise RequestError(
                    f"mechanism.relays = {mechanism.relays} is not allowed; relays are members of their cluster, so it "
                    f"must be at most clusters.minimum_size, {self.clusters.minimum_size}"
                )
            return
        for name, value in relayed.items():
            raise RequestError(
                f'mechanism.{name} = {value} is not allowed with exchange "{mechanism.exchange}"; it is for "mixed"'
            )

    def _check_entries(self) -> None:
        """What an entry's own keys cannot tell: windows against the length of the run."""
        longest = self.network.hello_limit + self.mechanism.rounds * self.network.round_limit
        for number, fault in enumerate(self.faults, 1):
            begins = getattr(fault, "at", getattr(fault, "start", 0.0))
            if begins >= longest:
                raise RequestError(
                    f"faults[{number}] ({fault.name}): begins at second {begins:g}, but the run is over by {longest:g}"
                )
        deployed = [*self.faults, *self.adversaries]
        if deployed and not MECHANISMS[self.mechanism.kind].exchanged:
            raise RequestError(f"faults and adversaries are for peer_to_peer, not {self.mechanism.kind}")

    def tables(self) -> dict[str, dict[str, Any]]:
        """Every section as a table of its keys."""
        return {section: dict(vars(getattr(self, section))) for section in SECTIONS}

    def to_toml(self, *, seed: bool = True) -> str:
        """The scenario with every default filled in, as TOML that reads back to an equal one.

        Without ``seed`` nothing is said of the coins: for a file that others than the seed's owner may read.
        """
        lines: list[str] = []
        for section, table in self.tables().items():
            if section == "coins" and not seed:
                continue
            if section == "mechanism" and self.mechanism.epsilon > 0:
                del table["alpha"]  # it follows from epsilon, and a file names one of the two
            schema: Schema | None = table.pop("schema", None)  # a table of its own behind the others
            lines.append(f"[{section}]")
            lines += [f"{name.rstrip('_')} = {as_toml(value)}" for name, value in table.items()]
            lines.append("")
            if schema:
                lines += [*schema.to_toml(), ""]
        for array, (naming, _) in ARRAYS.items():
            for entry in getattr(self, array):
                lines += [f"[[{array}]]", f"{naming} = {as_toml(entry.name)}"]
                # A selection of nobody and an open end are said by silence.
                lines += [f"{name} = {as_toml(value)}" for name, value in entry.as_table().items() if value != ()]
                lines.append("")
        return "\n".join(lines)

    def digest(self, *, seed: bool = True) -> str:
        """A short name for this scenario's content; equal scenarios have equal digests.

        Seeds are few enough to be tried one by one: a digest ``seed`` is part of tells it.
        """
        return hashlib.sha256(self.to_toml(seed=seed).encode()).hexdigest()[:16]

    def shared_digests(self) -> dict[str, str]:
        """A digest of every key that the nodes of a deployment must agree on: not where they run or keep files.

        Nor the seed: nodes show these to each other, and seeds are few enough to be tried one by one.
        """
        apart = {("data", "path"), ("coins", "seed")}
        return {
            f"{section}.{name.rstrip('_')}": hashlib.sha256(as_toml(value).encode()).hexdigest()[:8]
            for section, table in self.tables().items()
            for name, value in table.items()
            if section != "deployment" and (section, name) not in apart
        } | {
            array: hashlib.sha256(repr(entries).encode()).hexdigest()[:8]
            for array in ARRAYS
            if (entries := getattr(self, array))
        }
