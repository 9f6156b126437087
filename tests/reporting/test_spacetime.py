"""The space-time diagram: what faults and adversaries look like in it, and that it shows what happened in the run."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest
from small import SIXTY, sixty

from p2p_labeldp.experiments.run import run
from p2p_labeldp.reporting.exchanges import Exchange, exchanges
from p2p_labeldp.reporting.fates import Fates
from p2p_labeldp.reporting.messages import diagram
from p2p_labeldp.reporting.recorded import Recorded, read_run
from p2p_labeldp.reporting.spacetime import BLOCK, BREAK, ROW, Moments
from p2p_labeldp.reporting.traffic import Traffic, read_traffic

DISTURBED = """
[[faults]]
rule = "loss"
probability = 0.2
[[faults]]
rule = "partition"
fraction = 0.4
start = 0.25
end = 6.0
[[faults]]
rule = "crash"
fraction = 0.2
at = 0.35
restart = 2.0
[[faults]]
rule = "crash"
users = [7]
at = 0.15
[[faults]]
rule = "slow"
fraction = 0.1
seconds = 0.4
[[adversaries]]
kind = "liars"
fraction = 0.2
"""
TIMED = ("network.latency=0.1", "network.jitter=0.05", "network.hello_limit=20", "network.round_limit=20")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    out: Path = tmp_path_factory.mktemp("runs") / "run"
    run(sixty(*TIMED, text=SIXTY + DISTURBED), out=out)
    return read_run(out)


@pytest.fixture(scope="module")
def traffic(recorded: Recorded) -> Traffic:
    assert recorded.trace is not None
    return read_traffic(recorded.trace, recorded.summary.users)


@pytest.fixture(scope="module")
def drawn(recorded: Recorded, traffic: Traffic) -> list[tuple[Exchange, ElementTree.Element, str]]:
    found = []
    for exchange in exchanges(recorded.known, traffic):
        figure = diagram(recorded.known, traffic, exchange)
        found.append((exchange, ElementTree.fromstring(str(figure.drawing)), figure.caption))
    return found


def classed(drawing: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [each for each in drawing.iter() if name in each.get("class", "").split()]


def test_what_became_of_every_message_is_what_the_run_has_counted(recorded: Recorded, traffic: Traffic) -> None:
    fates = Fates(recorded.scenario, recorded.summary.users)
    again = never = 0
    answered: dict[tuple[int, int, int], float] = {}
    waited: list[float] = []
    for place in range(len(traffic)):
        message = traffic[place]
        if message.kind == "refusal":
            continue
        fate, sent = fates.of(message), message.time
        route = message.receiver, message.sender, message.round
        again += bool(fate.lost) and fate.arrives is not None
        never += fate.arrives is None and message.sender != message.receiver
        assert all(sent <= time and (fate.arrives is None or time < fate.arrives) for time in fate.lost)
        if message.kind == "ask" and fate.arrives is not None:
            answered[route] = fate.arrives
        elif message.kind == "answer":
            waited.append(sent - answered.pop((message.sender, message.receiver, message.round)))
    delivery = recorded.summary.delivery
    assert delivery is not None
    assert (again, never) == (delivery["sent_again"], delivery["lost_for_good"])
    assert again > 20
    # Answered when it came, but by those who had not heard of the round yet.
    assert min(waited) > -1e-9
    assert sum(seconds < 1e-9 for seconds in waited) > len(waited) / 2


def test_users_who_are_cut_off_stand_in_the_shade_and_lines_of_those_who_are_down_are_dotted(
    drawn: list[tuple[Exchange, ElementTree.Element, str]],
) -> None:
    for exchange, drawing, caption in drawn:
        for cut_off, name, words in ((True, "cut", "in the shade are cut off"), (False, "down", "is dotted")):
            absent = [each for each in exchange.absences if each.cut_off == cut_off]
            titles = [next(iter(each)).text or "" for each in classed(drawing, name)]
            assert len(titles) == len(absent)
            assert all(f"user {each.user} is " in title for each, title in zip(absent, titles, strict=True))
            assert (words in caption) == bool(absent)
    absences = [each for exchange, _, _ in drawn for each in exchange.absences]
    assert {each.cut_off for each in absences} == {True, False}
    assert {(each.since, each.until) for each in absences if each.cut_off} == {(0.25, 6.0)}
    assert {each.until for each in absences if each.user == 7 and not each.cut_off} <= {2.35, math.inf}


def test_lost_attempts_are_stubs_and_those_who_lie_have_a_sign(
    recorded: Recorded, drawn: list[tuple[Exchange, ElementTree.Element, str]]
) -> None:
    liars = set(recorded.summary.adversaries[0].members)
    assert liars
    for exchange, drawing, caption in drawn:
        lost = [arrow for arrow in exchange.arrows if arrow.lost]
        assert len(classed(drawing, "attempt")) >= len(lost)
        assert all("lost attempt" in arrow.words or "lost for good" in arrow.words for arrow in lost)
        wrong = sorted(liars & set(exchange.users))
        assert len(classed(drawing, "wrong")) == len(wrong)
        assert all(f"{user} (liars)" in caption for user in wrong)
    assert any(arrow.lost for exchange, _, _ in drawn for arrow in exchange.arrows)


def test_time_is_broken_where_nothing_happens_and_goes_on_between() -> None:
    moments = Moments([0.0, 0.0, 1.0, 2.0, 3.0, 30.0, 31.0], 100.0)
    steps = [later - earlier for earlier, later in zip(moments.rows, moments.rows[1:], strict=False)]
    assert steps == [ROW, BLOCK, BLOCK, BLOCK, BREAK, BLOCK]
    ((height, pause),) = moments.breaks
    assert pause == 27.0
    assert moments.rows[4] < height < moments.rows[5]
    heights = [moments.height(time) for time in (0.5, 1.5, 4.0, 16.5, 29.0, 30.5, math.inf)]
    assert heights == sorted(heights)
    assert heights[3] == pytest.approx(moments.rows[4] + BREAK / 2)
    assert heights[-1] == moments.bottom
    assert Moments([1.0, 2.0, 3.0], 0.0).breaks == []
