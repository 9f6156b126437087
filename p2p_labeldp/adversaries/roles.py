"""Users who misbehave: each is the honest user with one habit changed.

They keep to the protocol in everything else, so that a run shows what that habit does and nothing more.
None draws a coin that an honest user would not, and what is random about them comes from a stream of their own
that is asked by key: the others' outcomes are those of the honest run, whatever the order of messages.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from p2p_labeldp.protocol.host import Host
from p2p_labeldp.protocol.messages import Answer, Ask, Features, Message, Outgoing, Report
from p2p_labeldp.protocol.user import DONE, WAITING, User
from p2p_labeldp.scenario.entries import NOBODY, Liars
from p2p_labeldp.streams import KeyedStream


class Liar(User):
    """Answers and reports a label of her choice; whom she asks and whether she reports stays with her coins.

    ``flipped`` is the label after her true one, which with two labels is the other one.
    """

    __slots__ = ("_entry",)

    def __init__(self, id_: int, label: int, host: Host, entry: Liars) -> None:
        super().__init__(id_, label, host)
        self._entry = entry

    def receive(self, sender: int, message: Message) -> Sequence[Outgoing]:
        said = super().receive(sender, message)
        if self._entry.cluster == NOBODY or (said and self.cluster == self._entry.cluster):
            return [(to, self._twisted(out)) for to, out in said]
        return said

    def _twisted(self, message: Message) -> Message:
        entry = self._entry
        lie = entry.label if entry.lie == "label" else (self.label + 1) % self.host.parameters.labels
        if type(message) is Answer and entry.answers:
            return Answer(message.round, lie)
        if type(message) is Report and entry.reports:
            return Report(message.round, lie)
        return message


class TwoFaced(User):
    """Answers by who asks: her noisy label moved on by the asker's id, so that neighbours hear different ones."""

    __slots__ = ()

    def receive(self, sender: int, message: Message) -> Sequence[Outgoing]:
        return [(to, self._turned(to, out)) for to, out in super().receive(sender, message)]

    def _turned(self, asker: int, message: Message) -> Message:
        if type(message) is not Answer:
            return message
        return Answer(message.round, (message.label + asker) % self.host.parameters.labels)


class FreshAnswerer(User):
    """Flips her true label anew for every answer: the classic bug. Many answers together give it away."""

    __slots__ = ("_noise", "_said")

    def __init__(self, id_: int, label: int, host: Host, noise: KeyedStream) -> None:
        super().__init__(id_, label, host)
        self._noise = noise
        self._said: dict[tuple[int, int], int] = {}  # how often she answered, by round and asker

    def receive(self, sender: int, message: Message) -> Sequence[Outgoing]:
        return [(to, self._flipped(to, out)) for to, out in super().receive(sender, message)]

    def _flipped(self, asker: int, message: Message) -> Message:
        if type(message) is not Answer:
            return message
        round_, parameters = message.round, self.host.parameters
        before = self._said.get((round_, asker), 0)
        self._said[round_, asker] = before + 1
        label = self.label
        if self._noise.uniform(self.id, round_, asker, before, 0) < parameters.alpha:
            other = self._noise.uniform(self.id, round_, asker, before, 1)
            label = (label + 1 + int(other * (parameters.labels - 1))) % parameters.labels
        return Answer(round_, label)


class Silent(User):
    """Answers nobody, herself included."""

    __slots__ = ()

    def receive(self, sender: int, message: Message) -> Sequence[Outgoing]:
        return () if type(message) is Ask else super().receive(sender, message)


class Focused(User):
    """Asks the victim, ``times`` over, instead of whom her coins choose; honest where the victim is out of reach.

    What she learns is the answers; what she reports is the first of them, as an honest user would.
    """

    __slots__ = ("_times", "_victim")

    def __init__(self, id_: int, label: int, host: Host, victim: int, times: int = 1) -> None:
        super().__init__(id_, label, host)
        self._victim = victim
        self._times = times

    def receive(self, sender: int, message: Message) -> Sequence[Outgoing]:
        if type(message) is Answer and sender == self._victim and self.state == DONE:
            return ()  # more than she needs for the protocol, and what she asked for
        return super().receive(sender, message)

    def _begin(self, round_: int) -> Sequence[Outgoing]:
        said = super()._begin(round_)
        if self.state != WAITING or not self._reaches_victim():
            return said
        self._peer = self._victim
        asks = [(self._victim, Ask(round_))] * self._times
        return [*asks, *said[1:]]  # her own ask is the first thing she says

    def _reaches_victim(self) -> bool:
        """Whether the victim is in her cluster, and will answer her."""
        roster = self._roster
        place = bisect_left(roster, self._victim)
        return place < len(roster) and roster[place] == self._victim


class Plant(Focused):
    """A user of the coordinator's, in whatever roster it tells the victim: she asks her, and answers her."""

    __slots__ = ()

    def _reaches_victim(self) -> bool:
        return True

    def _require_member(self, sender: int) -> None:
        if sender != self._victim:
            super()._require_member(sender)


class Sybil(User):
    """Claims someone else's features, so that clustering by features puts the two together."""

    __slots__ = ("_claimed",)

    def __init__(self, id_: int, label: int, host: Host, claimed: Features) -> None:
        super().__init__(id_, label, host)
        self._claimed = claimed

    def hello(self, features: Features) -> Outgoing:
        return super().hello(self._claimed)
