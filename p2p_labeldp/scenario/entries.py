"""Entries of a scenario that may come in any number: ``[[faults]]`` and ``[[adversaries]]``.

Each names its rule or kind, which decides what other keys it has. Many concern some of the users:
those in a list, so many, or a fraction of them; which ones a number or a fraction means is drawn from the seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario.rules import Ids, Number, OneOf, Switch, Whole, key

NOBODY = -1


@dataclass(frozen=True)
class Entry:
    """What all entries share."""

    name: ClassVar[str]
    """What its ``rule`` or ``kind`` is called."""

    def check(self) -> None:
        """Raise RequestError where keys do not fit each other."""

    @classmethod
    def meaning(cls) -> str:
        """What it does: the first line of its documentation."""
        return (cls.__doc__ or "").partition("\n")[0].rstrip(".")

    def as_table(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class SomeUsers(Entry):
    """An entry that concerns some users."""

    users: tuple[int, ...] = key((), Ids(), "these users")
    count: int = key(0, Whole(0), "so many users, drawn from the seed")
    fraction: float = key(0.0, Number(0, 1), "this share of the users, drawn from the seed")

    everyone: ClassVar[bool] = False
    """Whether naming nobody means everyone."""

    def check(self) -> None:
        named = [name for name in ("users", "count", "fraction") if getattr(self, name)]
        if len(named) > 1:
            raise RequestError(f"{' and '.join(named)} exclude each other; give one of them")
        if not named and not self.everyone:
            raise RequestError("names no users; give users, count or fraction")
        if len(set(self.users)) < len(self.users):
            raise RequestError("users lists someone twice")


@dataclass(frozen=True)
class _Window(SomeUsers):
    """Holds from one moment to another."""

    start: float = key(0.0, Number(0), "from this virtual second on")
    end: float = key(0.0, Number(0), "until this virtual second; 0: to the end of the run")

    everyone: ClassVar[bool] = True

    def check(self) -> None:
        super().check()
        if self.end and self.end <= self.start:
            raise RequestError(f"end = {self.end:g} is not after start = {self.start:g}")


@dataclass(frozen=True)
class Delay(_Window):
    """Messages to and from these users take longer."""

    name: ClassVar[str] = "delay"
    seconds: float = key(1.0, Number(0, 3600), "how much longer")
    probability: float = key(1.0, Number(0, 1), "of each message")


@dataclass(frozen=True)
class Loss(_Window):
    """Messages get lost on the way; whoever sent them sends them again, to the same receiver."""

    name: ClassVar[str] = "loss"
    probability: float = key(0.1, Number(0, 1), "of each attempt")


@dataclass(frozen=True)
class Duplicate(_Window):
    """Messages arrive twice."""

    name: ClassVar[str] = "duplicate"
    probability: float = key(0.1, Number(0, 1), "of each message")


@dataclass(frozen=True)
class Reorder(_Window):
    """Messages are held back for a while, so that later ones overtake them."""

    name: ClassVar[str] = "reorder"
    probability: float = key(0.5, Number(0, 1), "of each message")
    seconds: float = key(0.5, Number(0, 3600), "held back for up to so long")


@dataclass(frozen=True)
class Partition(_Window):
    """Nothing passes between these users and everyone else."""

    name: ClassVar[str] = "partition"
    one_way: bool = key(False, Switch(), "only what they send is lost; they hear everyone")
    everyone: ClassVar[bool] = False


@dataclass(frozen=True)
class Crash(SomeUsers):
    """These users stop, and may come back as they were: their journals keep what they did."""

    name: ClassVar[str] = "crash"
    at: float = key(0.0, Number(0), "the virtual second")
    restart: float = key(0.0, Number(0), "seconds until they are back; 0: never")


@dataclass(frozen=True)
class Churn(_Window):
    """Each of these users goes away once, at a moment drawn from the window, and comes back."""

    name: ClassVar[str] = "churn"
    seconds: float = key(1.0, Number(0), "how long she is away")
    everyone: ClassVar[bool] = False


@dataclass(frozen=True)
class Slow(SomeUsers):
    """These users take their time with every message."""

    name: ClassVar[str] = "slow"
    seconds: float = key(1.0, Number(0, 3600), "for each")


FAULTS: dict[str, type[Entry]] = {
    cls.name: cls for cls in (Delay, Loss, Duplicate, Reorder, Partition, Crash, Churn, Slow)
}


@dataclass(frozen=True)
class _Targeted(SomeUsers):
    """Some users, against one."""

    victim: int = key(0, Whole(0), "the user they are after")


@dataclass(frozen=True)
class CuriousPeers(SomeUsers):
    """Honest users who look at what they were told, each for herself."""

    name: ClassVar[str] = "curious_peers"


@dataclass(frozen=True)
class Collusion(SomeUsers):
    """Honest but curious users who pool what they saw with the learner."""

    name: ClassVar[str] = "collusion"


@dataclass(frozen=True)
class Focus(_Targeted):
    """Colluders of the learner in the victim's cluster who all ask her, instead of someone at random."""

    name: ClassVar[str] = "focus"


