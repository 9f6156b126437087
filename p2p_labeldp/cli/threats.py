"""``p2p-labeldp threats``: what everyone who might be looking could learn, as a table and a plot."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from p2p_labeldp.cli.account import number
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
from p2p_labeldp.errors import RequestError

if TYPE_CHECKING:
    from p2p_labeldp.experiments.threats import Threat, Threats


def command(
    scenario: ScenarioArgument,
    epsilon: Annotated[float, typer.Option(help="The epsilon that each view's delta is stated at.")] = 1.0,
    colluders: Annotated[int, typer.Option(help="How many users collude in the coalition.")] = 1,
    seed: Seed = None,
    data_dir: DataDir = None,
    settings: Settings = None,
    out: Annotated[
        Path | None, typer.Option(help="The plot (.png, .svg or .pdf); runs/NAME-threats.png if not given.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Every view's epsilon, its delta(epsilon), and a plot of all of them."""
    if not 0 <= epsilon < math.inf:
        raise RequestError(f"--epsilon {epsilon:g} is not allowed; it must be 0 or more and finite")
    if colluders < 0:
        raise RequestError(f"--colluders {colluders} is not allowed; it must be 0 or more")
    plot = out or Path("runs") / f"{Path(scenario).stem}-threats.png"
    chosen = find_scenario(scenario, settings, seed)
    from p2p_labeldp.experiments.threats import threats
    from p2p_labeldp.reporting.curves import SUFFIXES, draw_curves
    from p2p_labeldp.reporting.words import rounded_up

    if plot.suffix not in SUFFIXES:
        raise RequestError(f"--out {plot}: the plot's name must end in {', '.join(SUFFIXES)}")

    with progress_bar() as progress:
        found = threats(chosen, epsilon, colluders, data_dir, progress)
        title = f"{Path(scenario).stem}: clusters of {found.sizes} users, {noise_of(found)}"
        draw_curves({threat.view: threat.account for threat in found.threats}, plot, title=title, delta=found.delta)
    if as_json:
        views = {threat.view: _as_json(threat) for threat in found.threats}
        print_json({"alpha": found.alpha, "theta": found.theta, "views": views, "plot": str(plot)})
        return
    console.print(
        f"Clusters of {found.sizes} users, {noise_of(found)}; one label replaced; delta {rounded_up(found.delta)}.\n"
    )
    console.print(_table(found.threats, epsilon))
    console.print("\nWho sees what:")
    for threat in found.threats:
        console.print(f"  {threat.view:<12}  {threat.sees}", soft_wrap=True)
    console.print(f"\nThe curves are in {plot}{_drawn(found.threats)}", soft_wrap=True)


def _drawn(threats: list[Threat]) -> str:
    """Whose curves they are, where not everyone's."""
    everyone = max((threat.drawn for threat in threats), key=len)
    some = [threat for threat in threats if threat.drawn != everyone]
    if not some:
        return ""
    views = ", ".join(threat.view for threat in some)
    sizes = " and ".join(map(str, sorted({size for threat in some for size in threat.drawn})))
    return f"; those of {views} are of clusters of {sizes} users, which may do better than others at other deltas"


def noise_of(found: Threats) -> str:
    return f"alpha {found.alpha:g}, theta {found.theta:g}"


def _as_json(threat: Threat) -> dict[str, Any]:
    answer = threat.answer.as_json()
    del answer["view"]
    at = {"epsilon": threat.at_epsilon.epsilon, "delta": threat.at_epsilon.delta}
    return answer | {"sees": threat.sees, "cluster_size": threat.cluster_size, "at_epsilon": at, "words": words(threat)}


def words(threat: Threat) -> str:
    """The guarantee in words: of anything that may be seen, with another label in place of the true one."""
    from p2p_labeldp.reporting.words import rounded_up

    epsilon, local = threat.answer.epsilon, threat.answer.local_epsilon
    if epsilon == math.inf:
        return "may learn the label for certain"
    factor = f"at most {rounded_up(math.exp(epsilon))} times as likely, plus delta"
    return f"{factor}: the flip alone protects" if epsilon >= 0.95 * local else factor


def _table(threats: list[Threat], epsilon: float) -> Table:
    from p2p_labeldp.reporting.words import rounded_up

    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("view", "epsilon", f"delta at {epsilon:g}", "anything seen, with another label, is"):
        table.add_column(name, overflow="fold")
    for threat in threats:
        mark = "" if threat.answer.method == "exact" else " at most"
        delta = rounded_up(threat.at_epsilon.delta)
        table.add_row(threat.view, number(threat.answer.epsilon) + mark, delta, words(threat))
    return table
