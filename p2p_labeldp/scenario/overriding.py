"""Entries of ``[[faults]]`` and ``[[adversaries]]``: made from their keys, and changed from a command line.

``adversaries[liars].fraction=0.2`` changes the one entry of that kind, or adds one where there is none;
``adversaries[2].fraction=0.2`` the second entry, whatever it is. Of ``users``, ``count`` and ``fraction`` the one that
is named stands in place of the others. Naming nobody (``fraction=0``, ``count=0``) leaves the entry out: so begins a
sweep of "accuracy against the share of liars".
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from p2p_labeldp.errors import RequestError, meant
from p2p_labeldp.scenario.entries import ARRAYS, Entry
from p2p_labeldp.scenario.rules import allowed, show, typed_value

_SELECTION = ("users", "count", "fraction")
_KEY = re.compile(r"(?P<array>\w+)\[(?P<which>[\w-]+)\]\.(?P<name>\w+)")


def make_entry(array: str, table: Mapping[str, Any]) -> Entry:
    """A fault or an adversary from its keys.

    >>> make_entry("faults", {"rule": "loss", "probability": 0.1}).name
    'loss'
    """
    naming = ARRAYS[array][0]
    cls = _kind(array, table.get(naming))
    entry = cls(**{name: _value(cls, name, value) for name, value in table.items() if name != naming})
    entry.check()
    return entry


def _kind(array: str, named: Any) -> type[Entry]:
    naming, kinds = ARRAYS[array]
    if isinstance(named, str) and named in kinds:
        return kinds[named]
    near = difflib.get_close_matches(str(named), kinds, 1, 0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(kinds)}"
    raise RequestError(f"{naming} = {show(named) if named is not None else 'nothing'} is not known; {hint}")


def _item(cls: type[Entry], name: str) -> dataclasses.Field[Any]:
    items = {item.name: item for item in dataclasses.fields(cls)}
    if name in items:
        return items[name]
    raise RequestError(f"{cls.name} has no key {name}; {meant(name, items)}")


def _value(cls: type[Entry], name: str, value: Any) -> Any:
    return allowed(_item(cls, name), value, name)


class EntryKey(NamedTuple):
    """A key of an entry, as a command line names it."""

    array: str
    which: str
    name: str

    def __str__(self) -> str:
        return f"{self.array}[{self.which}].{self.name}"


def entry_key(dotted: str) -> EntryKey | None:
    """None where the key is not one of an entry."""
    array = re.split(r"[.\[]", dotted, maxsplit=1)[0]
    if array not in ARRAYS:
        return None
    found = _KEY.fullmatch(dotted)
    if found is None:
        naming, kinds = ARRAYS[array]
        example = f"{array}[{next(iter(kinds))}].KEY=VALUE"
        raise RequestError(f"{array} are entries: write {example}, with an entry's {naming} or its position, from 1")
    return EntryKey(**found.groupdict())


def entry_value(key: EntryKey, text: str, entries: Sequence[Entry]) -> Any:
    """What was typed for a key of one of these entries, checked by its rule."""
    cls = _class_of(key, entries)
    if key.name == ARRAYS[key.array][0]:  # its kind, which is a way to add one that has no other keys
        if text.strip() != cls.name:
            raise RequestError(f"{key.name} = {show(text.strip())} is not allowed; the entry is {cls.name}")
        return cls.name
    return _value(cls, key.name, typed_value(_item(cls, key.name), text))


def _class_of(key: EntryKey, entries: Sequence[Entry]) -> type[Entry]:
    place = _position(key, entries)
    return _kind(key.array, key.which) if place is None else type(entries[place])


def _position(key: EntryKey, entries: Sequence[Entry]) -> int | None:
    """Where the entry stands; None where it is to be added."""
    if key.which.isdecimal():
        if not 1 <= int(key.which) <= len(entries):
            raise RequestError(f"there is no {key.array}[{key.which}]; the scenario has {len(entries)}")
        return int(key.which) - 1
    places = [place for place, entry in enumerate(entries) if entry.name == key.which]
    if len(places) > 1:
        positions = " or ".join(f"{key.array}[{place + 1}]" for place in places)
        raise RequestError(f"{key.which} names {len(places)} entries; say which: {positions}")
    return places[0] if places else None


def overridden(array: str, entries: Sequence[Entry], asked: Iterable[tuple[EntryKey, Any]]) -> tuple[Entry, ...]:
    """The entries with checked values in place of their own, each as it would read in a file."""
    tables: dict[int, dict[str, Any]] = {}
    classes: dict[int, type[Entry]] = {place: type(entry) for place, entry in enumerate(entries)}
    added: dict[str, int] = {}
    for key, value in asked:
        place = _position(key, entries)
        if place is None:
            place = added.setdefault(key.which, len(entries) + len(added))
            classes[place] = _kind(array, key.which)
        if key.name != ARRAYS[array][0]:
            tables.setdefault(place, {})[key.name] = value
    found = []
    for place, cls in classes.items():
        own = entries[place].as_table() if place < len(entries) else {}
        mine = tables.get(place, {})
        if any(name in mine for name in _SELECTION):
            own = {name: value for name, value in own.items() if name not in _SELECTION}
            if not any(mine.get(name) for name in _SELECTION):
                continue  # nobody is meant
        entry = cls(**{**own, **mine})
        try:
            entry.check()
        except RequestError as error:
            raise RequestError(f"{array}[{place + 1}] ({cls.name}): {error}") from None
        found.append(entry)
    return tuple(found)
