"""Accuracy against total epsilon for several mechanisms on one data set: the paper's figure.

One row for every mechanism, epsilon (or number of clusters) and trial. Rows are appended to a CSV file as they
finish and a comparison that was stopped goes on where it was; a file made with other settings is refused. Every
row has a seed of its own, spawned from the scenario's. The clusters do not depend on the labels, so they are
found once for each number of them.
"""

from __future__ import annotations

import csv
import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.data import Dataset, load
from p2p_labeldp.data.clusters import kmeans_clusters
from p2p_labeldp.errors import RequestError
from p2p_labeldp.learning import fit_softmax, one_hot
from p2p_labeldp.learning.dp_sgd import fit_dp_sgd
from p2p_labeldp.mechanisms.catalogue import KINDS, make_mechanism
from p2p_labeldp.runs.execute import Progress
from p2p_labeldp.scenario import Scenario

MECHANISMS = ("uniform_rr", "cluster_rr:tau=0.01", "cluster_rr:tau=0.05", "peer_to_peer")
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
CLUSTER_COUNTS = (1, 3, 10, 30, 100, 300)
VARIED_EPSILON = 0.5
ROWS, SETTINGS = "compare.csv", "compare.json"


@dataclass(frozen=True)
class Plan:
    """What is compared. ``mechanisms`` are kinds with options: ``cluster_rr:tau=0.05``."""

    scenario: Scenario
    mechanisms: tuple[str, ...] = MECHANISMS
    epsilons: tuple[float, ...] = EPSILONS
    clusters: tuple[int, ...] = ()
    """Numbers of clusters to vary; the scenario's own where it is empty."""
    trials: int = 5
    delta: float = 0.0
    """0 takes 1 / (number of users)."""

    def __post_init__(self) -> None:
        for spec in self.mechanisms:
            parse_mechanism(spec)
        for epsilon in self.epsilons:
            if not 0 < epsilon <= 100:
                raise RequestError(f"--epsilons {epsilon:g} is not allowed; each must be above 0 and at most 100")
        if self.trials < 1:
            raise RequestError(f"--trials {self.trials} is not allowed; it must be at least 1")

    @property
    def counts(self) -> tuple[int, ...]:
        return self.clusters or (self.scenario.clusters.count,)

    def digest(self) -> str:
        known = [self.scenario.digest(), self.mechanisms, self.epsilons, self.clusters, self.trials, self.delta]
        return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Row:
    """One trained model."""

    dataset: str
    mechanism: str
    clusters: int
    epsilon: float
    trial: int
    seed: int
    spent_epsilon: float
    delta: float
    accuracy: float
    nonprivate_accuracy: float
    ratio: float
    seconds: float

    @property
    def place(self) -> tuple[str, int, float, int]:
        return self.mechanism, self.clusters, self.epsilon, self.trial


def parse_mechanism(spec: str) -> tuple[str, dict[str, float | bool]]:
    """``kind:option=value,...`` into the kind and its options."""
    kind, _, rest = spec.partition(":")
    if kind not in (*KINDS, "dp_sgd"):
        raise RequestError(f"--mechanisms {spec}: there is no {kind}; there are {', '.join((*KINDS, 'dp_sgd'))}")
    options: dict[str, float | bool] = {}
    for part in filter(None, rest.split(",")):
        name, equals, value = part.partition("=")
        try:
            options[name] = value == "true" if value in ("true", "false") else float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise RequestError(f"--mechanisms {spec}: write options as name=number or name=true")
    return kind, options


def compare(
    plan: Plan, out: Path, *, data_dir: Path | None = None, workers: int = -1, progress: Progress | None = None
) -> list[Row]:
    """Every row of the plan, those of an earlier start in ``out`` included; sorted."""
    from joblib import Parallel, delayed

    tell = progress or (lambda stage, done, total: None)
    done = _earlier_rows(plan, out)
    tell("data", 0, 0)
    dataset = load(plan.scenario.data, plan.scenario.coins.seed, data_dir)
    wanted = list(_places(plan))
    left = [place for place in wanted if place not in done]
    if left:
        tell("clusters", 0, 0)
        clusters = {count: _clusters(plan, dataset, count) for count in sorted({place[1] for place in left})}
        tell("non-private model", 0, 0)
        truth = _nonprivate(plan, dataset)
        jobs = (delayed(_train)(plan, dataset, clusters[place[1]], truth, place, wanted.index(place)) for place in left)
        out.mkdir(parents=True, exist_ok=True)
        (out / SETTINGS).write_text(json.dumps({"digest": plan.digest()}) + "\n")
        tell("models", len(done), len(wanted))
        with (out / ROWS).open("a", newline="") as file:
            for row in Parallel(n_jobs=workers, return_as="generator_unordered")(jobs):
                _append(file, row)
                done[row.place] = row
                tell("models", len(done), len(wanted))
    rows = [done[place] for place in wanted]
    _write_sorted(out / ROWS, rows)
    return rows


