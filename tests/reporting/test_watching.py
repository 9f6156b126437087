"""A run that is watched: the same outcome, never held up but by whoever asked for it, and shown to nobody else."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from processes import until
from small import SECRETS, TWO_LABELS, study

from p2p_labeldp.audit.runs import audit_runs
from p2p_labeldp.experiments.run import run
from p2p_labeldp.protocol.auditor import BATCH
from p2p_labeldp.reporting.watching import gate as gates
from p2p_labeldp.reporting.watching.deployed import WatchedDeployment, expected
from p2p_labeldp.reporting.watching.gate import Gate
from p2p_labeldp.reporting.watching.server import MAX_HEAD, WatchServer
from p2p_labeldp.reporting.watching.simulated import WatchedSimulation
from p2p_labeldp.scenario import Scenario, load_scenario, parse_scenario

PATIENCE = 60.0  # seconds for anything at all
FAULTS = (
    '[[faults]]\nrule = "loss"\nprobability = 0.2\n[[faults]]\nrule = "crash"\nusers = [3]\nat = 0.2\nrestart = 1.0\n'
)
SLOW = "[network]\nlatency = 0.1\n"


# The gate.


def test_nobody_waits_at_a_gate_that_nobody_has_closed() -> None:
    assert Gate().through(lambda: pytest.fail("it waited")) == BATCH


@contextmanager
def passing(gate: Gate) -> Iterator[list[int]]:
    """A simulation's thread: what it is let through with, one after the other."""
    counts: list[int] = []
    over = threading.Event()

    def go() -> None:
        while not over.is_set() and len(counts) < 100_000:
            counts.append(gate.through())

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield counts
    finally:
        over.set()
        gate.release()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_a_step_lets_one_message_through_and_play_all_of_them() -> None:
    gate = Gate(paused=True)
    gate.page_opened()
    with passing(gate) as counts:
        assert gate.paused
        for steps in range(1, 4):
            gate.step()
            until(lambda steps=steps: len(counts) == steps)
        assert counts == [1, 1, 1]
        gate.step(lambda: len(counts) >= 20)
        until(lambda: gate.paused)
        assert counts == [1] * 20
        gate.play()
        assert until(lambda: counts[20:])[0] == BATCH


def test_a_pace_lets_so_many_messages_through_in_a_second() -> None:
    gate = Gate()
    gate.page_opened()
    gate.play(200.0)
    began = time.monotonic()
    with passing(gate) as counts:
        until(lambda: sum(counts) >= 100)
        took = time.monotonic() - began
    assert set(counts[:3]) == {20}  # a tenth of a second's at a time
    assert took >= 0.3  # never faster; how much slower is up to the machine


def test_whoever_closes_the_last_page_lets_a_paused_run_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "GRACE", 0.05)
    gate = Gate(paused=True)
    gate.page_opened()
    gate.page_opened()
    with passing(gate) as counts:
        gate.page_closed()
        time.sleep(0.2)
        assert counts == []
        gate.page_closed()
        assert until(lambda: counts[:1]) == [BATCH]


def test_a_run_that_began_paused_does_not_wait_for_ever_for_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "FIRST", 0.05)
    with passing(Gate(paused=True)) as counts:
        assert until(lambda: counts[:1]) == [BATCH]


# Watching changes nothing.


def small(*more: str) -> Scenario:
    return parse_scenario("\n".join((TWO_LABELS + "rounds = 2", *more)), seed=4)


@pytest.mark.parametrize("hosting", ["user", "cluster"])
@pytest.mark.parametrize("more", [(), (SLOW, FAULTS)], ids=["at once", "slow, with faults"])
def test_a_run_that_is_watched_and_stepped_through_is_the_same_bit_for_bit(
    tmp_path: Path, hosting: str, more: tuple[str, ...]
) -> None:
    scenario = small(*more)
    alone = run(scenario, hosting=hosting, out=tmp_path / "alone").summary
    watched = WatchedSimulation(scenario, "small", paused=True)
    watched.gate.page_opened()
    seen = []

    def person() -> None:
        for _ in range(5):  # at the first messages, then at each stage, then in the middle
            watched.gate.step()
            until(lambda: watched.gate.paused)
            seen.append(watched.state()["sent"])
        for reached in ((2, 1), (2, 2)):  # the exchange of the first round, then of the second
            watched.order({"do": "step", "to": "stage"})
            until(lambda reached=reached: (watched.state()["stage"], watched.state()["round"][0]) == reached)
            seen.append(watched.state()["sent"])
        watched.diagram(None)
        watched.order({"do": "play"})

    thread = threading.Thread(target=person)
    thread.start()
    finished = run(scenario, hosting=hosting, out=tmp_path / "watched", observer=watched)
    thread.join(PATIENCE)
    assert finished.summary.noisy_sha256 == alone.noisy_sha256
    assert finished.summary.messages_by_kind == alone.messages_by_kind
    assert finished.summary.outcomes_by_round == alone.outcomes_by_round
    assert finished.summary.virtual_seconds == alone.virtual_seconds
    assert audit_runs([tmp_path / "watched"]).passed
    assert len(seen) == 7
    assert seen == sorted(seen)


