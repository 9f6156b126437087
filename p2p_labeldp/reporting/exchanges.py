"""One cluster's exchange, cut down to what can be drawn: a few users and the messages between them.

Which users: the one who was asked most, then those who asked her or whom she asked, and so on, so that what is drawn
hangs together. Whoever else they talk to stands for "others".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.privacy.numbers import plural
from p2p_labeldp.protocol.messages import BY_KIND, COORDINATOR, CURATOR, HOST, LEARNER, SHUFFLER, name_of
from p2p_labeldp.reporting.fates import Absence, Fate, Fates
from p2p_labeldp.reporting.traffic import KIND_NAMES, OUTCOMES, Traffic
from p2p_labeldp.scenario import Scenario

MOST_CLUSTERS, MOST_USERS, MOST_MESSAGES = 16, 10, 120
OTHERS = -100


@dataclass(frozen=True)
class Known:
    """What must be known of a run besides its messages, be it over or not."""

    scenario: Scenario
    classes: tuple[str, ...]
    true_labels: NDArray[np.int64] | None
    adversaries: Mapping[int, str]
    """Users who take part in an attack, and what they are called."""


@dataclass(frozen=True)
class Arrow:
    """A message. ``arrives`` is None where nothing tells when; ``then`` is the arrow that it caused."""

    kind: str
    sender: int
    receiver: int
    sent: float
    arrives: float | None
    then: int | None
    words: str
    flipped: bool = False
    """An answer with another label than the true one."""
    dropped: bool = False
    """Of done: what she got was not reported."""
    lost: tuple[float, ...] = ()
    """When attempts were made that did not get through."""
    never: bool = False
    """None did."""


@dataclass(frozen=True)
class Exchange:
    cluster: int
    size: int
    users: tuple[int, ...]
    parties: tuple[int, ...]
    """The other lifelines that are needed."""
    arrows: tuple[Arrow, ...]
    messages: int
    """How many there were between those users and anyone."""
    absences: tuple[Absence, ...] = ()
    wrong: Mapping[int, str] = field(default_factory=dict)
    """Of users who do not do what they should, which kind of adversary they are."""


def chosen_clusters(sizes: dict[int, int], most: int = MOST_CLUSTERS) -> list[int]:
    """The smallest and the largest cluster, and others evenly between them in size."""
    ordered = sorted((size, cluster) for cluster, size in sizes.items() if size)
    if len(ordered) > most:
        places = np.unique(np.linspace(0, len(ordered) - 1, most).round().astype(int))
        ordered = [ordered[place] for place in places.tolist()]
    return [cluster for _, cluster in ordered]


def exchanges(known: Known, traffic: Traffic) -> list[Exchange]:
    """The exchanges to choose from, by size of their clusters."""
    rosters = traffic.rosters
    asks = traffic.of_kind("ask") & (traffic.round == 0)
    found = []
    for cluster in chosen_clusters({cluster: len(members) for cluster, members in rosters.items()}):
        members = rosters[cluster]
        users = _who(members, traffic.sender[asks], traffic.receiver[asks])
        found.append(exchange_of(known, traffic, cluster, members, users))
    return found


def _who(members: NDArray[np.int64], askers: NDArray[np.int64], asked: NDArray[np.int64]) -> tuple[int, ...]:
    inside = np.isin(askers, members) & np.isin(asked, members)
    peers: defaultdict[int, list[int]] = defaultdict(list)
    times: defaultdict[int, int] = defaultdict(int)
    for asker, peer in zip(askers[inside].tolist(), asked[inside].tolist(), strict=True):
        peers[asker].append(peer)
        peers[peer].append(asker)
        times[peer] += 1
    chosen: dict[int, None] = {}
    for start in sorted(members.tolist(), key=lambda user: (-times[user], user))[: MOST_USERS * 4]:
        queue = [start]
        while queue and len(chosen) < MOST_USERS:
            user = queue.pop(0)
            if user not in chosen:
                chosen[user] = None
                queue += sorted(peers[user])
    return tuple(sorted(chosen))


def exchange_of(
    known: Known, traffic: Traffic, cluster: int, members: NDArray[np.int64], users: tuple[int, ...]
) -> Exchange:
    """Those users' messages, as many as can be drawn."""
    lanes = np.array(users, dtype=np.int64)
    shown = np.flatnonzero(
        (np.isin(traffic.sender, lanes) | np.isin(traffic.receiver, lanes) | np.isin(traffic.user, lanes))
        & (traffic.receiver != HOST)  # broadcasts have no lane
    )
    shown = shown[np.argsort(traffic.time[shown], kind="stable")]
    drawn = shown[:MOST_MESSAGES].tolist()
    lane_of = {user: user for user in users}
    causes = _causes(traffic, drawn)
    place_of = {position: place for place, position in enumerate(drawn)}
    fates = None
    if known.true_labels is not None and not traffic.wall_clock and Fates.known(known.scenario):
        fates = Fates(known.scenario, len(known.true_labels))
    arrows = []
    for position in drawn:
        kind = KIND_NAMES[traffic.kind[position]]
        source, target = int(traffic.sender[position]), int(traffic.receiver[position])
        then = causes.get(position)
        sent = float(traffic.time[position])
        arrives = float(traffic.time[then]) if then is not None else None
        fate = Fate((), arrives)
        if fates is not None and kind != "refusal":
            fate = fates.of(kind, int(traffic.round[position]), int(traffic.user[position]), source, target, sent)
            arrives = fate.arrives if arrives is None else arrives
        never = fates is not None and arrives is None and kind != "refusal"
        arrows.append(
            Arrow(
                kind=kind,
                sender=lane_of.get(source, source if source < 0 else OTHERS),
                receiver=lane_of.get(target, target if target < 0 else OTHERS),
                sent=sent,
                arrives=arrives,
                then=place_of[then] if then is not None else None,
                words=_words(known, traffic, position, kind, source, target, arrives) + _attempted(fate, never),
                flipped=kind == "answer" and _flipped(known, source, int(traffic.label[position])),
                dropped=kind == "done" and traffic.outcome[position] == OUTCOMES.index("dropped"),
                lost=fate.lost,
                never=never,
            )
        )
    used = {lane for arrow in arrows for lane in (arrow.sender, arrow.receiver)}
    parties = tuple(party for party in (COORDINATOR, OTHERS, CURATOR, SHUFFLER, LEARNER) if party in used)
    absences = () if fates is None else fates.absences(users)
    wrong = {user: known.adversaries[user] for user in users if user in known.adversaries}
    return Exchange(cluster, len(members), users, parties, tuple(arrows), len(shown), absences, wrong)


