"""What a key accepts, and how to say so; a value from a file or a command line, read and checked by its key's rule."""

from __future__ import annotations

import dataclasses
import math
import sys
import tomllib
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario.schema import Schema, read_schema

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
    choices: Collection[str]
    """A collection that plugins add to may grow."""

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
class Named:
    """One of several names, or a text that others make sense of."""

    choices: Collection[str]
    """Plugins may add to it."""
    otherwise: str

    def allows(self, value: Any) -> bool:
        return Text().allows(value)

    def __str__(self) -> str:
        return f"{OneOf(self.choices)}, or {self.otherwise}"


@dataclass(frozen=True)
class Address:
    optional: bool = False

    def allows(self, value: Any) -> bool:
        if value == "":
            return self.optional
        host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
        if ":" in host and not (host.startswith("[") and host.endswith("]")):
            return False
        return bool(host) and port.isascii() and port.isdigit() and int(port) < 1 << 16 and value.isprintable()

    def __str__(self) -> str:
        return 'a text "host:port", port from 0 to 65535, an IPv6 address in brackets' + (
            ", or empty" if self.optional else ""
        )


@dataclass(frozen=True)
class Ids:
    def allows(self, value: Any) -> bool:
        return all(type(each) is int and 0 <= each <= MAX_WHOLE for each in value)

    def __str__(self) -> str:
        return "a list of user ids, whole numbers from 0"


@dataclass(frozen=True)
class Switch:
    def allows(self, value: Any) -> bool:
        return isinstance(value, bool)

    def __str__(self) -> str:
        return "true or false"


def key(default: Any, rule: Rule, doc: str) -> Any:
    """Declare one key of a section: its default, what it accepts and what it means."""
    return field(default=default, metadata={"rule": rule, "doc": doc})


def allowed(item: dataclasses.Field[Any], value: Any, shown: str) -> Any:
    """The value as its key has it. RequestError where the key's rule does not allow it."""
    rule: Rule = item.metadata["rule"]
    kind: type = type(item.default)
    if kind is Schema and isinstance(value, dict):
        return read_schema(value)
    typed = type(value) is kind or (kind is float and type(value) is int) or (kind is tuple and type(value) is list)
    if not typed or not rule.allows(value):
        raise RequestError(f"{shown} = {show(value)} is not allowed; it must be {rule}")
    return value if kind is Schema else kind(value)


def typed_value(item: dataclasses.Field[Any], text: str) -> Any:
    """What was typed for a key, before its rule is asked."""
    if isinstance(item.default, str) and not text.lstrip().startswith(('"', "'")):
        return text  # a bare word is a text, whatever TOML would make of it
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return _bare(text)


def _bare(text: str) -> Any:
    """What TOML would not take as a value: ``.2`` is a number, anything else a text."""
    try:
        return float(text)
    except ValueError:
        return text


def show(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) > 10**30:
        return "a number of more than 30 digits"
    return str(value)
