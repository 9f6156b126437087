"""What is said of a finished run: what was learned, cluster quality, the files of its folder."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from p2p_labeldp.audit import folder as files
from p2p_labeldp.data import Dataset
from p2p_labeldp.data.quality import cluster_shares, phi, psi, purity
from p2p_labeldp.engines.outcome import Outcome
from p2p_labeldp.learning import Metrics, Model, Reports, learn, measured, model_of
from p2p_labeldp.learning.model_file import FILE, StoredModel, can_be_kept, write_model
from p2p_labeldp.mechanisms.coins import SCHEME, randomness_of
from p2p_labeldp.runs.folder import RunFolder
from p2p_labeldp.runs.model_card import model_card
from p2p_labeldp.runs.resolve import Resolved
from p2p_labeldp.runs.summary import Fault, Sizes, Summary
from p2p_labeldp.scenario import Scenario
from p2p_labeldp.scenario.extensions import added
from p2p_labeldp.streams import Purpose

PACKAGES = ("p2p-labeldp", "numpy", "scipy", "scikit-learn", "trio", "msgspec", "msgpack")


@dataclass(frozen=True, eq=False)
class Learned:
    """What was learned from what arrived; ``reason`` says why there is no model."""

    model: Model | None
    metrics: Metrics | None
    reason: str = ""

    @property
    def accuracy(self) -> float | None:
        return None if self.metrics is None else self.metrics.accuracy

    def stated(self) -> dict[str, Any]:
        """The fields of a summary that follow from it."""
        return {"accuracy": self.accuracy, "accuracy_reason": self.reason, "metrics": self.metrics}


def learned(resolved: Resolved, dataset: Dataset, outcome: Outcome) -> Learned:
    """The model of what arrived, and its metrics on test examples; of the users' only features are looked at."""
    scenario = resolved.scenario
    randomness = randomness_of(scenario.coins, Purpose.LEARNER)
    model = learn(resolved.plan, scenario.learner, dataset.features, reports_of(outcome), randomness)
    if model is None:
        return Learned(None, None, "nothing was reported, so there is nothing to learn from")
    if not len(dataset.test_labels):
        return Learned(model, None, "there were no test examples")
    return Learned(model, measured(model, dataset.test_features, dataset.test_labels))


def reports_of(outcome: Outcome) -> Reports:
    """What the learner received over all rounds."""
    empty = np.empty(0, dtype=np.int64)
    users = np.concatenate([empty, *(users for users, _ in outcome.rounds)])
    labels = np.concatenate([empty, *(labels.astype(np.int64) for _, labels in outcome.rounds)])
    return Reports(users, labels, outcome.clusters, outcome.shares, outcome.prior)


SEEDED = "coins are seeded: whoever knows the seed can undo every flip"
"""What every seeded run says of itself."""


