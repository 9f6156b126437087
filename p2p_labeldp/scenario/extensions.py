"""What plugins add to a scenario: names that a key may have, keys of their own, and where the records behind them are.

The scenario knows nothing of the rooms that read it, so that a record is any object here; ``p2p_labeldp.plugins`` has
checked it before it comes, and the room that asks for a name's record finds it by ``added``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from p2p_labeldp.scenario.entries import ADVERSARIES
from p2p_labeldp.scenario.sections import DATA_SETS, MECHANISMS, MODELS, SECTIONS

GROUP = "p2p_labeldp.plugins"
"""The entry points of plugins that are installed."""
VARIABLE = "P2P_LABELDP_PLUGINS"
"""Files that processes started from here load too, separated as in PATH."""


NO_KEYS: Mapping[str, Any] = MappingProxyType({})


class Extension(NamedTuple):
    """Something that a plugin added."""

    plugin: str
    record: Any


_ADDED: dict[tuple[str, str], Extension] = {}


def added(noun: str, name: str) -> Extension | None:
    """An ``adversary``, ``mechanism``, ``data_set`` or ``model`` that a plugin added; None for one of our own."""
    return _ADDED.get((noun, name))


_TABLES: dict[str, tuple[dict[str, Any], str]] = {
    "adversary": (ADVERSARIES, ""),
    "mechanism": (MECHANISMS, "mechanism"),
    "data_set": (DATA_SETS, "data"),
    "model": (MODELS, "learner"),
}
"""Of each noun: its names, each with what a scenario must know of it, and the section that its keys stand in."""


def add(noun: str, plugin: str, name: str, known: Any, record: Any, keys: Mapping[str, Any] = NO_KEYS) -> None:
    """Let a scenario have a plugin's name, and its section more keys, each declared by ``rules.key``."""
    table, section = _TABLES[noun]
    _ADDED[noun, name] = Extension(plugin, record)
    table[name] = known
    if keys:
        base = SECTIONS[section]
        fields = [(key, type(declared.default), declared) for key, declared in keys.items()]
        SECTIONS[section] = dataclasses.make_dataclass(base.__name__, fields, bases=(base,), frozen=True)
