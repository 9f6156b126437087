"""``p2p-labeldp account``: epsilon of one view of one cluster, exactly, with the other methods beside it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from p2p_labeldp.cli.output import Json, console, print_json

if TYPE_CHECKING:
    from p2p_labeldp.privacy import Guarantee

ClusterSize = Annotated[int, typer.Option("--cluster-size", help="Users in the cluster.")]
Delta = Annotated[float, typer.Option("--delta", help="The delta that epsilon is stated at.")]
Labels = Annotated[int, typer.Option("--labels", help="How many labels there are.")]
View = Annotated[
    str,
    typer.Option("--view", help="learner, peer, metadata, eavesdropper, network, auditor, shuffle or coalition."),
]
Colluders = Annotated[int, typer.Option("--colluders", help="Users of the cluster who collude, for coalition.")]
Rounds = Annotated[int, typer.Option("--rounds", help="How often the exchange is repeated.")]
Noise = Annotated[str, typer.Option("--noise", help="sticky: one flip for all rounds; fresh: one per round.")]


def command(
    cluster_size: ClusterSize,
    alpha: Annotated[float, typer.Option("--alpha", help="Probability of a flip.")],
    theta: Annotated[float, typer.Option("--theta", help="Probability of a report.")],
    delta: Delta,
    labels: Labels = 2,
    view: View = "learner",
    colluders: Colluders = 0,
    rounds: Rounds = 1,
    noise: Noise = "sticky",
    as_json: Json = False,
) -> None:
    """What a view costs: epsilon at a delta, never below the exact value."""
    from p2p_labeldp.privacy import Parameters, account

    parameters = Parameters(alpha, theta, labels, noise, rounds)
    answer = account(view, parameters, cluster_size=cluster_size, colluders=colluders).get_epsilon(delta)
    if as_json:
        print_json(answer.as_json())
    else:
        console.print(answer_table(answer))


def number(value: float | None, missing: str = "none") -> str:
    """A number for a table, never below the number itself."""
    from p2p_labeldp.reporting.numbers import rounded_up

    if value is None:
        return missing
    return "infinite" if value == math.inf else rounded_up(value, 6)


def answer_table(answer: Guarantee) -> Table:
    """An answer with everything one must know before quoting it."""
    from p2p_labeldp.privacy import RECORDS
    from p2p_labeldp.privacy import View as Who

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    how = {"exact": "exact, rounded up", "upper_bound": "a proved upper bound", "searched": "searched, not proved"}
    rows: list[tuple[str, Any]] = [
        ("view", f"{answer.view}: {RECORDS[Who(answer.view)].sees}"),
        ("epsilon", f"{number(answer.epsilon)} at delta {answer.delta:g}"),
        ("method", f"{how[answer.method]}; at most {number(answer.error_bound)} above the exact value"),
        ("neighbours", str(answer.relation)),
        ("searched", answer.searched or "a formula; nothing to search"),
    ]
    if answer.worst_ones is not None:
        rows.append(("worst case", f"{answer.worst_ones} of the others hold label 1"))
    if answer.searched_epsilon is not None:
        rows.append(("searched epsilon", f"{number(answer.searched_epsilon)}, the worst found, not proved"))
    rows += [
        ("local", f"{number(answer.local_epsilon)}: the flips alone"),
        ("shuffled", number(answer.shuffle_epsilon, "not computed for this view")),
        ("paper's lemma", number(answer.paper_epsilon, "does not apply")),
    ]
    if answer.reason:
        rows.append(("note", answer.reason))
    for name, value in rows:
        table.add_row(name, value)
    return table
