"""Plots of guarantees."""

from __future__ import annotations

import math

from p2p_labeldp.privacy import Guarantee, View
from p2p_labeldp.reporting.curves import curves_plot
from p2p_labeldp.runs.summary import Curve

CURVES = {
    "learner": Curve((0.0, 0.4, 0.9), (0.1, 1e-4, 1e-9), "account"),
    "peer": Curve((0.0, 0.5), (0.0, 0.0), "flips"),
}
TABLE = {
    View.LEARNER: Guarantee(epsilon=0.4, delta=1e-4, view=View.LEARNER),
    View.PEER: Guarantee(epsilon=0.5, delta=0.0, view=View.PEER),
    View.NETWORK: Guarantee(epsilon=math.inf, delta=0.0, view=View.NETWORK),
}


def test_a_curve_is_marked_where_the_table_states_its_pair_and_whoever_has_none_is_named() -> None:
    plot = curves_plot(TABLE, CURVES, "title")
    assert [(line.name, line.points) for line in plot.lines] == [
        ("learner", [(0.4, 1e-4)]),
        ("peer", [(0.5, 0.0)]),
    ]
    assert "No curve, since nothing is guaranteed: a network observer." in plot.caption


def test_no_curve_is_drawn_below_its_points() -> None:
    (line, _) = curves_plot(TABLE, CURVES, "title").lines
    heights = dict(zip(line.xs, line.ys, strict=True))
    assert all(heights[x] > y for x, y in ((0.0, 0.1), (0.4, 1e-4)))


def test_a_curve_ends_with_the_axis_instead_of_falling_at_its_edge() -> None:
    plot = curves_plot(TABLE, CURVES, "title")
    ends = [line.xs[-1] for line in plot.lines]
    assert ends[0] <= plot.across.high < CURVES["learner"].epsilons[-1]
    assert ends[1] == 0.5
