"""What plugins add to a scenario: names that a key may have, keys of their own, and where the records behind them are.

The scenario knows nothing of the rooms that read it, so that a record is any object here; ``p2p_labeldp.plugins`` has
checked it before it comes, and the room that asks for a name's record finds it, or our own, by ``record_of``.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from p2p_labeldp.scenario.entries import ADVERSARIES, Entry
from p2p_labeldp.scenario.sections import DATA_SETS, MECHANISMS, MODELS, SECTIONS, Examples, Reads

GROUP = "p2p_labeldp.plugins"
"""The entry points of plugins that are installed."""
VARIABLE = "P2P_LABELDP_PLUGINS"
"""Files that processes started from here load too, separated as in PATH."""


class Extension(NamedTuple):
    """Something that a plugin added."""

    plugin: str
    record: Any


_ADDED: dict[tuple[str, str], Extension] = {}


def added(noun: str, name: str) -> Extension | None:
    """An ``adversary``, ``mechanism``, ``data_set`` or ``model`` that a plugin added; None for one of our own."""
    return _ADDED.get((noun, name))


def record_of(noun: str, name: str, home: str) -> Any:
    """The record of a name: a plugin's, or that of the module of this name in one of our packages."""
    outside = added(noun, name)
    return getattr(importlib.import_module(f"{home}.{name}"), noun.upper()) if outside is None else outside.record


def add_adversary(plugin: str, entry: type[Entry], record: Any) -> None:
    _ADDED["adversary", entry.name] = Extension(plugin, record)
    ADVERSARIES[entry.name] = entry


def add_mechanism(plugin: str, name: str, reads: Reads, keys: Mapping[str, Any], record: Any) -> None:
    _ADDED["mechanism", name] = Extension(plugin, record)
    MECHANISMS[name] = reads
    extend("mechanism", keys)


def add_data_set(plugin: str, name: str, examples: Examples, keys: Mapping[str, Any], record: Any) -> None:
    _ADDED["data_set", name] = Extension(plugin, record)
    DATA_SETS[name] = examples
    extend("data", keys)


def add_model(plugin: str, name: str, keys: Mapping[str, Any], record: Any) -> None:
    _ADDED["model", name] = Extension(plugin, record)
    MODELS[name] = tuple(keys)
    extend("learner", keys)


def extend(section: str, keys: Mapping[str, Any]) -> None:
    """Give a section more keys, each declared by ``rules.key``."""
    if keys:
        base = SECTIONS[section]
        fields = [(name, type(declared.default), declared) for name, declared in keys.items()]
        SECTIONS[section] = dataclasses.make_dataclass(base.__name__, fields, bases=(base,), frozen=True)
