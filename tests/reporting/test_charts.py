"""Charts: what is drawn lies within the drawing, carries its words, and lets nobody's text become markup."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from p2p_labeldp.privacy import Exchange, views_of
from p2p_labeldp.reporting import charts, plots, svg
from p2p_labeldp.reporting.charts import Bars, Dots
from p2p_labeldp.reporting.plots import Axis, Line, Plot, Scale
from p2p_labeldp.reporting.styles import DASHES, MARKERS, SERIES, Look, looks

HOSTILE = '</svg><script>alert("x")</script>&'
finite = st.floats(min_value=-1e12, max_value=1e12, allow_nan=False)


def parsed(drawing: Markup) -> ElementTree.Element:
    """A drawing as XML, which is stricter than HTML."""
    return ElementTree.fromstring(str(drawing))


def every_chart(name: str, values: list[float]) -> list[Markup]:
    """Each kind of chart, showing the same numbers under the same name."""
    axis = Axis(name, min(values), max(values))
    curves = [Line(name, values, values, look, list(zip(values, values, strict=True))) for look in looks([""] * 3)]
    return [
        charts.line_chart("a", Plot(name, curves, axis, axis, name, told=name)),
        charts.bars("b", name, name, [Bars(name, [(abs(value), f"{value:.3g}")]) for value in values]),
        charts.bars("c", name, name, [Bars(name, [(value % 1, name)] * 2) for value in values], legend=(name, name)),
        charts.dot_rows(
            "d", name, name, [Dots(name, value, value, (value, value), value) for value in values], axis,
            (("before", "true"), ("after", "told"), ("limit", "bound")),
        ),
        charts.columns("e", name, name, [0.0, 1.0, 2.0], [abs(values[0]), abs(values[-1])], name, name, level=1.0),
        charts.strips("f", name, name, [0.0, 1.0, 2.0], [(name, [3, 0]), ("none", [0, 0])], name),
    ]  # fmt: skip


def coordinates(drawing: ElementTree.Element) -> list[tuple[str, float]]:
    """("x" or "y", value) of everything that has a place."""
    found: list[tuple[str, float]] = []
    for element in drawing.iter():
        for key, value in element.attrib.items():
            if key in ("x", "x1", "x2", "cx"):
                found.append(("x", float(value)))
            elif key in ("y", "y1", "y2", "cy"):
                found.append(("y", float(value)))
            elif key == "points":
                for pair in value.split():
                    x, y = pair.split(",")
                    found += [("x", float(x)), ("y", float(y))]
    return found


@given(st.lists(finite, min_size=1, max_size=6))
def test_whatever_the_numbers_a_chart_stays_within_its_drawing(values: list[float]) -> None:
    for chart in every_chart("name", values):
        drawing = parsed(chart)
        _, _, wide, high = map(float, drawing.attrib["viewBox"].split())
        for side, value in coordinates(drawing):
            assert math.isfinite(value)
            assert -6 <= value <= (wide if side == "x" else high) + 6


@pytest.mark.parametrize("place", range(6))
def test_a_chart_has_a_role_a_title_and_a_description_and_names_stay_names(place: int) -> None:
    drawing = parsed(every_chart(HOSTILE, [0.5, 1.0])[place])
    assert "script" not in {element.tag for element in drawing.iter()}
    title, description = drawing.find("title"), drawing.find("desc")
    assert title is not None
    assert description is not None
    assert title.text == description.text == HOSTILE
    assert drawing.attrib["role"] == "img"
    assert drawing.attrib["aria-labelledby"] == f"{title.attrib['id']} {description.attrib['id']}"


def test_a_logarithmic_scale_puts_equal_factors_at_equal_distances() -> None:
    scale = Scale(1e-6, 1.0, 0.0, 60.0, kind="log")
    assert [round(scale(10.0**-power), 9) for power in range(7)] == [60, 50, 40, 30, 20, 10, 0]
    assert scale(0.0) == 0, "below everything stands at the edge"


@given(finite, st.floats(min_value=1e-9, max_value=1e12))
def test_ticks_are_few_round_and_inside(low: float, span: float) -> None:
    high = low + span
    if high - low < 1e-9 * max(abs(low), 1.0):  # nothing between them that could be told apart
        return
    ticks = plots.round_values(low, high, 6)
    assert len(ticks) <= 7
    slack = 1e-6 * span
    assert all(low - slack <= tick <= high + slack for tick in ticks)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (1000.0, 1001.0, ["1,000.0", "1,000.2", "1,000.4", "1,000.6", "1,000.8", "1,001.0"]),
        (0.0, 1.0, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (0.123456, 0.123459, None),
    ],
)
def test_ticks_differ_in_words_too(low: float, high: float, words: list[str] | None) -> None:
    found = [said for _, said in Scale(low, high, 0.0, 100.0).ticks()]
    assert len(set(found)) == len(found) > 2
    assert words is None or found == words


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 12, 1000])
def test_ticks_of_counts_are_whole(count: int) -> None:
    ticks = Scale(0.0, float(count), 0.0, 100.0, whole=True).ticks()
    assert all(value == int(value) and words == f"{int(value):,}" for value, words in ticks)
    assert ticks


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0"), (1234567, "1,234,567"), (0.25, "0.25"), (1e-7, "1e-07"), (12, "12"), (3e10, "3e+10")]
)
def test_numbers_are_written_as_people_write_them(value: float, words: str) -> None:
    assert plots.number(value) == words


def test_series_differ_by_more_than_colour() -> None:
    series = looks([""] * len(SERIES))
    for told in ({str(svg.marker(look.marker, 9, 9, "")) for look in series}, {DASHES[look.dash] for look in series}):
        assert len(told) == len(SERIES)
    for ground in (0, 1):
        assert len({pair[ground] for pair in SERIES}) == len(SERIES)


def test_lines_beyond_the_series_and_several_of_one_mechanism_look_different() -> None:
    for kinds in ([""] * 24, ["shuffle"] * 10, ["cluster_rr", "", "cluster_rr", "shuffle"]):
        assert len(set(looks(kinds))) == len(kinds)


def test_every_marker_is_drawn_alike_on_pages_and_in_files() -> None:
    from matplotlib.markers import MarkerStyle

    drawn = {str(svg.marker(marker, 9, 9, "")) for marker in MARKERS}
    assert len(drawn) == len(MARKERS)
    assert set(MARKERS) <= {str(marker) for marker in MarkerStyle.markers}


def test_every_view_of_an_exchange_has_a_line_of_its_own() -> None:
    assert max(len(views_of(exchange)) for exchange in Exchange) <= len(SERIES)


def test_a_chart_of_names_says_them_below_and_draws_no_line_between_them() -> None:
    lows, highs = [0.1, None], [0.3, None]
    line = Line("mean", [0.0, 1.0], [0.2, 0.4], Look("s0"), [(0.0, 0.2), (1.0, 0.4)], lows, highs, joined=False)
    plot = Plot("t", [line], Axis("kind", -0.5, 1.5, names=("one", "two")), Axis("y", 0, 1), "")
    chart = parsed(charts.line_chart("a", plot))
    assert {"one", "two"} <= {element.text for element in chart.iter("text")}
    assert chart.find("polyline") is None
    assert len([each for each in chart.iter("line") if each.attrib["class"].startswith("interval")]) == 1
