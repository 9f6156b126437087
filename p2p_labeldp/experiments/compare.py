"""Accuracy against total epsilon for several mechanisms on one data set, the paper's figure: a sweep like any other.

A comparison is a sweep over ``mechanism.kind``, its options and ``mechanism.epsilon`` (or ``clusters.count``), so that
it resumes, runs on workers or a cluster, and each of its rows is what ``run --engine vectorized`` gives with that row's
settings and seed.

**Trials.** A trial has one seed for everyone: the same test split and the same coins in all settings, so that what
differs between them is theirs (a paired sweep). With ``data.seed`` in the scenario, as in the paper's figure, users,
test examples and clusters are the same in all rows, and each row has coins of its own.

**As printed.** The paper's corollary sets sigma = 1/epsilon and lambda = 1 / (1 + (e^epsilon - 1) tau) and names the
result epsilon. By the corrected account it costs 3 epsilon (2 epsilon by the paper's own theorem). It is compared under
the epsilon that it names, as ``as_printed:tau=0.01``: the mechanism ``centralized`` with these parameters given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments.sweeps import Plan
from p2p_labeldp.experiments.sweeps.plan import seeded
from p2p_labeldp.privacy import View
from p2p_labeldp.scenario import MECHANISMS, Engine, Scenario, check_override

AS_PRINTED = "as_printed"
COMPARED = (
    "uniform_rr", "cluster_rr:tau=0.01", "cluster_rr:tau=0.05", "peer_to_peer", "shuffle", "rr_with_prior", "dp_sgd",
    "as_printed:tau=0.01",
)  # fmt: skip
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0)
CLUSTER_COUNTS = (10, 30, 100, 300)
VARIED_EPSILON = 0.5
"""Where the number of clusters is varied instead."""
ASKED = (
    "peer_to_peer", "shuffle", "cluster_rr:tau=0.01", "cluster_rr:tau=0.05", "rr_with_prior", "uniform_rr", "lp_2st",
    "dp_sgd",
)  # fmt: skip
"""What is compared where the question is which mechanism, and how many clusters."""
LADDER, LEAST_MEMBERS, MOST_MEMBERS = (1, 3, 10, 30, 100, 300), 15, 2000

KIND, EPSILON, COUNT = "mechanism.kind", "mechanism.epsilon", "clusters.count"
SIGMA, LAMBDA, TAU = "mechanism.sigma", "mechanism.lambda", "mechanism.tau"


def counts_for(users: int) -> tuple[int, ...]:
    """Numbers of clusters worth trying, by the number of users alone, which is public.

    >>> counts_for(455), counts_for(4_000), counts_for(40_000)
    ((1, 3, 10, 30), (3, 10, 30, 100), (30, 100, 300))
    """
    fitting = tuple(count for count in LADDER if LEAST_MEMBERS <= users / count <= MOST_MEMBERS)
    return fitting or (LADDER[-1] if users > MOST_MEMBERS else 1,)


def delta_for(users: int) -> float:
    """One delta for all mechanisms that have one: the largest power of ten below one over the users.

    >>> delta_for(455), delta_for(60_000)
    (0.001, 1e-05)
    """
    return float(f"1e-{len(str(users))}")


@dataclass(frozen=True)
class Curve:
    """A mechanism with its options: one line of the figure."""

    kind: str
    options: tuple[tuple[str, Any], ...] = ()
    """Dotted keys and their values."""

    @property
    def name(self) -> str:
        """As ``--mechanisms`` takes it."""
        said = ",".join(f"{key.partition('.')[2]}={value:g}" for key, value in self.options)
        return f"{self.kind}:{said}" if said else self.kind

    @property
    def looks_at_clusters(self) -> bool:
        return self.kind == AS_PRINTED or MECHANISMS[self.kind].clusters

    def setting(self, epsilon: float) -> dict[str, Any]:
        """The scenario's keys at one epsilon."""
        options = dict(self.options)
        if self.kind == AS_PRINTED:
            chance = 1 / (1 + math.expm1(epsilon) * options[TAU])
            return {KIND: "centralized", **options, SIGMA: 1 / epsilon, LAMBDA: chance, EPSILON: 0.0}
        return {KIND: self.kind, **options, EPSILON: epsilon}


