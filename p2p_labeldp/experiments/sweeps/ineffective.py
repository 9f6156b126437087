"""Keys that change nothing: varied, they would show the seeds' differences as if they were the key's."""

from __future__ import annotations

from collections.abc import Callable

from p2p_labeldp.mechanisms import mechanism_of
from p2p_labeldp.scenario import DATA_SETS, MECHANISMS, MODELS, Scenario


def _readers(key: str) -> tuple[str, ...]:
    """Which data sets or mechanisms a key is read for, where not for all; plugins may have added some."""
    section, _, name = key.partition(".")
    if key == "learner.correct_flips":
        return tuple(kind for kind, reads in MECHANISMS.items() if reads.flips)
    if section == "learner":
        return tuple(model for model, keys in MODELS.items() if name in keys)
    if section == "data":
        return tuple(data for data, examples in DATA_SETS.items() if name in examples.keys)
    return tuple(kind for kind, reads in MECHANISMS.items() if name in reads.keys) if section == "mechanism" else ()


def why_idle(key: str, scenario: Scenario) -> str:
    """Why a run of this scenario would be the same with any other value of the key; empty where it might not be."""
    named, chosen = ("data.name", scenario.data.name)
    readers = _readers(key)
    if key.startswith("learner.") and key != "learner.correct_flips":
        named, chosen = ("learner.model", scenario.learner.model)
    elif not key.startswith("data."):
        named, chosen = ("mechanism.kind", scenario.mechanism.kind)
    if readers and chosen not in readers:
        return f"it is for {named} = {_either(readers)}, not {chosen}"
    return _OTHERS[key](scenario) if key in _OTHERS else ""


def _either(names: tuple[str, ...]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def _rate(scenario: Scenario) -> str:
    labels = scenario.data.labels
    return f"it is for two labels, and data.labels = {labels}" if labels != 2 else ""


def _test_fraction(scenario: Scenario) -> str:
    name = scenario.data.name
    return f"{name} has a test set of its own" if DATA_SETS[name].own_test else ""


def _epsilon(scenario: Scenario) -> str:
    kind = scenario.mechanism.kind
    return "" if MECHANISMS[kind].epsilon else f"mechanism.kind = {kind} adds no noise"


def _noise(scenario: Scenario) -> str:
    return "there is one round, and so one flip" if scenario.mechanism.rounds == 1 else ""


def _robust(scenario: Scenario) -> str:
    kind = scenario.mechanism.kind
    return f"{kind} fits by itself" if mechanism_of(kind).learns else ""


def _delta(scenario: Scenario) -> str:
    kind = scenario.mechanism.kind
    return f"{kind} has its epsilon at delta 0" if MECHANISMS[kind].pure else ""


def _count(scenario: Scenario) -> str:
    return "clusters.method = given looks for none" if scenario.clusters.method == "given" else ""


def _minimum_size(scenario: Scenario) -> str:
    unread = scenario.clusters.method == "given" and not scenario.defences.abstain and not scenario.adversaries
    return "given clusters are not merged, and defences.abstain = false" if unread else ""


def _abstain(scenario: Scenario) -> str:
    return "no cluster is below clusters.minimum_size = 1" if scenario.clusters.minimum_size == 1 else ""


_OTHERS: dict[str, Callable[[Scenario], str]] = {
    "data.rate": _rate,
    "data.test_fraction": _test_fraction,
    "mechanism.epsilon": _epsilon,
    "mechanism.noise": _noise,
    "learner.robust": _robust,
    "privacy.delta": _delta,
    "clusters.count": _count,
    "clusters.minimum_size": _minimum_size,
    "defences.abstain": _abstain,
}
"""What decides for the rest."""
