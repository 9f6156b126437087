"""Draws the figure of the README from the folders of comparisons: ``python docs/figure.py FOLDER ...``.

Writes docs/figure.png, docs/figure.svg and docs/figure.csv. Folders of the same data set make one panel; where the
number of clusters was varied, a panel of its own. docs/comparison.md has the commands that make the folders.
"""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path

from p2p_labeldp.experiments.compare import COUNT, Point, point_table, points
from p2p_labeldp.experiments.sweeps import read_sweep
from p2p_labeldp.experiments.sweeps.tables import put
from p2p_labeldp.reporting.comparison import DATA_SETS, Panel, draw_comparison
from p2p_labeldp.scenario import parse_scenario

HERE = Path(__file__).parent


def panels_of(folders: list[Path]) -> list[Panel]:
    """One for each data set, then those by the number of clusters."""
    found: dict[tuple[str, str], list[Point]] = {}
    for folder in folders:
        sweep = read_sweep(folder)
        scenario = parse_scenario(sweep.scenario, str(folder))
        across = "clusters" if COUNT in sweep.keys else "epsilon"
        found.setdefault((scenario.data.name, across), []).extend(points(sweep.rows, scenario.clusters.count))
    order = [*DATA_SETS]
    places = sorted(found, key=lambda key: (key[1] == "clusters", order.index(key[0]) if key[0] in order else 99))
    return [Panel(name, found[name, across], across) for name, across in places]


def table(panels: list[Panel]) -> bytes:
    """Every model of the figure, a line each."""
    rows = [
        {"dataset": panel.dataset, "across": panel.across} | row
        for panel in panels
        for row in point_table(panel.points)
    ]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=HERE / "figure", help="without a suffix")
    options = parser.parse_args()
    panels = panels_of(options.folders)
    written = draw_comparison(panels, options.out)
    rows = options.out.with_name(options.out.name + ".csv")
    content = table(panels)
    put(rows, lambda temporary: temporary.write_bytes(content))
    print(*written, rows)


if __name__ == "__main__":
    main()
