"""Plots as files: whole or not there, with every word of the plot, the same bytes each time."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.reporting import charts, files, svg
from p2p_labeldp.reporting.files import save, save_both
from p2p_labeldp.reporting.plots import Axis, Line, Plot
from p2p_labeldp.reporting.styles import looks

LOOKS = looks(["", "shuffle"])
PLOT = Plot(
    title="a title",
    lines=[
        Line("joined", [1.0, 10.0], [0.5, 0.9], LOOKS[0], [(1.0, 0.5)], [0.4, None], [0.6, None]),
        Line("apart", [1.0, 10.0], [0.6, 0.8], LOOKS[1], [(1.0, 0.6)], [0.5, 0.7], [0.7, 0.9], joined=False),
    ],
    across=Axis("across", 1.0, 10.0, "log"),
    up=Axis("upwards", 0.0, 1.0, "cubic", at=(0.0, 0.8, 1.0)),
    caption="a caption",
)
NAMES = Plot("names", PLOT.lines, Axis("key", -0.5, 1.5, names=("one", "two")), PLOT.up, "another")


@pytest.mark.parametrize(("suffix", "begins"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_a_plot_is_drawn_to_a_file_and_nothing_else_is_left(tmp_path: Path, suffix: str, begins: bytes) -> None:
    path = tmp_path / "below" / f"plot{suffix}"
    save([PLOT], path)
    first = path.read_bytes()
    assert first.startswith(begins)
    assert list(path.parent.iterdir()) == [path]
    save([PLOT], path)
    assert path.read_bytes() == first


def test_a_file_has_every_word_of_its_plots(tmp_path: Path) -> None:
    png, svg = save_both([PLOT, NAMES, NAMES], tmp_path / "plots")
    assert [png.name, svg.name] == ["plots.png", "plots.svg"]
    text = svg.read_text(encoding="utf-8")
    for words in ("a title", "a caption", "across", "upwards", "joined", "apart", "0.8", "names", "another", "two"):
        assert f"<!-- {words} -->" in text, words


def test_a_page_and_a_file_draw_the_same_lines_bands_and_ticks() -> None:
    (axes,) = files._figure([PLOT]).axes
    page = ElementTree.fromstring(str(charts.line_chart("plot", PLOT)))
    (path,) = page.iter("polyline")
    places = [tuple(map(float, pair.split(","))) for pair in path.attrib["points"].split()]
    wide = svg.WIDTH - charts.LEFT - charts.RIGHT
    shares = [((x - charts.LEFT) / wide, 1 - (y - charts.TOP) / charts.HEIGHT) for x, y in places]
    joined, *marks = axes.lines
    assert [*zip(*joined.get_data(), strict=True)] == [pytest.approx(share, abs=1e-3) for share in shares]
    assert [line.get_color() for line in (joined, marks[-1])] == [look.ink for look in LOOKS]
    drawn = [each.attrib["class"] for each in page.iter("line") if "interval" in each.attrib["class"]]
    assert len(drawn) == sum(len(each.get_segments()) for each in axes.collections) == 3
    ticks = {tick.get_text() for axis in (axes.xaxis, axes.yaxis) for tick in axis.get_ticklabels()}
    assert ticks == {"1", "10", "0", "0.8"}
    assert ticks <= {text.text for text in page.iter("text")}


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match=r"plot.svg: cannot be written"):
        save([PLOT], tmp_path / "file" / "plot.svg")
    with pytest.raises(RunError, match=r"plot.png: cannot be written"):
        save_both([PLOT], tmp_path / "file" / "plot")