def test_guarantees_are_known_before_the_exchange_and_are_those_of_the_run_if_everyone_takes_part() -> None:
    watched = WatchedSimulation(small(), "small")
    finished = run(small(), observer=watched)
    expected = watched.state()["guarantees"]
    watched.finished(finished.summary, None)
    actual = watched.state()["guarantees"]
    assert expected["title"] == "Expected, if everyone takes part"
    assert expected["rows"] == actual["rows"]
    assert len(actual["rows"]) == len(finished.summary.privacy)


def test_a_page_is_told_of_stages_kinds_clusters_and_faults() -> None:
    watched = WatchedSimulation(small(SLOW, FAULTS), "small")
    finished = run(small(SLOW, FAULTS), observer=watched)
    watched.finished(finished.summary, None)
    state = watched.state()
    assert {kind: count for kind, _, count, _ in state["kinds"]} == finished.summary.messages_by_kind
    assert state["sent"] == finished.summary.messages
    assert state["users"] == [60, 60]
    assert (state["clusters"]["full"], state["clusters"]["all"]) == (3, 3)
    assert [done for _, done, size in state["clusters"]["each"] if done == size] == [20, 20, 20]
    assert [count for _, count in state["faults"]] == [fault.fired for fault in finished.summary.faults]
    assert state["away"] == (0, 1), "the one who crashed is back"
    assert state["delivery"] == finished.summary.delivery
    assert state["stage"] == len(watched.stages)
    assert json.dumps(state)
    drawing = watched.diagram(1)
    assert drawing is not None
    assert drawing["cluster"] == 1
    assert drawing["drawing"].count("<path") > 40
    assert watched.diagram(1) is drawing, "nothing new: not drawn again"


@pytest.mark.parametrize("kind", ["shuffle", "cluster_rr", "uniform_rr"])
def test_other_mechanisms_can_be_watched(kind: str) -> None:
    text = TWO_LABELS.replace("alpha = 0.2\ntheta = 0.7", f'kind = "{kind}"\nepsilon = 2')
    scenario = parse_scenario(text, seed=4)
    watched = WatchedSimulation(scenario, kind)
    finished = run(scenario, observer=watched)
    watched.finished(finished.summary, None)
    assert watched.state()["sent"] == finished.summary.messages
    assert watched.diagram(None) is not None


# The server.


@pytest.fixture
def watched() -> WatchedSimulation:
    return WatchedSimulation(small(), "a <b>name</b>")


@pytest.fixture
def server(watched: WatchedSimulation) -> Iterator[WatchServer]:
    with WatchServer(watched) as started:
        yield started


