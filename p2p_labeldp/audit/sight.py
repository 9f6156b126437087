"""What of a trace each view sees, in each exchange. Who sees reports is in the views' records.

A question to oneself goes through one's own mailbox: it is in the trace, for the auditor, and never on the wire.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Literal, NamedTuple

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import Exchange, View, views_of

Scope = Literal["nothing", "own", "cluster", "wire", "all"]
"""Which messages between users: none, those of its own users, of their clusters, on the wire, self-asks too."""
Opened = Literal["never", "as relay", "always"]
"""When it opens the batch of a cluster in the mixed exchange."""


class Sight(NamedTuple):
    """What an adversary sees beside the reports."""

    asks: Scope = "nothing"
    answers: Scope = "nothing"
    draws: bool = False
    """Mixed exchange: the labels that were drawn for its own users."""
    opened: Opened = "never"


SIGHT: dict[View, Sight] = {
    View.PEER: Sight(asks="own", answers="own", draws=True),
    View.LEARNER: Sight(),
    View.METADATA: Sight(asks="wire"),
    View.EAVESDROPPER: Sight(asks="wire", answers="wire"),
    View.NETWORK: Sight(asks="wire", answers="wire"),
    View.AUDITOR: Sight(asks="all", answers="all", opened="always"),
    View.COALITION: Sight(asks="own", answers="own", draws=True, opened="as relay"),
    View.RELAY: Sight(draws=True, opened="as relay"),
    View.SHUFFLE: Sight(),
}
"""Of the views of ``privacy.MIXED_VIEWS``. The view ``peer`` is one user's as a user, whether she relayed or not."""


def _pulled(sight: Sight) -> Sight:
    return sight._replace(draws=False, opened="never")


def _permuted(sight: Sight) -> Sight:
    """A member knows whom everyone of her cluster asks."""
    return _pulled(sight)._replace(asks="cluster" if sight.asks == "own" else sight.asks)


def _mixed(sight: Sight) -> Sight:
    """Nobody asks. Where all relays are the adversary's, everyone's label is known as if told by herself."""
    return sight._replace(asks="nothing", answers="all" if sight.opened == "as relay" else "nothing")


SEEN_IN: dict[Exchange, Callable[[Sight], Sight]] = {
    Exchange.PULL: _pulled,
    Exchange.MIXED: _mixed,
    Exchange.PERMUTATION: _permuted,
}
"""What is left of it in each exchange."""


def seen_in(view: View, exchange: str) -> Sight:
    """What a view sees in an exchange."""
    return SEEN_IN[Exchange(exchange)](SIGHT[view])


def sight_of(adversary: str, members: Collection[int], exchange: str) -> Sight:
    """The same; RequestError where it does not go with these members."""
    allowed = views_of(exchange)
    if adversary not in allowed:
        raise RequestError(f"view must be one of {', '.join(allowed)}, not {adversary!r}")
    view = View(adversary)
    with_members = [each for each in (View.PEER, View.RELAY, View.COALITION) if each in allowed]
    if members and view not in with_members:
        *others, last = with_members
        raise RequestError(f"members needs the view {', '.join(others)} or {last}, not {view}")
    if view in (View.PEER, View.RELAY) and not members:
        raise RequestError(f"the view {view} needs a member: the {view} herself")
    return seen_in(view, exchange)


def one_peer_each(adversary: str, members: Collection[int], rosters: Mapping[int, tuple[int, ...]]) -> None:
    """Two peers who put together what they know are a coalition."""
    if adversary == "peer" and any(len(set(roster).intersection(members)) > 1 for roster in rosters.values()):
        raise RequestError("the view peer takes one member of a cluster; several of them are a coalition")
