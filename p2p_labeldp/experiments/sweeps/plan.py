"""What a sweep runs: settings times replicates, each replicate with a seed of its own.

A setting is a value for each varied key. Its seeds are spawned from the scenario's seed and from what the setting
says, not from where it stands, so that a value more in a grid leaves everyone else's rows as they were. Of a
``paired`` sweep the replicate alone decides: all settings of one replicate have the same test split and the same coins,
so that their differences are the settings' own.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import itertools
import json
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from p2p_labeldp.adversaries.install import refuse_misbehaviour
from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments.sweeps.ineffective import why_idle
from p2p_labeldp.learning import model_of
from p2p_labeldp.mechanisms import require_installed
from p2p_labeldp.scenario import ENGINES, Engine, Scenario, check_override, parse_scenario
from p2p_labeldp.scenario.engines import check_options
from p2p_labeldp.streams import Purpose

NOISE = ("mechanism.alpha", "mechanism.epsilon")
"""Each stands in place of the other, so that a listed setting may leave one of them empty."""
MESSAGES_ONLY = ("network.", "defences.one_answer", "defences.check_assignment")
"""Keys that change nothing where no messages are sent."""
ZERO = {
    "mechanism.epsilon": "that no epsilon is asked for",
    "mechanism.sigma": "that it follows from epsilon",
    "mechanism.lambda": "that it follows from epsilon",
    "privacy.delta": "a delta that follows from the clusters",
}
"""What 0 means where it is no number among others, and would be drawn in the wrong place."""

Setting = tuple[Any, ...]


class Job(NamedTuple):
    """One replicate to run."""

    setting: int
    replicate: int
    seed: int
    scenario: Scenario


class Failure(NamedTuple):
    """A replicate that could not be run, or broke."""

    setting: int
    replicate: int
    reason: str


@dataclass(frozen=True)
class Plan:
    """A sweep: every setting ``seeds`` times."""

    scenario: Scenario
    keys: tuple[str, ...]
    settings: tuple[Setting, ...]
    """Values in the order of ``keys``; None where a setting leaves the key out."""
    seeds: int
    engine: str
    hosting: str | None
    paired: bool = False
    """Whether replicate r has one seed in all settings."""

    def named(self, setting: int) -> dict[str, Any]:
        """The keys that a setting sets, with their values."""
        values = zip(self.keys, self.settings[setting], strict=True)
        return {key: value for key, value in values if value is not None}

    def require_installed(self) -> None:
        """Raise RequestError where a setting's mechanism needs an extra that is missing, or its model is none."""
        for setting in range(len(self.settings)):
            require_installed(self.named(setting).get("mechanism.kind", self.scenario.mechanism.kind))
            model_of(self.named(setting).get("learner.model", self.scenario.learner.model))

    def data_sets(self) -> set[tuple[str, str]]:
        """(data.name, data.path) of every setting."""
        data = self.scenario.data
        named = [self.named(setting) for setting in range(len(self.settings))]
        return {(each.get("data.name", data.name), each.get("data.path", data.path)) for each in named}

    def seed(self, setting: int, replicate: int) -> int:
        """The seed of a replicate; the same whatever else the sweep holds."""
        content = "paired" if self.paired else json.dumps(self.named(setting), sort_keys=True)
        words = int.from_bytes(hashlib.sha256(content.encode()).digest()[:16], "little")
        entropy = [self.scenario.coins.seed, int(Purpose.SWEEP), words]
        sequence = np.random.SeedSequence(entropy, spawn_key=(replicate,))
        return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))

    def scenario_of(self, setting: int) -> Scenario:
        """The scenario with a setting's values, as ``--set`` would put them. RequestError where they clash."""
        named = self.named(setting)
        overrides = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in named.items()]
        try:
            return parse_scenario(self.scenario.to_toml(), "", overrides)
        except RequestError as error:
            raise RequestError(str(error).removeprefix(": ")) from None

    def scenarios(self) -> Iterator[Scenario | RequestError]:
        """Of every setting, or why it has none: a failure of its own, once it is to be run."""
        for setting in range(len(self.settings)):
            try:
                yield self.scenario_of(setting)
            except RequestError as error:
                yield error

    def kinds_of_scenarios(self) -> list[Scenario]:
        """Scenarios that between them have every fault and adversary of the sweep."""
        if not any("[" in key for key in self.keys):
            return [self.scenario]
        found: dict[tuple[str, ...], Scenario] = {}
        for scenario in self.scenarios():
            if isinstance(scenario, Scenario):
                found.setdefault(tuple(entry.name for entry in (*scenario.faults, *scenario.adversaries)), scenario)
        return list(found.values()) or [self.scenario]

    def jobs(self, done: Container[tuple[int, int]]) -> tuple[list[Job], list[Failure]]:
        """What is not done yet, and what cannot be, since a setting's values do not go together.

        All settings come once before any comes a second time, so that early rows tell something of each.
        """
        scenarios = list(self.scenarios())
        jobs, failures = [], []
        for replicate, setting in itertools.product(range(self.seeds), range(len(self.settings))):
            scenario = scenarios[setting]
            if (setting, replicate) in done:
                continue
            if isinstance(scenario, RequestError):
                failures.append(Failure(setting, replicate, str(scenario)))
                continue
            seed = self.seed(setting, replicate)
            coins = dataclasses.replace(scenario.coins, seed=seed)
            jobs.append(Job(setting, replicate, seed, dataclasses.replace(scenario, coins=coins)))
        return jobs, failures


