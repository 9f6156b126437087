"""``p2p-labeldp account``: epsilon of one view of one cluster, exactly, with the other methods beside it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from p2p_labeldp.cli.output import Json, console, print_json
from p2p_labeldp.cli.tables import print_facts, print_table
from p2p_labeldp.errors import RequestError

if TYPE_CHECKING:
    from p2p_labeldp.privacy import Account, Guarantee

ClusterSize = Annotated[int, typer.Option("--cluster-size", help="Users in the cluster.")]
Delta = Annotated[float, typer.Option("--delta", help="The delta that epsilon is stated at.")]
Labels = Annotated[int, typer.Option("--labels", help="How many labels there are.")]
View = Annotated[
    str,
    typer.Option("--view", help="Who observes, e.g. learner or coalition; `threats` lists every view."),
]
Colluders = Annotated[int, typer.Option("--colluders", help="Users of the cluster who collude, for coalition.")]
Rounds = Annotated[int, typer.Option("--rounds", help="How often the exchange is repeated.")]
Noise = Annotated[str, typer.Option("--noise", help="sticky: one flip for all rounds; fresh: one per round.")]
Exchange = Annotated[str, typer.Option("--exchange", help="pull, mixed (by relays) or permutation (of the cluster).")]
Relays = Annotated[int, typer.Option("--relays", help="Relays in the cluster, for exchange mixed.")]

_RATES = 101
_ORDERS = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


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
    exchange: Exchange = "pull",
    relays: Relays = 0,
    trade_off: Annotated[
        bool, typer.Option("--trade-off", help="Also the trade-off function and Renyi divergences, with a plot.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="The plot of --trade-off (.png, .svg or .pdf); runs/VIEW-trade-off.png if not given."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute a view's epsilon at a delta; never below the exact value."""
    from p2p_labeldp.privacy import Parameters, account

    if out is not None and not trade_off:
        raise RequestError("--out needs --trade-off: without it nothing is drawn")
    parameters = Parameters(alpha, theta, labels, noise, rounds, exchange=exchange, relays=relays)
    parameters.check()
    parameters.check_noise()
    accountant = account(view, parameters, cluster_size=cluster_size, colluders=colluders)
    plot = None
    if trade_off:
        from p2p_labeldp.reporting.files import checked_plot

        plot = checked_plot(out or Path("runs") / f"{view}-trade-off.png")
    answer = accountant.get_epsilon(delta)
    title = f"{cluster_size} users, alpha {alpha:g}, theta {theta:g}, {labels} labels"
    curves = {} if plot is None else _trade_off(accountant, plot, view, title)
    if as_json:
        print_json(answer.as_json() | curves)
        return
    print_answer(answer, exchange)
    if curves:
        _print_trade_off(curves["trade_off"])
        _print_renyi(curves["renyi"])
        console.print(f"The curve is in {plot}", soft_wrap=True)


def _trade_off(accountant: Account, plot: Path, view: str, title: str) -> dict[str, Any]:
    """The curve as plain values, and drawn."""
    import numpy as np

    from p2p_labeldp.reporting.curves import trade_off_plot
    from p2p_labeldp.reporting.files import save

    rates = np.linspace(0, 1, _RATES)
    errors = accountant.trade_off(rates)
    save([trade_off_plot(rates, errors, name=view, title=title)], plot)
    divergences = ["inf" if value == math.inf else value for value in accountant.renyi(_ORDERS).tolist()]
    return {
        "trade_off": {"false_positive_rate": rates.tolist(), "false_negative_rate": errors.tolist()},
        "renyi": {"order": list(_ORDERS), "divergence": divergences},
        "plot": str(plot),
    }


def _print_trade_off(curve: dict[str, list[float]]) -> None:
    pairs = list(zip(curve["false_positive_rate"], curve["false_negative_rate"], strict=True))
    # Never above the curve.
    rows = [
        (f"{rate:g}", f"{math.floor(least * 1e6 + 1e-8) / 1e6:.6f}") for rate, least in pairs[:: (_RATES - 1) // 10]
    ]
    print_table(("false positive rate", "least false negative rate"), rows, right=(0, 1))


def _print_renyi(curve: dict[str, list[Any]]) -> None:
    rows = [
        (f"{order:g}", "infinite" if value == "inf" else number(value))
        for order, value in zip(curve["order"], curve["divergence"], strict=True)
    ]
    print_table(("Renyi order", "divergence at most"), rows, right=(0, 1))


def number(value: float | None, missing: str = "none") -> str:
    """A number for a table, never below the number itself."""
    from p2p_labeldp.privacy.numbers import rounded_up

    if value is None:
        return missing
    return "infinite" if value == math.inf else rounded_up(value, 6)


def print_answer(answer: Guarantee, exchange: str) -> None:
    """An answer with everything one must know before quoting it."""
    from p2p_labeldp.privacy import View as Who
    from p2p_labeldp.privacy import sees
    from p2p_labeldp.privacy.numbers import rounded_down
    from p2p_labeldp.runs.stated import METHODS

    rows = [
        ("view", f"{answer.view}: {sees(Who(answer.view), exchange)}"),
        ("epsilon", f"{number(answer.epsilon)} at delta {answer.delta:g}"),
        ("method", f"{METHODS[answer.method]}, rounded up; at most {number(answer.error_bound)} above the exact value"),
        ("neighbours", str(answer.relation)),
        ("searched", answer.searched or "a formula; nothing to search"),
    ]
    if answer.all_relays_chance is not None:
        everyone = f"{answer.all_relays_chance:.3g}"
        rows += [
            ("averaged", f"over who the relays are; all of them collude with probability {everyone}"),
            ("no relay colludes", number(answer.no_relay_epsilon)),
            ("some relays collude", number(answer.relay_epsilon)),
        ]
    if answer.worst_ones is not None:
        rows.append(("worst case", f"{answer.worst_ones} of the others hold label 1"))
    if answer.searched_epsilon is not None:
        rows.append(("searched epsilon", f"{number(answer.searched_epsilon)}, the worst found, not proved"))
    if answer.attained_epsilon is not None and answer.method != "exact":
        rows.append(("attained", f"{rounded_down(answer.attained_epsilon, 6)} at least: {answer.attained_by}"))
    rows += [
        ("local", f"{number(answer.local_epsilon)}: the flips alone"),
        ("shuffled", number(answer.shuffle_epsilon, "not computed for this view")),
        ("paper's lemma", number(answer.paper_epsilon, "does not apply")),
    ]
    if answer.reason:
        rows.append(("note", answer.reason))
    print_facts(rows)
