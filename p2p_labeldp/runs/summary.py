"""What is said of a finished run: one typed record, written and read by this code alone.

``summary.json`` is this record; terminal, pages, sweeps and audits read it and compute nothing again. A folder may have
come from anywhere, so that reading checks every field. Infinite numbers are the string "inf".
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from p2p_labeldp.errors import RequestError
from p2p_labeldp.learning.metrics import Metrics
from p2p_labeldp.network.faults import Delivered
from p2p_labeldp.privacy import Guarantee, View, read_guarantee
from p2p_labeldp.protocol.messages import KINDS
from p2p_labeldp.scenario import FAULTS, Engine, Hosting

VERSION = 2
"""Of summary.json; raised where a field changes its meaning or goes."""

_TABLES = ("privacy", "person_privacy")
"""View to guarantee."""
Counted = Literal["reported", "dropped", "abstained", "withheld"]
"""What is counted of users in a round: what they did with their answer, and who would report but may not."""
Count = Annotated[int, Meta(ge=0, lt=2**53)]
Share = Annotated[float, Meta(ge=0, le=1)]
Size = Annotated[float, Meta(ge=0)]
Rule = Annotated[str, Meta(pattern=f"^({'|'.join(FAULTS)})$")]
Ran = Annotated[str, Meta(pattern=f"^({'|'.join(Engine)}|deployment)$")]
Kind = Annotated[str, Meta(pattern=f"^({'|'.join(KINDS)})$")]


class Sizes(Struct, frozen=True):
    """Users of a cluster."""

    smallest: Count
    median: Size | None
    largest: Count


class Rate(Struct, frozen=True):
    """The true positive rate of an attack by a rule that was to have a false positive rate."""

    false_rate: Share
    """What the rule was to have."""
    value: float
    low: float
    high: float
    bound: float | None = None
    """What no rule of a false positive rate of at most ``measured_high`` exceeds."""
    measured: float | None = None
    """The rule's own false positive rate in the trials; none where no trial could tell."""
    measured_high: Share = 1.0
    """Its upper confidence limit."""


class Attack(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One adversary's row: a game with an advantage, a push with shares, or a note."""

    number: Count
    kind: str
    members: Count = 0
    view: str = ""
    cluster_size: Count | None = None
    colluders: Count | None = None
    """Of the learner, in that cluster."""
    attack: str = ""
    trials: Count = 0
    confidence: Share | None = None
    advantage: tuple[float, float, float] | None = None
    bound: float | None = None
    bound_exact: bool | None = None
    reconstruction: tuple[float, float, float] | None = None
    true_rates: tuple[Rate, ...] = ()
    beaten: tuple[str, ...] = ()
    others: dict[str, float] = {}
    note: str = ""
    pushed_label: int | None = None
    share: Share | None = None
    honest_share: Share | None = None
    honest_accuracy: Share | None = None
    pushes: bool = False
    """Whether it is a push, whatever came of it."""


class Adversary(Struct, frozen=True, omit_defaults=True):
    """Who belongs to one entry of ``[[adversaries]]``."""

    kind: str
    members: tuple[Count, ...] = ()
    victim: Count | None = None


class Fault(Struct, frozen=True):
    """How often a rule of ``[[faults]]`` fired."""

    rule: Rule
    fired: Count


class Worker(Struct, frozen=True):
    """What a worker did of a run that was split."""

    worker: str
    shares: Count
    users: Count
    cpu_seconds: Size
    peak_bytes: Count


class Curve(Struct, frozen=True):
    """delta(epsilon) of one view at some points, never below the account's."""

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]
    how: Literal["account", "flips", "implied"]
    sizes: tuple[Count, ...] = ()
    """Of the clusters whose curve it is, where there are others."""


