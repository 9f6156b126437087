"""One run from end to end, for engines and deployments: resolving, executing, learning, guarantees, the summary."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from p2p_labeldp.runs.run import Run
    from p2p_labeldp.runs.summary import Summary, read_summary

__all__ = ["Run", "Summary", "read_summary"]

_HOMES = {"Run": "run", "Summary": "summary", "read_summary": "summary"}


def __getattr__(name: str) -> Any:
    # On first use: a user host needs a part of this room, and none of the engines.
    if name in _HOMES:
        return getattr(importlib.import_module(f"p2p_labeldp.runs.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
