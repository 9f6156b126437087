"""What must hold when a run is over.

* Every program has ended, by itself and for a reason that the disasters explain; without one, with "done".
* The noisy data set is the one that the journals' coins give, report by report. Whoever's report is not in it is named,
  or belongs to a cluster that was withheld or abstained; and where somebody went missing after the assignment, no
  better guarantee is stated than the flips give.
* Nobody is missing whom no disaster kept from being heard.
* Times do not run back.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.adversaries.suspects import suspects as suspects_of
from p2p_labeldp.audit.folder import TRACE
from p2p_labeldp.audit.runs import Truth, audit_trace
from p2p_labeldp.deployment.coordinating import CoordinatorPart
from p2p_labeldp.deployment.simulated.disasters import Scene, Trouble
from p2p_labeldp.deployment.simulated.history import Outcome
from p2p_labeldp.deployment.simulated.people import own_rows
from p2p_labeldp.deployment.simulated.watch import Watch
from p2p_labeldp.mechanisms.coins import FLIP, KEEP, OTHER, PEER, SeededCoins
from p2p_labeldp.scenario import EXCHANGES, Scenario

NEVER = ("was changed, or damaged", "another process uses it", "is not a journal", "exists already")
"""What no disaster explains."""
LOST = ("a journal was lost", "has lost its journal")
"""What nobody may say whose disk is there."""
MOST_KEPT = 5 * (1 << 20) // 2  # bytes: what one host may make a node keep, and more than all honest ones do
LATE = ("shares are dealt already", "the coordinator stayed away")
"""The last words of a host that came when shares were dealt, or when nobody was there any more."""
TRIPS = 9  # from one machine to the other until a host has joined: of TCP, TLS, the two introductions and its offer
WAITS = 1.5  # limits within which nobody is lost on account of the learner or the auditor
LEAST = 2.0  # seconds of trouble without which nobody may be missing


def judge(outcome: Outcome, scene: Scene, watch: Watch, root: Path) -> None:
    """Add to the outcome's failures what does not hold."""
    fail = outcome.failures.append
    for name, ending in outcome.endings.items():
        if any(words in ending for words in NEVER):
            fail(f"{name} ended with what no disaster explains: {ending}")
        lost = scene.wiped | scene.traitors
        if any(words in ending for words in LOST) and not lost & {name, "coordinator"}:
            fail(f"{name} or the coordinator has lost its journal, and nobody took it: {ending}")
        if ending != "done" and _harmless(scene.troubles) and not _too_late(ending, scene, name):
            fail(f"{name} ended without any disaster that explains it: {ending}")
    if outcome.endings.get("coordinator") == "done":
        for name in ("learner", "auditor"):
            if not (root / name / "results").is_dir() and name not in scene.wiped:
                fail(f"the coordinator is done, and the {name} has left nothing")
    for (name, peer), size in watch.kept.items():
        node = watch.shadows[name].node
        if peer in scene.plan.host_names and node is not None and size > min(node._part.costs.most_bytes, MOST_KEPT):
            fail(f"{peer} makes {name} keep {size} bytes: it could fill its disk")
    for name, size in outcome.journals.items():
        if size > MOST_KEPT * (1 + len(scene.traitors)):
            fail(f"{name}'s journal takes {size} bytes: somebody could fill its disk")
    place = root / "learner" / "results" / "summary.json"
    if outcome.failures or not place.exists():
        return
    summary = json.loads(place.read_text(encoding="utf-8"))
    with np.load(place.with_name("reports.npz")) as arrays:
        reports = {name: arrays[name] for name in ("round", "user", "label")}
    expected = _Expected.of(scene, watch, summary)
    if not expected.mixed:  # whose draws the trace tells
        for what in _reports_hold(reports, summary, expected):
            fail(what)
    for what in _guarantee_holds(summary, expected):
        fail(what)
    for what in _nobody_blamed(summary, scene, expected):
        fail(what)
    for what in _trace_holds(outcome, root, expected, watch.packets):
        fail(what)
    if summary["seconds"] < 0:
        fail(f"the run took {summary['seconds']} seconds")
    outcome.complete = not summary["missing"] and not summary["withheld"]


