"""One module for each kind of adversary, named as ``[[adversaries]]`` names it, with its record ``ADVERSARY``."""

from __future__ import annotations

import importlib

from p2p_labeldp.adversaries.record import Adversary
from p2p_labeldp.scenario import ADVERSARIES, Entry
from p2p_labeldp.scenario.extensions import added


def adversary_of(entry: Entry) -> Adversary:
    """The record of an entry's kind."""
    return adversary_called(entry.name)


def adversary_called(kind: str) -> Adversary:
    """The record of the kind that ``[[adversaries]]`` calls so."""
    assert kind in ADVERSARIES, kind
    outside = added("adversary", kind)
    found: Adversary = (
        importlib.import_module(f"p2p_labeldp.adversaries.kinds.{kind}").ADVERSARY
        if outside is None
        else outside.record
    )
    return found