def seeded(scenario: Scenario, what: str) -> Scenario:
    """The scenario with coins from seeds, which are spawned from its own. RequestError where it asks for others."""
    if scenario.coins.source == "system":
        raise RequestError(f'coins.source = "system" has no seeds; {what} needs --set coins.source=seeded')
    return dataclasses.replace(scenario, coins=dataclasses.replace(scenario.coins, source="seeded"))


def make_plan(
    scenario: Scenario,
    vary: Sequence[str] = (),
    listed: Path | None = None,
    *,
    seeds: int,
    engine: str | None = None,
    hosting: str = "user",
    paired: bool = False,
) -> Plan:
    """Read ``key=v1,v2`` and the file of listed settings; every pair of a listed one and one of the grid is run.

    >>> plan = make_plan(Scenario(), ["mechanism.alpha=.05,.1", "mechanism.theta=.5,1"], seeds=3)
    >>> plan.settings
    ((0.05, 0.5), (0.05, 1.0), (0.1, 0.5), (0.1, 1.0))
    """
    if seeds < 1:
        raise RequestError(f"--seeds {seeds} is not allowed; it must be at least 1")
    check_options(engine, hosting)
    scenario = seeded(scenario, "a sweep")
    axes = [_axis(text, scenario) for text in vary]
    keys, lines = _listed(listed, scenario) if listed is not None else ((), [()])
    for key, _ in axes:
        if key in keys:
            raise RequestError(f"--vary {key}: is varied twice; name all its values at once")
        keys = (*keys, key)
    if set(NOISE) <= set(keys) and any(key in NOISE for key, _ in axes):
        raise RequestError(
            f"{' and '.join(NOISE)} exclude each other: vary one of them, "
            "or list settings in a file (--settings) that leave the other empty"
        )
    grid = itertools.product(*(values for _, values in axes))
    settings = tuple(line + point for line, point in itertools.product(lines, list(grid)))
    plan = Plan(scenario, keys, settings, seeds, Engine.VECTORIZED, None, paired)
    chosen = _engine(plan, engine)
    plan = dataclasses.replace(plan, engine=chosen, hosting=hosting if ENGINES[chosen].hosting else None)
    plan.require_installed()
    for key in keys:
        why = _idle(plan, key)
        if why:
            option = "--vary" if key in dict(axes) else f"--settings {listed}:"
            raise RequestError(f"{option} {key}: changes nothing here: {why}")
    return plan


def _idle(plan: Plan, key: str) -> str:
    """Why a key changes nothing in any setting; empty where it counts in one of them."""
    why = ""
    for scenario in plan.scenarios():
        if isinstance(scenario, Scenario) and not (why := why_idle(key, scenario)):
            return ""
    alone = not {"mechanism.kind", "data.name"} & set(plan.keys)
    return why or (why_idle(key, plan.scenario) if alone else "")


