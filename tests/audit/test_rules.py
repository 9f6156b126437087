"""A message whose class says all there is to audit of it needs no rule of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from p2p_labeldp.audit.invariants import Checker
from p2p_labeldp.audit.trace import Event
from p2p_labeldp.privacy import Exchange, Parameters
from p2p_labeldp.protocol.messages import Ask, Done
from p2p_labeldp.scenario import Network


def test_what_is_said_once_is_said_once_to_each_receiver_in_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ask, "record", replace(Ask.record, once=True))
    monkeypatch.delattr(Checker, "on_ask")
    checker = Checker(4, 1, Parameters(alpha=0.2), Network(), coins=None)
    for position, (sender, receiver, round_) in enumerate([(0, 1, 0), (0, 2, 0), (0, 1, 1), (1, 0, 0), (0, 2, 0)]):
        checker.feed(Event(position, position, 0.0, sender, receiver, "ask", (round_,)))
    assert [(each.position, each.party) for each in checker.violations] == [(4, 0)]


def test_a_message_without_a_rule_is_noticed_before_anything_is_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Checker, "on_done")
    with pytest.raises(AttributeError, match="on_done"):
        Checker.checks()
    monkeypatch.setattr(Done, "record", replace(Done.record, exchanges=(Exchange.MIXED,)))
    assert Checker.checks()["done"] == Checker._foreign
