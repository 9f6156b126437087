"""The fixtures by which tests ask a command: ``command`` and ``refused`` of tests/conftest.py, for annotations."""

from __future__ import annotations

from collections.abc import Callable

Command = Callable[..., tuple[int, str, str]]
Refused = Callable[..., str]
