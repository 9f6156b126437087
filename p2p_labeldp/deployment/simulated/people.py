"""Whose rows are on which machine: a plan's data set, divided over its hosts."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from p2p_labeldp.data import Dataset, load
from p2p_labeldp.data.rows import Rows
from p2p_labeldp.deployment.dividing import claims_of, rows_of, study_of
from p2p_labeldp.deployment.simulated.plan import Plan
from p2p_labeldp.scenario import Data, Scenario, replace


def dataset_of(plan: Plan) -> Dataset:
    scenario = plan.scenario
    return _dataset(scenario.data, scenario.data_seed)


@lru_cache(maxsize=8)
def _dataset(data: Data, seed: int) -> Dataset:
    return load(data, seed)


def study(plan: Plan) -> Scenario:
    """The scenario that every node gets."""
    return replace(study_of(plan.scenario, dataset_of(plan), plan.hosts), deployment__hosts=plan.awaited)


def own_rows(plan: Plan, name: str) -> Rows | None:
    """A host's share of the data set, or the learner's test examples."""
    dataset = dataset_of(plan)
    if name == "learner":
        return Rows(dataset.test_features, dataset.test_labels)
    if name not in plan.host_names:
        return None
    users, place = len(dataset.labels), plan.host_names.index(name)
    chosen = np.arange(users * place // plan.hosts, users * (place + 1) // plan.hosts)
    return rows_of(dataset, chosen, claims_of(plan.scenario, dataset))
