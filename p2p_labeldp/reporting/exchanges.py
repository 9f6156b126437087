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
from p2p_labeldp.reporting.traffic import CODES, OUTCOMES, Sent, Traffic
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
    columns = traffic.columns
    asks = columns[(columns["kind"] == CODES["ask"]) & (columns["round"] == 0)]
    found = []
    for cluster in chosen_clusters({cluster: len(members) for cluster, members in rosters.items()}):
        members = rosters[cluster]
        users = _who(members, asks["sender"], asks["receiver"])
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
    columns = traffic.columns
    shown = np.flatnonzero(
        np.logical_or.reduce([np.isin(columns[name], users) for name in ("sender", "receiver", "user")])
        & (columns["receiver"] != HOST)  # broadcasts have no lane
    )
    shown = shown[np.argsort(columns["time"][shown], kind="stable")]
    drawn = {position: traffic[position] for position in shown[:MOST_MESSAGES].tolist()}
    causes = _causes(drawn)
    place_of = {position: place for place, position in enumerate(drawn)}
    fates = None
    if known.true_labels is not None and not traffic.wall_clock and Fates.known(known.scenario):
        fates = Fates(known.scenario, len(known.true_labels))
    arrows = []
    for position, message in drawn.items():
        kind = message.kind
        then = causes.get(position)
        arrives = drawn[then].time if then is not None else None
        fate = Fate((), arrives)
        if fates is not None and kind != "refusal":
            fate = fates.of(message)
            arrives = fate.arrives if arrives is None else arrives
        never = fates is not None and arrives is None and kind != "refusal"
        if kind == "refusal":
            said = f"{name_of(message.sender)} refused a message: {traffic.refusals[position]}"
        else:
            said = _words(known, message, arrives)
        arrows.append(
            Arrow(
                kind=kind,
                sender=_lane(message.sender, users),
                receiver=_lane(message.receiver, users),
                sent=message.time,
                arrives=arrives,
                then=place_of[then] if then is not None else None,
                words=said + _attempted(fate, never),
                flipped=_flipped(known, message),
                dropped=kind == "done" and message.outcome == OUTCOMES.index("dropped"),
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


def _lane(address: int, users: tuple[int, ...]) -> int:
    return address if address < 0 or address in users else OTHERS


def _flipped(known: Known, message: Sent) -> bool:
    if message.kind != "answer" or known.true_labels is None or message.sender < 0:
        return False
    return int(known.true_labels[message.sender]) != message.label


_STEPS = {"answer": "answer", "ask": "beginning", "submit": "beginning", "report": "end", "done": "end"}
"""What kinds of messages are, of a user's part in a round."""
_LEADS_TO = {"ask": ("answer",), "answer": ("end",), **dict.fromkeys(("assignment", "round"), ("beginning", "end"))}
"""What a kind of message has its receiver do."""


def _causes(drawn: Mapping[int, Sent]) -> dict[int, int]:
    """Position of a message to that of the one which its receiver sent because of it."""
    later: dict[tuple[str, int, int, int | None], list[int]] = defaultdict(list)
    for position, message in drawn.items():
        step = _STEPS.get(message.kind)
        if step is not None:
            asker = message.receiver if step == "answer" else None
            later[step, message.sender, max(0, message.round), asker].append(position)
    causes: dict[int, int] = {}
    for position, message in drawn.items():
        for step in _LEADS_TO.get(message.kind, ()):
            asker = message.sender if step == "answer" else None
            found = [then for then in later[step, message.receiver, max(0, message.round), asker] if then > position]
            if found:
                causes.setdefault(position, found[0])
    return causes


def _words(known: Known, message: Sent, arrives: float | None) -> str:
    """What a message says, for whoever points at it."""
    label, outcome, kind = message.label, message.outcome, message.kind
    said = (BY_KIND[kind].record.says or kind).format(
        label=known.classes[label] if 0 <= label < len(known.classes) else "nothing",
        user=message.user,
        outcome=OUTCOMES[outcome] if outcome >= 0 else "unknown",
    )
    said += f", round {message.round + 1}" if known.scenario.mechanism.rounds > 1 and message.round >= 0 else ""
    said += ", flipped" if _flipped(known, message) else ""
    sender, receiver = name_of(message.sender), name_of(message.receiver)
    route = f"{sender} to herself" if message.sender == message.receiver else f"{sender} to {receiver}"
    when = "" if message.time == 0 and not arrives else f", sent at {message.time:.4g} s"
    when += f", arrived by {arrives:.4g} s" if when and arrives is not None else ""
    return f"{said}: {route}{when}"
