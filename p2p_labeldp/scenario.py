"""What to run: plain typed configuration, read from TOML and checked.

Every key is a dataclass field with a default, a rule that says what is allowed and a line of
documentation; reading, checking, overriding and writing back all work from those fields, so a key is
declared in exactly one place. The scenario knows nothing of the other rooms: what depends on the data
(more clusters than users, say) is checked where the data is.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import math
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from p2p_labeldp.errors import RequestError

MAX_WHOLE = MAX_SEED = 2**63 - 1  # TOML integers are signed 64-bit


class Rule(Protocol):
    """What a key accepts, and how to say so."""

    def allows(self, value: Any) -> bool: ...
    def __str__(self) -> str: ...


@dataclass(frozen=True)
class Number:
    low: float
    high: float = math.inf

    def allows(self, value: Any) -> bool:
        # A comparison with NaN is false, so NaN is never allowed; neither is infinity or what rounds to it.
        return bool(self.low <= value <= min(self.high, sys.float_info.max))

    def __str__(self) -> str:
        return f"a number from {self.low:g} " + ("up" if math.isinf(self.high) else f"to {self.high:g}")


@dataclass(frozen=True)
class Whole:
    low: int
    high: int = MAX_WHOLE

    def allows(self, value: Any) -> bool:
        return bool(self.low <= value <= self.high)

    def __str__(self) -> str:
        return f"a whole number from {self.low} to {self.high}"


@dataclass(frozen=True)
class OneOf:
    choices: tuple[str, ...]

    def allows(self, value: Any) -> bool:
        return value in self.choices

    def __str__(self) -> str:
        return "one of " + ", ".join(f'"{choice}"' for choice in self.choices)


@dataclass(frozen=True)
class Text:
    def allows(self, value: Any) -> bool:
        return isinstance(value, str) and "\0" not in value

    def __str__(self) -> str:
        return "a text"


@dataclass(frozen=True)
class Address:
    optional: bool = False

    def allows(self, value: Any) -> bool:
        if value == "":
            return self.optional
        host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
        return bool(host) and port.isascii() and port.isdigit() and int(port) < 1 << 16 and value.isprintable()

    def __str__(self) -> str:
        return 'a text "host:port", port from 0 to 65535' + (", or empty" if self.optional else "")


@dataclass(frozen=True)
class Switch:
    def allows(self, value: Any) -> bool:
        return isinstance(value, bool)

    def __str__(self) -> str:
        return "true or false"


def key(default: Any, rule: Rule, doc: str) -> Any:
    """Declare one key of a section: its default, what it accepts and what it means."""
    return field(default=default, metadata={"rule": rule, "doc": doc})


DATA_SETS = (
    "digits", "breast_cancer", "synthetic", "mnist", "fashion_mnist", "cifar10", "adult", "diabetes130", "csv",
)  # fmt: skip
TARGETS = ("class", "parity", "early", "any")


@dataclass(frozen=True)
class Data:
    """Which labelled examples the users hold."""

    name: str = key("digits", OneOf(DATA_SETS), "the data set")
    users: int = key(0, Whole(0), "how many users, each with one training example; 0 takes all there are")
    test_fraction: float = key(0.2, Number(0.01, 0.9), "share held out where no test set is fixed")
    target: str = key("class", OneOf(TARGETS), "which label: every class, or a two-label question")
    path: str = key("", Text(), "the file, for csv")
    label_column: str = key("label", Text(), "the label's column, for csv")
    cluster_column: str = key("", Text(), "the column of given clusters, for csv")
    groups: int = key(8, Whole(1, 1_000_000), "how many Gaussian clusters, for synthetic")
    dimensions: int = key(2, Whole(1, 10_000), "how many features, for synthetic")
    labels: int = key(2, Whole(2, 1_000), "how many labels, for synthetic")
    spread: float = key(0.3, Number(0), "standard deviation inside a group, for synthetic")
    separation: float = key(1.0, Number(0), "standard deviation of the groups' centres, for synthetic")
    sharpness: float = key(1.0, Number(0), "how strongly features decide the label, for synthetic")
    rate: float = key(0.5, Number(0.0001, 0.9999), "share of label 1, for synthetic with two labels")


@dataclass(frozen=True)
class Clusters:
    """How the coordinator groups users by their public features."""

    method: str = key("kmeans", OneOf(("kmeans", "given")), "k-means, or the clusters the data set names")
    count: int = key(10, Whole(1), "how many clusters k-means looks for")
    minimum_size: int = key(
        10, Whole(1), "smaller k-means clusters are merged; users abstain in smaller ones that remain"
    )


MECHANISM_KINDS = (
    "peer_to_peer", "shuffle", "uniform_rr", "cluster_rr", "centralized", "rr_with_prior", "dp_sgd", "none",
)  # fmt: skip


@dataclass(frozen=True)
class Mechanism:
    """How labels are made noisy: Algorithm 2 of the paper, or something to compare it with."""

    kind: str = key("peer_to_peer", OneOf(MECHANISM_KINDS), "the mechanism")
    alpha: float = key(0.1, Number(0, 1), "probability that a user flips her label (peer_to_peer, shuffle)")
    theta: float = key(1.0, Number(0, 1), "probability that a user keeps and forwards what she got (peer_to_peer)")
    epsilon: float = key(0.0, Number(0), "what the learner may learn in total; the noise follows from it; 0: not asked")
    tau: float = key(0.01, Number(0, 1), "least share of a label in a noisy distribution (cluster_rr, centralized)")
    sigma: float = key(0.0, Number(0), "scale of the noise on counts (centralized); 0: from epsilon")
    lambda_: float = key(0.0, Number(0, 1), "probability that a label is drawn anew (centralized); 0: from epsilon")
    beta: float = key(0.0, Number(0, 0.999999), "how much of the drawing the loss undoes (centralized)")
    noise: str = key("sticky", OneOf(("sticky", "fresh")), "one flip for all rounds, or one per round")
    rounds: int = key(1, Whole(1, 10_000), "how often the exchange is repeated")


@dataclass(frozen=True)
class Learner:
    """Empirical risk minimisation on what arrived."""

    l2: float = key(1e-4, Number(0), "weight of the squared norm in the loss")
    correct_flips: bool = key(False, Switch(), "undo the flips' bias with soft targets (no privacy cost)")
    max_iterations: int = key(100, Whole(1, 100_000), "limit on L-BFGS iterations")


@dataclass(frozen=True)
class Privacy:
    """How guarantees are stated."""

    delta: float = key(0.0, Number(0, 1), "the delta of every epsilon; 0: 1/(smallest cluster)^2, at most 1/users")


@dataclass(frozen=True)
class Coins:
    """Where randomness comes from."""

    source: str = key("seeded", OneOf(("seeded", "system")), "repeatable, or the operating system's")
    seed: int = key(0, Whole(0, MAX_SEED), "seed of everything random in a simulation")


@dataclass(frozen=True)
class Network:
    """How messages travel. Seconds are virtual in a simulation; a deployment knows the limits alone, in real ones."""

    latency: float = key(0.0, Number(0, 3600), "seconds every message takes")
    jitter: float = key(0.0, Number(0, 3600), "up to so many seconds more, drawn for each message")
    hello_limit: float = key(60.0, Number(0.001), "seconds the coordinator waits for hellos")
    round_limit: float = key(60.0, Number(0.001), "seconds a round may last before it is closed")


@dataclass(frozen=True)
class Deployment:
    """Where the programs of a deployment run. Nothing here changes a result; seconds are real.

    Every key is also a flag of ``node`` and ``deploy`` (``--away-limit``) and an environment variable
    (``P2P_LABELDP_AWAY_LIMIT``); the flag counts before the variable, the variable before the scenario.
    """

    hosts: int = key(
        0, Whole(0, 4096), "how many users hosts to wait for; 0: those that come until none has for a while"
    )
    coordinator: str = key("127.0.0.1:7400", Address(), "where the coordinator is reached")
    enrolment: str = key("127.0.0.1:7401", Address(), "where users hosts without a certificate enrol")
    learner: str = key("127.0.0.1:7410", Address(), "where the learner is reached")
    auditor: str = key("127.0.0.1:7420", Address(), "where the auditor is reached")
    listen: str = key(
        "", Address(True), "where this node listens; empty: at its own address, a users host at a free port"
    )
    advertise: str = key("", Text(), "the host name under which other hosts reach this one; empty: as it listens")
    health: str = key("", Address(True), "where this node answers GET /healthz; empty: nowhere")
    certs: str = key("", Text(), "the folder with this node's ca.pem, cert.pem and key.pem")
    join: str = key("", Text(), "the folder with ca.pem and the token, for a users host that enrols")
    authority: str = key("", Text(), "the folder of the enrolment authority, for a coordinator that enrols hosts")
    state: str = key("", Text(), "the folder of this node's journal")
    settle: float = key(
        3.0, Number(0.1, 3600), "seconds without another host after which shares are dealt, where hosts = 0"
    )
    away_limit: float = key(60.0, Number(0.1), "seconds a node may stay away before the others go on without it")


@dataclass(frozen=True)
class Scenario:
    """Everything a run depends on."""

    data: Data = field(default_factory=Data)
    clusters: Clusters = field(default_factory=Clusters)
    mechanism: Mechanism = field(default_factory=Mechanism)
    learner: Learner = field(default_factory=Learner)
    privacy: Privacy = field(default_factory=Privacy)
    coins: Coins = field(default_factory=Coins)
    network: Network = field(default_factory=Network)
    deployment: Deployment = field(default_factory=Deployment)

    def __post_init__(self) -> None:
        if self.data.name == "csv" and not self.data.path:
            raise RequestError('data.path is missing; a data set "csv" needs the file\'s path')
        if self.data.users and self.clusters.method == "kmeans" and self.clusters.count > self.data.users:
            raise RequestError(
                f"clusters.count = {self.clusters.count} is not allowed; "
                f"it must be at most the number of users, {self.data.users}"
            )
        noisy = self.mechanism.alpha > 0 or self.mechanism.epsilon > 0
        if self.learner.correct_flips and self.learner.l2 == 0 and noisy:
            raise RequestError("learner.l2 = 0 is not allowed with learner.correct_flips; it must be above 0")
        self._check_limits()
        self._check_kind()

    def _check_limits(self) -> None:
        """Limits are for what goes wrong; a message on its way within its time must not run into one."""
        slowest = self.network.latency + self.network.jitter
        for name, limit, hops in (
            ("hello_limit", self.network.hello_limit, 1),
            ("round_limit", self.network.round_limit, 4),
        ):
            if limit <= hops * slowest:
                raise RequestError(
                    f"network.{name} = {limit:g} is not allowed; it must be above {hops * slowest:g}, "
                    f"which {hops} message{'s' if hops > 1 else ''} may take"
                )

    def _check_kind(self) -> None:
        mechanism = self.mechanism
        if mechanism.kind in ("peer_to_peer",):
            return
        if mechanism.rounds > 1:
            raise RequestError(
                f"mechanism.rounds = {mechanism.rounds} is not allowed with {mechanism.kind}; it must be 1"
            )
        needs = mechanism.kind in ("uniform_rr", "cluster_rr", "rr_with_prior", "dp_sgd")
        given = mechanism.sigma > 0 and mechanism.lambda_ > 0
        if mechanism.epsilon == 0 and (needs or (mechanism.kind == "centralized" and not given)):
            instead = ", or sigma and lambda" if mechanism.kind == "centralized" else ""
            raise RequestError(f"mechanism.epsilon is missing; {mechanism.kind} needs it{instead}")

    def to_toml(self) -> str:
        """The scenario with every default filled in, as TOML that reads back to an equal one."""
        lines: list[str] = []
        for section, table in dataclasses.asdict(self).items():
            if section == "mechanism" and self.mechanism.epsilon > 0:
                del table["alpha"]  # it follows from epsilon, and a file names one of the two
            lines.append(f"[{section}]")
            lines += [f"{name.rstrip('_')} = {_as_toml(value)}" for name, value in table.items()]
            lines.append("")
        return "\n".join(lines)

    def digest(self) -> str:
        """A short name for this scenario's content; equal scenarios have equal digests."""
        return hashlib.sha256(self.to_toml().encode()).hexdigest()[:16]

    def shared_digests(self) -> dict[str, str]:
        """A digest of every key that the nodes of a deployment must agree on: not where they run or keep files."""
        return {
            f"{section}.{name.rstrip('_')}": hashlib.sha256(_as_toml(value).encode()).hexdigest()[:8]
            for section, table in dataclasses.asdict(self).items()
            for name, value in table.items()
            if section != "deployment" and (section, name) != ("data", "path")
        }


