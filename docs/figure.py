"""Draws the figure of the README from the folders of comparisons: ``python docs/figure.py FOLDER ...``.

Writes docs/figure.png, docs/figure.svg and docs/figure.csv, and prints the tables of docs/comparison.md, which has the
commands that make the folders. Folders of the same data set make one panel; where the number of clusters was varied, a
panel of its own. Without folders the figure is drawn from docs/figure.csv.

A row is a function of its settings and its seed, and a trial's seed of its number, so that trials may be added to those
that stand: ``--add`` keeps the rows of docs/figure.csv. What is in both must be the same to the last digit (but for the
epsilon that is spent, whose bound may be found more tightly by a later version: to a millionth); ``--renew KIND`` is
for a mechanism that has changed, whose old rows are dropped.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import io
import itertools
import math
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from p2p_labeldp.experiments.compare import COUNT, Point, points
from p2p_labeldp.experiments.sweeps import read_sweep
from p2p_labeldp.reporting.comparison import Panel, caption, plot_of
from p2p_labeldp.reporting.files import save_both
from p2p_labeldp.scenario import parse_scenario
from p2p_labeldp.systems import put_in_place

HERE = Path(__file__).parent


def panels_of(folders: list[Path]) -> list[Panel]:
    """One for each data set, then those by the number of clusters."""
    found: dict[tuple[str, str], list[Point]] = {}
    for folder in folders:
        sweep = read_sweep(folder)
        scenario = parse_scenario(sweep.scenario, str(folder))
        across = "clusters" if COUNT in sweep.keys else "epsilon"
        found.setdefault((scenario.data.name, across), []).extend(points(sweep.rows, scenario.clusters.count))
    order = ["mnist", "fashion_mnist", "cifar10"]
    places = sorted(found, key=lambda key: (key[1] == "clusters", order.index(key[0]) if key[0] in order else 99))
    return [Panel(name, found[name, across], across) for name, across in places]


def panels_in(path: Path) -> list[Panel]:
    """Those that ``table`` wrote."""
    kinds: dict[str, Callable[[str], Any]] = {
        "str": str,
        "int": int,
        "float": float,
        "int | None": lambda text: int(text) if text else None,
        "float | None": lambda text: float(text) if text else None,
    }
    found: dict[tuple[str, str], list[Point]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            values = {item.name: kinds[str(item.type)](row[item.name]) for item in dataclasses.fields(Point)}
            found.setdefault((row["dataset"], row["across"]), []).append(Point(**values))
    return [Panel(name, points, across) for (name, across), points in found.items()]


def merged(old: list[Panel], new: list[Panel], renew: Collection[str] = ()) -> list[Panel]:
    """Panels with the rows of both, in order. SystemExit where a row of both is not the same one."""
    found: list[Panel] = []
    for panel in old:
        rows = {_place(point): point for point in panel.points if point.kind not in renew}
        added = [other.points for other in new if (other.dataset, other.across) == (panel.dataset, panel.across)]
        for point in itertools.chain.from_iterable(added):
            differing = _difference(rows.get(_place(point), point), point)
            if differing:
                raise SystemExit(f"{panel.title}, {_place(point)}: {differing} is not that of the row that stands")
            rows[_place(point)] = point
        curves = list(dict.fromkeys(point.curve for point in panel.points))
        points = sorted(rows.values(), key=lambda p: (curves.index(p.curve), p.clusters or 0, p.epsilon, p.trial))
        found.append(Panel(panel.dataset, points, panel.across))
    return found


def _place(point: Point) -> tuple[str, int | None, float, int]:
    return point.curve, point.clusters, point.epsilon, point.trial


def _difference(old: Point, new: Point) -> str:
    """The first field that differs; what an earlier version did not measure is none, nor the last digits of a bound."""
    for name, value in dataclasses.asdict(old).items():
        now = getattr(new, name)
        same = math.isclose(value, now, rel_tol=1e-6) if name == "spent" else value in (None, now)
        if not same:
            return name
    return ""


def tables(panels: list[Panel]) -> list[str]:
    """Each panel's means as Markdown, a list of lines in all."""
    lines: list[str] = []
    for panel in panels:
        lines += ["", f"**{panel.title}**: {caption(panel)}.", ""]
        lines += [f"| {panel.across} | " + " | ".join(f"{value:g}" for value in panel.values()) + " |"]
        lines += ["|---|" + "---|" * len(panel.values())]
        for (name, _), mine in panel.lines().items():
            cells = ["-" if each is None else f"{each.mean:.3f}".removeprefix("0") for each in panel.ratios(mine)]
            lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return lines


def table(panels: list[Panel]) -> bytes:
    """Every model of the figure, a line each."""
    rows = [
        {"dataset": panel.dataset, "across": panel.across} | row
        for panel in panels
        for row in map(dataclasses.asdict, panel.points)
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
    parser.add_argument("--add", action="store_true", help="to the rows that stand")
    parser.add_argument(
        "--renew", action="append", default=[], metavar="KIND", help="a mechanism whose old rows are dropped"
    )
    options = parser.parse_args()
    rows = options.out.with_name(options.out.name + ".csv")
    panels = panels_of(options.folders) if options.folders else panels_in(rows)
    if options.add:
        panels = merged(panels_in(rows), panels, options.renew)
    written = save_both([plot_of(panel) for panel in panels], options.out)
    content = table(panels)
    with put_in_place(rows) as temporary:
        temporary.write_bytes(content)
    print(*tables(panels), "", " ".join(map(str, (*written, rows))), sep="\n")


if __name__ == "__main__":
    main()
