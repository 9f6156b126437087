"""What is said of a finished run: accuracies, cluster quality, the files of its folder."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from collections.abc import Sequence
from typing import Any

import numpy as np

from p2p_labeldp.audit import folder as files
from p2p_labeldp.data import Dataset
from p2p_labeldp.data.quality import cluster_shares, phi, psi
from p2p_labeldp.engines.folder import RunFolder
from p2p_labeldp.engines.outcome import Outcome
from p2p_labeldp.engines.treatments import Treatment, generator_of
from p2p_labeldp.learning import fit_softmax, one_hot, pooled_reports, trimmed_reports
from p2p_labeldp.mechanisms.coins import SCHEME
from p2p_labeldp.scenario import Scenario
from p2p_labeldp.streams import Purpose

PACKAGES = ("p2p-labeldp", "numpy", "scipy", "scikit-learn", "trio", "msgspec", "msgpack")


def baselines(scenario: Scenario, dataset: Dataset) -> dict[str, Any]:
    """Test accuracy of the non-private model and of the commonest label: both need everyone's true label."""
    labels = len(dataset.classes)
    settings = scenario.learner
    truth = fit_softmax(dataset.features, one_hot(dataset.labels, labels), settings.l2, settings.max_iterations)
    majority = int(np.bincount(dataset.labels, minlength=labels).argmax())
    return {
        "nonprivate_accuracy": truth.accuracy(dataset.test_features, dataset.test_labels),
        "majority_accuracy": float(np.mean(dataset.test_labels == majority)),
    }


def learned(scenario: Scenario, dataset: Dataset, outcome: Outcome, treatment: Treatment) -> dict[str, Any]:
    """Test accuracy of what was learned from what arrived; of the users' examples only features are looked at."""
    labels = len(dataset.classes)
    settings = scenario.learner
    test = dataset.test_features, dataset.test_labels
    if outcome.reports == 0:
        return {
            "accuracy": None,
            "accuracy_reason": "nothing was reported, so there is nothing to learn from",
        }
    users = np.concatenate([users for users, _ in outcome.rounds])
    noisy = np.concatenate([labels for _, labels in outcome.rounds]).astype(np.int64)
    reporters, targets, weights = pooled_reports(users, noisy, labels)
    if treatment.kind == "dp_sgd":
        from p2p_labeldp.learning.dp_sgd import fit_dp_sgd

        private = fit_dp_sgd(
            dataset.features[reporters],
            noisy,
            labels,
            epsilon=scenario.mechanism.epsilon,
            delta=treatment.privacy["model"]["delta"],
            generator=generator_of(scenario.coins, Purpose.LEARNER),
        )
        return {"accuracy": private.model.accuracy(*test)}
    if settings.robust and treatment.targets is None:  # a curator's shares are its own, not what users say
        known = outcome.clusters[reporters], dataset.features[reporters]
        targets = trimmed_reports(targets, weights, *known, settings.robust)
    targets = treatment.soft(targets, settings.correct_flips)
    model = fit_softmax(dataset.features[reporters], targets, settings.l2, settings.max_iterations, weights)
    return {"accuracy": model.accuracy(*test)}


def sizes_of_clusters(outcome: Outcome, merged: int) -> dict[str, Any]:
    present = outcome.clusters >= 0
    sizes = np.bincount(outcome.clusters[present])
    return {
        "cluster_sizes": {
            "smallest": int(sizes.min(initial=len(present))),
            "median": float(np.median(sizes)) if len(sizes) else None,
            "largest": int(sizes.max(initial=0)),
        },
        "merged_clusters": merged,
    }


def quality(dataset: Dataset, outcome: Outcome) -> dict[str, Any]:
    """phi and psi of mechanisms.md section 4, which need true labels.

    psi compares the labels that arrived with the true ones, cluster by cluster: what the exchange and the
    flips did to the label distribution.
    """
    present = outcome.clusters >= 0
    sizes = np.bincount(outcome.clusters[present])
    found: dict[str, Any] = {"phi": None, "psi": None}
    if dataset.conditional is not None and present.any():
        found["phi"] = phi(dataset.conditional[present], outcome.clusters[present])
    users = np.concatenate([users for users, _ in outcome.rounds])
    if len(sizes) and len(np.unique(outcome.clusters[users])) == len(sizes):
        noisy = np.concatenate([labels for _, labels in outcome.rounds]).astype(np.int64)
        labels = len(dataset.classes)
        shares = cluster_shares(noisy, outcome.clusters[users], labels)
        found["psi"] = psi(shares, dataset.labels[present], outcome.clusters[present], labels)
    return found


def write_results(
    folder: RunFolder, scenario: Scenario, dataset: Dataset, outcome: Outcome, summary: dict[str, Any], **facts: Any
) -> None:
    """Everything of a run folder but the scenario, the trace and, in simulations, the population."""
    write_manifest(
        folder,
        scenario,
        engine=summary["engine"],
        hosting=summary["hosting"],
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
    folder.write_json(files.SUMMARY, summary)


def write_manifest(folder: RunFolder, scenario: Scenario, packages: Sequence[str] = (), **facts: Any) -> None:
    """What it takes to get the same run again; ``packages`` are those that took part beside the usual ones."""
    versions = {name: importlib.metadata.version(name) for name in (*PACKAGES, *packages)}
    folder.write_json(
        files.MANIFEST,
        {
            "versions": versions | {"python": platform.python_version()},
            "seed": scenario.coins.seed,
            "coins": SCHEME if scenario.coins.source == "seeded" else "operating system",
            "scenario_digest": scenario.digest(),
            **facts,
        },
    )