SECTIONS: dict[str, type] = {
    "data": Data, "clusters": Clusters, "mechanism": Mechanism, "learner": Learner,
    "privacy": Privacy,
    "coins": Coins,
    "network": Network,
    "deployment": Deployment,
}  # fmt: skip


def documentation() -> Iterator[tuple[str, Any, str, str]]:
    """Every key as (dotted name, default, what is allowed, what it means)."""
    for section, cls in SECTIONS.items():
        for item in dataclasses.fields(cls):
            yield f"{section}.{key_of(item)}", item.default, str(item.metadata["rule"]), item.metadata["doc"]


def key_of(item: dataclasses.Field[Any]) -> str:
    """A field's key: ``lambda`` is no name for a field, so there an underscore follows."""
    return item.name.rstrip("_")


def load_scenario(path: Path | str, overrides: Iterable[str] = (), seed: int | None = None) -> Scenario:
    """Read a scenario file, apply ``key=value`` overrides and check everything."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RequestError(f"{path}: there is no such scenario file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{path}: cannot be read as a scenario: {_reason(error)}") from None
    return parse_scenario(text, str(path), overrides, seed)


def parse_scenario(
    text: str, source: str = "scenario", overrides: Iterable[str] = (), seed: int | None = None
) -> Scenario:
    """Like :func:`load_scenario`, from text; ``source`` is what messages call it."""
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number too long is a plain ValueError
        raise RequestError(f"{source}: not valid TOML: {error}") from None
    values: dict[str, dict[str, Any]] = {}
    for section, name, value in _entries(tables):
        try:
            checked = _checked(section, name, value)
        except RequestError as error:
            known = name if section in SECTIONS else None
            raise RequestError(f"{_place(text, source, section, known)}: {error}") from None
        if name is not None:
            values.setdefault(section, {})[_field(section, name).name] = checked
    asked: dict[str, dict[str, Any]] = {}
    for override in overrides:
        try:
            section, name, value = _parse_override(override)
            asked.setdefault(section, {})[_field(section, name).name] = _checked(section, name, value)
        except RequestError as error:
            raise RequestError(f"--set {override}: {error}") from None
    for section, table in asked.items():
        if section == "mechanism":
            # Whichever of alpha and epsilon a command line names stands in place of the file's other one.
            for mine, other in (("alpha", "epsilon"), ("epsilon", "alpha")):
                if mine in table and other not in table:
                    values.get(section, {}).pop(other, None)
        values.setdefault(section, {}).update(table)
    if seed is not None:
        try:
            values.setdefault("coins", {})["seed"] = _checked("coins", "seed", seed)
        except RequestError as error:
            raise RequestError(f"--seed: {error}") from None
    try:
        _require_one_noise(values.get("mechanism", {}))
        return Scenario(**{section: SECTIONS[section](**table) for section, table in values.items()})
    except RequestError as error:
        raise RequestError(f"{source}: {error}") from None


def _require_one_noise(mechanism: Mapping[str, Any]) -> None:
    if mechanism.get("epsilon", 0.0) > 0 and "alpha" in mechanism:
        raise RequestError(
            "mechanism.alpha and mechanism.epsilon exclude each other: alpha follows from epsilon; "
            "leave one out, or set mechanism.epsilon=0"
        )


def replace(scenario: Scenario, **changes: Any) -> Scenario:
    """A copy with some keys changed: ``replace(scenario, mechanism__alpha=0.2)``; checked like a file."""
    values = dataclasses.asdict(scenario)
    for dotted, value in changes.items():
        section, _, name = dotted.partition("__")
        values[section][name] = _checked(section, name.rstrip("_"), value)
    return Scenario(**{section: SECTIONS[section](**table) for section, table in values.items()})


def _entries(tables: Mapping[str, Any]) -> Iterator[tuple[str, str | None, Any]]:
    """Every (section, key, value) of a parsed file; a section that is none, or is empty, has no key."""
    for section, table in tables.items():
        if not isinstance(table, dict) or not table:
            yield section, None, table
        else:
            yield from ((section, name, value) for name, value in table.items())


def _checked(section: str, name: str | None, value: Any) -> Any:
    """The value of a known key, if its rule allows it."""
    if section not in SECTIONS:
        raise RequestError(f"unknown section [{section}]; {_nearest(section, None)}")
    if name is None:
        if not isinstance(value, dict):
            raise RequestError(f"{section} is not a section; write [{section}]")
        return None
    item = _field(section, name)
    rule: Rule = item.metadata["rule"]
    kind: type = type(item.default)
    typed = type(value) is kind or (kind is float and type(value) is int)
    if not typed or not rule.allows(value):
        raise RequestError(f"{section}.{name} = {_show(value)} is not allowed; it must be {rule}")
    return kind(value)


def _field(section: str, name: str) -> dataclasses.Field[Any]:
    for item in dataclasses.fields(SECTIONS[section]):
        if key_of(item) == name:
            return item
    raise RequestError(f"unknown key {section}.{name}; {_nearest(section, name)}")


def _nearest(section: str, name: str | None) -> str:
    """A hint at the valid name that was probably meant."""
    every_key = [dotted for dotted, *_ in documentation()]
    if name is None:
        near = [f"[{found}]" for found in difflib.get_close_matches(section, SECTIONS, 1, 0.5)]
        near += [dotted for dotted in every_key if dotted.split(".")[1] == section]
        others: Iterable[str] = SECTIONS
    else:
        own = [dotted for dotted in every_key if dotted.startswith(section + ".")]
        near = [dotted for dotted in every_key if dotted.split(".")[1] == name]
        near += difflib.get_close_matches(f"{section}.{name}", own, 1, 0.5)
        others = own
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(others)}"


def _parse_override(override: str) -> tuple[str, str, Any]:
    dotted, equals, text = override.partition("=")
    section, dot, name = dotted.strip().partition(".")
    if not (equals and dot):
        raise RequestError("write it as section.key=value, for example mechanism.alpha=0.2")
    if section not in SECTIONS:
        _checked(section, None, {})
    if isinstance(_field(section, name).default, str) and not text.lstrip().startswith(('"', "'")):
        return section, name, text  # a bare word is a text, whatever TOML would make of it
    try:
        return section, name, tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return section, name, _bare(text)


def _bare(text: str) -> Any:
    """What TOML would not take as a value: ``.2`` is a number, anything else a text."""
    try:
        return float(text)
    except ValueError:
        return text


def _place(text: str, source: str, section: str, name: str | None) -> str:
    """``file:line`` of a key: the end of the shortest beginning of the file that holds it."""
    lines = text.splitlines(keepends=True)
    for count in range(1, min(len(lines), 2000) + 1):
        try:
            table = tomllib.loads("".join(lines[:count])).get(section)
        except (ValueError, RecursionError):
            continue
        if table is not None and (name is None or (isinstance(table, dict) and name in table)):
            return f"{source}:{count}"
    return source


def _as_toml(value: Any) -> str:
    """A JSON string, number or boolean is a TOML one too, but for the delete character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _show(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) > 10**30:
        return "a number of more than 30 digits"
    return str(value)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