@dataclass(frozen=True)
class _Expected:
    """What the coins give, for the clusters that came about."""

    scenario: Scenario
    clusters: NDArray[np.int64]
    labels: NDArray[np.int64]
    """True ones."""
    coins: dict[tuple[int, int], NDArray[np.float64]]
    """(round, user) to her four."""
    holders: dict[int, str]
    """User to her host's machine."""
    kinds: int
    alpha: float
    suspects: dict[int, str]
    """Users who misbehave, or are at a host that lies, to what they are."""

    @classmethod
    def of(cls, scene: Scene, watch: Watch, summary: dict[str, Any]) -> _Expected:
        scenario = scene.plan.scenario
        shadow = watch.coordinator.node
        assert shadow is not None
        part = shadow._part
        assert isinstance(part, CoordinatorPart)
        assert part.role is not None
        assert part.shares is not None
        hosts = [own_rows(scene.plan, watch.names[holder.key]) for holder in part.shares.hosts]
        labels = np.concatenate([rows.labels for rows in hosts if rows is not None and rows.labels is not None])
        users, rounds = len(labels), scenario.mechanism.rounds
        coins: dict[tuple[int, int], NDArray[np.float64]] = {}
        if scenario.coins.source == "seeded":
            for round_ in range(rounds):
                block = SeededCoins(scenario.coins.seed).block(round_, 0, users)
                coins |= {(round_, user): block[user] for user in range(users)}
        for (round_, first, last), content in watch.coins.items():
            block = np.frombuffer(content, dtype="<f8").reshape(last - first, 4)
            coins |= {(round_, user): block[user - first] for user in range(first, last)}
        holders = {
            user: watch.names[holder.key] for holder in part.shares.hosts for user in range(holder.first, holder.last)
        }
        alpha = summary["alpha"]
        liars = {user: "liar" for user, host in holders.items() if host in scene.liars}
        return cls(
            scenario,
            part.role.clusters,
            labels,
            coins,
            holders,
            scenario.data.labels,
            alpha,
            suspects_of(summary) | liars,
        )

    def block(self, round_: int, start: int, stop: int) -> NDArray[np.float64]:
        """As ``Coins`` has it; of whom nobody drew any there is nothing."""
        nothing = np.full(4, np.nan)
        return np.array([self.coins.get((round_, user), nothing) for user in range(start, stop)])

    @property
    def mixed(self) -> bool:
        return EXCHANGES[self.scenario.mechanism.exchange].relayed

    def members(self, cluster: int) -> list[int]:
        found: list[int] = np.flatnonzero(self.clusters == cluster).tolist()
        return found

    def takes_part(self, user: int) -> bool:
        cluster = int(self.clusters[user])
        return cluster >= 0 and len(self.members(cluster)) >= self.scenario.clusters.minimum_size

    def noisy(self, user: int, round_: int) -> int:
        row = self.coins[0 if self.scenario.mechanism.noise == "sticky" else round_, user]
        label = int(self.labels[user])
        if row[FLIP] < self.alpha:
            label = (label + 1 + int(row[OTHER] * (self.kinds - 1))) % self.kinds
        return label

    def peer(self, user: int, round_: int) -> int:
        members = self.members(int(self.clusters[user]))
        return members[int(self.coins[round_, user][PEER] * len(members))]

    def needed(self, user: int) -> set[int]:
        """Those without whom a user gets no label, and herself: whom she asks; in the mixed exchange, her cluster."""
        if not self.takes_part(user):
            return {user}
        if self.mixed:
            return set(self.members(int(self.clusters[user])))
        rounds = range(self.scenario.mechanism.rounds)
        return {user, *(self.peer(user, round_) for round_ in rounds if (round_, user) in self.coins)}

    def keeps(self, user: int, round_: int) -> bool:
        return bool(self.coins[round_, user][KEEP] < self.scenario.mechanism.theta)