def stated(resolved: Resolved, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """The fields of a summary that follow from what was resolved, and what the run warns of besides."""
    scenario, plan = resolved.scenario, resolved.plan
    system = scenario.coins.source == "system"
    return {
        "seed": None if system else scenario.coins.seed,
        "coins": "system" if system else "seeded",
        "mechanism": plan.kind,
        "trust": plan.trust,
        "alpha": plan.parameters.alpha,
        "target_epsilon": resolved.target,
        "warnings": (*warnings, *_of_plugins(plan.kind), *_of_the_model(scenario), *_of_the_seed(scenario)),
    }


def _of_the_model(scenario: Scenario) -> tuple[str, ...]:
    name = scenario.learner.model
    kept = model_of(name).storage is not None
    return () if kept else (f"no file keeps the model: there is no safe format of {name}",)


def _of_plugins(kind: str) -> tuple[str, ...]:
    outside = added("mechanism", kind)
    if outside is None:
        return ()
    return (f"the guarantee of {kind} is what plugin {Path(outside.plugin).name} states",)


def _of_the_seed(scenario: Scenario) -> tuple[str, ...]:
    if scenario.coins.source == "system":
        return ()
    real = "" if scenario.ships else '; for labels of real people leave out the seed, or set coins.source = "system"'
    return (SEEDED + real,)


def counted(outcome: Outcome, merged: int) -> dict[str, Any]:
    """The fields of a summary that follow from what happened."""
    present = outcome.clusters >= 0
    sizes = np.bincount(outcome.clusters[present])
    return {
        "users": len(outcome.clusters),
        "clusters": int(outcome.clusters.max(initial=-1)) + 1,
        "reports": outcome.reports,
        "messages": sum(outcome.messages.values()),
        "noisy_sha256": outcome.sha256(),
        "cluster_sizes": Sizes(
            smallest=int(sizes.min(initial=len(present))),
            median=float(np.median(sizes)) if len(sizes) else None,
            largest=int(sizes.max(initial=0)),
        ),
        "merged_clusters": merged,
        "messages_by_kind": outcome.messages,
        "outcomes_by_round": tuple(outcome.outcomes),
        "missing": tuple(outcome.missing),
        "withheld": tuple(outcome.withheld),
        "faults": tuple(Fault(**fault) for fault in outcome.faults),
        "delivery": outcome.delivery,
        "virtual_seconds": outcome.virtual_seconds,
    }


def quality(dataset: Dataset, outcome: Outcome) -> dict[str, Any]:
    """phi, psi and purity, which need true labels.

    psi compares the labels that arrived with the true ones, cluster by cluster: what the exchange and the
    flips did to the label distribution.
    """
    present = outcome.clusters >= 0
    sizes = np.bincount(outcome.clusters[present])
    found: dict[str, Any] = {"phi": None, "psi": None, "purity": None}
    if present.any():
        found["purity"] = purity(dataset.labels[present], outcome.clusters[present], len(dataset.classes))
    if dataset.conditional is not None and present.any():
        found["phi"] = phi(dataset.conditional[present], outcome.clusters[present])
    users = np.concatenate([np.empty(0, dtype=np.int64), *(users for users, _ in outcome.rounds)])
    if len(sizes) and len(np.unique(outcome.clusters[users])) == len(sizes):
        noisy = np.concatenate([labels for _, labels in outcome.rounds]).astype(np.int64)
        labels = len(dataset.classes)
        shares = cluster_shares(noisy, outcome.clusters[users], labels)
        found["psi"] = psi(shares, dataset.labels[present], outcome.clusters[present], labels)
    return found


def write_results(
    folder: RunFolder,
    scenario: Scenario,
    dataset: Dataset,
    outcome: Outcome,
    summary: Summary,
    model: Model | None,
    **facts: Any,
) -> None:
    """Everything of a run folder but the scenario, the trace and, in simulations, the population."""
    if model is not None and can_be_kept(model):
        content = write_model(StoredModel(model, dataset.schema, scenario.data.label_column))
        facts["model_sha256"] = hashlib.sha256(content).hexdigest()
        (folder.path / FILE).write_bytes(content)
        shown = summary.shareable() if folder.private else summary
        card = model_card(scenario, dataset.schema, shown, facts["model_sha256"])
        (folder.path / files.CARD).write_text(card, encoding="utf-8")
    write_manifest(
        folder,
        scenario,
        engine=summary.engine,
        hosting=summary.hosting,
        assignment_sha256=hashlib.sha256(outcome.clusters.astype("<i8").tobytes()).hexdigest(),
        labels=len(dataset.classes),
        classes=list(dataset.classes),
        features=dataset.features.shape[1],
        **facts,
    )
    folder.write_arrays(
        files.REPORTS,
        round=np.repeat(np.arange(len(outcome.rounds)), [len(users) for users, _ in outcome.rounds]),
        user=np.concatenate([users for users, _ in outcome.rounds]),
        label=np.concatenate([labels for _, labels in outcome.rounds]).astype(np.int64),
    )
    write_summary(folder, summary)


def write_summary(folder: RunFolder, summary: Summary) -> None:
    """The summary; where labels may be real, without what was computed from them, which its owner keeps."""
    folder.write_json(files.SUMMARY, (summary.shareable() if folder.private else summary).as_json())
    if folder.private:
        folder.write_json(files.SUMMARY, summary.as_json(), keep=True)


def write_manifest(folder: RunFolder, scenario: Scenario, packages: Sequence[str] = (), **facts: Any) -> None:
    """What it takes to get the same run again; ``packages`` are those that took part beside the usual ones."""
    versions = {name: _version(name) for name in (*PACKAGES, *packages)}
    folder.write_json(
        files.MANIFEST,
        {
            "versions": versions | {"python": platform.python_version()},
            **({} if folder.private else {"seed": scenario.coins.seed}),
            "coins": SCHEME if scenario.coins.source == "seeded" else "operating system",
            "scenario_digest": scenario.digest(seed=not folder.private),
            **facts,
        },
    )


@cache
def _version(package: str) -> str:
    return importlib.metadata.version(package)  # reads a file