def _places(plan: Plan) -> Iterator[tuple[str, int, float, int]]:
    for mechanism in plan.mechanisms:
        for count in plan.counts:
            for epsilon in plan.epsilons:
                for trial in range(plan.trials):
                    yield mechanism, count, epsilon, trial


def _earlier_rows(plan: Plan, out: Path) -> dict[tuple[str, int, float, int], Row]:
    if not (out / ROWS).exists():
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise RequestError(f"--out {out}: exists already and holds no comparison; name another folder")
        return {}
    try:
        digest = json.loads((out / SETTINGS).read_text())["digest"]
        with (out / ROWS).open(newline="") as file:
            rows = [_row(record) for record in csv.DictReader(file) if None not in record.values()]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError(f"--out {out}: its rows cannot be read: {error}") from None
    if digest != plan.digest():
        raise RequestError(f"--out {out}: holds a comparison with other settings; name another folder")
    return {row.place: row for row in rows}


def _row(record: dict[str, str]) -> Row:
    kinds = {"str": str, "int": int, "float": float}
    return Row(**{item.name: kinds[str(item.type)](record[item.name]) for item in fields(Row)})


def _append(file: Any, row: Row) -> None:
    writer = csv.DictWriter(file, [item.name for item in fields(Row)])
    if file.tell() == 0:
        writer.writeheader()
    writer.writerow(asdict(row))
    file.flush()


def _write_sorted(path: Path, rows: Iterable[Row]) -> None:
    temporary = path.with_name(f".{path.name}.partial")
    with temporary.open("w", newline="") as file:
        for row in rows:
            _append(file, row)
    temporary.replace(path)


def _clusters(plan: Plan, dataset: Dataset, count: int) -> NDArray[np.int64]:
    settings, seed = plan.scenario.clusters, plan.scenario.coins.seed
    if settings.method == "given" and not plan.clusters:
        if dataset.given_clusters is None:
            raise RequestError(f'clusters.method = "given" is not allowed: "{dataset.name}" names no clusters')
        return dataset.given_clusters
    return kmeans_clusters(dataset.features, count, settings.minimum_size, seed).assignment


def _nonprivate(plan: Plan, dataset: Dataset) -> float:
    learner = plan.scenario.learner
    targets = one_hot(dataset.labels, len(dataset.classes))
    model = fit_softmax(dataset.features, targets, learner.l2, learner.max_iterations)
    return model.accuracy(dataset.test_features, dataset.test_labels)


def _train(
    plan: Plan,
    dataset: Dataset,
    clusters: NDArray[np.int64],
    truth: float,
    place: tuple[str, int, float, int],
    number: int,
) -> Row:
    """One mechanism, one epsilon, one trial."""
    began = time.perf_counter()
    mechanism, count, epsilon, trial = place
    kind, options = parse_mechanism(mechanism)
    sequence = np.random.SeedSequence(plan.scenario.coins.seed, spawn_key=(number,))
    seed = int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))
    generator = np.random.default_rng(seed)
    delta = plan.delta or 1 / len(dataset.labels)
    learner = plan.scenario.learner
    label_count = len(dataset.classes)
    if kind == "dp_sgd":
        any_options: dict[str, Any] = dict(options)
        fitted = fit_dp_sgd(
            dataset.features,
            dataset.labels,
            label_count,
            epsilon=epsilon,
            delta=delta,
            generator=generator,
            **any_options,
        )
        model, spent, spent_delta = fitted.model, fitted.plan.epsilon, fitted.plan.delta
    else:
        made = make_mechanism(
            kind,
            epsilon=epsilon,
            delta=delta,
            label_count=label_count,
            cluster_sizes=np.bincount(clusters),
            **options,
        )
        noisy = made.release(dataset.labels, clusters, generator)
        targets = one_hot(noisy.labels, label_count) if noisy.targets is None else noisy.targets
        model = fit_softmax(dataset.features[noisy.users], targets, learner.l2, learner.max_iterations)
        spent, spent_delta = made.epsilon, made.delta
    accuracy = model.accuracy(dataset.test_features, dataset.test_labels)
    return Row(
        dataset=dataset.name,
        mechanism=mechanism,
        clusters=count,
        epsilon=epsilon,
        trial=trial,
        seed=seed,
        spent_epsilon=spent,
        delta=spent_delta,
        accuracy=accuracy,
        nonprivate_accuracy=truth,
        ratio=accuracy / truth,
        seconds=round(time.perf_counter() - began, 3),
    )


def summarise(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Mean and standard deviation of the ratio over trials, for every mechanism, number of clusters and epsilon."""
    groups: dict[tuple[str, int, float], list[float]] = {}
    for row in rows:
        groups.setdefault((row.mechanism, row.clusters, row.epsilon), []).append(row.ratio)
    return [
        {
            "mechanism": mechanism,
            "clusters": clusters,
            "epsilon": epsilon,
            "ratio": float(np.mean(ratios)),
            "spread": float(np.std(ratios, ddof=1)) if len(ratios) > 1 else None,
            "trials": len(ratios),
        }
        for (mechanism, clusters, epsilon), ratios in groups.items()
    ]
