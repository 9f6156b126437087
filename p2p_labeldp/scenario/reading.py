"""Reading scenarios: TOML, overrides, and messages that name the place and the nearest key."""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario.entries import ARRAYS, Entry
from p2p_labeldp.scenario.overriding import EntryKey, entry_key, entry_value, make_entry, overridden
from p2p_labeldp.scenario.rules import allowed, typed_value
from p2p_labeldp.scenario.schema import Schema
from p2p_labeldp.scenario.sections import SECTIONS
from p2p_labeldp.scenario.whole import Scenario


def documentation() -> Iterator[tuple[str, Any, str, str]]:
    """Every key as (dotted name, default, what is allowed, what it means)."""
    for section, cls in SECTIONS.items():
        for item in dataclasses.fields(cls):
            default = "" if isinstance(item.default, Schema) else item.default
            yield f"{section}.{key_of(item)}", default, str(item.metadata["rule"]), item.metadata["doc"]


def entry_documentation() -> Iterator[tuple[str, Any, str, str]]:
    """The same of every key of every kind of entry, and first of all what the kind does."""
    for array, (naming, kinds) in ARRAYS.items():
        for name, cls in kinds.items():
            place = f"{array}[{name}]"
            yield f"{place}.{naming}", name, f'"{name}"', cls.meaning()
            for item in dataclasses.fields(cls):
                yield f"{place}.{item.name}", item.default, str(item.metadata["rule"]), item.metadata["doc"]


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
    return _beside(path, parse_scenario(text, str(path), overrides, seed))


def _beside(path: Path, scenario: Scenario) -> Scenario:
    """Data files lie beside the scenario that names them; one that does not is looked for elsewhere later."""
    named = scenario.data.path
    if not named or Path(named).is_absolute() or not (path.parent / named).is_file():
        return scenario
    return replace(scenario, data__path=str(path.parent / named))


def parse_scenario(
    text: str, source: str = "scenario", overrides: Iterable[str] = (), seed: int | None = None
) -> Scenario:
    """Like :func:`load_scenario`, from text; ``source`` is what messages call it."""
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number too long is a plain ValueError
        raise RequestError(f"{source}: not valid TOML: {error}") from None
    entries: dict[str, Any] = {array: _array(array, tables.pop(array, []), text, source) for array in ARRAYS}
    values: dict[str, dict[str, Any]] = {}
    for section, table in tables.items():
        name = None
        try:
            _section(section)
            if not isinstance(table, dict):
                raise RequestError(f"{section} is not a section; write [{section}]")
            for name, value in table.items():
                item = _field(section, name)
                values.setdefault(section, {})[item.name] = allowed(item, value, f"{section}.{name}")
        except RequestError as error:
            raise RequestError(f"{_place(text, source, section, name)}: {error}") from None
    asked: dict[str, dict[str, Any]] = {}
    of_entries: list[tuple[EntryKey, Any]] = []
    for override in overrides:
        try:
            key, value = _overriding(override, entries)
        except RequestError as error:
            raise RequestError(f"--set {override}: {error}") from None
        if isinstance(key, EntryKey):
            of_entries.append((key, value))
        else:
            asked.setdefault(key.section, {})[key.field] = value
    for array in ARRAYS:
        changes = [each for each in of_entries if each[0].array == array]
        try:
            entries[array] = overridden(array, entries[array], changes)
        except RequestError as error:
            raise RequestError(f"--set {changes[0][0]}: {error}") from None
    for section, table in asked.items():
        if section == "mechanism":
            # Whichever of alpha and epsilon a command line names stands in place of the file's other one.
            for mine, other in (("alpha", "epsilon"), ("epsilon", "alpha")):
                if mine in table and other not in table:
                    values.get(section, {}).pop(other, None)
        values.setdefault(section, {}).update(table)
    if seed is not None:
        try:
            values.setdefault("coins", {})["seed"] = allowed(_field("coins", "seed"), seed, "coins.seed")
        except RequestError as error:
            raise RequestError(f"--seed: {error}") from None
    if "seed" in values.get("coins", {}):
        values["coins"].setdefault("source", "seeded")  # who names a seed wants it
    try:
        _require_one_noise(values.get("mechanism", {}))
        sections: dict[str, Any] = {section: SECTIONS[section](**table) for section, table in values.items()}
        return Scenario(**sections, **entries)
    except RequestError as error:
        raise RequestError(f"{source}: {error}") from None