def ask(server: WatchServer, path: str = "", method: str = "GET", body: str = "", **headers: str) -> tuple[int, str]:
    """Status and text of the answer; ``_`` in a header's name stands for a hyphen."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    token = server.address.split("/")[3]
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, f"/{token}/{path}" if not path.startswith("/") else path, body, named)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_the_page_is_served_under_its_token_and_its_texts_are_escaped(server: WatchServer) -> None:
    status, page = ask(server)
    assert status == 200
    assert "a &lt;b&gt;name&lt;/b&gt;" in page
    assert "<b>name" not in page
    assert "http://" not in page.replace("http://www.w3.org", ""), "nothing is asked for elsewhere"


@pytest.mark.parametrize(
    ("path", "method", "headers", "status"),
    [
        pytest.param("/", "GET", {}, 404, id="no token"),
        pytest.param("/wrong/events", "GET", {}, 404, id="another token"),
        pytest.param("other", "GET", {}, 404, id="no such thing"),
        pytest.param("report", "GET", {}, 404, id="no report yet"),
        pytest.param("", "GET", {"Host": "evil.example"}, 421, id="a stranger's name for this host"),
        pytest.param("", "GET", {"Host": "127.0.0.1"}, 421, id="another port"),
        pytest.param("events", "GET", {"Origin": "http://evil.example"}, 403, id="from another page"),
        pytest.param("events", "GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}, 403, id="cross-site"),
        pytest.param("control", "GET", {}, 405, id="an order is posted"),
        pytest.param("", "POST", {}, 405, id="a page is not"),
        pytest.param("control", "POST", {"Content-Type": "text/plain"}, 415, id="as a form would be posted"),
        pytest.param("control", "POST", {"Content-Type": "application/json", "Origin": "null"}, 403, id="a sandbox"),
        pytest.param("", "GET", {"X-Long": "x" * (MAX_HEAD + 1)}, 431, id="too long a head"),
        pytest.param("control", "POST", {"Content-Length": "999999"}, 413, id="too long a body"),
        pytest.param("control", "POST", {"Content-Length": "-1"}, 400, id="no length"),
    ],
)
def test_whoever_was_not_given_the_address_gets_nothing(
    server: WatchServer, path: str, method: str, headers: dict[str, str], status: int
) -> None:
    given = {"Content-Length": "0"} | headers if method == "POST" else headers
    assert ask(server, path, method, **{name.replace("-", "_"): value for name, value in given.items()}) == (status, "")


def test_it_listens_on_loopback_alone(server: WatchServer) -> None:
    assert server.address.startswith("http://127.0.0.1:")
    assert server._socket.getsockname()[0] == "127.0.0.1"
    token = server.address.split("/")[3]
    assert len(token) >= 20
    with WatchServer(WatchedSimulation(small(), "other")) as other:
        assert token not in other.address


@pytest.mark.parametrize(
    ("order", "answer"),
    [
        ({"do": "pause"}, {}),
        ({"do": "play", "pace": 20}, {}),
        ({"do": "play", "pace": -1}, {"error": "pace must be a number from 0 to 1000"}),
        ({"do": "play", "pace": "fast"}, {"error": "pace must be a number from 0 to 1000"}),
        ({"do": "step", "to": "moon"}, {"error": "to must be stage or cluster"}),
        ({"do": "step", "to": "cluster", "cluster": 99}, {"error": "cluster must be one of those to choose from"}),
        ({"do": "step", "to": "cluster", "cluster": [1]}, {"error": "cluster must be one of those to choose from"}),
        ({"do": "harm"}, {"error": "do must be play, pause or step"}),
        ([], {"error": "an object is expected"}),
    ],
)
def test_orders_are_checked(server: WatchServer, order: object, answer: dict[str, str]) -> None:
    status, text = ask(server, "control", "POST", json.dumps(order), Content_Type="application/json")
    assert (status, json.loads(text)) == (200, answer)


def test_what_is_no_order_is_refused(server: WatchServer) -> None:
    assert ask(server, "control", "POST", "{", Content_Type="application/json")[0] == 400


@contextmanager
def page_of(server: WatchServer, query: str = "") -> Iterator[socket.socket]:
    """A page that has asked for events, and reads them or not."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        token = server.address.split("/")[3]
        request = f"GET /{token}/events{query} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n"
        connection.sendall(request.encode())
        until(lambda: server.pages)
        yield connection


def events_of(connection: socket.socket, name: str) -> Generator[dict[str, Any]]:
    with connection.makefile("r", encoding="utf-8") as lines:
        for line in lines:
            if line == f"event: {name}\n":
                yield json.loads(next(lines).removeprefix("data: "))


def test_a_page_hears_of_what_changes_and_of_the_end(server: WatchServer, watched: WatchedSimulation) -> None:
    with page_of(server) as connection, closing(events_of(connection, "state")) as states:
        assert next(states)["sent"] == 0
        finished = run(small(), observer=watched)
        watched.finished(finished.summary, None)
        last = next(state for state in states if state["ended"])
    assert last["sent"] == finished.summary.messages
    assert last["ended"]["accuracy"] == finished.summary.accuracy
    until(lambda: not server.pages)


def test_a_page_that_reads_nothing_holds_up_neither_the_run_nor_its_end(
    server: WatchServer, watched: WatchedSimulation
) -> None:
    with page_of(server) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        for _ in range(3):
            finished = run(small("[network]\njitter = 0.5\n"), observer=watched)
        began = time.monotonic()
        watched.finished(finished.summary, None)
        server.__exit__(None, None, None)
        assert time.monotonic() - began < PATIENCE / 2


# Labels of real people.


def test_of_data_that_do_not_ship_no_user_no_label_and_no_flip_is_shown(tmp_path: Path) -> None:
    scenario = load_scenario(study(tmp_path, ["x,label", *SECRETS]))
    watched = WatchedSimulation(scenario, "people", paused=True)
    watched.gate.page_opened()
    told = []

    def person() -> None:
        for _ in range(60):
            watched.gate.step()
            until(lambda: watched.gate.paused)
            told.append(json.dumps([watched.state(), watched.diagram(None), watched.diagram(0)]))
        watched.gate.play()

    thread = threading.Thread(target=person)
    thread.start()
    finished = run(scenario, observer=watched)
    watched.finished(finished.summary, None)
    thread.join(PATIENCE)
    told.append(json.dumps([watched.state(), watched.diagram(None)]))
    with WatchServer(watched) as server:
        told.append(ask(server)[1])
    assert len(told) > 20
    for text in told:
        assert "secretly" not in text
        assert '"choices": []' in text or "<html" in text
        assert "user 1" not in text
        assert "<svg" not in text
    state = json.loads(told[-2])[0]
    assert state["ended"]["nonprivate"] is None, "the exact accuracy of a model that saw every label"
    assert state["sent"] == finished.summary.messages
    last = [json.loads(text)[0]["last"] for text in told[:-2] if json.loads(text)[0]["last"]]
    assert any(": hello: a user joins" in line for line in last)


