"""A data set divided into a study: one file of rows for each user host, one of test examples, the scenario for all.

Whoever divides a data set has all of it. Everyone else gets a file of her own: rows of a CSV file as they are written
there, data that were never text as arrays. Files are in the order of users, one person's rows in one of them: with
``deployment.order = "name"`` and a seed the study gives the noisy data set that ``run`` gives.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np

from p2p_labeldp.arrays import Labels
from p2p_labeldp.data import Dataset, load
from p2p_labeldp.data.csvtable import CsvTable, read_table
from p2p_labeldp.data.dataset import Floats
from p2p_labeldp.data.rows import Rows, write_arrays
from p2p_labeldp.data.sets.csv import locate
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Scenario, replace
from p2p_labeldp.scenario.entries import Sybils

STUDY, ROWS, TEST = "study.toml", "rows", "test"
MOST_HOSTS = 256


def host_names(hosts: int) -> list[str]:
    return [f"users-{number + 1}" for number in range(hosts)]


def divide(scenario: Scenario, hosts: int, out: Path, data_dir: Path | None = None) -> dict[str, Path]:
    """Write the study into ``out``, which must be new or empty; the file of rows of each host, and of the learner.

    A folder for each node, so that each can be handed its own and no other.
    """
    if not 1 <= hosts <= MOST_HOSTS:
        raise RequestError(f"--hosts {hosts} is not allowed; it must be from 1 to {MOST_HOSTS}")
    dataset = load(scenario.data, scenario.data_seed, data_dir)
    edges = _edges(dataset, hosts)
    if dataset.given_clusters is None and scenario.clusters.method == "given":
        name = scenario.data.name
        raise RequestError(
            f'clusters.method = "given" is not allowed: data set "{name}" names no clusters; use "kmeans"'
        )
    source = _source(scenario, dataset, data_dir)
    partial = out.resolve().with_name(f".{out.resolve().name}.partial")
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise RequestError(f"--out {out}: exists already; name a folder that is new or empty")
        shutil.rmtree(partial, ignore_errors=True)
        found: dict[str, Path] = {}
        claims = claims_of(scenario, dataset)
        if claims and source is not None:
            raise RequestError("adversaries: sybils cannot be deployed with rows of a CSV file, which holds no claims")
        for name, (low, high) in zip(host_names(hosts), pairwise(edges), strict=True):
            found[name] = _write(_folder(partial, name), ROWS, dataset, source, np.arange(low, high), claims)
        found["learner"] = _write_test(_folder(partial, "learner"), dataset, source)
        (partial / STUDY).write_text(study_of(scenario, dataset, hosts).to_toml(), encoding="utf-8")
        partial.rename(out)  # over an empty folder, too
    except OSError as error:
        raise RequestError(f"--out {out}: cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return {name: out / path.relative_to(partial) for name, path in found.items()}


def study_of(scenario: Scenario, dataset: Dataset, hosts: int) -> Scenario:
    """The scenario that all nodes of the divided study get; it names no file, since each has its own."""
    changes = {"data__path": ""} if scenario.data.name == "csv" else {}
    return replace(scenario, data__schema=dataset.schema, deployment__hosts=hosts, deployment__order="name", **changes)


def claims_of(scenario: Scenario, dataset: Dataset) -> dict[int, Floats]:
    """Features of the victims of sybils, for those to claim; features are public."""
    victims = {entry.victim for entry in scenario.adversaries if isinstance(entry, Sybils)}
    return {victim: dataset.features[victim] for victim in sorted(victims) if victim < len(dataset.features)}


def rows_of(dataset: Dataset, chosen: Labels, claims: Mapping[int, Floats] | None = None) -> Rows:
    """Some users of a data set, as their host has them."""
    clusters, persons = dataset.given_clusters, dataset.persons
    return Rows(
        np.ascontiguousarray(dataset.features[chosen]),
        dataset.labels[chosen],
        None if clusters is None else clusters[chosen],
        () if persons is None else tuple(map(str, persons[chosen].tolist())),
        claims or {},
    )


def _edges(dataset: Dataset, hosts: int) -> list[int]:
    """Where one host's users end and the next one's begin; not within the rows of a person."""
    users = len(dataset.labels)
    edges = [users * place // hosts for place in range(hosts + 1)]
    if dataset.persons is not None:
        begins = np.flatnonzero(np.diff(dataset.persons, prepend=-1))
        edges = [*(int(begins[np.searchsorted(begins, edge)]) for edge in edges[:-1] if edge <= begins[-1]), users]
    if len(edges) != hosts + 1 or any(low == high for low, high in pairwise(edges)):
        raise RequestError(f"--hosts {hosts} is not allowed: there are too few users, or persons, for that many")
    return edges


def _source(scenario: Scenario, dataset: Dataset, data_dir: Path | None) -> CsvTable | None:
    if dataset.rows is None:
        return None
    return read_table(locate(scenario.data.path, data_dir), dataset.schema.separator)


def _folder(out: Path, name: str) -> Path:
    place = out / name
    place.mkdir(mode=0o700, parents=True)
    return place


def _own_file(path: Path) -> Path:
    """Readable by its owner alone, wherever it is copied to with its mode."""
    path.touch(mode=0o600)
    return path


def _write(
    place: Path,
    name: str,
    dataset: Dataset,
    source: CsvTable | None,
    chosen: Labels,
    claims: Mapping[int, Floats] | None = None,
) -> Path:
    if source is None:
        path = _own_file(place / f"{name}.npz")
        write_arrays(path, rows_of(dataset, chosen, claims))
        return path
    assert dataset.rows is not None
    return _write_text(place / f"{name}.csv", source, dataset.schema.separator, dataset.rows[chosen])


def _write_test(place: Path, dataset: Dataset, source: CsvTable | None) -> Path:
    if source is None:
        path = _own_file(place / f"{TEST}.npz")
        write_arrays(path, Rows(dataset.test_features, dataset.test_labels))
        return path
    assert dataset.test_rows is not None
    return _write_text(place / f"{TEST}.csv", source, dataset.schema.separator, dataset.test_rows)


def _write_text(path: Path, source: CsvTable, separator: str, rows: Labels) -> Path:
    with _own_file(path).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerow(source.header)
        writer.writerows(source.rows[row] for row in rows.tolist())
    return path
