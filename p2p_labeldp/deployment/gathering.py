"""Which user hosts take part, and which ids their users get.

How many users there are nobody knows but the hosts, each of its own. What their rows look like is the schema's to say,
which everyone has. A host whose offer cannot be used is told so and stops nobody else.
"""

from __future__ import annotations

import re

from p2p_labeldp.deployment.items import MAX_BODY, Directory, Holder, Join, encode_item
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


def _natural(name: str) -> list[tuple[int, str]]:
    """Numbers in a name count as numbers: users-2 comes before users-10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"[0-9]{1,18}|[^0-9]+", name)]