@dataclass(frozen=True)
class Sybils(_Targeted):
    """Users of the learner's who claim the victim's features, so that they land in her cluster."""

    name: ClassVar[str] = "sybils"


@dataclass(frozen=True)
class IsolatingCoordinator(Entry):
    """A coordinator who colludes with the learner and leaves the victim no crowd to hide in."""

    name: ClassVar[str] = "isolating_coordinator"
    victim: int = key(0, Whole(0), "the victim's user id")
    way: str = key(
        "sybil_cluster",
        OneOf(("small_cluster", "sybil_cluster", "inconsistent")),
        "a cluster of one, a cluster full of its own users, or a roster that only she is shown",
    )
    size: int = key(0, Whole(0), "users in her cluster; 0: one in a small cluster, else as many as the minimum size")


@dataclass(frozen=True)
class Observer(Entry):
    """Someone on the network between all users and the learner."""

    name: ClassVar[str] = "observer"
    sees: str = key("metadata", OneOf(("metadata", "content")), "who talks to whom, or what they say too")
    reports: bool = key(True, Switch(), "and what the learner receives")


@dataclass(frozen=True)
class Liars(SomeUsers):
    """Users who push a label: in their answers, in their reports, or in both."""

    name: ClassVar[str] = "liars"
    answers: bool = key(True, Switch(), "answer falsely")
    reports: bool = key(True, Switch(), "report falsely")
    lie: str = key("label", OneOf(("label", "flipped")), "always the same label, or never the true one")
    label: int = key(1, Whole(0, 2**15 - 1), "the label they push")
    cluster: int = key(NOBODY, Whole(NOBODY), "only those in this cluster lie; -1: all")


@dataclass(frozen=True)
class TwoFaced(SomeUsers):
    """Users who answer different askers differently."""

    name: ClassVar[str] = "two_faced"


@dataclass(frozen=True)
class RepeatAskers(_Targeted):
    """Colluders of the learner who ask the victim again and again."""

    name: ClassVar[str] = "repeat_askers"
    times: int = key(10, Whole(1, 10_000), "how often each")


@dataclass(frozen=True)
class Silent(SomeUsers):
    """Users who never answer."""

    name: ClassVar[str] = "silent"


@dataclass(frozen=True)
class FreshAnswers(SomeUsers):
    """Users with the classic bug: new noise for every asker. The colluders of the learner average it away."""

    name: ClassVar[str] = "fresh_answers"


@dataclass(frozen=True)
class ReplayingLearner(Entry):
    """A learner who tells users to begin rounds that nobody began."""

    name: ClassVar[str] = "replaying_learner"
    times: int = key(1, Whole(1, 1000), "how often")


@dataclass(frozen=True)
class CrookedRelays(_Targeted):
    """Users who misbehave when they are drawn as relays of the mixed exchange."""

    name: ClassVar[str] = "crooked_relays"
    way: str = key(
        "drop",
        OneOf(("drop", "replace", "duplicate", "replay", "peel", "order", "early", "isolate", "equivocate")),
        "lose the victim's packet, put another in its place, double one, pass on an old one, or one with its layer on; "
        "keep the order; release the key at once; replace everyone's but the victim's; show users different batches",
    )


@dataclass(frozen=True)
class NoGo(SomeUsers):
    """Users who never find their packet in the batch of the mixed exchange, whether it is there or not."""

    name: ClassVar[str] = "no_go"


ADVERSARIES: dict[str, type[Entry]] = {
    cls.name: cls
    for cls in (
        CuriousPeers, Collusion, Focus, Sybils, IsolatingCoordinator, Observer, Liars, TwoFaced, RepeatAskers, Silent,
        FreshAnswers, ReplayingLearner, CrookedRelays, NoGo,
    )
}  # fmt: skip

ARRAYS: dict[str, tuple[str, dict[str, type[Entry]]]] = {
    "faults": ("rule", FAULTS),
    "adversaries": ("kind", ADVERSARIES),
}
"""Array of tables to the key that names an entry's type, and the types there are."""
