"""Means, confidence bands, guarantees and the plots of a sweep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from p2p_labeldp.reporting.plots import Plot
from p2p_labeldp.reporting.sweep_charts import metric_plot
from p2p_labeldp.reporting.sweeps import bands, delta_warning, estimate, largest_stated, numeric

ROWS = [
    {"k.x": x, "k.way": way, "k.on": on, "score": float(np.sin(17 * n + 5 * x) + n), "name": "text", "none": None}
    for n, (x, way, on) in enumerate(
        (x, way, on) for x in (1.0, 0.1, 10.0) for way in ("zebra", "ant") for on in (True, False) for _ in range(4)
    )
]


def test_an_estimate_is_students_interval() -> None:
    values = [0.81, 0.79, 0.9, 0.84, 0.7]
    found = estimate(values)
    assert found is not None
    low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    assert (found.mean, found.low, found.high, found.count) == (
        pytest.approx(np.mean(values)), pytest.approx(low), pytest.approx(high), 5,
    )  # fmt: skip


def test_an_interval_takes_two_finite_values() -> None:
    assert estimate([]) is None
    assert estimate([None, None]) is None
    for values, mean in (([0.5, None], 0.5), ([1.0, math.inf], math.inf)):
        found = estimate(values)
        assert found is not None
        assert (found.mean, found.low, found.high, found.half_width) == (mean, None, None, None)
    same = estimate([0.25] * 3)
    assert same is not None
    assert (same.low, same.high) == (0.25, 0.25)


def test_a_confidence_band_covers_its_mean_as_often_as_it_says() -> None:
    # 2000 intervals at 95 %: the share that cover is within 0.02 of it but for one seed in 20,000 (4.1 sigma).
    draws = np.random.default_rng(3).normal(2.0, 0.7, size=(2000, 5))
    found = [estimate(row) for row in draws.tolist()]
    covered = [one is not None and one.low is not None and one.low <= 2.0 <= (one.high or 0.0) for one in found]
    assert abs(np.mean(covered) - 0.95) < 0.02


def test_bands_have_a_line_for_every_combination_of_the_others() -> None:
    found = bands(ROWS, "score", "k.x", ("k.way", "k.on"))
    assert [tuple(band.others.values()) for band in found] == [
        ("zebra", True), ("zebra", False), ("ant", True), ("ant", False),
    ]  # fmt: skip
    for band in found:
        assert band.x == [0.1, 1.0, 10.0]
        assert band.count == [4, 4, 4]
        for x, mean, low, high in zip(band.x, band.y, band.low, band.high, strict=True):
            values = [row["score"] for row in ROWS if row["k.x"] == x and band.others.items() <= row.items()]
            expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
            assert (mean, low, high) == (
                pytest.approx(np.mean(values)), pytest.approx(expected.low), pytest.approx(expected.high),
            )  # fmt: skip


def test_texts_keep_the_sweeps_order_and_missing_values_are_left_out() -> None:
    (band,) = bands(ROWS, "score", "k.way")
    assert band.x == ["zebra", "ant"]
    assert bands(ROWS, "none", "k.x") == bands(ROWS, "name", "k.x") == []
    partly = [row | {"score": None} if row["k.x"] == 1.0 else row for row in ROWS]
    assert bands(partly, "score", "k.x")[0].x == [0.1, 10.0]


def test_of_what_is_stated_the_largest_counts() -> None:
    rows = [
        {"epsilon.learner": epsilon, "delta.learner": delta, "method.learner": method, "k.x": 1, "accuracy": accuracy}
        for epsilon, delta, method, accuracy in (
            (1.2, 1e-5, "exact", 0.5), (2.197, 1e-4, "upper_bound", None), (0.4, 1e-3, "exact", 0.7)
        )
    ]  # fmt: skip
    found = largest_stated(rows, "learner")
    assert found is not None
    assert (found.largest, found.deltas, found.method, found.count) == (2.197, (1e-5, 1e-4, 1e-3), "upper_bound", 3)
    assert largest_stated(rows, "model") is None
    for metric, largest in (("epsilon.learner", 2.197), ("delta.learner", 1e-3)):
        (band,) = bands(rows, metric, "k.x")
        assert (band.y, band.low, band.high, band.count) == ([largest], [None], [None], [3])
    (band,) = bands(rows, "accuracy", "k.x")
    assert (band.y, band.count, band.runs) == ([pytest.approx(0.6)], [2], [3])


@pytest.mark.parametrize(
    ("rows", "warning"),
    [
        ([(1.0, 1e-3), (2.0, 1e-3)], ""),
        ([(1.0, 1e-3), (math.inf, 1e-4)], ""),
        ([(1.0, 1e-3), (2.0, 1e-4)], "different deltas (0.0001 to 0.001) cannot be compared; set privacy.delta"),
        ([(1.0, 1e-3), (2.0, 0.0)], "different deltas (0 to 0.001) cannot be compared: some mechanisms need no delta"),
    ],
)
def test_epsilons_at_different_deltas_are_not_to_be_compared(rows: list[tuple[float, float]], warning: str) -> None:
    found = delta_warning([{"epsilon.model": epsilon, "delta.model": delta} for epsilon, delta in rows], "model")
    assert found.endswith(warning)
    assert bool(found) == bool(warning)


def test_switches_and_texts_are_no_numbers() -> None:
    assert numeric([1, 0.5])
    assert not numeric([1, True])
    assert not numeric(["1"])
    assert not numeric([None, 2.0])


def plotted(rows: Sequence[Mapping[str, Any]], metric: str, across: str, *others: str) -> Plot:
    found = metric_plot(rows, [across, *others], metric, across)
    assert found is not None
    return found


def test_numbers_make_joined_lines_with_bands_and_names_marks_beside_each_other() -> None:
    numbers = plotted(ROWS, "score", "k.x", "k.way", "k.on")
    assert [line.name for line in numbers.lines] == [
        "way zebra, on true", "way zebra, on false", "way ant, on true", "way ant, on false",
    ]  # fmt: skip
    assert {line.joined for line in numbers.lines} == {True}
    assert (numbers.across.kind, list(numbers.across.at)) == ("log", [0.1, 1.0, 10.0])
    for across, names in (("k.way", ["zebra", "ant"]), ("k.on", ["true", "false"])):
        plot = plotted(ROWS, "score", across, "k.x")
        assert plot.across.names == names
        assert {line.joined for line in plot.lines} == {False}
        assert len({line.xs[0] for line in plot.lines}) == len(plot.lines)
    assert numbers.title == "score against k.x"
    assert "Means over 4 runs each, with the 95% confidence interval of the mean (Student's t)." in numbers.caption
    assert "One run each: no interval." in plotted(ROWS[::4], "score", "k.x", "k.way", "k.on").caption


def test_the_caption_says_what_the_key_means_what_is_left_out_and_at_which_delta() -> None:
    rows = [
        {"mechanism.alpha": alpha, "epsilon.peer": math.inf if alpha == 0 else 1 / alpha + n, "delta.peer": 1e-3}
        for alpha in (0.0, 0.1)
        for n in (0.0, 0.1)
    ]
    said = plotted(rows, "epsilon.peer", "mechanism.alpha").caption
    assert "probability that a user flips her label" in said
    assert said.startswith("The largest value of 2 runs each. At delta 0.001.")
    assert said.endswith("Infinite values are left out.")
    assert "one run each" in plotted(rows[::2], "epsilon.peer", "mechanism.alpha").caption
    mixed = [*rows, {"mechanism.alpha": 0.1, "epsilon.peer": 3.0, "delta.peer": 1e-4}]
    told = plotted(mixed, "epsilon.peer", "mechanism.alpha").caption
    assert "Epsilons at different deltas (0.0001 to 0.001) cannot be compared; set privacy.delta." in told


def test_nothing_to_draw_is_no_plot_and_of_too_many_lines_the_first_are_drawn() -> None:
    assert metric_plot(ROWS, ["k.x"], "none", "k.x") is None
    many = [{"k.x": x, "k.n": n, "score": float(x + n)} for x in (1, 2) for n in range(30)]
    plot = plotted(many, "score", "k.x", "k.n")
    assert len(plot.lines) == 24
    assert "The first 24 of 30 combinations of the other keys." in plot.caption


def test_the_band_of_a_share_stays_within_0_and_1() -> None:
    rows = [{"key": 1, "accuracy": value, "psi": value} for value in (0.1, 0.95)]
    (share,), (distance,) = (bands(rows, metric, "key") for metric in ("accuracy", "psi"))
    assert (share.low, share.high) == ([0.0], [1.0])
    assert distance.low[0] < 0
    assert distance.high[0] > 1