def _reports_hold(reports: dict[str, Any], summary: dict[str, Any], expected: _Expected) -> Iterator[str]:
    came = {
        (round_, user): label
        for round_, user, label in zip(
            reports["round"].tolist(), reports["user"].tolist(), reports["label"].tolist(), strict=True
        )
    }
    for (round_, user), label in came.items():
        if not expected.takes_part(user) or not expected.keeps(user, round_):
            yield f"user {user} reported in round {round_} and should not have"
        elif {user, peer := expected.peer(user, round_)} & expected.suspects.keys():
            continue
        elif label != expected.noisy(peer, round_):
            yield f"user {user} reported another label in round {round_} than her coins give"
    missing, held = set(summary["missing"]), set(summary["withheld"])
    for user in range(len(expected.clusters)):
        if user in missing:
            continue
        if expected.clusters[user] < 0:
            yield f"user {user} was never assigned and is not named"
            continue
        if not expected.takes_part(user) or int(expected.clusters[user]) in held:
            continue
        for round_ in range(expected.scenario.mechanism.rounds):
            if expected.keeps(user, round_) and (round_, user) not in came:
                yield f"user {user} has no report in round {round_} and is not named"
    for cluster in held:
        if expected.scenario.mechanism.rounds == 1 and any(int(expected.clusters[user]) == cluster for _, user in came):
            yield f"cluster {cluster} was withheld and reported"


def _trace_holds(
    outcome: Outcome, root: Path, expected: _Expected, packets: Mapping[bytes, tuple[int, int]]
) -> Iterator[str]:
    """The auditor's trace beside the learner's results is one that ``p2p-labeldp audit`` has nothing against."""
    trace, folder = root / "auditor" / "results" / TRACE, root / "learner" / "results"
    if not trace.exists():
        return
    shutil.copy(trace, folder / TRACE)
    audit = audit_trace(folder, expected.suspects, Truth(expected, expected.labels, packets))
    outcome.lacking = len(audit.lacking)
    for violation in audit.violations[:3]:
        yield f"the trace does not hold: {violation}"


def _too_late(ending: str, scene: Scene, name: str) -> bool:
    """Whether a host was told that it came too late, as one may that is as slow to reach as this."""
    plan, deployment = scene.plan, scene.plan.scenario.deployment
    patience = deployment.away_limit if plan.awaited else deployment.settle
    taken = TRIPS * plan.slowest + _seconds_of(scene.troubles, name) + _seconds_of(scene.troubles, "coordinator")
    return taken > patience and any(words in ending for words in LATE)


def _harmless(troubles: list[Trouble]) -> bool:
    """Whether all that happened together is less than anyone's patience."""
    return sum(each.end - each.start for each in troubles) < LEAST


def _guarantee_holds(summary: dict[str, Any], expected: _Expected) -> Iterator[str]:
    """Where somebody of a cluster that reports is missing, the flips alone count: randomized response at delta."""
    held = set(summary["withheld"])
    lost = [
        user for user in summary["missing"] if expected.takes_part(user) and int(expected.clusters[user]) not in held
    ]
    found = summary["privacy"]["learner"]
    stated = math.inf if found["epsilon"] == "inf" else found["epsilon"]
    alpha, kinds = expected.alpha, expected.kinds
    if lost and alpha < (kinds - 1) / kinds:
        local = math.log(max(1.0, (1 - alpha - found["delta"]) * (kinds - 1) / alpha))
        if stated < local - 1e-9:
            yield f"users {lost[:3]} are missing, and epsilon {stated} is less than the flips' {local}"


def _nobody_blamed(summary: dict[str, Any], scene: Scene, expected: _Expected) -> Iterator[str]:
    suspects, limit = expected.suspects.keys(), scene.plan.scenario.deployment.away_limit
    enough = dict.fromkeys(scene.plan.names, LEAST) | dict.fromkeys(("learner", "auditor"), WAITS * limit)
    troubled = {name for name, seconds in enough.items() if _seconds_of(scene.troubles, name) >= seconds}
    everyones = {"coordinator", "learner", "auditor"}
    for user in summary["missing"]:
        needed = expected.needed(user)
        hosts = {expected.holders[each] for each in needed}
        if not troubled & (hosts | everyones) and not needed & suspects:
            yield f"user {user} of {expected.holders[user]} is missing, though nobody kept her from being heard"
    for name in summary["missing_hosts"]:
        if name not in scene.plan.names:  # how many never joined, where there is no list of them
            continue
        if not troubled & {name, *everyones}:
            yield f"{name} counts as lost, though nobody kept it from being heard"


def _seconds_of(troubles: list[Trouble], name: str) -> float:
    return sum(each.end - each.start for each in troubles if name == each.machine or name in each.others)
