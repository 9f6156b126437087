"""One module for each kind of adversary, named as ``[[adversaries]]`` names it, with its record ``ADVERSARY``."""

from __future__ import annotations

import importlib

from p2p_labeldp.adversaries.record import Adversary
from p2p_labeldp.scenario import ADVERSARIES, Entry


def adversary_of(entry: Entry) -> Adversary:
    """The record of an entry's kind."""
    assert entry.name in ADVERSARIES, entry.name
    found: Adversary = importlib.import_module(f"p2p_labeldp.adversaries.kinds.{entry.name}").ADVERSARY
    return found
