"""Links: the two streams of numbered items between one node and one peer, which outlive connections.

Items are numbered from 0 in each direction. The sender keeps an item until the receiver has acknowledged it,
that is, until it is safe in the receiver's journal; after a broken connection the receiver names the place to
go on from. So everything arrives exactly once and in order, or one of the two is told that it cannot:

    dropped  <=  handed out  <=  made           of our items
    committed  <=  taken                        of theirs

A node that starts again makes the same items with the same numbers from its journal, so a peer that asks
for what was dropped, or has more than was ever made, is one whose journal (or ours) was lost.
No sockets here, and no time: ``network.tls`` moves the bytes.
"""

from __future__ import annotations

from collections import deque
from itertools import chain, islice

from p2p_labeldp.network.frames import MAX_BODY, Item, pack
from p2p_labeldp.protocol.messages import Fault, Refused

OVERHEAD = 64  # bytes that Python adds to each one that waits, so that small items are not counted as nothing


class Link:
    """What is on its way to a peer and what has come from it."""

    __slots__ = ("_sent", "_unsent", "committed", "dropped", "made", "released", "taken", "waiting")

    def __init__(self) -> None:
        self.made = 0
        self.dropped = 0
        self.waiting = 0
        """Bytes kept for the peer: of items not acknowledged yet."""
        self.released = 0
        """Bytes that it has acknowledged."""
        self.taken = 0
        """Items passed on to the node."""
        self.committed = 0
        """Of these, the ones that the node has put in its journal."""
        self._sent: deque[bytes] = deque()  # from `dropped` on
        self._unsent: deque[bytes] = deque()

    # To the peer

    def append(self, clock: int, body: bytes) -> int:
        """Put an item at the end of the stream; return its number."""
        if len(body) > MAX_BODY:
            raise ValueError(f"an item's body takes at most {MAX_BODY} bytes, not {len(body)}")
        number = self.made
        frame = pack(Item(number, clock, body))
        self._unsent.append(frame)
        self.made += 1
        self.waiting += len(frame) + OVERHEAD
        return number

    def take(self, size: int) -> bytes:
        """The next frames to send, packed: about ``size`` bytes, at least one if there is any."""
        unsent, sent = self._unsent, self._sent
        frames = []
        while unsent and size > 0:
            frame = unsent.popleft()
            frames.append(frame)
            sent.append(frame)
            size -= len(frame)
        return b"".join(frames)

    def acknowledged(self, count: int) -> None:
        """The peer will never ask for its first ``count`` items again: let them go."""
        handed_out = self.dropped + len(self._sent)
        if count > handed_out:
            raise Refused(Fault.OUT_OF_ORDER, f"{count} items acknowledged, of {handed_out} sent")
        for _ in range(count - self.dropped):
            size = len(self._sent.popleft()) + OVERHEAD
            self.waiting -= size
            self.released += size
            self.dropped += 1

    def resume(self, received: int) -> None:
        """Go on from the place that the peer names, on a new connection."""
        if received < self.dropped:
            raise Refused(
                Fault.OUT_OF_ORDER,
                f"item {received} is asked for, but {self.dropped} were acknowledged: who asks has lost its journal",
            )
        if received > self.made:
            raise Refused(
                Fault.OUT_OF_ORDER,
                f"{received} items are said to have arrived of {self.made} that were made: a journal was lost",
            )
        kept = [*chain(self._sent, self._unsent)]
        place = received - self.dropped
        self._sent = deque(islice(kept, place))
        self._unsent = deque(islice(kept, place, None))

    @property
    def unacknowledged(self) -> int:
        return self.made - self.dropped

    # From the peer

    def accept(self, number: int) -> bool:
        """Whether this item is new; it counts as taken then. Refused if there are others missing before it."""
        if number == self.taken:
            self.taken += 1
            return True
        if number > self.taken:
            raise Refused(Fault.OUT_OF_ORDER, f"item {number} came where {self.taken} was due")
        return False

    def restore(self, received: int) -> None:
        """The node found so many items in its journal."""
        self.taken = self.committed = received

    def begin_at(self, made: int) -> None:
        """So many items were made and acknowledged before the node was started."""
        assert self.made == 0
        self.made = self.dropped = made
