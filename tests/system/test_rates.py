"""The rates of the paper's Table 1: at the numbers, with the conditions and in the order that it states."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from rates import RATES, Setting, distortion_bound, exchanged_epsilon_rate

BY_NAME = {rate.name: rate for rate in RATES}
AT = Setting(n=10_000, d=4, epsilon=0.5, labels=2, phi=0.1, s=40)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("not private", 0.02),
        ("Beimel et al. (2013)", 0.02 * math.sqrt(2)),
        ("Bassily et al. (2018)", 4**0.6 / 5000**0.4),
        ("uniform randomized response", 0.08),
        ("centralized mechanism", 0.04 + 0.4 / (1 + math.expm1(0.5) * 0.1)),
        ("peer-to-peer mechanism", 0.02 * math.sqrt(2) + 0.1),
    ],
)
def test_a_rate_is_its_formula(name: str, value: float) -> None:
    assert BY_NAME[name](AT) == pytest.approx(value)


@pytest.mark.parametrize(
    ("changes", "none"),
    [
        ({"labels": 3}, {"Beimel et al. (2013)", "Bassily et al. (2018)", "peer-to-peer mechanism"}),
        ({"s": 39}, {"peer-to-peer mechanism"}),
        ({"s": 19}, {"peer-to-peer mechanism", "centralized mechanism"}),
        ({"phi": 0.0}, {"peer-to-peer mechanism", "centralized mechanism"}),
        ({"epsilon": 1.0}, {"peer-to-peer mechanism", "uniform randomized response"}),
    ],
)
def test_outside_of_its_conditions_a_rate_says_nothing(changes: dict[str, float], none: set[str]) -> None:
    at = replace(AT, **changes)  # type: ignore[arg-type]
    assert {rate.name for rate in RATES if rate(at) is None} == none


def test_the_terms_of_the_exchange() -> None:
    assert exchanged_epsilon_rate(10_000, 1.0) == pytest.approx(1 + 1 / (100 * math.log(10_000)) + 0.1)
    assert distortion_bound(10, 0.01, 2.0, 100) == pytest.approx(0.2 + 2 * math.sqrt(2) * 0.2)
