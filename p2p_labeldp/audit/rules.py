"""The invariants by name, and the one that every message must keep to whatever came before: its shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from p2p_labeldp.audit.trace import Event
from p2p_labeldp.protocol.messages import BY_KIND, USER, Fault, Features, Message

INVARIANTS = {
    "order": "records are numbered 0, 1, 2, ... and time never runs back",
    "shape": "every record is a message of a known kind with fields in range",
    "addresses": "every kind goes from and to the parties it is meant for",
    "timing": "in virtual time every message leaves when the one that caused it arrives",
    "hello_once": "every user says hello once, in this version, with as many features as everyone",
    "rosters": "the rosters put each user who said hello into exactly one cluster, ids ascending",
    "assigned_once": "every user is assigned once, to her place in her cluster's roster",
    "rounds": "a round begins for everyone when the one before is closed",
    "abstaining": "users abstain exactly in clusters below the minimum size",
    "asked_once": "everyone who takes part asks exactly once in a round",
    "asked_inside_cluster": "everyone asks inside her own cluster",
    "answer_follows_ask": "every answer goes to a user who asked and has no answer yet",
    "same_answer": "every asker gets the same answer from a user",
    "report_is_answer": "each report is the answer its sender got",
    "report_after_close": "users report when the round is closed for everyone, and only those who count in it",
    "reported_once": "nothing is reported twice",
    "done_once": "every user is done with a round once, and says what she did",
    "closed": "a round is closed once, when everyone is done, with the list of those who report",
    "goodbye_once": "everyone is dismissed once, after the last round",
    "refusals": "every refusal names a message that its sender was sent",
    "coins": "flips, choices and subsampling are those of the seed",
    "population": "clusters are those of the population",
    "summary": "the summary's counts and digest are those of the trace",
}


@dataclass(frozen=True)
class Violation:
    """One message that does not fit, or something missing at the end (position None)."""

    invariant: str
    position: int | None
    detail: str
    party: int | None = None
    """Who sent it, or lacks something at the end."""
    cause_of: int | None = None
    """Whose message is not on record, where that is what is wrong."""

    def __str__(self) -> str:
        where = "at the end" if self.position is None else f"at message {self.position}"
        return f"{self.invariant}: {where}: {self.detail}"


class Broken(Exception):
    """A message that does not fit; raised where it is noticed, made a Violation where its position is known."""

    def __init__(self, invariant: str, detail: str, party: int | None = None) -> None:
        """``party`` broke it, where that is not the message's sender."""
        super().__init__(detail)
        self.invariant, self.party = invariant, party


def require(holds: bool, invariant: str, detail: str) -> None:
    if not holds:
        raise Broken(invariant, detail)


_TRACED: dict[Any, type] = {int: int, bool: bool, bytes: bytes, str: str, Fault: str, Features: int}
"""What a trace has for a field of this type; of features, how many there are."""


def _traced(hint: Any) -> type:
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) is list:
        return list
    return _TRACED[type(get_args(hint)[0]) if get_origin(hint) is Literal else hint]


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a kind of message looks like; asked of every record, so that it is worked out once."""

    names: tuple[str, ...]
    types: tuple[type, ...]
    from_users: bool
    senders: frozenset[int]
    to_users: bool
    receivers: frozenset[int]


def _shape_of(message: type[Message]) -> _Shape:
    names, hints = message.__struct_fields__, get_type_hints(message, include_extras=True)
    return _Shape(
        names,
        tuple(_traced(hints[name]) for name in names),
        USER in message.record.senders,
        frozenset(party for party in message.record.senders if isinstance(party, int)),
        USER in message.record.receivers,
        frozenset(party for party in message.record.receivers if isinstance(party, int)),
    )


_SHAPES = {kind: _shape_of(message) for kind, message in BY_KIND.items()}


def require_shape(event: Event, users: int) -> None:
    """A known kind, its fields of their types, between parties it is meant for."""
    shape = _SHAPES.get(event.kind) if type(event.kind) is str else None
    if shape is None:
        raise Broken("shape", f"unknown kind {event.kind!r}")
    if tuple(map(type, event.fields)) != shape.types:
        raise Broken("shape", _misshapen(event, shape))
    sender, receiver = event.sender, event.receiver
    if type(sender) is not int or not ((shape.from_users and 0 <= sender < users) or sender in shape.senders):
        raise Broken("addresses", f"sender {sender!r} is not meant for it")
    if type(receiver) is not int or not ((shape.to_users and 0 <= receiver < users) or receiver in shape.receivers):
        raise Broken("addresses", f"receiver {receiver!r} is not meant for it")


def _misshapen(event: Event, shape: _Shape) -> str:
    if len(event.fields) != len(shape.names):
        return f"fields must be {', '.join(shape.names) or 'none'}"
    name, value, kind = next(
        found for found in zip(shape.names, event.fields, shape.types, strict=True) if type(found[1]) is not found[2]
    )
    return f"{name} = {value!r} is not {kind.__name__}"
