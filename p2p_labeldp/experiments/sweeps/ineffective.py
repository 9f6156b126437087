"""Keys that change nothing: varied, they would show the seeds' differences as if they were the key's."""

from __future__ import annotations

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
    return _otherwise(key, scenario)


def _either(names: tuple[str, ...]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def _otherwise(key: str, scenario: Scenario) -> str:
    """What decides for keys that other keys make idle."""
    data, clusters, kind = scenario.data, scenario.clusters, scenario.mechanism.kind
    match key:
        case "data.rate" if data.labels != 2:
            return f"it is for two labels, and data.labels = {data.labels}"
        case "data.test_fraction" if DATA_SETS[data.name].own_test:
            return f"{data.name} has a test set of its own"
        case "mechanism.epsilon" if not MECHANISMS[kind].epsilon:
            return f"mechanism.kind = {kind} adds no noise"
        case "mechanism.noise" if scenario.mechanism.rounds == 1:
            return "there is one round, and so one flip"
        case "learner.robust" if mechanism_of(kind).learns:
            return f"{kind} fits by itself"
        case "privacy.delta" if MECHANISMS[kind].pure:
            return f"{kind} has its epsilon at delta 0"
        case "clusters.count" if clusters.method == "given":
            return "clusters.method = given looks for none"
        case "clusters.minimum_size" if clusters.method == "given":
            unread = not scenario.defences.abstain and not scenario.adversaries
            return "given clusters are not merged, and defences.abstain = false" if unread else ""
        case "defences.abstain" if clusters.minimum_size == 1:
            return "no cluster is below clusters.minimum_size = 1"
    return ""
