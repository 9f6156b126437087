"""DP-SGD's defaults: public numbers in, a learning rate out; no label has a part in them."""

from __future__ import annotations

import math

import pytest

from p2p_labeldp.mechanisms.dp_sgd import BATCH_SHARE, EPOCHS, REACH, Steps, plan_steps
from p2p_labeldp.privacy import Relation


def steps(noise: float = 0.0, clip: float = 1.0, rate: float | None = None) -> Steps:
    return Steps(1.0, 1e-5, Relation.REPLACE_EXAMPLE, noise, 0.1, 100, clip, rate)


def test_the_rate_balances_the_reach_with_the_variance_of_sampling_and_noise() -> None:
    assert steps().rate_for(weights=50, batch=400) == pytest.approx(REACH / math.sqrt(100 / 400))
    variance = 1 / 400 + 50 * (8 / 400) ** 2
    assert steps(noise=8.0).rate_for(weights=50, batch=400) == pytest.approx(REACH / math.sqrt(100 * variance))


def test_the_rate_is_in_units_of_the_clip_and_a_given_one_stands() -> None:
    assert steps(clip=2.0).rate_for(50, 400) == steps().rate_for(50, 400) / 2
    assert steps(noise=8.0, rate=0.25).rate_for(50, 400) == 0.25


def test_the_passes_and_the_batch_are_those_of_the_docstring() -> None:
    plan = plan_steps(2000, epsilon=math.inf)
    assert plan.sampling_rate == BATCH_SHARE
    assert plan.steps == round(EPOCHS / BATCH_SHARE)
    assert plan.learning_rate is None
