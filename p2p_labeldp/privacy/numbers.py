"""Numbers as texts: those of a guarantee are never below themselves, those of a lower bound never above."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

EPSILON_DIGITS = 4
"""Of every epsilon that a table, a page or a terminal shows."""


def rounded_up(value: float, digits: int = 3) -> str:
    """A number as text with so many significant digits, never below the number."""
    return _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int) -> str:
    """The same, never above the number."""
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, way: str) -> str:
    if not math.isfinite(value):
        return f"{value:g}"
    # The shortest decimal that reads back as this number, so that 0.1 stays 0.1.
    near = Context(prec=digits, rounding=way).create_decimal(Decimal(repr(float(value))))
    return f"{float(near):.{digits}g}"


def shown_epsilon(epsilon: float) -> str:
    return "infinite" if epsilon == math.inf else rounded_up(epsilon, EPSILON_DIGITS)


def factor(epsilon: float) -> str:
    """e^epsilon, never below it."""
    if epsilon == math.inf:
        return "no limit"
    if epsilon > 30:
        return f"e^{rounded_up(epsilon)}"
    times = math.exp(epsilon) * (1 + 1e-15) if epsilon else 1.0
    return f"{math.ceil(times):,}" if times > 999 else rounded_up(times)


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
