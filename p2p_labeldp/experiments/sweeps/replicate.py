"""One replicate of a sweep, wherever it runs: a scenario in, its metrics out, nothing of the machine in them."""

from __future__ import annotations

import math
import threading
import traceback
from pathlib import Path
from typing import Any, NamedTuple, get_args

from p2p_labeldp.adversaries.game import RATES
from p2p_labeldp.engines.dask_cluster import versions
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.experiments.run import run
from p2p_labeldp.experiments.sweeps.inputs import Digests, difference
from p2p_labeldp.network.faults import Delivered
from p2p_labeldp.plugins import load_plugins
from p2p_labeldp.privacy import View
from p2p_labeldp.runs.results import SEEDED
from p2p_labeldp.runs.summary import Attack, Summary
from p2p_labeldp.scenario import ENGINES, Engine, Scenario
from p2p_labeldp.threads import one_thread

METRICS = (
    "accuracy", "nonprivate_accuracy", "majority_accuracy", "accuracy_ratio", "balanced_accuracy",
    "nonprivate_balanced_accuracy", "majority_balanced_accuracy", "auc", "nonprivate_auc", "log_loss",
    "nonprivate_log_loss", "majority_log_loss", "least_recall", "alpha", "users", "labels", "reports",
    "abstained", "missing", "messages", "virtual_seconds", "clusters", "cluster_size.smallest", "cluster_size.median",
    "cluster_size.largest", "merged_clusters", "phi", "psi", "purity",
)  # fmt: skip
"""Numbers that every row has, though some may be empty."""
ACCOUNTED = tuple(View)
"""Views that a row may have ``epsilon.VIEW``, ``delta.VIEW`` and ``method.VIEW`` of."""
TEXTS = ("noisy_sha256", "warnings")
MOST_RECALLS = 30
"""Labels up to whose number each label's recall is a column."""
_PUSHED = ("share", "honest_share", "honest_accuracy")

# BLAS's threads and the collector's thresholds belong to the process: two runs in it would undo each other's.
_alone = threading.Lock()


class Needed(NamedTuple):
    """What results are to come from."""

    versions: dict[str, str]
    files: Digests


def replicate(
    scenario: Scenario,
    engine: str,
    hosting: str | None,
    data_dir: Path | None,
    needed: Needed | None = None,
) -> dict[str, Any]:
    """Run a scenario: {"metrics": ...}, or {"reason": ...} where it failed.

    ``needed`` is for a process that may be someone else's.
    """
    if needed is not None and needed.versions != versions():
        wrong = next(f"{name} {found}" for name, found in versions().items() if found != needed.versions[name])
        return {"reason": f"a worker that came later has {wrong}; results might differ"}
    try:
        load_plugins()
        wrong = difference(scenario.data, data_dir, needed.files) if needed is not None else ""
        if wrong:
            return {"reason": wrong}
        with _alone, one_thread():
            finished = run(scenario, engine=engine, hosting=hosting or "user", data_dir=data_dir)
        return {"metrics": metrics_of(finished.summary)}
    except (RequestError, RunError) as error:
        return {"reason": " ".join(str(error).split())}
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        return {"reason": " ".join(f"{type(error).__name__}: {error} ({where})".split())}


def metrics_of(summary: Summary) -> dict[str, Any]:
    """A run's summary as flat columns. Infinity is "inf", since JSON has no number for it."""
    sizes = summary.cluster_sizes
    accuracy, truth = summary.accuracy, summary.nonprivate_accuracy
    simulated = ENGINES[Engine(summary.engine)].sends_messages
    found: dict[str, Any] = {
        "accuracy": accuracy,
        "nonprivate_accuracy": truth,
        "majority_accuracy": summary.majority_accuracy,
        "accuracy_ratio": accuracy / truth if accuracy is not None and truth else None,
        **_learned(summary),
        **{name: getattr(summary, name) for name in ("alpha", "users", "labels", "reports")},
        "abstained": sum(outcome["abstained"] for outcome in summary.outcomes_by_round),
        "missing": len(summary.missing),
        # Arrays send nothing and take no time, which is not the same as none and 0.
        **{name: getattr(summary, name) if simulated else None for name in ("messages", "virtual_seconds")},
        "clusters": summary.clusters,
        **{f"cluster_size.{name}": getattr(sizes, name) for name in ("smallest", "median", "largest")},
        **{name: getattr(summary, name) for name in ("merged_clusters", "phi", "psi", "purity")},
    }
    for view, guarantee in summary.privacy.items():
        found |= {f"{name}.{view}": getattr(guarantee, name) for name in ("epsilon", "delta", "method")}
    for attack in summary.attacks:
        found |= _attack(f"attack{attack.number}.{attack.kind}", attack)
    for number, fault in enumerate(summary.faults, 1):
        found[f"fault{number}.{fault.rule}.fired"] = fault.fired
    found |= {f"delivery.{name}": count for name, count in summary.delivery.items()}
    found["noisy_sha256"] = summary.noisy_sha256
    # Replicates are all seeded: there is no need for each of them to say so.
    found["warnings"] = " | ".join(line for line in summary.warnings if not line.startswith(SEEDED)) or None
    return {name: _plain(value) for name, value in found.items()}


def _learned(summary: Summary) -> dict[str, Any]:
    """What else is said of the model and its baselines; guessing has an AUC of one half. Recall: ``recall.LABEL``."""
    models = {"": summary.metrics, "nonprivate_": summary.nonprivate_metrics, "majority_": summary.majority_metrics}
    found: dict[str, Any] = {
        f"{whose}{name}": None if model is None else getattr(model, name)
        for name in ("balanced_accuracy", "auc", "log_loss")
        for whose, model in models.items()
        if (whose, name) != ("majority_", "auc")
    }
    recall = () if summary.metrics is None else summary.metrics.recall
    found["least_recall"] = min((share for share in recall if share is not None), default=None)
    if len(recall) <= MOST_RECALLS:
        found |= {f"recall.{label}": share for label, share in enumerate(recall)}
    return found


def _attack(prefix: str, attack: Attack) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if attack.advantage is not None:
        found["advantage"], found["advantage_low"], found["advantage_high"] = attack.advantage
        found["bound"] = attack.bound
        for rate in attack.true_rates:
            found[f"true_rate_at_{rate.false_rate:g}"] = rate.value
            found[f"true_rate_bound_at_{rate.false_rate:g}"] = rate.bound
    if attack.pushes:
        found |= {name: getattr(attack, name) for name in _PUSHED}
    return {f"{prefix}.{name}": value for name, value in found.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def numbers_of(scenario: Scenario) -> list[str]:
    """The name of every number that a row may have: what can be plotted."""
    names = [*METRICS, *(f"{what}.{view}" for what in ("epsilon", "delta") for view in ACCOUNTED)]
    rates = [f"{name}_at_{rate:g}" for rate in RATES for name in ("true_rate", "true_rate_bound")]
    measured = ("advantage", "advantage_low", "advantage_high", "bound", *rates, *_PUSHED)
    for number, entry in enumerate(scenario.adversaries, 1):
        names += [f"attack{number}.{entry.name}.{name}" for name in measured]
    names += [f"fault{number}.{entry.name}.fired" for number, entry in enumerate(scenario.faults, 1)]
    return names + [f"delivery.{name}" for name in get_args(Delivered)]
