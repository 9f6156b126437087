"""Auditing a stated epsilon: the vectorized engine as the sampler of ``audit.epsilon``, beside the exact account.

What is audited is one view of one cluster: of numbers given, of the worst cluster that a scenario makes, or of the
one for which run folders guarantee the least. Each trial is that cluster, run once. The victim's label is 0 or 1; the
others hold as many ones as the accountant found to be the worst for this epsilon, so that an exact one can be reached.

An audit that passes is no proof; one that fails shows that the engine, or the accountant, is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.adversaries.attacks import AVERAGING, LIKELIHOOD_RATIO
from p2p_labeldp.adversaries.bounds import Bounds
from p2p_labeldp.adversaries.evidence import evidence_of_all
from p2p_labeldp.audit import folder as files
from p2p_labeldp.audit.array_views import ClusterViews, views_of_exchange
from p2p_labeldp.audit.epsilon import CONFIDENCE, Floats, LowerBound, Sampler, lower_bound
from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments.games import VICTIM, Game
from p2p_labeldp.mechanisms.coins import SeededCoins
from p2p_labeldp.mechanisms.plan import default_delta
from p2p_labeldp.privacy import VIEWS, Guarantee, Parameters, View, account_clusters
from p2p_labeldp.protocol.beforehand import parameters_of
from p2p_labeldp.runs.guarantees import COLLUDERS
from p2p_labeldp.runs.run import foreseen
from p2p_labeldp.runs.summary import read_summary
from p2p_labeldp.scenario import Scenario, load_scenario

TRIALS = 100_000
# The best test there is of an honest run, and the best of one with new noise for every asker.
ATTACKS = (LIKELIHOOD_RATIO, AVERAGING)
# Users whose views are held at a time.
_CHUNK = 1 << 20
# Where the coins of trials with label 1 begin: user numbers that trials with label 0 never come to.
_APART = 1 << 48


@dataclass(frozen=True)
class Setting:
    """One view of one cluster, and the delta at which epsilon is stated."""

    view: str
    cluster_size: int
    parameters: Parameters
    delta: float
    colluders: int = 0

    @cached_property
    def bounds(self) -> Bounds:
        """What is guaranteed of it."""
        return self._game.bounds()

    @cached_property
    def answer(self) -> Guarantee:
        """The exact epsilon, or a proved upper bound."""
        return self.bounds.account.get_epsilon(self.delta)

    @cached_property
    def game(self) -> Game:
        """At the worst labels of the others, as far as these matter."""
        return replace(self._game, ones=self.answer.worst_ones or 0)

    @cached_property
    def _game(self) -> Game:
        return Game(self.view, self.cluster_size, self.parameters, trials=1, seed=0, colluders=self.colluders)


class EngineSampler:
    """Scores of trials through the vectorized engine. A trial's coins depend on the seed, its label and its number."""

    def __init__(self, setting: Setting, seed: int) -> None:
        self.parameters, self.game, self.seed = setting.parameters, setting.game, seed
        self.others = self.game.others(setting.bounds)

    def __call__(self, label: int, trials: range) -> dict[str, Floats]:
        size = self.game.cluster_size
        step = max(1, _CHUNK // size)
        parts: list[list[Floats]] = []
        for start in range(trials.start, trials.stop, step):
            here = range(start, min(start + step, trials.stop))
            row = [label, *(self.others[place] for place in range(1, size))]
            coins = ShiftedCoins(self.seed, label * _APART + start * size)
            evidence = evidence_of_all(self.views(np.tile(np.array(row), (len(here), 1)), coins), VICTIM)
            # Equal evidence, equal score: not one that differs in its last digit.
            parts.append([attack.score(evidence, (0, 1)).round(9) for attack in ATTACKS])
        return {attack.name: np.concatenate([part[i] for part in parts]) for i, attack in enumerate(ATTACKS)}

    def views(self, labels: NDArray[np.int64], coins: SeededCoins) -> ClusterViews:
        """What the adversary sees of one run for each row of labels."""
        members = self.game.members
        return views_of_exchange(
            labels, self.parameters, coins, self.game.view, members=members, background=self.others
        )


class ShiftedCoins(SeededCoins):
    """The coins of users from ``first`` on, called 0, 1, ..."""

    def __init__(self, seed: int, first: int) -> None:
        super().__init__(seed)
        self.first = first

    def block(self, round_: int, start: int, stop: int) -> NDArray[np.float64]:
        return super().block(round_, self.first + start, self.first + stop)


@dataclass(frozen=True)
class EpsilonAudit:
    """A stated epsilon beside the lower bound from trials."""

    setting: Setting
    seed: int
    bound: LowerBound

    @property
    def epsilon(self) -> float:
        return self.setting.answer.epsilon

    @property
    def passed(self) -> bool:
        """Of an honest engine and a right account this is false with probability 1 - confidence at most."""
        return self.bound.epsilon <= self.epsilon

    def as_json(self) -> dict[str, Any]:
        setting, bound, parameters = self.setting, self.bound, self.setting.parameters
        rates = {
            name: {"value": rate.value, side: rate.limit, "trials": rate.trials}
            for name, rate, side in (
                ("true_rate", bound.true_rate, "at_least"),
                ("false_rate", bound.false_rate, "at_most"),
            )
        }
        return {
            "passed": self.passed,
            "epsilon_lower": bound.epsilon,
            "epsilon": "inf" if self.epsilon == math.inf else self.epsilon,
            "method": setting.answer.method,
            "delta": setting.delta,
            "view": setting.view,
            "colluders": setting.colluders,
            "cluster_size": setting.cluster_size,
            "alpha": parameters.alpha,
            "theta": parameters.theta,
            "labels": parameters.labels,
            "rounds": parameters.rounds,
            "noise": parameters.noise,
            "ones": setting.game.ones,
            "trials": bound.trials,
            "seed": self.seed,
            "confidence": bound.confidence,
            "attack": bound.attack,
            "accused_of": bound.label,
            "threshold": bound.threshold,
            **rates,
        }


def audit_epsilon(
    setting: Setting,
    trials: int = TRIALS,
    seed: int = 0,
    confidence: float = CONFIDENCE,
    sampler: Sampler | None = None,
) -> EpsilonAudit:
    """Bound epsilon from below; ``sampler`` may stand in for the engine, say one that is known to be broken."""
    sampler = sampler or EngineSampler(setting, seed)
    return EpsilonAudit(setting, seed, lower_bound(sampler, setting.delta, trials, confidence))


def setting_of_numbers(
    view: str, cluster_size: int, parameters: Parameters, delta: float | None, colluders: int | None
) -> Setting:
    """As told; delta, unless told, is the one that a run of this cluster would state."""
    chosen = default_delta([max(1, cluster_size)], cluster_size) if delta is None else delta
    return Setting(view, cluster_size, parameters, chosen, _colluders(view, colluders))


def setting_of_scenario(
    scenario: Scenario, view: str, delta: float | None, colluders: int | None, data_dir: Path | None = None
) -> Setting:
    """The worst of the clusters that a scenario makes."""
    _require_known(scenario, view, "this scenario")
    resolved, sizes = foreseen(scenario, data_dir)
    parameters = resolved.plan.parameters
    if not sizes:
        raise RequestError(f"clusters.minimum_size = {parameters.minimum_size}: every cluster is smaller")
    chosen = resolved.delta if delta is None else delta
    many = _colluders(view, colluders)
    worst = account_clusters(view, parameters, sizes, chosen, colluders=many)
    return Setting(view, worst.worst_size, parameters, chosen, min(many, worst.worst_size - 1))


def setting_of_runs(paths: Sequence[Path], view: str, delta: float | None, colluders: int | None) -> Setting:
    """The cluster for which these run folders guarantee the least, as if nobody had gone missing."""
    found: list[tuple[float, Setting]] = []
    why = ""
    for path in paths:
        scenario = load_scenario(files.find(path, files.SCENARIO))
        _require_known(scenario, view, str(path))
        summary = read_summary(path / files.SUMMARY)
        stated = summary.privacy.get(View(view))
        if stated is None:
            raise RequestError(f"{path / files.SUMMARY}: says nothing of the view {view}")
        size = stated.cluster_size
        if size is None:
            why = stated.reason or "it rests on no cluster"
            continue
        many = min(_colluders(view, stated.colluders if colluders is None else colluders), size - 1)
        chosen = stated.delta if delta is None else delta
        parameters = parameters_of(scenario, summary.labels)
        found.append((stated.epsilon, Setting(view, size, parameters, chosen, many)))
    if not found:
        raise RequestError(f"{paths[0]}: there is no cluster's guarantee to audit: {why}")
    return max(found, key=lambda pair: pair[0])[1]


def _colluders(view: str, colluders: int | None) -> int:
    """As many as stand in every run's table, unless told."""
    return colluders if colluders is not None else COLLUDERS if view == "coalition" else 0


def _require_known(scenario: Scenario, view: str, what: str) -> None:
    if view not in VIEWS:
        raise RequestError(f"view must be one of {', '.join(VIEWS)}, not {view!r}")
    if scenario.mechanism.kind != "peer_to_peer":
        raise RequestError(f"{what}: mechanism.kind = {scenario.mechanism.kind}; epsilon is audited of peer_to_peer")
