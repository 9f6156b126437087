"""Who is to blame for a packet that its sender does not find in the batch that all are shown.

She shows its outer layers, c_0 (what she deposited) to c_L (what she looked for), and what each was sealed with, so
that anyone can check that c_k becomes c_{k+1}. Every relay shows the batches that it took and passed on; their
digests were told when it did, so that it cannot show others now. What she was shown the last relay has signed: if that
is not what it says it passed on, it is caught, and she if it is not signed. The first step at which a packet was there
and its successor is not tells who dropped it.

Nobody is excluded for it, whatever is found: an exclusion on someone's word would leave the others a smaller crowd.
What is found is told. Nothing secret is shown: the inner layers stay sealed, the attempt is over, and the next has
other keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from p2p_labeldp.protocol.messages import name_of


@dataclass(frozen=True)
class Verdict:
    """``caught`` are proved to be at fault; ``disputed`` are those of whom one must be."""

    caught: tuple[int, ...]
    disputed: tuple[int, ...]
    why: str


def judge(
    sender: int,
    layers: Sequence[bytes],
    proved: bool,
    relays: Sequence[int],
    batches: Mapping[int, Sequence[bytes]],
    agreed: bool,
    shown: bool,
) -> Verdict:
    """``proved``: her layers are what she says; ``batches``: by step, those whose digest was told before.

    ``agreed``: the last of them is the one that she says she was shown; ``shown``: the last relay has signed that one.
    """
    if not proved:
        return Verdict((sender,), (), f"{name_of(sender)} says no-go, and her layers do not fit")
    if not shown:
        return Verdict((sender,), (), f"{name_of(sender)} says no-go to a batch that the last relay has not signed")
    if not agreed:
        why = f"{name_of(sender)} was shown another batch than {name_of(relays[-1])} says she passed on, signed by her"
        return Verdict((relays[-1],), (), why)
    for step, packet in enumerate(layers):
        if step not in batches:
            holder = relays[max(0, step - 1)]
            return Verdict((), (sender, holder), f"{name_of(holder)} does not show the batch that she passed on")
        if packet in batches[step]:
            continue
        if step == 0:
            why = f"{name_of(relays[0])} has another deposit of {name_of(sender)} than she says"
            return Verdict((), (sender, relays[0]), why)
        return Verdict((relays[step - 1],), (), f"{name_of(relays[step - 1])} did not pass on a packet that she took")
    return Verdict((sender,), (), f"{name_of(sender)} says no-go, and her packet is in the batch")
