"""What a seed draws: the scenario, the fleet, the weather, and every disaster with its moment.

Swarm testing: a seed first draws which kinds of disaster are possible at all, then how many of those, so that some runs
have nothing but slow disks and others everything at once. A plan is plain data: it can be written down, made smaller
(``shrink``) and run again.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from p2p_labeldp.scenario import EXCHANGES, Scenario, parse_scenario

SINGLES = ("coordinator", "learner", "auditor")
DETOUR = 10.0  # times as long as the usual way
LONGEST = 0.5  # seconds that bytes take on any way: what is slower is a disaster
KINDS = (
    "kill", "power", "freeze", "wipe", "gone", "late", "cut", "reset", "half_open", "slow_path", "slow_disk",
    "full_disk", "failing_disk", "clock_skew", "clock_jump", "flood", "garbage", "false_acks", "stranger",
)  # fmt: skip
TRAITORS = ("flood", "garbage", "false_acks")
"""What a user host does that no shipped program would."""
FINAL = ("wipe", "gone", *TRAITORS)
"""After these a machine's share of the run is lost."""
AT_NO_MOMENT = ("late", "clock_skew", "stranger", *FINAL)
"""Not in a series, and not when a relay enters a stage."""
_RARE = dict.fromkeys(TRAITORS, 0.12) | {"wipe": 0.16, "gone": 0.2}
OPENED = -1.0
"""As the ``amount`` of half_open: what was on its way arrives when the two meet on another connection."""
RECIPES = (
    ("slow_disk", "reset", "kill"), ("slow_disk", "half_open", "power"), ("slow_disk", "power"), ("slow_disk", "power"),
    ("cut", "kill"), ("freeze", "reset"),
)  # fmt: skip
SLOWEST = 6.0  # seconds that a sync takes at most
WAYS = ("drop", "replace", "duplicate", "replay", "peel", "order", "early", "isolate", "equivocate")
"""Of crooked relays."""
EVENTS: dict[str, tuple[str, ...]] = {
    "coordinator": ("joined", "dealt", "begun", "clustered", "exchanged", "connected", "tracing", "writing", "left"),
    "learner": ("connected", "written", "listening", "left"),
    "auditor": ("connected", "written", "listening"),
    "users": ("share", "connected", "listening", "replayed", "left"),
}
"""What nodes log, at which a disaster may happen; other moments are when something is sent and on its way, and when
something is written and not synced."""
STAGES = ("mixing", "passed", "released", "released", "drawing", "drawing", "dealt", "halted")
"""Of relays: they last for a few messages, so that other moments seldom fall into them."""


@dataclass(frozen=True)
class Disaster:
    """``kind`` happens to ``machine`` at a time, at its n-th step, or when it logs ``event`` for the n-th time."""

    kind: str
    machine: str
    at: float = 0.0
    event: str = ""
    count: int = 0
    """Of steps where there is no event; 0 where ``at`` is the time."""
    seconds: float = 0.0
    """How long it lasts; infinite where it is for good."""
    others: tuple[str, ...] = ()
    """Whom a network's fault is between ``machine`` and."""
    amount: float = 0.0
    after: float = 0.0
    """Seconds between its moment and it."""

    def __str__(self) -> str:
        when = f"at {self.at:.3f} s" if not self.count else f"at {self.event or 'step'} {self.count}"
        facts = [self.kind, self.machine, f"{self.after:.3g} s after {when[3:]}" if self.after else when]
        facts += [f"for {self.seconds:.3g} s"] if self.seconds else []
        facts += [f"with {', '.join(self.others)}"] if self.others else []
        facts += [f"amount {self.amount:.4g}"] if self.amount else []
        return " ".join(facts)


@dataclass(frozen=True)
class Plan:
    seed: int
    hosts: int
    awaited: int
    """deployment.hosts: 0 takes those that come."""
    settings: tuple[str, ...]
    latency: float
    jitter: float
    pieces: float
    detours: float
    disasters: tuple[Disaster, ...]
    skews: tuple[tuple[str, float], ...]
    detour: float = DETOUR
    """How many times as long a detour is."""
    adversaries: str = ""
    """The scenario's, as TOML."""

    @property
    def names(self) -> list[str]:
        return [*SINGLES, *self.host_names]

    @property
    def host_names(self) -> list[str]:
        return [f"users-{number + 1}" for number in range(self.hosts)]

    @property
    def scenario(self) -> Scenario:
        return _parsed(self.adversaries, self.settings)

    @property
    def relayed(self) -> bool:
        return EXCHANGES[self.scenario.mechanism.exchange].relayed

    @property
    def slowest(self) -> float:
        """Seconds that bytes may take from one machine to another without any disaster."""
        return (self.latency + self.jitter) * (self.detour if self.detours else 1.0)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        found: dict[str, Any] = json.loads(text)
        disasters = tuple(Disaster(**{**each, "others": tuple(each["others"])}) for each in found["disasters"])
        skews = tuple((name, offset) for name, offset in found["skews"])
        return cls(**{**found, "disasters": disasters, "skews": skews, "settings": tuple(found["settings"])})

    def without(self, *places: int) -> Plan:
        kept = tuple(each for place, each in enumerate(self.disasters) if place not in places)
        return replace(self, disasters=kept)


