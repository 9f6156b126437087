"""Roles that are stepped by hand: what they refuse, and messages that they are often sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from p2p_labeldp.protocol.collection import closed_parts
from p2p_labeldp.protocol.messages import Closed, Message, Refused, Roster

Heard = tuple[int, Message]
"""(sender, message)."""


def hearing(role: Any, *heard: Heard) -> Any:
    """A role that has heard these messages."""
    for sender, message in heard:
        list(role.receive(sender, message))
    return role


def fault(role: Any, *heard: Heard) -> str:
    """The fault of the last of these messages; the role refuses it and stays as it was."""
    *before, (sender, message) = heard
    was = state_of(hearing(role, *before))
    with pytest.raises(Refused) as caught:
        list(role.receive(sender, message))
    assert state_of(role) == was
    return caught.value.fault


Row = tuple[Callable[[], Any], Sequence[Heard], Sequence[int], Sequence[Message], str]
"""Of a table of refusals: the role, what it has heard, senders, messages, and the fault of each of those."""


def assert_refused(
    make: Callable[[], Any], heard: Sequence[Heard], senders: Sequence[int], messages: Sequence[Message], expected: str
) -> None:
    assert {fault(make(), *heard, (sender, message)) for sender in senders for message in messages} == {expected}


def state_of(value: Any) -> Any:
    """All that a role keeps."""
    if isinstance(value, Mapping):
        return {key: state_of(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [state_of(each) for each in value]
    if not type(value).__module__.startswith("p2p_labeldp.protocol"):
        return repr(value)
    slots = (name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()))
    names = [*slots, *getattr(value, "__dict__", ())]
    return {name: state_of(getattr(value, name)) for name in names if hasattr(value, name)}


def closed(users: int, round_: int = 0, counted: Iterable[int] = (), shares: int = 0) -> Closed:
    """The close of a round: of ``users`` users those listed count; few enough for one part."""
    listed = np.zeros(users, dtype=np.bool_)
    listed[list(counted)] = True
    (part,) = closed_parts(round_, listed, shares)
    return part


def roster(cluster: int, members: Iterable[int], first: int = 0) -> Roster:
    """A part of a cluster's roster, from a place on."""
    return Roster(cluster, first, np.array([*members], dtype="<i8").tobytes())
