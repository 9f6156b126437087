"""Which users hosts get a share: those that offer what can be used and agree with most of the others.

How many users there are, and how their features look, nobody knows but the hosts. One whose data are other
than everyone's, by mistake or not, is told so and stops nobody else.
"""

from __future__ import annotations

from collections.abc import Iterator

from p2p_labeldp.deployment.items import MAX_BODY, Directory, Holder, Join, encode_item
from p2p_labeldp.errors import RequestError
from p2p_labeldp.network.tls import parse_address
from p2p_labeldp.protocol.messages import MAX_FEATURES, Refused
from p2p_labeldp.runs.resolve import parameters_of
from p2p_labeldp.scenario import Scenario

COUNTS = ("users", "features", "labels")
MOST = (1 << 48) - 1  # users: the longest numbers a directory can hold

Offer = tuple[str, Join]
"""A host's name and what it says of itself."""


class Gathering:
    def __init__(self, scenario: Scenario, run: str) -> None:
        self.joined: dict[str, Offer] = {}
        """By key, in the order in which they came."""
        self._scenario = scenario
        self._declined: set[str] = set()
        # The directory of all hosts is one item, and must fit into a frame whatever they call themselves.
        self._room = MAX_BODY - len(encode_item(Directory(run, 0.0, MOST, MOST, MOST, [])))

    def offer(self, key: str, name: str, join: Join) -> str:
        """Take a host in, or say why not; Refused if it has been told before."""
        if key in self.joined or key in self._declined:
            raise Refused("duplicate", "this host has joined")
        length = len(encode_item(Directory("", 0.0, 0, 0, 0, [Holder(key, name, join.address, MOST, MOST)])))
        wrong = self._unfit(join) or ("there are too many hosts" if length > self._room else "")
        if wrong:
            self._declined.add(key)
        else:
            self._room -= length
            self.joined[key] = (name, join)
        return wrong

    def agreeing(self) -> dict[str, Offer]:
        """The largest group of hosts whose data are alike; of two equal ones that which began first."""
        groups: dict[tuple[int, ...], dict[str, Offer]] = {}
        for key, (name, join) in self.joined.items():
            groups.setdefault(_counts(join), {})[key] = (name, join)
        return max(groups.values(), key=len, default={})

    def differing(self) -> Iterator[tuple[str, str, str]]:
        """Key, name and what is other than in the data of the largest group, for all outside it."""
        agreeing = self.agreeing()
        usual = _counts(next(iter(agreeing.values()))[1])
        for key, (name, join) in self.joined.items():
            if key not in agreeing:
                what, its, most = next(
                    found for found in zip(COUNTS, _counts(join), usual, strict=True) if found[1] != found[2]
                )
                yield key, name, f"it counts {its} {what} in its data; most hosts count {most}"

    def _unfit(self, join: Join) -> str:
        """What is wrong with an offer whatever other hosts say; empty if nothing is."""
        try:
            parse_address(join.address)
        except RequestError:
            return "its address is not HOST:PORT"
        known = self._scenario.data.users
        if known and join.users != known:
            return f"it counts {join.users} users in its data; data.users is {known}"
        if not (join.users >= 1 and 1 <= join.features <= MAX_FEATURES and 2 <= join.labels <= 1 << 15):
            return f"it counts {join.users} users, {join.features} features and {join.labels} labels in its data"
        try:
            parameters_of(self._scenario, join.labels)
        except RequestError as error:
            return str(error)
        return ""


def _counts(join: Join) -> tuple[int, ...]:
    return join.users, join.features, join.labels