@lru_cache(maxsize=8)
def _parsed(adversaries: str, settings: tuple[str, ...]) -> Scenario:
    return parse_scenario(adversaries, "simulated", settings)


def draw(seed: int) -> Plan:
    chance = random.Random(f"plan/{seed}")
    hosts = chance.choice((1, 2, 2, 3, 3, 4, 5))
    awaited = chance.choice((hosts, hosts, hosts, 0))
    size, groups = chance.choice((4, 6, 8)), chance.choice((1, 2, 3))
    groups = max(groups, 2) if size < hosts else groups  # no host without a user
    more = random.Random(f"more/{seed}")  # what came later draws from a stream of its own
    if more.random() < 0.15:  # a cluster whose users are each at a host of her own
        hosts = awaited = size = more.choice((4, 5, 6))
        groups = 1
    settings = [
        "data.name=synthetic",
        f"data.users={size * groups}",
        f"data.groups={groups}",
        f"data.labels={chance.choice((2, 2, 3))}",
        f"clusters.method={chance.choice(('given', 'given', 'kmeans'))}",
        f"clusters.count={groups}",
        "clusters.minimum_size=3",
        f"mechanism.theta={chance.choice((1.0, 0.7))}",
        f"mechanism.noise={chance.choice(('sticky', 'sticky', 'fresh'))}",
        f"mechanism.rounds={chance.choice((1, 1, 2, 3))}",
        f"coins.source={chance.choice(('system', 'system', 'seeded'))}",
        f"coins.seed={chance.randrange(4)}",
        "data.seed=0",
        "privacy.delta=0.01",
        "network.hello_limit=20",
        f"network.round_limit={chance.choice((10, 20))}",
        "deployment.away_limit=15",
        "deployment.settle=3",
        f"deployment.hosts={awaited}",
    ]
    settings += ["mechanism.epsilon=1.5"] if chance.random() < 0.15 else ["mechanism.alpha=0.2"]
    settings += ["defences.check_assignment=true"] if chance.random() < 0.15 else []
    mixed = more.random() < 0.25
    if mixed:
        relays = f"mechanism.relays={more.choice((1, 2, 2, 3))}"
        settings += ["mechanism.exchange=mixed", relays, f"network.round_limit={more.choice((20, 60))}"]
    adversaries = _adversaries(more, mixed, "clusters.method=kmeans" in settings, size * groups)
    latency, jitter = chance.choice((0.0005, 0.005, 0.05)), chance.choice((0.0, 0.01, 0.2))
    plan = Plan(
        seed,
        hosts,
        awaited,
        tuple(settings),
        latency,
        jitter,
        pieces=chance.choice((0.0, 0.0, 0.3)),
        detours=chance.choice((0.0, 0.3)),
        disasters=(),
        skews=(),
        detour=min(DETOUR, LONGEST / (latency + jitter)),
        adversaries=adversaries,
    )
    possible = [kind for kind in KINDS if chance.random() < _RARE.get(kind, 0.35)]
    if not possible:
        return plan
    count = min(int(chance.expovariate(0.25)), 14)
    disasters = [_disaster(chance, chance.choice(possible), plan) for _ in range(count)]
    for _ in range(more.choice((0, 0, 1, 2))):
        disasters += _series(more, possible, plan)
    if mixed:
        disasters += _at_relays(random.Random(f"relays/{seed}"), possible, plan)
    skews = []
    if "clock_skew" in possible:
        skews = [(name, chance.choice((-7200.0, -30.0, 5.0, 3000.0, 86400.0))) for name in plan.names]
    return replace(plan, disasters=tuple(each for each in disasters if each.kind != "clock_skew"), skews=tuple(skews))


def _adversaries(chance: random.Random, mixed: bool, claimed: bool, users: int) -> str:
    """Of the scenario, as TOML; features can be ``claimed`` where clusters come of them."""
    if chance.random() > (0.4 if mixed else 0.2):
        return ""
    kinds = ["collusion", "liars", "silent", "two_faced", "fresh_answers", *(["sybils"] * 3 if claimed else [])]
    kind = chance.choice(["collusion", "no_go", *["crooked_relays"] * 4] if mixed else kinds)
    lines = ["[[adversaries]]", f'kind = "{kind}"', f"fraction = {0.5 if kind == 'crooked_relays' else 0.25}"]
    if kind in ("crooked_relays", "sybils"):
        lines.append(f"victim = {chance.randrange(users)}")
    if kind == "crooked_relays":
        lines.append(f'way = "{chance.choice(WAYS)}"')
    return "\n".join(lines) + "\n"