def _array(array: str, tables: Any, text: str, source: str) -> tuple[Entry, ...]:
    """The entries of one array of tables; a fault names the entry's position and line."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise RequestError(f"{source}: {array} is not an array of tables; write [[{array}]]")
    found = []
    for number, table in enumerate(tables, 1):
        try:
            found.append(make_entry(array, table))
        except RequestError as error:
            line = _line_of_entry(text, array, number)
            raise RequestError(f"{source}{line}: {array}[{number}]: {error}") from None
    return tuple(found)


def _line_of_entry(text: str, array: str, number: int) -> str:
    header = f"[[{array}]]"
    places = [place for place, line in enumerate(text.splitlines(), 1) if line.replace(" ", "").startswith(header)]
    return f":{places[number - 1]}" if number <= len(places) else ""


def _require_one_noise(mechanism: Mapping[str, Any]) -> None:
    if mechanism.get("epsilon", 0.0) > 0 and "alpha" in mechanism:
        raise RequestError(
            "mechanism.alpha and mechanism.epsilon exclude each other: alpha follows from epsilon; "
            "leave one out, or set mechanism.epsilon=0"
        )


def replace(scenario: Scenario, **changes: Any) -> Scenario:
    """A copy with some keys changed, each named as section, two underscores, key; checked like a file.

    >>> replace(Scenario(), mechanism__alpha=0.2, data__name="synthetic").mechanism.alpha
    0.2

    ``faults`` and ``adversaries`` take a whole list of entries, made by ``make_entry`` or their classes.
    """
    values: dict[str, Any] = scenario.tables()
    entries: dict[str, Any] = {array: getattr(scenario, array) for array in ARRAYS}
    for dotted, value in changes.items():
        if dotted in ARRAYS:
            for entry in value:
                entry.check()
            entries[dotted] = tuple(value)
            continue
        section, _, name = dotted.partition("__")
        item = _field(section, name.rstrip("_"))
        values[section][name] = allowed(item, value, f"{section}.{key_of(item)}")
    return Scenario(**{section: SECTIONS[section](**table) for section, table in values.items()}, **entries)


def _section(section: str) -> type[Any]:
    if section in SECTIONS:
        return SECTIONS[section]
    raise RequestError(f"unknown section [{section}]; {_nearest(section, None)}")


def _field(section: str, name: str) -> dataclasses.Field[Any]:
    for item in dataclasses.fields(_section(section)):
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
        near = [" or ".join(same)] if (same := [each for each in every_key if each.split(".")[1] == name]) else []
        near += difflib.get_close_matches(f"{section}.{name}", own, 1, 0.5)
        others = own
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(others)}"


def check_override(override: str, scenario: Scenario | None = None) -> tuple[str, Any]:
    """The key of ``section.key=value`` or ``adversaries[kind].key=value`` and its value, as ``--set`` reads them.

    Which entry a position means, the scenario decides.
    """
    scenario = scenario or Scenario()
    key, value = _overriding(override, {array: getattr(scenario, array) for array in ARRAYS})
    return str(key), value


class _Key(NamedTuple):
    """A key of a section, as a command line names it, and its field."""

    section: str
    name: str
    field: str

    def __str__(self) -> str:
        return f"{self.section}.{self.name}"


def _overriding(override: str, entries: Mapping[str, Sequence[Entry]]) -> tuple[EntryKey | _Key, Any]:
    """The key that is named, of a section or of one of these entries, and its value, checked by the key's rule."""
    dotted, equals, text = override.partition("=")
    entry = entry_key(dotted.strip()) if equals else None
    if entry is not None:
        return entry, entry_value(entry, text, entries[entry.array])
    section, dot, name = dotted.strip().partition(".")
    if not (equals and dot):
        raise RequestError("write it as section.key=value, for example mechanism.alpha=0.2")
    item = _field(section, name)
    return _Key(section, name, item.name), allowed(item, typed_value(item, text), f"{section}.{name}")


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


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
