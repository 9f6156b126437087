"""Runs in which users fall silent or are late: honest ones pass, and what the missing say is still checked.

Each run is audited as it was simulated, and told as a deployment in several orders.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from recorded import (
    as_deployment,
    broken,
    edit_summary,
    forget_the_seed,
    read_trace,
    recount,
    timed_anew,
    violations,
    write_trace,
)
from small import sixty

from p2p_labeldp.engines.actors import Simulation
from p2p_labeldp.experiments.run import run
from p2p_labeldp.protocol.host import Host
from p2p_labeldp.protocol.messages import (
    LEARNER,
    VERSION,
    Answer,
    Ask,
    Assignment,
    Done,
    Features,
    Goodbye,
    Message,
    Outgoing,
    Report,
    Round,
)
from p2p_labeldp.protocol.user import User
from p2p_labeldp.scenario import Scenario

Record = list[Any]
NOBODY = 10**9
pytestmark = pytest.mark.usefixtures("rules_alone")


class Muffled(User):
    """Does not hear some kinds of messages, or does not get some of her own out."""

    __slots__ = ("_deaf", "_mute")

    def __init__(self, id_: int, label: int, host: Host, deaf: Sequence[type] = (), mute: Sequence[Any] = ()) -> None:
        super().__init__(id_, label, host)
        self._deaf, self._mute = deaf, mute

    def receive(self, sender: int, message: Message) -> Sequence[Outgoing]:
        if type(message) in self._deaf:
            return ()
        return [
            pair
            for pair in super().receive(sender, message)
            if type(pair[1]) not in self._mute and pair[1] not in self._mute
        ]


class GoesMissing(Muffled):
    """Is done with the first round alone; in the next her word to the coordinator never leaves."""

    __slots__ = ()

    def __init__(self, id_: int, label: int, host: Host) -> None:
        super().__init__(id_, label, host, mute=(Done(1, "reported"), Done(1, "dropped")))


class Late(User):
    """Says nothing, of some kinds, before she hears that the round is over; then she says it all."""

    __slots__ = ("_held", "kinds")

    def __init__(self, id_: int, label: int, host: Host, *kinds: type) -> None:
        super().__init__(id_, label, host)
        self.kinds = kinds
        self._held: list[Outgoing] = []

    def receive(self, sender: int, message: Message) -> Sequence[Outgoing]:
        held = []
        if type(message) in (Round, Goodbye):
            held, self._held = self._held, []
        out = super().receive(sender, message)
        self._held += [pair for pair in out if type(pair[1]) in self.kinds]
        return [*held, *(pair for pair in out if type(pair[1]) not in self.kinds)]


Make = Callable[[int, int, Host], User]
AFTER_ASKING = (Ask, Answer, Round)
ABSENCES: dict[str, Make] = {
    "answers nobody": lambda *user: Muffled(*user, deaf=[Ask]),
    "never begins": lambda *user: Muffled(*user, deaf=[Assignment]),
    "stops after asking": lambda *user: Muffled(*user, deaf=AFTER_ASKING),
    "is never done": lambda *user: Muffled(*user, mute=[Done]),
    "asks late": lambda *user: Late(*user, Ask),
    "answers late": lambda *user: Late(*user, Answer),
    "never reports": lambda *user: Muffled(*user, mute=[Report]),
    "is done late": lambda *user: Late(*user, Done),
    "is late with everything": lambda *user: Late(*user, Ask, Answer, Done),
}


def with_users(users: dict[int, Make]) -> Callable[[Simulation], None]:
    def prepare(simulation: Simulation) -> None:
        for user, make in users.items():
            simulation.users[user] = make(user, int(simulation.population.labels[user]), simulation.host)

    return prepare


def scenario(*settings: str, seed: int | None = None) -> Scenario:
    return sixty("data.users=40", "data.groups=2", "network.latency=0.25", *settings, seed=seed)


@pytest.fixture
def told(tmp_path: Path) -> Callable[..., list[Path]]:
    """Run folders of one run: as it was simulated, and as a deployment in several orders."""

    def tell(users: dict[int, Make], *settings: str, seed: int | None = None, hosting: str = "user") -> list[Path]:
        out = tmp_path / f"run-{seed}-{hosting}"
        chosen = scenario(*settings, seed=seed)
        run(chosen, out=out, prepare=with_users(users), hosting=hosting)
        latency = chosen.network.latency
        return [out, *(as_deployment(out, tmp_path / f"{out.name}-{order}", order, latency) for order in range(2))]

    return tell


@pytest.mark.parametrize("absence", ABSENCES)
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param([], id="sticky"),
        pytest.param(["mechanism.noise=fresh", "coins.source=system", "network.jitter=2"], id="fresh and jittered"),
        pytest.param(["network.latency=0", "mechanism.rounds=1"], id="one round"),
    ],
)
def test_honest_runs_with_missing_users_pass(
    absence: str, settings: list[str], told: Callable[..., list[Path]]
) -> None:
    for hosting in ("user",) if settings else ("user", "cluster"):
        for folder in told({3: ABSENCES[absence], 8: ABSENCES[absence]}, *settings, hosting=hosting):
            assert violations(folder) == []


@pytest.mark.parametrize("seed", range(4))
def test_they_pass_when_users_go_missing_in_every_way_at_once(seed: int, told: Callable[..., list[Path]]) -> None:
    users = {user * 4 + seed % 4: make for user, make in enumerate(ABSENCES.values())}
    settings = ["network.jitter=1"] if seed % 2 else []
    simulated, *others = told(users, *settings, seed=seed)
    assert json.loads((simulated / "summary.json").read_text())["missing"]
    for folder in (simulated, *others):
        assert violations(folder) == []


def test_late_messages_are_really_in_the_traces(told: Callable[..., list[Path]]) -> None:
    ways = ("asks late", "answers late", "answers late", "is done late", "is done late")
    folder = told({4 * place: ABSENCES[way] for place, way in enumerate(ways)})[0]
    records = read_trace(folder)[1]
    closed = next(place for place, record in enumerate(records) if record[4][:2] == ["closed", 0])
    late = Counter(record[4][0] for record in records[closed:] if record[4][1:2] == [0])
    assert {"ask", "answer", "done"} <= set(late)
    refused = {record[4][2] for record in records if record[4][0] == "refusal"}
    assert {"ask", "answer", "done"} <= refused


@pytest.fixture
def two_never_came(tmp_path: Path) -> Path:
    """Users 3 and 8 never said hello: what the simulation makes of their hellos to nobody is struck out."""

    return without_hellos(tmp_path / "run", 3, 8)


class Absent(User):
    """Says hello to nobody."""

    __slots__ = ()

    def hello(self, features: Features) -> Outgoing:
        return NOBODY, super().hello(features)[1]


def without_hellos(out: Path, *users: int) -> Path:
    """A run to which these users never came."""
    run(scenario(), out=out, prepare=with_users(dict.fromkeys(users, Absent)))
    header, records = read_trace(out)
    records = [record for record in records if NOBODY not in record[2:4]]
    recount(out, header, [[number, *record[1:]] for number, record in enumerate(records)])
    return out


def test_users_who_never_say_hello_are_not_missed(two_never_came: Path, tmp_path: Path) -> None:
    for folder in (two_never_came, as_deployment(two_never_came, tmp_path / "deployed", latency=0.25)):
        assert violations(folder) == []


@pytest.mark.parametrize("refused", [True, False])
def test_a_hello_that_comes_too_late_may_stand_anywhere_in_a_deployment(
    refused: bool, two_never_came: Path, tmp_path: Path
) -> None:
    folder = as_deployment(two_never_came, tmp_path / "deployed", latency=0.25)
    header, records = read_trace(folder)
    features = next(record[4][2] for record in records if record[4][0] == "hello")
    hello = [0, 0.0, 3, -1, ["hello", VERSION, features]]
    refusal = [0, 0.0, -1, -3, ["refusal", 3, "hello", "out_of_order", "user 3 says hello late"]]
    for place in (0, len(records) // 2, len(records)):
        late = [*records[:place], hello, *records[place:], *([refusal] if refused else [])]
        recount(folder, header, timed_anew(late))
        assert violations(folder) == []
    assigned = [0, 0.0, -1, 3, ["assignment", 0, 19, 0]]
    recount(folder, header, timed_anew([*late, assigned]))
    assert broken(folder) == {"assigned_once"}


def test_a_run_to_which_nobody_came_passes(tmp_path: Path) -> None:
    out = without_hellos(tmp_path / "run", *range(40))
    for folder in (out, as_deployment(out, tmp_path / "deployed")):
        assert violations(folder) == []


# Who is missing.


def test_only_users_on_the_list_may_be_missing_and_all_on_it_must_be(told: Callable[..., list[Path]]) -> None:
    for folder in told({3: ABSENCES["stops after asking"], 8: ABSENCES["is never done"]}):
        missing = json.loads((folder / "summary.json").read_text())["missing"]
        assert {3, 8} <= set(missing)
        for user in missing:
            edit_summary(folder, missing=[other for other in missing if other != user])
            assert "closed" in broken(folder)
        # What the coordinator counted leaves room for those, not for everyone.
        edit_summary(folder, missing=list(range(40)))
        assert "summary" in broken(folder)


def test_a_list_of_reporters_that_the_coordinator_did_not_hear_of_is_caught(told: Callable[..., list[Path]]) -> None:
    for folder in told(dict.fromkeys((3, 8, 9), ABSENCES["is done late"])):
        header, records = read_trace(folder)
        closed = next(record for record in records if record[4][0] == "closed")
        counted = closed[4][3]
        for bit in range(8):
            closed[4][3] = bytes([counted[0] ^ 1 << bit, *counted[1:]])
            write_trace(folder, header, records)
            assert broken(folder) & {"closed", "summary", "report_after_close"}


# Dishonest users who go missing.


def lying(kind: type[User], says: Callable[[User, int, Any], Sequence[tuple[int, Any]]], *facts: Any) -> Make:
    """A user of some kind; what ``says(user, to, message)`` gives is said in place of each message."""

    class Liar(kind):  # type: ignore[valid-type, misc]
        __slots__ = ()

        def receive(self, sender: int, message: Message) -> Sequence[Outgoing]:
            return [said for pair in super().receive(sender, message) for said in says(self, *pair)]

    return lambda *user: Liar(*user, *facts)


def otherwise(message: Any) -> Any:
    return type(message)(message.round, (message.label + 1) % 3)


def misreports(_: User, to: int, message: Any) -> Sequence[tuple[int, Any]]:
    return [(to, otherwise(message) if to == LEARNER else message)]


def asks_outside(user: User, to: int, message: Any) -> Sequence[tuple[int, Any]]:
    """The next user of another cluster, who refuses."""
    other = next(each for each in range(40) if each not in user._roster)
    return [(other if type(message) is Ask else to, message)]


def asks_everyone(user: User, to: int, message: Any) -> Sequence[tuple[int, Any]]:
    """So as to hear more than one answer, and goes missing."""
    return [(to, message), *((peer, Ask(0)) for peer in user._roster if type(message) is Ask)]


def says_something_else_to_every_other(_: User, to: int, message: Any) -> Sequence[tuple[int, Any]]:
    return [(to, otherwise(message) if type(message) is Answer and to % 2 else message)]


def reports_again(_: User, to: int, message: Any) -> Sequence[tuple[int, Any]]:
    """In the next round as well, in which she does not count, before it is closed."""
    again = type(message) is Report and message.round == 0
    return [(to, message), *([(to, Report(1, message.label))] if again else [])]


@pytest.mark.parametrize(
    ("liar", "invariant"),
    [
        (lying(GoesMissing, misreports), "report_is_answer"),
        (lying(Late, misreports, Report), "report_is_answer"),
        (lying(User, asks_outside), "asked_inside_cluster"),
        (lying(Muffled, asks_everyone, AFTER_ASKING), "asked_once"),
        (lying(GoesMissing, says_something_else_to_every_other), "same_answer"),
        (lying(GoesMissing, reports_again), "report_after_close"),
    ],
)
@pytest.mark.parametrize("seed_is_known", [True, False])
def test_what_a_missing_user_says_is_checked_all_the_same(
    liar: Make, invariant: str, seed_is_known: bool, told: Callable[..., list[Path]]
) -> None:
    """Where the seed is known its coins may give her away first."""
    liars = dict.fromkeys((3, 8, 9, 20, 21, 30), liar)
    for folder in told(liars, "mechanism.theta=1"):
        missing = json.loads((folder / "summary.json").read_text())["missing"]
        assert set(liars) <= set(missing)
        if not seed_is_known:
            forget_the_seed(folder)
        found = broken(folder)
        assert invariant in found or (seed_is_known and "coins" in found)


def test_late_answers_must_agree_too(told: Callable[..., list[Path]]) -> None:
    """Of a user's answers that came too late, and were refused for it, one is made another label."""
    late = (3, 8, 9)
    for folder in told(dict.fromkeys(late, ABSENCES["answers late"])):
        forget_the_seed(folder)
        header, records = read_trace(folder)
        answers = [record for record in records if record[4][0] == "answer"]
        spoken = Counter(record[2] for record in answers)
        refused = {(record[4][1], record[2]) for record in records if record[4][0] == "refusal"}
        changed = next(a for a in answers if a[2] in late and spoken[a[2]] > 1 and (a[2], a[3]) in refused)
        changed[4][2] = (changed[4][2] + 1) % 3
        write_trace(folder, header, records)
        assert "same_answer" in broken(folder)
