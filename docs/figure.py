"""Draws the figure of the README from the folders of comparisons: ``python docs/figure.py FOLDER ...``.

Writes docs/figure.png, docs/figure.svg and docs/figure.csv, and prints the tables of docs/comparison.md, which has the
commands that make the folders. Folders of the same data set make one panel; where the number of clusters was varied, a
panel of its own. Without folders the figure is drawn from docs/figure.csv.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from p2p_labeldp.experiments.compare import COUNT, Point, point_table, points
from p2p_labeldp.experiments.sweeps import read_sweep
from p2p_labeldp.experiments.sweeps.tables import put
from p2p_labeldp.reporting.comparison import DATA_SETS, Panel, caption, draw_comparison
from p2p_labeldp.reporting.sweeps import estimate
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


def panels_in(path: Path) -> list[Panel]:
    """Those that ``table`` wrote."""
    kinds: dict[str, Callable[[str], Any]] = {
        "str": str,
        "int": int,
        "float": float,
        "float | None": lambda text: float(text) if text else None,
    }
    found: dict[tuple[str, str], list[Point]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            values = {item.name: kinds[str(item.type)](row[item.name]) for item in dataclasses.fields(Point)}
            found.setdefault((row["dataset"], row["across"]), []).append(Point(**values))
    return [Panel(name, points, across) for (name, across), points in found.items()]


def tables(panels: list[Panel]) -> list[str]:
    """Each panel's means as Markdown, a list of lines in all."""
    lines: list[str] = []
    for panel in panels:
        lines += ["", f"**{panel.title}**: {caption(panel)}.", ""]
        lines += [f"| {panel.across} | " + " | ".join(f"{value:g}" for value in panel.values()) + " |"]
        lines += ["|---|" + "---|" * len(panel.values())]
        for (name, _), mine in panel.lines().items():
            known = [estimate(p.ratio for p in mine if getattr(p, panel.across) == value) for value in panel.values()]
            cells = ["-" if each is None else f"{each.mean:.3f}".removeprefix("0") for each in known]
            lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return lines


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
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--out", type=Path, default=HERE / "figure", help="without a suffix")
    options = parser.parse_args()
    rows = options.out.with_name(options.out.name + ".csv")
    panels = panels_of(options.folders) if options.folders else panels_in(rows)
    written = draw_comparison(panels, options.out)
    content = table(panels)
    put(rows, lambda temporary: temporary.write_bytes(content))
    print(*tables(panels), "", " ".join(map(str, (*written, rows))), sep="\n")


if __name__ == "__main__":
    main()