def _attempted(fate: Fate, never: bool) -> str:
    if never:
        return ", lost for good"
    return f", after {plural(len(fate.lost), 'lost attempt')}" if fate.lost else ""


def _flipped(known: Known, user: int, label: int) -> bool:
    return known.true_labels is not None and user >= 0 and int(known.true_labels[user]) != label


def _causes(traffic: Traffic, drawn: list[int]) -> dict[int, int]:
    """Position of a message to that of the one which its receiver sent because of it.

    An ask is followed by its answer, an answer by its asker's done, the beginning of a round by an ask.
    """
    follows: dict[tuple[str, int, int, int], list[int]] = defaultdict(list)
    for position in drawn:
        kind = KIND_NAMES[traffic.kind[position]]
        source, target = int(traffic.sender[position]), int(traffic.receiver[position])
        round_ = max(0, int(traffic.round[position]))
        if kind == "answer":
            follows["answer", source, target, round_].append(position)
        elif kind in ("ask", "submit"):
            follows["begins", source, 0, round_].append(position)
        elif kind in ("report", "done"):
            follows["ends", source, 0, round_].append(position)
    causes = {}
    for position in drawn:
        kind = KIND_NAMES[traffic.kind[position]]
        source, target = int(traffic.sender[position]), int(traffic.receiver[position])
        round_ = max(0, int(traffic.round[position]))
        keys: list[tuple[str, int, int, int]] = []
        if kind == "ask":
            keys = [("answer", target, source, round_)]
        elif kind == "answer":
            keys = [("ends", target, 0, round_)]
        elif kind == "assignment":
            keys = [("begins", target, 0, 0), ("ends", target, 0, 0)]
        elif kind == "round":
            keys = [("begins", target, 0, round_), ("ends", target, 0, round_)]
        later = [then for key in keys for then in follows.get(key, []) if then > position]
        if later:
            causes[position] = later[0]
    return causes


def _words(
    known: Known, traffic: Traffic, position: int, kind: str, source: int, target: int, arrives: float | None
) -> str:
    """What one message says, for whoever points at it."""
    sender, receiver = name_of(source), name_of(target)
    if kind == "refusal":
        return f"{sender} refused a message: {traffic.refusals[position]}"
    label, outcome, round_ = (int(column[position]) for column in (traffic.label, traffic.outcome, traffic.round))
    said = (BY_KIND[kind].record.says or kind).format(
        label=known.classes[label] if 0 <= label < len(known.classes) else "nothing",
        user=int(traffic.user[position]),
        outcome=OUTCOMES[outcome] if outcome >= 0 else "unknown",
    )
    said += f", round {round_ + 1}" if known.scenario.mechanism.rounds > 1 and round_ >= 0 else ""
    said += ", flipped" if kind == "answer" and _flipped(known, source, label) else ""
    route = f"{sender} to herself" if source == target else f"{sender} to {receiver}"
    when = "" if traffic.time[position] == 0 and not arrives else f", sent at {traffic.time[position]:.4g} s"
    when += f", arrived by {arrives:.4g} s" if when and arrives is not None else ""
    return f"{said}: {route}{when}"
