"""A message whose class says all there is to audit of it needs no rule of its own."""

from __future__ import annotations

import pytest

from p2p_labeldp.audit.invariants import RULES, Checker, checks_of
from p2p_labeldp.audit.trace import Event
from p2p_labeldp.privacy import Exchange, Parameters
from p2p_labeldp.protocol.messages import Ask, Done
from p2p_labeldp.scenario import Network


def test_what_is_said_once_is_said_once_to_each_receiver_in_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ask, "once", True)
    checker = Checker(4, 1, Parameters(alpha=0.2), Network(), coins=None)
    rules = {kind: rule for kind, rule in RULES.items() if kind != "ask"}
    monkeypatch.setattr(checker, "checks", checks_of(Exchange.PULL, rules), raising=False)
    for position, (sender, receiver, round_) in enumerate([(0, 1, 0), (0, 2, 0), (0, 1, 1), (1, 0, 0), (0, 2, 0)]):
        checker.feed(Event(position, position, 0.0, sender, receiver, "ask", (round_,)))
    assert [(each.position, each.party) for each in checker.violations] == [(4, 0)]


def test_a_message_without_a_rule_is_noticed_before_anything_is_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyError, match="done"):
        checks_of(Exchange.PULL, {kind: rule for kind, rule in RULES.items() if kind != "done"})
    monkeypatch.setattr(Done, "exchanges", (Exchange.MIXED,))
    assert checks_of(Exchange.PULL, RULES)["done"] is Checker._foreign
