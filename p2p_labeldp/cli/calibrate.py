"""``p2p-labeldp calibrate``: the noise that meets a target, and what it costs."""

from __future__ import annotations

from typing import Annotated

import typer

from p2p_labeldp.cli.account import (
    ClusterSize,
    Colluders,
    Delta,
    Exchange,
    Labels,
    Noise,
    Relays,
    Rounds,
    View,
    print_answer,
)
from p2p_labeldp.cli.output import Json, console, print_json


def command(
    cluster_size: ClusterSize,
    epsilon: Annotated[float, typer.Option("--epsilon", help="The most that the view may learn.")],
    delta: Delta,
    theta: Annotated[float | None, typer.Option("--theta", help="Chosen for the least variance if not given.")] = None,
    labels: Labels = 2,
    view: View = "learner",
    colluders: Colluders = 0,
    rounds: Rounds = 1,
    noise: Noise = "sticky",
    exchange: Exchange = "pull",
    relays: Relays = 0,
    as_json: Json = False,
) -> None:
    """Find the alpha, or the (alpha, theta) with the least variance, that keeps a view within epsilon."""
    from p2p_labeldp.privacy import calibrate
    from p2p_labeldp.privacy.numbers import rounded_up

    found = calibrate(
        cluster_size=cluster_size,
        epsilon=epsilon,
        delta=delta,
        theta=theta,
        labels=labels,
        view=view,
        rounds=rounds,
        noise=noise,
        colluders=colluders,
        exchange=exchange,
        relays=relays,
    )
    if as_json:
        chosen = {"alpha": found.alpha, "theta": found.theta, "variance": found.variance, "target_epsilon": epsilon}
        print_json(chosen | found.guarantee.as_json())
        return
    shown = f"alpha {rounded_up(found.alpha, 6)}, theta {found.theta:g}"  # less noise would miss the target
    console.print(f"{shown}: variance of a cluster's share {found.variance:.4g}")
    print_answer(found.guarantee, exchange)
