"""``p2p-labeldp threats``: what every view could learn, as a table and a plot."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from p2p_labeldp.cli.output import (
    DataDir,
    Json,
    ScenarioArgument,
    Seed,
    Settings,
    console,
    find_scenario,
    print_json,
    progress_bar,
)
from p2p_labeldp.cli.tables import print_table
from p2p_labeldp.errors import RequestError

if TYPE_CHECKING:
    from p2p_labeldp.experiments.threats import Threats
    from p2p_labeldp.privacy import Guarantee
    from p2p_labeldp.runs.stated import Row


def command(
    scenario: ScenarioArgument,
    epsilon: Annotated[float, typer.Option(help="The epsilon that each view's delta is stated at.")] = 1.0,
    colluders: Annotated[int, typer.Option(help="How many users collude with the learner.")] = 1,
    seed: Seed = None,
    data_dir: DataDir = None,
    settings: Settings = None,
    out: Annotated[
        Path | None, typer.Option(help="The plot (.png, .svg or .pdf); runs/NAME-threats.png if not given.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show every view's epsilon and delta(epsilon), and plot them."""
    if not 0 <= epsilon < math.inf:
        raise RequestError(f"--epsilon {epsilon:g} is not allowed; it must be 0 or more and finite")
    if colluders < 0:
        raise RequestError(f"--colluders {colluders} is not allowed; it must be 0 or more")
    plot = out or Path("runs") / f"{Path(scenario).stem}-threats.png"
    chosen = find_scenario(scenario, settings, seed)
    from p2p_labeldp.experiments.threats import threats
    from p2p_labeldp.privacy.numbers import rounded_up
    from p2p_labeldp.reporting.curves import curves_plot
    from p2p_labeldp.reporting.files import checked_plot, save

    checked_plot(plot)
    with progress_bar() as progress:
        found = threats(chosen, epsilon, colluders, data_dir, progress)
        noise = f"alpha {found.alpha:g}, theta {found.theta:g}"
        title = f"{Path(scenario).stem}: clusters of {found.sizes} users, {noise}"
        save([curves_plot(found.table, found.curves, title)], plot)
    if as_json:
        views = _as_json(found, epsilon)
        print_json({"alpha": found.alpha, "theta": found.theta, "views": views, "plot": str(plot)})
        return
    console.print(f"Clusters of {found.sizes} users, {noise}; one label replaced; delta {rounded_up(found.delta)}.\n")
    _print_views(found, epsilon)
    console.print("\nWho sees what:")
    for row in rows_of(found):
        console.print(f"  {row.view:<12}  {row.who}: {row.sees}", soft_wrap=True)
    console.print(f"\nThe curves are in {plot}{_drawn(found)}", soft_wrap=True)


def rows_of(found: Threats) -> list[Row]:
    from p2p_labeldp.runs.stated import rows

    return rows(found.table, "peer_to_peer")


def _drawn(found: Threats) -> str:
    """Whose curves they are, where not everyone's."""
    some = {view: curve.sizes for view, curve in found.curves.items() if curve.sizes}
    if not some:
        return ""
    sizes = " and ".join(map(str, sorted({size for chosen in some.values() for size in chosen})))
    return f"; those of {', '.join(some)} are of clusters of {sizes} users, which may do better than others elsewhere"


def _as_json(found: Threats, epsilon: float) -> dict[str, Any]:
    views = {}
    for row in rows_of(found):
        guarantee = found.table[row.view].as_json()
        del guarantee["view"]
        at = {"epsilon": epsilon, "delta": found.deltas[row.view]}
        views[str(row.view)] = guarantee | {"sees": row.sees, "at_epsilon": at, "words": words(found.table[row.view])}
    return views


def words(guarantee: Guarantee) -> str:
    """The guarantee in words: of anything that may be seen, with another label in place of the true one."""
    from p2p_labeldp.privacy.numbers import factor

    epsilon, local = guarantee.epsilon, guarantee.local_epsilon
    if epsilon == math.inf:
        return "may learn the label for certain"
    likely = f"at most {factor(epsilon)} times as likely, plus delta"
    return f"{likely}: the flip alone protects" if local is not None and epsilon >= 0.95 * local else likely


def _print_views(found: Threats, epsilon: float) -> None:
    from p2p_labeldp.privacy.numbers import rounded_up

    rows = [
        (row.view, row.epsilon, rounded_up(found.deltas[row.view]), words(found.table[row.view]))
        for row in rows_of(found)
    ]
    print_table(("view", "epsilon", f"delta at {epsilon:g}", "anything seen, with another label, is"), rows)
