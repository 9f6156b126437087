"""Which user hosts take part: those that offer what can be used.

How many users there are, and how their features look, nobody knows but the hosts. One whose offer cannot be used
is told so and stops nobody else. Where offers that could be used differ from each other, nobody can tell who is
right, and labels that are released once cannot be taken back: then the run ends before it begins.
"""

from __future__ import annotations

from p2p_labeldp.deployment.agreement import differences
from p2p_labeldp.deployment.items import MAX_BODY, Directory, Holder, Join, encode_item
from p2p_labeldp.errors import RequestError
from p2p_labeldp.network.addresses import parse_address
from p2p_labeldp.protocol.messages import MAX_FEATURES, MAX_LABELS, Fault, Refused
from p2p_labeldp.runs.resolve import parameters_of
from p2p_labeldp.scenario import Scenario

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
            raise Refused(Fault.DUPLICATE, "this host has joined")
        length = len(encode_item(Directory("", 0.0, 0, 0, 0, [Holder(key, name, join.address, MOST, MOST)])))
        wrong = self._unfit(join) or ("there are too many hosts" if length > self._room else "")
        if wrong:
            self._declined.add(key)
        else:
            self._room -= length
            self.joined[key] = (name, join)
        return wrong

    def disagreement(self) -> str:
        """Whose data differ from those of most hosts, and how; empty where all agree."""
        found = differences([(name, join.data) for name, join in self.joined.values()])
        return "; ".join(f"{name} has {what}" for name, what in found)

    def _unfit(self, join: Join) -> str:
        """What is wrong with an offer whatever other hosts say; empty if nothing is."""
        try:
            parse_address(join.address)
        except RequestError:
            return "its address is not HOST:PORT"
        known, data = self._scenario.data.users, join.data
        if known and data.users != known:
            return f"it counts {data.users} users in its data; data.users is {known}"
        if not (data.users >= 1 and 1 <= data.features <= MAX_FEATURES and 2 <= data.labels <= MAX_LABELS):
            return f"it counts {data.users} users, {data.features} features and {data.labels} labels in its data"
        try:
            parameters_of(self._scenario, data.labels)
        except RequestError as error:
            return str(error)
        return ""