def parse_curve(text: str) -> Curve:
    """``kind:option=value,...``, checked as ``--set mechanism.option=value`` is."""
    kind, _, rest = text.partition(":")
    shown = f"--mechanisms {text}"
    known = (*(name for name, reads in MECHANISMS.items() if reads.epsilon), AS_PRINTED)
    if kind not in known:
        raise RequestError(f"{shown}: there is no {kind}; there are {', '.join(known)}")
    allowed = ("tau",) if kind == AS_PRINTED else MECHANISMS[kind].keys
    options: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        name, equals, value = part.partition("=")
        if not equals:
            raise RequestError(f"{shown}: write options as name=value")
        if name not in allowed or name == "alpha":  # which stands in place of an epsilon
            options_there = ", ".join(option for option in allowed if option != "alpha") or "none"
            raise RequestError(f"{shown}: {name} is no option of {kind}; allowed are: {options_there}")
        try:
            key, checked = check_override(f"mechanism.{name}={value}")
        except RequestError as error:
            raise RequestError(f"{shown}: {error}") from None
        options[key] = checked
    if kind == AS_PRINTED and not 0 < options.setdefault(TAU, 0.01) <= 1:
        raise RequestError(f"{shown}: tau = {options[TAU]:g} is not allowed; it must be above 0")
    return Curve(kind, tuple(options.items()))


def comparison(
    scenario: Scenario,
    curves: Sequence[Curve],
    epsilons: Sequence[float],
    counts: Sequence[int] = (),
    *,
    trials: int,
) -> Plan:
    """The sweep behind a comparison. RequestError, before anything is computed, where a setting cannot be run.

    ``counts``: numbers of clusters to vary; the scenario's own where there are none. A mechanism that does not look at
    clusters is run once where trials are paired, since its rows would all be the same.
    """
    for option, values in (("--mechanisms", curves), ("--epsilons", epsilons), ("--counts", counts)):
        if len(set(values)) < len(values):
            raise RequestError(f"{option} names one of its values twice")
    for epsilon in epsilons:
        if not 0 < epsilon <= 100:
            raise RequestError(f"--epsilons {epsilon:g} is not allowed; each must be above 0 and at most 100")
    if trials < 1:
        raise RequestError(f"--trials {trials} is not allowed; it must be at least 1")
    if counts and scenario.clusters.method == "given":
        raise RequestError("--vary clusters: clusters.method = given looks for none")
    paired = scenario.data.seed < 0
    named = [
        curve.setting(epsilon) | ({COUNT: count} if count else {})
        for curve in curves
        for count in (counts if curve.looks_at_clusters or not paired else ()) or (0,)
        for epsilon in epsilons
    ]
    between = dict.fromkeys(key for each in named for key in each if key not in (KIND, EPSILON, COUNT))
    keys = (KIND, *between, EPSILON, *((COUNT,) if counts else ()))
    settings = tuple(tuple(each.get(key) for key in keys) for each in named)
    plan = Plan(seeded(scenario, "a comparison"), keys, settings, trials, Engine.VECTORIZED, None, paired)
    plan.require_installed()
    for setting in range(len(settings)):
        plan.scenario_of(setting)
    return plan


@dataclass(frozen=True)
class Point:
    """One trained model, as the figure needs it."""

    curve: str
    kind: str
    """The mechanism's, or ``as_printed``."""
    clusters: int | None
    """How many there were asked for; None where their number was varied for others alone."""
    epsilon: float
    """Asked for, or named by the paper."""
    spent: float
    """What it costs: against the learner or, where she is trusted, against who sees the model."""
    delta: float
    trial: int
    seed: int
    accuracy: float | None
    nonprivate_accuracy: float
    ratio: float | None
    purity: float | None
    users: int
    balanced_accuracy: float | None = None
    auc: float | None = None
    log_loss: float | None = None


def points(rows: Iterable[Mapping[str, Any]], count: int) -> list[Point]:
    """Rows of a comparison's sweep; ``count`` is the number of clusters where it was not varied."""
    return [_point(row, count) for row in rows]


def _point(row: Mapping[str, Any], count: int) -> Point:
    options = {
        key: value
        for key, value in row.items()
        if key.startswith("mechanism.") and key not in (KIND, EPSILON) and value is not None
    }
    epsilon, kind = row[EPSILON], row[KIND]
    if epsilon == 0 and SIGMA in options and LAMBDA in options:  # as printed
        kind, epsilon = AS_PRINTED, float(f"{1 / options.pop(SIGMA):.12g}")
        options.pop(LAMBDA)
    view = View.MODEL if row.get(f"epsilon.{View.MODEL}") is not None else View.LEARNER
    return Point(
        curve=Curve(kind, tuple(options.items())).name,
        kind=kind,
        clusters=row.get(COUNT, count),
        epsilon=epsilon,
        spent=row[f"epsilon.{view}"],
        delta=row[f"delta.{view}"],
        trial=row["replicate"],
        seed=row["seed"],
        accuracy=row["accuracy"],
        nonprivate_accuracy=row["nonprivate_accuracy"],
        ratio=row["accuracy_ratio"],
        balanced_accuracy=row.get("balanced_accuracy"),
        auc=row.get("auc"),
        log_loss=row.get("log_loss"),
        purity=row["purity"],
        users=row["users"],
    )
