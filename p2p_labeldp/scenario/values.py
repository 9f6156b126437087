"""A value of a scenario, from a file or from a command line: read, checked by its key's rule, and shown in messages."""

from __future__ import annotations

import dataclasses
import tomllib
from typing import Any

from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario.rules import Rule
from p2p_labeldp.scenario.schema import Schema, read_schema


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
