"""One data set, clustering, seed and parameters: the same accuracy, epsilon, delta and noisy labels, whoever is asked.

Everyone is held against the vectorized engine, digit for digit, for every mechanism that they have. Rows of sweeps and
comparisons have seeds of their own, which follow from their settings; here these are set to the one that all share.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from deployment_model import Model
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin

from p2p_labeldp.data import load
from p2p_labeldp.engines.outcome import Outcome
from p2p_labeldp.estimator import LabelPrivateClassifier, run_vectorized
from p2p_labeldp.experiments import run
from p2p_labeldp.experiments.compare import AS_PRINTED, comparison, parse_curve
from p2p_labeldp.experiments.sweeps import Plan, Sweep, make_plan, sweep
from p2p_labeldp.mechanisms.coins import SeededCoins
from p2p_labeldp.mechanisms.mixing import secrets_of
from p2p_labeldp.privacy import View
from p2p_labeldp.runs import Run, Summary
from p2p_labeldp.scenario import EXCHANGES, MECHANISMS, MODELS, Scenario, parse_scenario

SEED, EPSILON = 11, 1.5
DIGITS = """
[data]
name = "digits"
users = 300
[clusters]
count = 3
minimum_size = 20
"""
LABELS: dict[str, dict[str, Any]] = {
    "two labels": {"data.target": "parity"},
    # More than two are calibrated through bounds, which takes long: fewer and smaller clusters.
    "ten labels": {"data.target": "class", "data.users": 60, "clusters.count": 2},
}
# A curator who publishes shares that the learner undoes, and users who keep to themselves what they got.
OPTIONS: dict[str, dict[str, Any]] = {"centralized": {"tau": 0.05, "beta": 0.5}, "peer_to_peer": {"theta": 0.8}}
OPTIONS["subsampled_rr"] = {"theta": 0.7}
OPTIONS |= {
    name: {"theta": 0.8, "exchange": name} | ({"relays": 2} if record.relayed else {})
    for name, record in EXCHANGES.items()
    if name != "pull"
}
# What the paper's pseudocode says, which comparisons know by a name of its own; elsewhere its parameters are given.
OPTIONS[AS_PRINTED] = {"tau": 0.05, "sigma": 1 / EPSILON, "lambda": 1 / (1 + math.expm1(EPSILON) * 0.05)}
KINDS = {kind: kind for kind in MECHANISMS} | {name: "peer_to_peer" for name in EXCHANGES if name != "pull"}
KINDS[AS_PRINTED] = "centralized"
"""Every mechanism, every other exchange of the one that has several, and one whose noise is given, not its epsilon."""
CALIBRATED = [kind for kind in KINDS if MECHANISMS[KINDS[kind]].epsilon and kind != AS_PRINTED]


class Found(NamedTuple):
    """What all must agree on."""

    accuracy: float
    epsilon: float
    delta: float
    noisy_sha256: str


def scenario_of(kind: str, labels: str, model: str = "softmax") -> Scenario:
    settings: dict[str, Any] = {"mechanism.kind": KINDS[kind], "learner.model": model} | LABELS[labels]
    settings |= {f"mechanism.{name}": value for name, value in OPTIONS.get(kind, {}).items()}
    if kind in CALIBRATED:
        settings["mechanism.epsilon"] = EPSILON
    return parse_scenario(DIGITS, "digits", [f"{key}={value}" for key, value in settings.items()], SEED)


def of_summary(summary: Summary) -> Found:
    stated = summary.privacy[View.MODEL if View.MODEL in summary.privacy else View.LEARNER]
    assert summary.accuracy is not None
    return Found(summary.accuracy, stated.epsilon, stated.delta, summary.noisy_sha256)


@cache
def by_arrays(kind: str, labels: str, model: str = "softmax") -> Run:
    return run(scenario_of(kind, labels, model), engine="vectorized")


def by_actors(scenario: Scenario, hosting: str) -> Found:
    return of_summary(run(scenario, engine="actors", hosting=hosting).summary)


class OfTheSeed(SeededCoins):
    """With the secrets that go with them, as nodes of a seeded study have both."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.secrets = secrets_of(SeededCoins(seed))


def by_deployment(scenario: Scenario) -> Found:
    model = Model(scenario, hosts=3, tossed=OfTheSeed(SEED))
    model.run()
    return of_summary(model.summary())


def of_row(found: Sweep) -> Found:
    assert not found.failures
    (row,) = found.rows
    view = View.MODEL if row.get(f"epsilon.{View.MODEL}") is not None else View.LEARNER
    numbers = (float(row[name]) for name in ("accuracy", f"epsilon.{view}", f"delta.{view}"))
    return Found(*numbers, str(row["noisy_sha256"]))


def by_sweep(scenario: Scenario, folder: Path) -> Found:
    plan = make_plan(scenario, ["learner.l2=0.0001"], seeds=1, engine="vectorized")
    return of_row(sweep(plan, folder, workers=1))


