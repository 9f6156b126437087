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
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from p2p_labeldp.errors import RequestError

MAX_SEED = 2**63 - 1  # TOML integers are signed 64-bit


class Rule(Protocol):
    """What a key accepts, and how to say so."""

    def allows(self, value: Any) -> bool: ...
    def __str__(self) -> str: ...


@dataclass(frozen=True)
class Number:
    low: float
    high: float = math.inf

    def allows(self, value: Any) -> bool:
        # A comparison with NaN is false, so NaN is never allowed; neither is infinity.
        return self.low <= value <= self.high and math.isfinite(value)

    def __str__(self) -> str:
        return f"a number from {self.low:g} " + ("up" if math.isinf(self.high) else f"to {self.high:g}")


@dataclass(frozen=True)
class Whole:
    low: int
    high: int | None = None

    def allows(self, value: Any) -> bool:
        return bool(self.low <= value) and (self.high is None or bool(value <= self.high))

    def __str__(self) -> str:
        return f"a whole number from {self.low} " + ("up" if self.high is None else f"to {self.high}")


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


@dataclass(frozen=True)
class Mechanism:
    """How labels are made noisy (Algorithm 2 of the paper)."""

    kind: str = key("peer_to_peer", OneOf(("peer_to_peer",)), "the mechanism")
    alpha: float = key(0.1, Number(0, 1), "probability that a user flips her label")
    theta: float = key(1.0, Number(0, 1), "probability that a user keeps and forwards what she got")
    noise: str = key("sticky", OneOf(("sticky", "fresh")), "one flip for all rounds, or one per round")
    rounds: int = key(1, Whole(1, 10_000), "how often the exchange is repeated")


@dataclass(frozen=True)
class Learner:
    """Empirical risk minimisation on what arrived."""

    l2: float = key(1e-4, Number(0), "weight of the squared norm in the loss")
    correct_flips: bool = key(False, Switch(), "undo the flips' bias with soft targets (no privacy cost)")
    max_iterations: int = key(100, Whole(1, 100_000), "limit on L-BFGS iterations")


@dataclass(frozen=True)
class Coins:
    """Where randomness comes from."""

    source: str = key("seeded", OneOf(("seeded", "system")), "repeatable, or the operating system's")
    seed: int = key(0, Whole(0, MAX_SEED), "seed of everything random in a simulation")


@dataclass(frozen=True)
class Network:
    """How messages travel in a simulation. Seconds are virtual."""

    latency: float = key(0.0, Number(0, 3600), "seconds every message takes")
    jitter: float = key(0.0, Number(0, 3600), "up to so many seconds more, drawn for each message")
    hello_limit: float = key(60.0, Number(0.001), "seconds the coordinator waits for hellos")
    round_limit: float = key(60.0, Number(0.001), "seconds a round may last before it is closed")


@dataclass(frozen=True)
class Scenario:
    """Everything a run depends on."""

    data: Data = field(default_factory=Data)
    clusters: Clusters = field(default_factory=Clusters)
    mechanism: Mechanism = field(default_factory=Mechanism)
    learner: Learner = field(default_factory=Learner)
    coins: Coins = field(default_factory=Coins)
    network: Network = field(default_factory=Network)

    def __post_init__(self) -> None:
        if self.data.name == "csv" and not self.data.path:
            raise RequestError('data.path is missing; a data set "csv" needs the file\'s path')
        if self.data.users and self.clusters.method == "kmeans" and self.clusters.count > self.data.users:
            raise RequestError(
                f"clusters.count = {self.clusters.count} is not allowed; "
                f"it must be at most the number of users, {self.data.users}"
            )
        if self.learner.correct_flips and self.learner.l2 == 0 and self.mechanism.alpha > 0:
            raise RequestError("learner.l2 = 0 is not allowed with learner.correct_flips; it must be above 0")

    def to_toml(self) -> str:
        """The scenario with every default filled in, as TOML that reads back to an equal one."""
        lines: list[str] = []
        for section, table in dataclasses.asdict(self).items():
            lines.append(f"[{section}]")
            # A JSON string, number or boolean is a TOML one too.
            lines += [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in table.items()]
            lines.append("")
        return "\n".join(lines)

    def digest(self) -> str:
        """A short name for this scenario's content; equal scenarios have equal digests."""
        return hashlib.sha256(self.to_toml().encode()).hexdigest()[:16]


SECTIONS: dict[str, type] = {
    "data": Data, "clusters": Clusters, "mechanism": Mechanism, "learner": Learner, "coins": Coins,
    "network": Network,
}  # fmt: skip


