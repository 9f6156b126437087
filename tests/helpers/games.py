"""Attack games played by name: one attack on one view, by arrays or through the actors and the trace they leave."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from small import population_of

from p2p_labeldp.adversaries.attacks import ATTACKS, LIKELIHOOD_RATIO
from p2p_labeldp.adversaries.bounds import Bounds
from p2p_labeldp.adversaries.game import CONFIDENCE, GameResult
from p2p_labeldp.audit.trace import Trace
from p2p_labeldp.audit.views import View, view_of
from p2p_labeldp.engines.actors import Simulation
from p2p_labeldp.experiments.games import VICTIM, Game, play_each
from p2p_labeldp.mechanisms import Plan, make_plan
from p2p_labeldp.mechanisms.coins import SeededCoins, SeededRandomness
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.scenario import Network
from p2p_labeldp.streams import Purpose, stream


def play(
    view: str,
    cluster_size: int,
    parameters: Parameters,
    trials: int,
    seed: int,
    *,
    attack: str = LIKELIHOOD_RATIO.name,
    confidence: float = CONFIDENCE,
    **others: Any,
) -> GameResult:
    """By the vectorized engine."""
    game = Game(view, cluster_size, parameters, trials, seed, **others)
    return play_each(game, (attack,), confidence=confidence)[attack]


def play_actors(
    view: str,
    cluster_size: int,
    parameters: Parameters,
    trials: int,
    seed: int,
    *,
    attack: str = LIKELIHOOD_RATIO.name,
    hosting: str = "user",
    **others: Any,
) -> GameResult:
    """By the actors engine, each view read from the trace."""
    game = Game(view, cluster_size, parameters, trials, seed, **others)
    bounds = game.bounds()
    seen = seen_by_actors(game, bounds, hosting=hosting)
    victims = range(VICTIM, trials * cluster_size, cluster_size)
    scores = [ATTACKS[attack](seen, victim) for victim in victims]
    return game.judged(ATTACKS[attack], np.array(scores), CONFIDENCE, bounds)


def seen_by_actors(game: Game, bounds: Bounds, *, hosting: str = "user") -> View:
    """The view of a run of actors in which every trial is a cluster; users count on from one to the next."""
    parameters, size, coins = game.parameters, game.cluster_size, SeededCoins(game.seed)
    others = game.others(bounds)
    clusters = np.repeat(np.arange(game.trials), size)
    labels = game.labels(others).ravel()
    population = population_of(labels, clusters)
    starts = range(0, len(labels), size)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.msgpack"
        with path.open("wb") as file:
            Simulation(
                population,
                _plan(game),
                coins,
                Network(),
                hosting=hosting,
                seed=game.seed,
                randomness=SeededRandomness(stream(game.seed, Purpose.CURATOR)),
                write=file.write,
            ).run()
        return view_of(
            Trace.open(path),
            game.view,
            members=[start + place for start in starts for place in game.members],
            background={start + place: label for start in starts for place, label in others.items()},
            parameters=parameters,
            coins=coins,
            true_labels=labels,
        )


def _plan(game: Game) -> Plan:
    """Of the exchange; or users hand their noisy labels to a shuffler, once: play it with one round."""
    parameters = game.parameters
    if game.view != "shuffle":
        return exchange_of(parameters)
    return make_plan("shuffle", labels=parameters.labels, sizes=(), parameters=parameters, alpha=parameters.alpha)
