"""Adversaries, mechanisms, data sets and models from outside the package.

A plugin is a Python module with one object, ``PLUGIN``. It is found by its entry point in the group
``p2p_labeldp.plugins`` where it is installed, or named as a file: ``p2p-labeldp run --plugin FILE``. What it adds has
the same records as what ships: it is listed by ``scenarios --keys``, set and swept like any other, and the guarantee
is stated for what it does.

* An adversary says whose view it has and whether it misbehaves. Where it does, every other guarantee falls to the flips
  alone, and to nothing unless the record says that users still flip their labels once (``flips_hold``).
* A mechanism's plan states its guarantee, and a run says that it is the plugin's statement. Where users hand flipped
  labels to the learner themselves, it is checked: an epsilon below that of the flips is refused.
* A model is fitted to what the mechanism released, and changes no guarantee. It is tried on a few rows first.

Everything is checked when it is loaded: a plugin that breaks its contract is refused in one line.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from p2p_labeldp.adversaries.attacks import ATTACKS, Attack
from p2p_labeldp.adversaries.evidence import Evidence
from p2p_labeldp.adversaries.record import Adversary, Assignment, Measured, Setup
from p2p_labeldp.data.dataset import Source
from p2p_labeldp.data.record import DataSet
from p2p_labeldp.errors import RequestError
from p2p_labeldp.learning.model import LearnerModel, Model, Probabilities, Storage
from p2p_labeldp.mechanisms.plan import Holder, Mechanism, Plan, Request, spends
from p2p_labeldp.privacy import Parameters, View, account
from p2p_labeldp.protocol.messages import Answer, Ask, Message, Outgoing, Report
from p2p_labeldp.protocol.user import User
from p2p_labeldp.scenario import ADVERSARIES, DATA_SETS, MECHANISMS, MODELS, SECTIONS, Entry, Examples, Reads
from p2p_labeldp.scenario.entries import SomeUsers
from p2p_labeldp.scenario.extensions import GROUP, VARIABLE, add
from p2p_labeldp.scenario.rules import Number, OneOf, Switch, Text, Whole, key
from p2p_labeldp.streams import KeyedStream, Purpose

__all__ = [
    "Adversary", "Answer", "Ask", "Assignment", "Attack", "DataSet", "Entry", "Evidence", "Examples", "Holder",
    "KeyedStream", "LearnerModel", "Measured", "Mechanism", "Message", "Model", "NewAdversary", "NewDataSet",
    "NewMechanism", "NewModel", "Number", "OneOf", "Outgoing", "Parameters", "Plan", "Plugin", "Probabilities",
    "Purpose", "Reads", "Report", "Request", "Setup", "SomeUsers", "Source", "Storage", "Switch", "Text", "User",
    "View", "Whole", "account", "key", "load_plugins", "spends",
]  # fmt: skip
"""What a plugin needs, so that it imports from here alone."""


@dataclasses.dataclass(frozen=True)
class NewAdversary:
    """A kind of ``[[adversaries]]``: its keys, a frozen dataclass with a name and a docstring; its record."""

    entry: type[Entry]
    record: Adversary


@dataclasses.dataclass(frozen=True)
class NewMechanism:
    """A ``mechanism.kind``: which keys of ``[mechanism]`` it reads, its own among them; its record."""

    name: str
    reads: Reads
    record: Mechanism
    keys: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Keys that no other mechanism has, each declared by ``scenario.rules.key``."""


@dataclasses.dataclass(frozen=True)
class NewDataSet:
    """A ``data.name``: whether it may be shown, which keys of ``[data]`` it reads; its record."""

    name: str
    examples: Examples
    record: DataSet
    keys: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class NewModel:
    """A ``learner.model``: its record, and keys of ``[learner]`` that it alone reads."""

    name: str
    record: LearnerModel
    keys: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Plugin:
    """Everything that a plugin adds."""

    adversaries: Sequence[NewAdversary] = ()
    mechanisms: Sequence[NewMechanism] = ()
    data_sets: Sequence[NewDataSet] = ()
    models: Sequence[NewModel] = ()


_loaded: dict[str, Plugin] = {}
_installed: list[str] = []


def load_plugins(files: Sequence[Path | str] = ()) -> tuple[str, ...]:
    """Load what is installed, what ``P2P_LABELDP_PLUGINS`` names, and these files; each once. Their names.

    Raises RequestError for a plugin that cannot be imported or breaks its contract.
    """
    if not _installed:
        _installed.append(GROUP)
        for point in entry_points(group=GROUP):
            _load(point.name, point.load)
    inherited = [name for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]
    for name in dict.fromkeys([*inherited, *(str(Path(file).absolute()) for file in files)]):
        if name not in _loaded:
            _load(name, partial(_imported, Path(name)))
            os.environ[VARIABLE] = os.pathsep.join(dict.fromkeys([*inherited, name]))
            inherited.append(name)
    return tuple(_loaded)


