"""Which user hosts take part, which ids their users get, and what hosts tell of them before a run begins.

How many users there are nobody knows but the hosts, each of its own. What their rows look like is the schema's to say,
which everyone has. A host whose offer cannot be used is told so and stops nobody else.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.deployment.items import MAX_BODY, Column, Directory, Holder, Join, encode_item, whole_numbers
from p2p_labeldp.errors import RequestError
from p2p_labeldp.network.addresses import parse_address
from p2p_labeldp.protocol.messages import Fault, Refused
from p2p_labeldp.scenario import Scenario

MOST = (1 << 48) - 1  # users: the longest numbers a directory can hold
MOST_USERS = 1 << 31  # of one host: more than a machine carries, and few enough that all ids fit

Offer = tuple[str, Join]
"""A host's name and what it says of itself."""


class Gathering:
    def __init__(self, scenario: Scenario, run: str) -> None:
        self.joined: dict[str, Offer] = {}
        """By key, in the order in which they came."""
        self._order = scenario.deployment.order
        self._declined: set[str] = set()
        # The directory of all hosts is one item, and must fit into a frame whatever they call themselves.
        self._room = MAX_BODY - len(encode_item(Directory(run, 0.0, MOST, MOST, MOST, [])))

    def offer(self, key: str, name: str, join: Join) -> str:
        """Take a host in, or say why not; Refused if it has been told before."""
        if key in self.joined or key in self._declined:
            raise Refused(Fault.DUPLICATE, "this host has joined")
        length = len(encode_item(Directory("", 0.0, 0, 0, 0, [Holder(key, name, join.address, MOST, MOST)])))
        wrong = self._unfit(join) or ("there are too many hosts" if length > self._room else "")
        if wrong:
            self._declined.add(key)
        else:
            self._room -= length
            self.joined[key] = (name, join)
        return wrong

    def holders(self) -> list[Holder]:
        """Everyone's users, with ids from 0 on: in the order in which hosts came, or in that of their names."""
        offers = list(self.joined.items())
        if self._order == "name":
            offers.sort(key=lambda offer: (_natural(offer[1][0]), offer[0]))
        found: list[Holder] = []
        first = 0
        for key, (name, join) in offers:
            found.append(Holder(key, name, join.address, first, first + join.users))
            first += join.users
        return found

    def _unfit(self, join: Join) -> str:
        """What is wrong with an offer; empty if nothing is."""
        try:
            parse_address(join.address)
        except RequestError:
            return "its address is not HOST:PORT"
        if not 1 <= join.users <= MOST_USERS:
            return f"it brings {join.users} users; from 1 to {MOST_USERS} are allowed"
        return ""


class Shares:
    """Who speaks for which users: the coordinator's directory, checked."""

    def __init__(self, directory: Directory) -> None:
        self.directory, self.hosts = directory, directory.hosts
        self.by_key = {holder.key: holder for holder in self.hosts}
        expected = 0
        for holder in self.hosts:
            if not expected <= holder.first <= holder.last <= directory.users:
                raise Refused(Fault.MALFORMED, "the directory's shares must ascend and not overlap")
            expected = holder.last
        if len(self.by_key) < len(self.hosts):
            raise Refused(Fault.MALFORMED, "the directory lists a host twice")
        self._firsts = [holder.first for holder in self.hosts]

    def holders_of(self, users: NDArray[np.int64]) -> list[Holder]:
        """Those who speak for any of these users, in order."""
        until = np.bincount(np.searchsorted(np.array(self._firsts), users, side="right"))
        return [self.hosts[place - 1] for place in np.flatnonzero(until).tolist() if place]

    def holder_of(self, user: int) -> Holder | None:
        place = bisect_right(self._firsts, user) - 1
        if place < 0 or user >= self.hosts[place].last:
            return None
        return self.hosts[place]


class Columns:
    """Of all users: the clusters that hosts name, and whose rows are one person's; -1 where a host stayed away."""

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._values: dict[str, NDArray[np.int64]] = defaultdict(
            lambda: np.full(shares.directory.users, -1, dtype=np.int64)
        )
        self._told: Counter[tuple[str, str]] = Counter()  # how many places of which column each host has told

    def take(self, key: str, part: Column) -> None:
        """A host's part, each once and in order."""
        holder = self._shares.by_key.get(key)
        values = whole_numbers(part.values)
        fits = holder is not None and holder.first + part.first + len(values) <= holder.last
        if holder is None or not fits or part.name not in ("clusters", "people"):
            raise Refused(Fault.MISDIRECTED, f"{part.name} are told of one's own users")
        if part.first != self._told[key, part.name] or len(values) == 0:
            raise Refused(Fault.OUT_OF_ORDER, f"{part.name} are told once, in order")
        self._told[key, part.name] += len(values)
        start = holder.first + part.first
        self._values[part.name][start : start + len(values)] = values

    @property
    def clusters(self) -> NDArray[np.int64]:
        return self._values["clusters"]

    def shared_people(self) -> str:
        """Which hosts have rows of one person; empty where none have. Her digest is in nobody's log."""
        seen: dict[int, str] = {}
        for holder in self._shares.hosts:
            if self._told[holder.key, "people"] < holder.last - holder.first:
                continue  # it stayed away, and nobody is told of its users; or persons have one row each
            for person in np.unique(self._values["people"][holder.first : holder.last]).tolist():
                other = seen.setdefault(person, holder.name)
                if other != holder.name:
                    return f"{other} and {holder.name} have rows of one person; she may take part at one host"
        return ""


def _natural(name: str) -> list[tuple[int, str]]:
    """Numbers in a name count as numbers: users-2 comes before users-10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"[0-9]{1,18}|[^0-9]+", name)]