def by_comparison(kind: str, scenario: Scenario, folder: Path) -> Found:
    options = {"tau": 0.05} if kind == AS_PRINTED else OPTIONS.get(kind, {})
    named = ",".join(f"{name}={value}" for name, value in options.items())
    curve = parse_curve(f"{AS_PRINTED if kind == AS_PRINTED else KINDS[kind]}:{named}")
    plan = comparison(scenario, [curve], [EPSILON], trials=1)
    return of_row(sweep(plan, folder, workers=1))


class Known(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """A clusterer that has been told."""

    def __init__(self, clusters: Any = None) -> None:
        self.clusters = clusters

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self.clusters
        return found


def by_estimator(kind: str, scenario: Scenario, reference: Run, monkeypatch: pytest.MonkeyPatch) -> Found:
    """Given the features and the clusters of the run; what it releases is seen on the way."""
    assert reference.outcome is not None
    released = list[Outcome]()

    def watched(*arguments: Any) -> Outcome:
        released.append(run_vectorized(*arguments))
        return released[-1]

    monkeypatch.setattr("p2p_labeldp.estimator.run_vectorized", watched)
    dataset = load(scenario.data, SEED)
    classifier = LabelPrivateClassifier(
        scenario.mechanism.kind,
        epsilon=EPSILON if kind in CALIBRATED else None,
        clusterer=Known(reference.outcome.clusters),
        estimator=None if scenario.learner.model == "softmax" else scenario.learner.model,
        random_state=SEED,
        min_cluster_size=1,
        mechanism_options={name.replace("lambda", "lambda_"): value for name, value in OPTIONS.get(kind, {}).items()},
    ).fit(dataset.features, dataset.labels)
    accuracy = float(classifier.score(dataset.test_features, dataset.test_labels))
    stated = classifier.privacy_
    return Found(accuracy, stated.epsilon, stated.delta, released[0].sha256())


pytestmark = pytest.mark.usefixtures("without_curves")

Way = Callable[[str, Scenario, Path, pytest.MonkeyPatch, Run], Found]
WAYS: dict[str, tuple[Way, list[str]]] = {
    "actors": (lambda kind, scenario, *_: by_actors(scenario, "user"), list(KINDS)),
    "actors by cluster": (lambda kind, scenario, *_: by_actors(scenario, "cluster"), list(KINDS)),
    "deployment": (
        lambda kind, scenario, *_: by_deployment(scenario),
        [kind for kind in KINDS if kind not in EXCHANGES or not EXCHANGES[kind].undeployable],
    ),
    "sweep": (lambda kind, scenario, folder, *_: by_sweep(scenario, folder), list(KINDS)),
    "comparison": (
        lambda kind, scenario, folder, *_: by_comparison(kind, scenario, folder),
        [*CALIBRATED, AS_PRINTED],
    ),
    "estimator": (
        lambda kind, scenario, _, patch, reference: by_estimator(kind, scenario, reference, patch),
        [kind for kind in KINDS if kind not in EXCHANGES],  # it has no network
    ),
}
QUICK = ("actors", "deployment")
"""Ways that are tried with ten labels too in the usual suite; all are in the slow one."""
CASES = [
    pytest.param(
        kind, labels, way, id=f"{kind}-{labels}-{way}",
        marks=[] if labels == "two labels" or way in QUICK else pytest.mark.slow,
    )
    for kind in KINDS
    for labels in LABELS
    for way, (_, kinds) in WAYS.items()
    if kind in kinds
]  # fmt: skip


@pytest.mark.parametrize(("kind", "labels", "way"), CASES)
def test_all_ways_give_the_same(
    kind: str, labels: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Plan, "seed", lambda self, setting, replicate: SEED)
    reference = by_arrays(kind, labels)
    found = WAYS[way][0](kind, scenario_of(kind, labels), tmp_path / "sweep", monkeypatch, reference)
    assert found == of_summary(reference.summary)


@pytest.mark.parametrize("way", [way for way in WAYS if way != "actors by cluster"])
@pytest.mark.parametrize("model", [model for model in MODELS if model != "softmax"])
def test_all_ways_give_the_same_whatever_is_learned(
    model: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Plan, "seed", lambda self, setting, replicate: SEED)
    reference = by_arrays("peer_to_peer", "two labels", model)
    scenario = scenario_of("peer_to_peer", "two labels", model)
    found = WAYS[way][0]("peer_to_peer", scenario, tmp_path / "sweep", monkeypatch, reference)
    assert found == of_summary(reference.summary)


@pytest.mark.parametrize("labels", LABELS)
def test_what_is_compared_has_something_to_say(labels: str) -> None:
    """No mechanism's noisy labels, epsilon and accuracy are another's, but for those that release true labels."""
    found = {kind: of_summary(by_arrays(kind, labels).summary) for kind in KINDS}
    assert len({each.noisy_sha256 for each in found.values()}) == len(KINDS) - 1
    assert found["none"].noisy_sha256 == found["dp_sgd"].noisy_sha256
    assert len(set(found.values())) == len(KINDS)
    for kind in CALIBRATED:
        assert 0.99 * EPSILON <= found[kind].epsilon <= EPSILON
