"""What one adversary knows of a mixed exchange: what ``views`` and ``array_views`` take from a trace and from arrays.

Whoever sees who sends to whom sees sealed packets of one size in whole batches: nothing of a label, beside the reports.
A member knows her own noisy label and the label that was drawn for her. A relay opens the batch, whose order tells
nothing where another relay is honest: it sees every noisy label of the cluster, and not whose it is. Only relays who
all belong together know whose. So of each cluster and round an adversary sees

    draws    the labels that were drawn for its own users
    opened   all noisy labels of the cluster, sorted, if one of its users relayed; or if it is shown released keys
    tied     everyone's noisy label, if its users were all of the relays

What is in an opened packet no trace tells: noisy labels are worked out from the seed, as in the shuffled view.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from p2p_labeldp.audit.sight import Sight
from p2p_labeldp.mechanisms.mixing import NONCE, Secret, Secrets
from p2p_labeldp.protocol.depositor import Share
from p2p_labeldp.protocol.sealing import TOKEN, Vault
from p2p_labeldp.protocol.session import Session

Relays = Mapping[tuple[int, int], Sequence[int]]
"""By round and cluster."""


class Seen(NamedTuple):
    """Per round: user to label."""

    draws: tuple[dict[int, int], ...] | None
    opened: tuple[dict[int, int], ...] | None
    tied: tuple[dict[int, int], ...]


def seen_of(
    sight: Sight,
    rosters: Mapping[int, Sequence[int]],
    relays: Relays,
    drawn: Sequence[Mapping[int, int]],
    noisy: Sequence[Mapping[int, int]] | None,
    members: Collection[int],
) -> Seen:
    """``drawn``: per round, what everyone was told; ``noisy``: what everyone deposited, None where nobody knows."""
    own = set(members)
    opened: list[dict[int, int]] = []
    tied: list[dict[int, int]] = []
    for round_ in range(len(drawn)):
        opened.append({})
        tied.append({})
        for cluster, roster in rosters.items():
            mixing = relays.get((round_, cluster), ())
            inside = len(own.intersection(mixing))
            relayed = sight.opened == "always" or (sight.opened == "as relay" and inside > 0)
            if not relayed or not mixing or noisy is None:
                continue
            labels = [noisy[round_][user] for user in roster]
            opened[-1].update(zip(roster, sorted(labels), strict=True))
            if inside == len(mixing):
                tied[-1].update(zip(roster, labels, strict=True))
    draws = tuple({user: label for user, label in told.items() if user in own} for told in drawn)
    return Seen(draws if sight.draws else None, tuple(opened) if sight.opened != "never" else None, tuple(tied))


def relays_of(
    secrets: Secrets, wanted: int, round_: int, clusters: Iterable[tuple[int, Sequence[int]]]
) -> dict[tuple[int, int], tuple[int, ...]]:
    """Who relays in the first attempt of a seeded simulation, by round and cluster."""
    vault, found = Vault(), {}
    for cluster, roster in clusters:
        members = [int(user) for user in roster]
        openings = {user: Share(0, secrets.of(Secret.MEMBER, round_, 0, user), vault).opening for user in members}
        session = Session("", round_, cluster, 0, wanted, TOKEN)
        session.assume(openings, secrets.of(Secret.COORDINATOR, round_, cluster, 0)[:NONCE], bytes(32))
        found[round_, cluster] = session.relays
    return found
