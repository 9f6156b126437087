"""What protects all labels of one person together, where she has several rows.

A guarantee is for one label. Of k labels that change one after the other each step costs (epsilon, delta), so that

    P(S) <= e^(k epsilon) Q(S) + delta (1 + e^epsilon + ... + e^((k - 1) epsilon))

whatever the rows have in common: the same cluster, the same noise, a host. An upper bound, and nothing better is said.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial

from p2p_labeldp.mechanisms import Plan
from p2p_labeldp.privacy import Guarantee, View
from p2p_labeldp.runs.guarantees import Circumstances, Table, guarantees

STEPS = 200  # halvings of the delta of a single step, far more than the fixed point takes

Single = Callable[[View, float], Guarantee]
"""What protects one label in a view, at a delta; at the mechanism's own where that is what it is."""


def of_one_label(plan: Plan, found: Circumstances) -> Single:
    """In the views that a simulated run states."""

    def at(view: View, delta: float) -> Guarantee:
        return guarantees(plan, dataclasses.replace(found, delta=delta), (view,))[view]

    return at


def person_guarantees(table: Table, at: Single, rows: int) -> Table:
    """View to guarantee for all labels of a person with at most so many rows; empty where everyone has one."""
    if rows <= 1:
        return {}
    return {view: for_group(partial(at, view), one.delta, rows) for view, one in table.items()}


def for_group(at: Callable[[float], Guarantee], delta: float, rows: int) -> Guarantee:
    """The guarantee for ``rows`` labels at ``delta``; ``at`` gives that of one label at any delta."""
    step = delta / rows
    for _ in range(STEPS):
        single = at(step)
        if single.epsilon == math.inf:
            return _stated(single, math.inf, rows, delta)
        if single.delta == 0:
            return _stated(single, rows * single.epsilon, rows, 0.0)
        spent = single.delta * _factor(single.epsilon, rows)
        if spent <= delta:
            return _stated(single, rows * single.epsilon, rows, delta)
        if single.delta > step:  # a mechanism whose delta is what it is
            return _stated(single, rows * single.epsilon, rows, min(1.0, spent))
        step = min(step / 2, delta / _factor(single.epsilon, rows))
    raise AssertionError("epsilon is bounded by the flips, so that some delta is small enough")


def _factor(epsilon: float, rows: int) -> float:
    """1 + e^epsilon + ... + e^((rows - 1) epsilon), rounded up."""
    if epsilon == 0:
        return float(rows)
    return math.inf if rows * epsilon > 700 else math.expm1(rows * epsilon) / math.expm1(epsilon) * (1 + 1e-12)


def _stated(single: Guarantee, epsilon: float, rows: int, delta: float) -> Guarantee:
    reason = f"for all labels of a person with {rows} rows" + (f"; {single.reason}" if single.reason else "")
    return Guarantee(
        epsilon=epsilon, delta=delta, view=single.view, method="upper_bound", relation=single.relation, reason=reason,
        colluders=single.colluders,
    )  # fmt: skip
