"""A run folder as the auditor reads it: everything checked before it is believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.audit.trace import Trace
from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol.beforehand import parameters_of
from p2p_labeldp.scenario import ENGINES, Engine, Scenario, load_scenario

SUMMARY, SCENARIO, MANIFEST = "summary.json", "scenario.toml", "manifest.json"
REPORTS, POPULATION, TRACE = "reports.npz", "population.npz", "trace.msgpack"
CARD = "model-card.md"
PRIVATE, SEED = "private", "seed.json"
"""The folder, within a run's, of what tells of single people, for data that do not ship; and the seed in it."""

T = TypeVar("T")


def find(path: Path, name: str) -> Path:
    """Where a file of a run folder is: in its private folder, if it is there."""
    kept = path / PRIVATE / name
    return kept if kept.exists() else path / name


@dataclass(frozen=True)
class RecordedRun:
    """A run folder of which everything but the trace's messages has been read and checked."""

    path: Path
    scenario: Scenario
    parameters: Parameters
    summary: dict[str, Any]
    trace: Trace
    features: int
    reports: list[tuple[NDArray[np.int64], NDArray[np.int64]]]
    clusters: NDArray[np.int64] | None
    true_labels: NDArray[np.int64] | None

    @property
    def users(self) -> int:
        return int(self.summary["users"])

    @classmethod
    def read(cls, path: Path) -> RecordedRun:
        """A folder that a run with messages has left; one line says what is wrong with another."""
        if not path.is_dir():
            raise RequestError(f"{path}: not a run folder")
        if path.name.endswith(".interrupted"):
            raise RequestError(f"{path}: the run was interrupted; only a finished one can be audited")
        summary = read_json(path / SUMMARY)
        kinds = {
            "users": int,
            "missing": list,
            "messages_by_kind": dict,
            "outcomes_by_round": list,
            "virtual_seconds": type(None) if summary.get("engine") == "deployment" else float,
            "noisy_sha256": str,
        }
        for name, kind in kinds.items():
            if type(summary.get(name)) is not kind:
                raise RequestError(f"{path / SUMMARY}: {name} is missing or not of type {kind.__name__}")
        if any(type(user) is not int for user in summary["missing"]):
            raise RequestError(f"{path / SUMMARY}: missing must list user ids")
        for counts in summary["outcomes_by_round"]:
            if not isinstance(counts, dict) or any(type(count) is not int for count in counts.values()):
                raise RequestError(f"{path / SUMMARY}: outcomes_by_round must list what was counted in each round")
        engine = summary.get("engine")
        if engine in tuple(Engine) and not ENGINES[Engine(engine)].sends_messages:
            raise RequestError(f"{path}: the {engine} engine sends no messages; run it with --engine actors")
        scenario = load_scenario(find(path, SCENARIO))
        if scenario.mechanism.kind != "peer_to_peer":
            raise RequestError(f"{path}: a run of {scenario.mechanism.kind}; audit knows the rules of peer_to_peer")
        trace = Trace.open(find(path, TRACE))
        if trace.header["users"] != summary["users"]:
            raise RequestError(f"{path}: trace and summary are of different runs: their numbers of users differ")
        if trace.wall_clock != (summary.get("engine") == "deployment"):
            raise RequestError(f"{path}: trace and summary are of different runs: one is of a deployment, one is not")
        manifest = read_json(path / MANIFEST)
        labels, features = manifest.get("labels"), manifest.get("features")
        if type(labels) is not int or type(features) is not int or labels < 2 or features < 1:
            raise RequestError(f"{path / MANIFEST}: labels (at least 2) and features must be whole numbers")
        parameters = parameters_of(scenario, labels)
        clusters = true_labels = None
        people = find(path, POPULATION)
        if people.exists():
            population = read_arrays(people, ("cluster", "true_label"))
            clusters, true_labels = population["cluster"], population["true_label"]
            if len(clusters) != summary["users"] or len(true_labels) != summary["users"]:
                raise RequestError(f"{people}: must have one row for each of {summary['users']} users")
        reports = read_reports(path, parameters.rounds)
        return cls(path, scenario, parameters, summary, trace, features, reports, clusters, true_labels)


def read_reports(path: Path, rounds: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """What the learner took, by round: users and their labels."""
    arrays = read_arrays(path / REPORTS, ("round", "user", "label"))
    return [
        (arrays["user"][here], arrays["label"][here]) for here in (arrays["round"] == each for each in range(rounds))
    ]


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of a run folder."""

    def read() -> dict[str, Any]:
        value = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(value, dict):
            raise TypeError("not an object")
        return value

    return _read(path, read)


def read_arrays(path: Path, names: tuple[str, ...]) -> dict[str, NDArray[np.int64]]:
    """The named integer arrays of an .npz file of a run folder, all of one length."""

    def read() -> dict[str, NDArray[np.int64]]:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in names}
        if any(a.ndim != 1 or a.dtype.kind not in "iu" for a in arrays.values()):
            raise TypeError("not whole numbers")
        if len({len(array) for array in arrays.values()}) > 1:
            raise ValueError("lengths differ")
        return {name: array.astype(np.int64) for name, array in arrays.items()}

    return _read(path, read)


def _read(path: Path, read: Callable[[], T]) -> T:
    try:
        return read()
    except FileNotFoundError:
        raise RequestError(f"{path}: is missing; a run folder made by `p2p-labeldp run` has it") from None
    except Exception as error:  # a damaged zip or JSON file fails in many ways
        raise RequestError(f"{path}: is damaged: {type(error).__name__}: {error}") from None