# A deployment.


def told_of_nodes(*events: tuple[str, dict[str, Any]]) -> WatchedDeployment:
    watched = WatchedDeployment(parse_scenario(TWO_LABELS), "deployment")
    for name, facts in events:
        watched.hear(name, facts)
    return watched


def test_of_a_node_a_page_tells_whether_it_is_up_down_or_cut_off_and_how_often_it_was_started_again() -> None:
    up: list[tuple[str, dict[str, Any]]] = [("users-1", {"event": "started"}), ("users-1", {"event": "listening"})]
    connected = ("users-1", {"event": "connected", "peer": "k", "name": "learner"})
    down: list[tuple[str, dict[str, Any]]] = [("users-1", {"event": "killed", "status": -9})]
    cut, mended = ("users-1", {"event": "cut"}), ("users-1", {"event": "mended"})
    left = ("users-1", {"event": "ended", "status": 0})
    shown = [
        (up, "up", 0, 0),
        ([*up, connected], "up", 1, 0),
        ([*up, connected, *down], "killed", 0, 0),
        ([*up, *down, up[0]], "starting", 0, 1),
        ([*up, *down, *up, *down, *up], "up", 0, 2),
        ([*up, cut], "cut off", 0, 0),
        ([*up, connected, cut, mended], "up", 1, 0),
        ([*up, left], "left", 0, 0),
        ([*up, ("users-1", {"event": "ended", "status": 3})], "ended", 0, 0),
    ]
    for events, *wanted in shown:
        state = told_of_nodes(*events).state()
        node = state["nodes"][0]
        assert [node["state"], node["connected"], node["restarts"]] == wanted, events
        assert state["up"] == (node["state"] == "up")


def test_counts_of_clusters_and_messages_are_put_together_from_lines() -> None:
    watched = told_of_nodes(
        ("coordinator", {"event": "filled", "first": 0, "clusters": "1/2 3/3", "done": 1, "total": 3}),
        ("coordinator", {"event": "filled", "first": 2, "clusters": "0/4", "done": 1, "total": 3}),
        ("coordinator", {"event": "filled", "first": 0, "clusters": "2/2 3/3", "done": 2, "total": 3}),
        ("auditor", {"event": "counted", "kind": "ask", "count": 7}),
        ("auditor", {"event": "counted", "kind": "hello", "count": 9}),
        ("auditor", {"event": "counted", "kind": "ask", "count": 8}),
    )
    state = watched.state()
    assert state["clusters"] == {"each": [[0, 2, 2], [1, 3, 3], [2, 0, 4]], "full": 2, "all": 3}
    assert [(kind, count) for kind, _, count, _ in state["kinds"]] == [("hello", 9), ("ask", 8)]
    assert state["sent"] == 17
    watched.told("exchange", 5, 9)
    assert watched.state()["users"] == (5, 9, "users done")
    watched.hear("coordinator", {"event": "exchanged", "missing": 2})
    assert watched.state()["users"] == (7, 9, "users done")


def test_a_connection_that_is_lost_is_told_until_everyone_hangs_up_anyway() -> None:
    connected = ("users-1", {"event": "connected", "peer": "k", "name": "learner"})
    lost = ("users-1", {"event": "disconnected", "peer": "k", "reason": "the peer hung up"})
    watched = told_of_nodes(connected, lost)
    (event,) = watched.state()["events"]
    assert event[1:] == ("users-1 lost its connection to learner: the peer hung up", True)
    watched.told("over", 0, 0)
    watched.hear(*connected)
    watched.hear(*lost)
    assert len(watched.state()["events"]) == 1


def test_the_guarantees_that_are_expected_of_a_deployment_are_those_of_its_run() -> None:
    scenario = parse_scenario(TWO_LABELS)
    table = run(scenario, engine="vectorized").summary.privacy
    found = expected(scenario, None)
    assert found is not None
    assert {view: guarantee.epsilon for view, guarantee in found.items()} == {
        view: guarantee.epsilon for view, guarantee in table.items()
    }
    liars = TWO_LABELS + '[[adversaries]]\nkind = "liars"\nfraction = 0.1\n'
    assert expected(parse_scenario(liars), None) is None