def _axis(text: str, scenario: Scenario) -> tuple[str, tuple[Any, ...]]:
    key, equals, values = text.partition("=")
    key = key.strip()
    shown = f"--vary {text}"
    if not equals or not values.strip():
        raise RequestError(f"{shown}: write it as key=value,value, for example mechanism.alpha=0.05,0.1")
    found: list[Any] = []
    for cell in next(csv.reader([values], skipinitialspace=True)):
        value = _value(key, cell, shown, scenario)
        if value in found:
            raise RequestError(f"{shown}: names {cell.strip()} twice")
        found.append(value)
    return key, tuple(found)


def _value(key: str, text: str, shown: str, scenario: Scenario, *, listed: bool = False) -> Any:
    section = key.partition(".")[0]
    if section in ("coins", "deployment"):
        why = "--seeds and --seed say how seeds vary" if section == "coins" else "it changes no result"
        raise RequestError(f"{shown}: {key} cannot be varied: {why}")
    if not text.strip():
        raise RequestError(f"{shown}: a value of {key} is empty")
    try:
        value = check_override(f"{key}={text.strip()}", scenario)[1]
    except RequestError as error:
        raise RequestError(f"{shown}: {error}") from None
    if key in ZERO and value == 0:
        instead = "leave the cell empty" if listed and key in NOISE else "leave it out"
        raise RequestError(f"{shown}: {key} = 0 is not allowed here: it means {ZERO[key]}; {instead}")
    return value


def _listed(path: Path, scenario: Scenario) -> tuple[tuple[str, ...], list[Setting]]:
    """The keys and settings of a CSV file whose header names keys."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            records = [(number, record) for number, record in enumerate(csv.reader(file), 1) if record]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise RequestError(f"--settings {path}: cannot be read as CSV: {reason}") from None
    if len(records) < 2:
        raise RequestError(f"--settings {path}: needs a header that names keys, and one setting a line below it")
    keys = tuple(cell.strip() for cell in records[0][1])
    if len(set(keys)) < len(keys):
        raise RequestError(f"--settings {path}: its header names a key twice")
    settings: dict[Setting, int] = {}
    for number, record in records[1:]:
        shown = f"--settings {path}:{number}"
        if len(record) != len(keys):
            raise RequestError(f"{shown}: has {len(record)} values, but the header names {len(keys)} keys")
        given = {key for key, cell in zip(keys, record, strict=True) if cell.strip()}
        left = set(NOISE) - given if set(NOISE) & given else set()
        left |= {key for key in keys if "mechanism.kind" in given and key not in given and _of_some_kinds(key)}
        setting = tuple(
            None if key in left else _value(key, cell, shown, scenario, listed=True)
            for key, cell in zip(keys, record, strict=True)
        )
        if setting in settings:
            raise RequestError(f"{shown}: is the setting of line {settings[setting]} again")
        settings[setting] = number
    return keys, list(settings)


def _of_some_kinds(key: str) -> bool:
    """Whether a key counts for some mechanisms only, so that a line of another one may leave it to the scenario."""
    return key == "clusters.count" or (key.startswith("mechanism.") and key not in ("mechanism.kind", *NOISE))


def _engine(plan: Plan, asked: str | None) -> Engine:
    """Arrays where they give the same rows, messages where something depends on them."""
    needs = ""
    for key in plan.keys:
        if key.startswith(MESSAGES_ONLY):
            needs = f"{key} changes nothing where no messages are sent"
    for scenario in plan.kinds_of_scenarios():
        if scenario.faults:
            needs = "the scenario's faults happen to messages"
        try:
            refuse_misbehaviour(scenario)
        except RequestError as error:
            needs = str(error)
    if asked is None:
        return Engine.ACTORS if needs else Engine.VECTORIZED
    if needs and not ENGINES[Engine(asked)].sends_messages:
        raise RequestError(f"--engine {asked}: {needs}; use actors")
    return Engine(asked)