def documentation() -> Iterator[tuple[str, Any, str, str]]:
    """Every key as (dotted name, default, what is allowed, what it means)."""
    for section, cls in SECTIONS.items():
        for item in dataclasses.fields(cls):
            yield f"{section}.{item.name}", item.default, str(item.metadata["rule"]), item.metadata["doc"]


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
    except tomllib.TOMLDecodeError as error:
        raise RequestError(f"{source}: not valid TOML: {error}") from None
    values = _checked_tables(tables, lambda section, name: _place(text, source, section, name))
    for override in overrides:
        section, name, value = _parse_override(override)
        values.setdefault(section, {})[name] = value
    if seed is not None:
        values.setdefault("coins", {})["seed"] = _check("coins", "seed", seed, "--seed: ")
    try:
        return Scenario(**{section: SECTIONS[section](**table) for section, table in values.items()})
    except RequestError as error:
        raise RequestError(f"{source}: {error}") from None


def replace(scenario: Scenario, **changes: Any) -> Scenario:
    """A copy with some keys changed: ``replace(scenario, mechanism__alpha=0.2)``; checked like a file."""
    values = dataclasses.asdict(scenario)
    for dotted, value in changes.items():
        section, _, name = dotted.partition("__")
        _require_known(section, name, "")
        values[section][name] = _check(section, name, value, "")
    return Scenario(**{section: SECTIONS[section](**table) for section, table in values.items()})


def _checked_tables(tables: Mapping[str, Any], place: Any) -> dict[str, dict[str, Any]]:
    values: dict[str, dict[str, Any]] = {}
    for section, table in tables.items():
        _require_known(section, None, place(section, None))
        if not isinstance(table, dict):
            raise RequestError(f"{place(section, None)}{section} is not a section; write [{section}]")
        for name, value in table.items():
            where = place(section, name)
            _require_known(section, name, where)
            values.setdefault(section, {})[name] = _check(section, name, value, where)
    return values


def _require_known(section: str, name: str | None, where: str) -> None:
    """Unknown names are answered with the nearest valid one."""
    every_key = [dotted for dotted, *_ in documentation()]
    if section not in SECTIONS:
        near = difflib.get_close_matches(section, SECTIONS, 1, 0.5)
        owners = [dotted for dotted in every_key if dotted.split(".")[1] == section]
        guess = f"[{near[0]}]" if near else owners[0] if owners else ""
        hint = f"did you mean {guess}?" if guess else f"there are {', '.join(SECTIONS)}"
        raise RequestError(f"{where}unknown section [{section}]; {hint}")
    if name is None or f"{section}.{name}" in every_key:
        return
    own = [dotted for dotted in every_key if dotted.startswith(section + ".")]
    elsewhere = [dotted for dotted in every_key if dotted.split(".")[1] == name]
    near = elsewhere or difflib.get_close_matches(f"{section}.{name}", own, 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(own)}"
    raise RequestError(f"{where}unknown key {section}.{name}; {hint}")


def _check(section: str, name: str, value: Any, where: str) -> Any:
    item = next(item for item in dataclasses.fields(SECTIONS[section]) if item.name == name)
    rule: Rule = item.metadata["rule"]
    kind: type = type(item.default)
    typed = type(value) is kind or (kind is float and type(value) is int)
    if not typed or not rule.allows(value):
        raise RequestError(f"{where}{section}.{name} = {_show(value)} is not allowed; it must be {rule}")
    return kind(value)


def _parse_override(override: str) -> tuple[str, str, Any]:
    dotted, equals, text = override.partition("=")
    section, dot, name = dotted.strip().partition(".")
    where = f"--set {override}: "
    if not (equals and dot):
        raise RequestError(f"{where}write it as section.key=value, for example mechanism.alpha=0.2")
    _require_known(section, name, where)
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = _bare(text)
    return section, name, _check(section, name, value, where)


def _bare(text: str) -> Any:
    """What TOML would not take as a value: ``.2`` is a number, a bare word is a text."""
    try:
        return float(text)
    except ValueError:
        return text


def _place(text: str, source: str, section: str, name: str | None) -> str:
    """``file:line: `` of a key, found in the text; the file alone where the layout is unusual."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("["):
            inside = stripped.strip("[]").strip() == section
            if inside and name is None:
                return f"{source}:{number}: "
        elif inside and name is not None and stripped.partition("=")[0].strip() == name:
            return f"{source}:{number}: "
    return f"{source}: "


def _show(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