def _imported(file: Path) -> Any:
    if not file.is_file():
        raise FileNotFoundError("there is no such file")
    name = f"p2p_labeldp_plugin_{file.stem}"
    if name in sys.modules:
        raise ImportError(f"another plugin's file is called {file.name} too")
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError("not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # so that its classes can be sent to other processes
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return getattr(module, "PLUGIN", None)


def _load(name: str, find: Callable[[], Any]) -> None:
    shown = f"plugin {Path(name).name}"
    try:
        plugin = find()
    except Exception as error:
        raise RequestError(f"{shown}: cannot be imported: {type(error).__name__}: {error}") from None
    plugin = getattr(plugin, "PLUGIN", plugin)  # an entry point may name the module
    if not isinstance(plugin, Plugin):
        raise RequestError(f"{shown}: has no PLUGIN of type p2p_labeldp.plugins.Plugin")
    _check(shown, plugin)
    for adversary in plugin.adversaries:
        add("adversary", name, adversary.entry.name, adversary.entry, adversary.record)
        ATTACKS.update({attack.name: attack for attack in adversary.record.attacks})
    for mechanism in plugin.mechanisms:
        add("mechanism", name, mechanism.name, mechanism.reads, mechanism.record, mechanism.keys)
    for data_set in plugin.data_sets:
        add("data_set", name, data_set.name, data_set.examples, data_set.record, data_set.keys)
    for model in plugin.models:
        add("model", name, model.name, tuple(model.keys), model.record, model.keys)
    _loaded[name] = plugin


def _check(shown: str, plugin: Plugin) -> None:
    """Raise RequestError for whatever would break later, or claim what is somebody else's."""
    groups: tuple[tuple[str, Sequence[Any], type[Any], type[Any]], ...] = (
        ("adversaries", plugin.adversaries, NewAdversary, Adversary),
        ("mechanisms", plugin.mechanisms, NewMechanism, Mechanism),
        ("data_sets", plugin.data_sets, NewDataSet, DataSet),
        ("models", plugin.models, NewModel, LearnerModel),
    )
    for group, members, kind, record in groups:
        for each in members:
            if not isinstance(each, kind):
                raise RequestError(f"{shown}: {group} holds {each!r}, which is no {kind.__name__}")
            if not isinstance(each.record, record):
                raise RequestError(f"{shown}: {group}: a record must be of type {record.__name__}, not {each.record!r}")
    for adversary in plugin.adversaries:
        _check_adversary(shown, adversary)
    for mechanism in plugin.mechanisms:
        where = f"{shown}: mechanism {mechanism.name}"
        _check_name(where, mechanism.name, MECHANISMS)
        _check_keys(where, "mechanism", mechanism.keys, mechanism.reads.keys)
        unread = [key for key in mechanism.keys if key not in mechanism.record.options]
        if unread:
            raise RequestError(f"{where}: its record's options lack {', '.join(unread)}")
        if not re.fullmatch("#[0-9a-f]{6}", mechanism.record.colour):
            raise RequestError(f"{where}: its record's colour must be as #17becf, not {mechanism.record.colour!r}")
    for data_set in plugin.data_sets:
        where = f"{shown}: data set {data_set.name}"
        _check_name(where, data_set.name, DATA_SETS)
        _check_keys(where, "data", data_set.keys, data_set.examples.keys)
    for model in plugin.models:
        where = f"{shown}: model {model.name}"
        _check_name(where, model.name, MODELS)
        _check_keys(where, "learner", model.keys)
        if not callable(model.record.fit) or not model.record.words:
            raise RequestError(f"{where}: its record needs words, and a fit that can be called")


def _check_adversary(shown: str, adversary: NewAdversary) -> None:
    entry, record = adversary.entry, adversary.record
    if not (isinstance(entry, type) and issubclass(entry, Entry) and dataclasses.is_dataclass(entry)):
        raise RequestError(f"{shown}: adversaries: an entry must be a dataclass made from Entry, not {entry!r}")
    where = f"{shown}: adversary {getattr(entry, 'name', entry.__name__)}"
    _check_name(where, getattr(entry, "name", ""), ADVERSARIES)
    if "__doc__" not in vars(entry) or not entry.meaning() or entry.meaning().startswith(f"{entry.__name__}("):
        raise RequestError(f"{where}: its entry needs a docstring, which says what it does")
    _check_keys(where, "", {item.name: item for item in dataclasses.fields(entry)})
    if record.misbehaves != bool(record.replaces or record.install):
        said = "misbehaves, but replaces and installs nothing" if record.misbehaves else "only looks, but changes roles"
        raise RequestError(f"{where}: its record {said}")
    taken = [attack.name for attack in record.attacks if attack.name in ATTACKS]
    if taken:
        raise RequestError(f"{where}: there is an attack {taken[0]} already")


def _check_name(where: str, name: str, taken: Mapping[str, Any]) -> None:
    if not (isinstance(name, str) and name.isidentifier()):
        raise RequestError(f"{where}: its name must be a word of letters, digits and underscores, not {name!r}")
    if name in taken:
        raise RequestError(f"{where}: there is one of that name already")


def _check_keys(where: str, section: str, keys: Mapping[str, Any], read: Sequence[str] | None = None) -> None:
    existing = {item.name.rstrip("_") for item in dataclasses.fields(SECTIONS[section])} if section else set()
    for name, declared in keys.items():
        rule = getattr(declared, "metadata", {}).get("rule")
        if rule is None or not rule.allows(declared.default):
            raise RequestError(f"{where}: key {name} must be declared by scenario.rules.key, its default allowed")
        if name in existing:
            raise RequestError(f"{where}: there is a key {section}.{name} already")
    unknown = [name for name in read or () if name not in existing and name not in keys]
    if unknown:
        raise RequestError(f"{where}: reads {', '.join(unknown)}, which are no keys of [{section}]")