class Summary(Struct, frozen=True, kw_only=True):
    """A finished run, simulated or deployed. What needs everyone's true label is None in a deployment."""

    version: Literal[2] = 2
    users: Count
    labels: Annotated[int, Meta(ge=1, lt=2**15)]
    clusters: Count
    reports: Count
    messages: Count
    seed: Count | None
    """None where the coins were the operating system's, or the seed is kept apart."""
    coins: Literal["seeded", "system"]
    engine: Ran
    hosting: Hosting | None = None
    hosts: Count | None = None
    noisy_sha256: str
    mechanism: str
    trust: str
    alpha: Share
    target_epsilon: Size | None = None
    accuracy: Share | None = None
    accuracy_reason: str = ""
    """Why there is no accuracy."""
    nonprivate_accuracy: Share | None = None
    majority_accuracy: Share | None = None
    metrics: Metrics | None = None
    """Of the run's model on the test examples."""
    nonprivate_metrics: Metrics | None = None
    majority_metrics: Metrics | None = None
    privacy: dict[View, Guarantee]
    person_rows: Count = 1
    """The most rows of one person, where data.person_column tells whose they are."""
    person_privacy: dict[View, Guarantee] = {}
    """What protects all labels of such a person together; empty where everyone has one row."""
    headline: View
    """The view to lead with: the strongest adversary that is present."""
    cluster_sizes: Sizes
    merged_clusters: Count = 0
    phi: float | None = None
    psi: float | None = None
    purity: Share | None = None
    messages_by_kind: dict[Kind, Count] = {}
    outcomes_by_round: tuple[dict[Counted, Count], ...] = ()
    missing: tuple[Count, ...] = ()
    missing_hosts: tuple[str, ...] = ()
    unreached: tuple[tuple[str, str], ...] = ()
    """Pairs of a host and a node that it could not reach when it needed to."""
    withheld: tuple[Count, ...] = ()
    """Clusters that released nothing, since the target no longer held for them."""
    adversaries: tuple[Adversary, ...] = ()
    attacks: tuple[Attack, ...] = ()
    faults: tuple[Fault, ...] = ()
    delivery: dict[Delivered, Count] = {}
    warnings: tuple[str, ...] = ()
    curves: dict[str, Curve] = {}
    virtual_seconds: Size | None = None
    workers: tuple[Worker, ...] | None = None
    seconds: Size = 0.0
    out: str | None = None

    def shareable(self) -> Summary:
        """Without the seed and what was computed from true labels by other means than the mechanism.

        Who knows everyone's label but one could tell the last from the exact accuracy of a model that saw them all.
        """
        return msgspec.structs.replace(
            self,
            seed=None,
            nonprivate_accuracy=None,
            majority_accuracy=None,
            nonprivate_metrics=None,
            majority_metrics=None,
            phi=None,
            psi=None,
            purity=None,
            attacks=(),
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values, as ``summary.json`` and ``--json`` have them."""
        found: dict[str, Any] = {}
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name in _TABLES:
                found[name] = {str(view): guarantee.stated() for view, guarantee in value.items()}
            else:
                found[name] = msgspec.to_builtins(value, str_keys=True)
        return found


def read_summary(path: Path) -> Summary:
    """A summary that ``Summary.as_json`` wrote, or one line that says what is wrong with it."""
    try:
        found = json.loads(path.read_bytes())
        if not isinstance(found, dict):
            raise ValueError("not an object")
        if found.get("version") != VERSION:
            told = found.get("version", 1)
            raise RequestError(
                f"{path}: a summary of version {told}; this program reads version {VERSION}: run it again"
            )
        tables = {name: _read_table(name, found) for name in _TABLES}
        summary = msgspec.convert(found | {"privacy": {}}, Summary, str_keys=True)
        if summary.headline not in tables["privacy"]:
            raise ValueError(f"headline is {summary.headline}, of which privacy says nothing")
        if tables["person_privacy"] and tables["person_privacy"].keys() != tables["privacy"].keys():
            raise ValueError("person_privacy and privacy are not of the same views")
        return msgspec.structs.replace(summary, **tables)
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, msgspec.ValidationError, RecursionError) as error:
        raise RequestError(f"{path}: not the summary of a run: {error}") from None


def _read_table(name: str, found: dict[str, Any]) -> dict[View, Guarantee]:
    """Take a table of guarantees out of a summary; one may be left out, since not everyone has several rows."""
    table = found.pop(name, None if name == "privacy" else {})
    if not isinstance(table, dict):
        raise ValueError(f"{name} is missing or no object")
    return {View(view): read_guarantee(view, guarantee) for view, guarantee in table.items()}
