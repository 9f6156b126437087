"""The page of the figure says what the figure's table holds."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import figure
import pytest

from p2p_labeldp.experiments.compare import AS_PRINTED
from p2p_labeldp.reporting.comparison import Panel, summarise

DOCS = Path(figure.__file__).parent


def test_the_tables_of_the_page_are_those_of_the_rows() -> None:
    page = (DOCS / "comparison.md").read_text(encoding="utf-8").splitlines()
    lines = [line for line in figure.tables(figure.panels_in(DOCS / "figure.csv")) if line]
    assert lines
    assert [line for line in lines if line not in page] == []


def test_the_rows_survive_writing_and_reading() -> None:
    path = DOCS / "figure.csv"
    assert figure.table(figure.panels_in(path)) == path.read_bytes()


def test_trials_are_added_to_rows_that_stand_and_rows_of_both_must_agree() -> None:
    old = figure.panels_in(DOCS / "figure.csv")
    first = old[0].points[0]
    assert [panel.points for panel in figure.merged(old, old)] == [panel.points for panel in old]
    more = Panel(old[0].dataset, [dataclasses.replace(first, trial=99, seed=1)], old[0].across)
    assert len(figure.merged(old, [more])[0].points) == len(old[0].points) + 1
    other = Panel(old[0].dataset, [dataclasses.replace(first, accuracy=0.5)], old[0].across)
    with pytest.raises(SystemExit, match="accuracy is not that of the row that stands"):
        figure.merged(old, [other])
    renewed = figure.merged(old, [other], renew=[first.kind])[0]
    assert [point.accuracy for point in renewed.points if point.kind == first.kind] == [0.5]


def test_every_mechanism_spent_what_the_figure_says_at_one_delta() -> None:
    for panel in figure.panels_in(DOCS / "figure.csv"):
        for point in panel.points:
            factor = 3 if point.kind == AS_PRINTED else 1
            assert 0.999 * factor * point.epsilon <= point.spent <= factor * point.epsilon * (1 + 1e-9)
            assert point.delta in (0.0, 1e-5)


def test_peer_to_peer_keeps_on_mnist_what_the_page_claims() -> None:
    mnist = figure.panels_in(DOCS / "figure.csv")[0]
    found = {s["epsilon"]: s["ratio"] for s in summarise(mnist) if s["mechanism"] == "peer_to_peer"}
    for epsilon, least in {0.1: 0.92, 0.25: 0.94, 0.5: 0.955, 1.0: 0.96}.items():
        assert found[epsilon] >= least