def _series(chance: random.Random, possible: list[str], plan: Plan) -> list[Disaster]:
    """One misfortune after another on one machine, within moments: what each of them alone does not bring about."""
    if chance.random() < 0.3:
        return _recipe(chance, plan)
    kinds = [kind for kind in possible if kind not in AT_NO_MOMENT]
    if not kinds:
        return []
    first = _disaster(chance, chance.choice(kinds), plan)
    found, after = [first], 0.0
    for _ in range(chance.choice((1, 2, 2, 3))):
        after += chance.expovariate(1 / (0.05 + 10 * plan.latency))
        drawn = _disaster(chance, chance.choice(kinds), plan)
        moment = {"at": first.at, "event": first.event, "count": first.count, "after": after}
        found.append(_moved(drawn, first.machine, plan, **moment))
    return found


def _at_relays(chance: random.Random, possible: list[str], plan: Plan) -> list[Disaster]:
    """What happens to a host when a relay of its enters a stage, beside everything else that a seed draws: on some
    hosts, since nobody knows beforehand whose users the relays are."""
    kinds = [kind for kind in possible if kind not in AT_NO_MOMENT]
    if not kinds or chance.random() < 0.4:
        return []
    found = []
    for machine in chance.sample(plan.host_names, min(plan.hosts, 3)):
        drawn = _disaster(chance, chance.choice(kinds), plan)
        count = chance.choice((1, 1, 1, 2))
        found.append(_moved(drawn, machine, plan, event=chance.choice(STAGES), count=count))
    return found


def _moved(drawn: Disaster, machine: str, plan: Plan, **moment: Any) -> Disaster:
    """The same at another moment on another machine, which nothing separates from itself."""
    others = tuple(other for other in drawn.others if other != machine)
    if drawn.others and not others:
        others = tuple(name for name in plan.names if name != machine)
    return replace(drawn, machine=machine, others=others, **moment)


def _recipe(chance: random.Random, plan: Plan) -> list[Disaster]:
    """Series that catch a machine with much that has come and is not on its disk, or was said and is not heard."""
    found: list[Disaster] = []
    for kind in chance.choice(RECIPES):
        drawn = _disaster(chance, kind, plan)
        first = found[0] if found else drawn
        after = found[-1].after + chance.expovariate(1 / (0.2 + 20 * plan.latency)) if found else 0.0
        others = tuple(name for name in plan.names if name != first.machine) if drawn.others else ()
        amount = SLOWEST if kind == "slow_disk" else drawn.amount
        found.append(replace(first, kind=kind, seconds=drawn.seconds, others=others, amount=amount, after=after))
    return found


def _disaster(chance: random.Random, kind: str, plan: Plan) -> Disaster:
    # A coordinator, a learner or an auditor that is lost for good ends the run: more of it shows where that is rare.
    machine = chance.choice(plan.host_names if kind in FINAL and chance.random() < 0.9 else plan.names)
    role = machine.partition("-")[0]
    at, event, count = chance.expovariate(1 / (1 + 200 * plan.latency)), "", 0
    how = chance.random()
    if how < 0.45:
        count = 1 + int(chance.expovariate(0.02))
    elif how < 0.75:
        event, count = chance.choice(EVENTS[role]), chance.choice((1, 1, 2))
    elif how < 0.88:
        event, count = "sends", chance.randrange(1, 20)
    elif how < 0.94:
        event, count = "syncs", chance.randrange(1, 25)
    seconds = {
        "kill": chance.choice((0.01, 0.5, 3.0, 12.0)),
        "power": chance.choice((0.5, 3.0, 12.0)),
        "wipe": 0.5,
        "gone": math.inf,
        "late": chance.choice((1.0, 5.0, 20.0)),
        "freeze": chance.choice((0.5, 4.0, 11.0, 25.0)),
        "cut": chance.choice((0.2, 3.0, 11.0, 25.0, 70.0)),
        "slow_path": chance.choice((5.0, 30.0)),
        "slow_disk": chance.choice((3.0, 30.0)),
        "full_disk": chance.choice((1.0, 8.0)),
        "failing_disk": 0.5,
    }.get(kind, 0.0)
    others: tuple[str, ...] = ()
    if kind in ("cut", "reset", "half_open", "slow_path"):
        rest = [name for name in plan.names if name != machine]
        others = tuple(sorted(chance.sample(rest, chance.choice((1, 1, 2, len(rest))) if len(rest) > 1 else 1)))
    amount = {
        "cut": chance.choice((0.0, 1.0, 2.0)),  # both ways, from the machine, to it
        "slow_path": chance.choice((200.0, 2000.0)),
        "slow_disk": chance.choice((0.05, 0.7, SLOWEST)),
        "full_disk": float(chance.choice((0, 100, 2000))),
        "clock_jump": chance.choice((-3600.0, -2.0, 2.0, 3600.0)),
        "half_open": chance.choice((OPENED, chance.uniform(0.0, 0.05 + 8 * plan.latency + 5 * plan.jitter))),
    }.get(kind, 0.0)
    if kind in TRAITORS and role != "users":
        machine = plan.host_names[0]
    if kind == "late":
        at, event, count = 0.0, "", 0
    return Disaster(kind, machine, at, event, count, seconds, others, amount)
