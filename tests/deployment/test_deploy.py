"""``deploy`` from its command line to its folder, and nodes that cannot begin: what they say and how they end."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import Fleet, Machine, Watch, audited, fleet, nodes_of, until
from small import ONE_CLUSTER

from p2p_labeldp.cli import main
from p2p_labeldp.deployment.journal import FILE
from p2p_labeldp.deployment.logs import FACTS
from p2p_labeldp.scenario import parse_scenario, replace

CLASSES = ("zebrafish", "quicksilver")
SMALL = parse_scenario(ONE_CLUSTER, overrides=["data.users=60"])
NULL = (
    "hosting",
    "nonprivate_accuracy",
    "majority_accuracy",
    "nonprivate_metrics",
    "majority_metrics",
    "phi",
    "psi",
    "virtual_seconds",
)


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario of forty people whose labels are words that appear nowhere else."""
    folder = tmp_path_factory.mktemp("words")
    rows = "".join(f"{n % 7},{n % 3},{CLASSES[n % 5 < 2]}\n" for n in range(50))
    (folder / "people.csv").write_text("height,age,creature\n" + rows, encoding="utf-8")
    path = folder / "words.toml"
    path.write_text(
        f"""
[coins]
seed = 0
[data]
name = "csv"
path = "{folder / "people.csv"}"
label_column = "creature"
[clusters]
count = 1
minimum_size = 5
[mechanism]
alpha = 0.2
theta = 0.8
rounds = 2
""",
        encoding="utf-8",
    )
    return path


@pytest.fixture(scope="module")
def expected(words: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What ``run`` makes of it."""
    out = tmp_path_factory.mktemp("expected") / "run"
    assert main(["run", str(words), "--out", str(out)]) == 0
    found: dict[str, Any] = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders go, so that those left behind are seen."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


# The whole deployment.


@pytest.mark.parametrize("hosts", [2, *(pytest.param(hosts, marks=pytest.mark.slow) for hosts in (1, 4))])
def test_any_number_of_hosts_gives_what_run_gives_and_no_label_shows(
    hosts: int,
    words: Path,
    expected: dict[str, Any],
    tmp_path: Path,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "run"
    monkeypatch.setenv("P2P_LABELDP_STATE", "/nowhere")  # of the caller, and none of the nodes' business
    with Watch(os.getpid()) as watch:
        assert main(["deploy", str(words), "--hosts", str(hosts), "--out", str(out), "--json"]) == 0
    printed, said = capsys.readouterr()
    assert said == ""
    summary = json.loads(printed)
    for key in ("noisy_sha256", "users", "reports", "clusters", "accuracy", "outcomes_by_round"):
        assert summary[key] == expected[key], key
    views = dict(summary["privacy"])
    assert (views.pop("user_host")["own_users"] > 0) == (hosts > 1)
    assert views == expected["privacy"]
    assert (summary["engine"], summary["hosts"]) == ("deployment", hosts)
    assert {key: summary[key] for key in NULL} == dict.fromkeys(NULL)
    assert summary == json.loads((out / "private" / "summary.json").read_text(encoding="utf-8")) | {"out": str(out)}
    check_folder(out, hosts)
    assert audited(out).passed
    assert not any(temporary.iterdir())
    assert len(watch.words) == 3 + hosts
    logs = [path.read_bytes() for path in sorted((out / "logs").iterdir())]
    for seen in (*logs, *watch.words.values(), *watch.environments.values()):
        assert not any(label.encode() in seen for label in CLASSES)
    assert not any(b"P2P_LABELDP_STATE" in seen for seen in watch.environments.values())


def check_folder(out: Path, hosts: int) -> None:
    """What a deployment leaves, and who may read it."""
    names = {"summary.json", "scenario.toml", "manifest.json", "reports.npz", "private", "report.html", "logs"}
    assert {path.name for path in out.iterdir()} == names | {"model.npz", "model-card.md"}
    kept = {path.name for path in (out / "private").iterdir()}
    assert "trace.msgpack" in kept
    assert "population.npz" not in kept  # nobody knows everyone's label
    assert mode(out) == mode(out / "logs") == mode(out / "private") == 0o700
    assert mode(out / "private" / "trace.msgpack") == 0o600
    hosts_logs = {f"users-{number + 1}.jsonl" for number in range(hosts)}
    assert {path.name for path in (out / "logs").iterdir()} == hosts_logs | {
        "coordinator.jsonl",
        "learner.jsonl",
        "auditor.jsonl",
    }
    for path in (out / "logs").iterdir():
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert {"listening", "left"} <= {line["event"] for line in lines}
        for line in lines:
            assert line.keys() <= FACTS | {"time", "level"}
            assert line["node"] == path.stem


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextlib.contextmanager
def deploying(machine: Machine, scenario: Path, place: Path, temporary: Path) -> Iterator[int]:
    """A ``deploy`` of its own process, which writes what it says to ``place/said`` and is gone afterwards."""
    words = ["deploy", str(scenario), "--hosts", "1", "--out", str(place / "run")]
    log = str(place / "said")
    pid: int = machine.ask("start", words=words, log=log, patches={"tempfile.tempdir": str(temporary)})
    try:
        yield pid
    finally:
        if machine.ask("status", pid=pid) is None:  # a check has failed
            machine.ask("signal", pid=pid, number=int(signal.SIGTERM))
            until(lambda: machine.ask("status", pid=pid) is not None)


def log_of(temporary: Path, name: str) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in temporary.glob(f"*/logs/{name}.jsonl"))


def test_a_node_that_dies_is_named_with_what_it_said_last(
    machine: Machine, words: Path, tmp_path: Path, temporary: Path
) -> None:
    with deploying(machine, words, tmp_path, temporary) as pid:
        until(lambda: "listening" in log_of(temporary, "users-1"))
        nodes = nodes_of(pid)
        victim = next(node for node, line in nodes.items() if b"\0users\0" in line)
        os.kill(victim, signal.SIGKILL)
        assert until(lambda: machine.ask("status", pid=pid)) == 3
    said = (tmp_path / "said").read_text(encoding="utf-8")
    assert said.startswith("p2p-labeldp: users-1 died with status -9; it last said: ")
    assert "listening 127.0.0.1:" in said
    assert said.count("\n") == 1
    assert said.endswith(f"; all logs are in {tmp_path / 'run-logs'}\n")
    assert '"listening"' in (tmp_path / "run-logs" / "users-1.jsonl").read_text(encoding="utf-8")
    shutil.rmtree(tmp_path / "run-logs")
    nothing_is_left(tmp_path, temporary, nodes)


def test_an_interrupt_leaves_neither_processes_nor_folders(
    machine: Machine, words: Path, tmp_path: Path, temporary: Path
) -> None:
    with deploying(machine, words, tmp_path, temporary) as pid:
        until(lambda: "listening" in log_of(temporary, "coordinator"))
        nodes = nodes_of(pid)
        assert len(nodes) == 4
        assert machine.ask("signal", pid=pid, number=int(signal.SIGINT))
        assert until(lambda: machine.ask("status", pid=pid)) == 3
    assert (tmp_path / "said").read_text(encoding="utf-8") == "p2p-labeldp: interrupted; nothing was kept\n"
    nothing_is_left(tmp_path, temporary, nodes)


def nothing_is_left(place: Path, temporary: Path, nodes: dict[int, bytes]) -> None:
    assert sorted(path.name for path in place.iterdir()) == ["said", "temporary"]
    assert not any(temporary.iterdir())
    for node, line in nodes.items():
        cmdline = Path(f"/proc/{node}/cmdline")
        assert not cmdline.exists() or cmdline.read_bytes() != line


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["quickstart", "--hosts", "0"], "--hosts 0 is not allowed; it must be from 1 to 256"),
        (["quickstart", "--hosts", "300"], "--hosts 300 is not allowed; it must be from 1 to 256"),
        (["quickstart", "--set", "mechanism.kind=cluster_rr"], "mechanism.epsilon is missing; cluster_rr needs it"),
        (["nonsense"], "nonsense: neither a file nor a shipped scenario"),
        (["nonsense.toml"], "nonsense.toml: there is no such scenario file"),
        (["quickstart", "--out", "taken"], "--out taken: exists already"),
        (["words.toml", "--hosts", "1", "--set", "data.path=gone.csv"], "data.path: there is no file gone.csv"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_request_is_answered_in_one_line_and_leaves_nothing(
    arguments: list[str],
    complaint: str,
    words: Path,
    tmp_path: Path,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "something").touch()
    assert main(["deploy", *(str(words) if word == words.name else word for word in arguments)]) == 2
    printed, said = capsys.readouterr()
    assert printed == ""
    assert said.startswith("p2p-labeldp: ")
    assert said.count("\n") == 1
    assert complaint in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken", "temporary"]
    assert not any(temporary.iterdir())


# Nodes started one by one.


def refused(nodes: Fleet, name: str, status: int = 2) -> str:
    """What a node said that could not go on: one line, and nothing after it."""
    assert nodes.wait(name) == {name: status}
    texts = [line["text"] for line in nodes.said(name) if not line["event"]]
    assert len(texts) == 1, texts
    assert nodes.said(name)[-1]["event"] == ""
    return str(texts[0]).removeprefix("p2p-labeldp: ")


def test_a_node_of_another_scenario_says_so_and_the_others_wait(machine: Machine, tmp_path: Path) -> None:
    often = {"p2p_labeldp.deployment.node.REMIND": 0.5}
    with fleet(machine, SMALL, 2, tmp_path / "work") as nodes:
        nodes.start(*(name for name in nodes.names if name != "users-1"), patches=often)
        nodes.start("users-1", more=("--set", "mechanism.alpha=0.3"))
        assert "the scenario differs in mechanism.alpha" in refused(nodes, "users-1")
        nodes.wait_for("coordinator", "waiting", **{"for": "user hosts: 1 came of 2", "missing": ""})
        nodes.wait_for("users-2", "waiting", **{"for": "the coordinator to hand out shares"})
        assert nodes.heard("coordinator", "refused")
        assert all(nodes.status(name) is None for name in nodes.names if name != "users-1")


def test_a_node_that_starts_again_with_another_seed_is_refused(machine: Machine, tmp_path: Path) -> None:
    """Its journal knows; what nodes show each other says nothing of a seed, which could be tried out."""
    assert SMALL.shared_digests() == replace(SMALL, coins__seed=7).shared_digests()
    with fleet(machine, SMALL, 1, tmp_path / "work") as nodes:
        nodes.start("coordinator")
        nodes.wait_for("coordinator", "listening")
        assert machine.ask("signal", pid=nodes.pids["coordinator"], number=int(signal.SIGKILL))
        nodes.wait("coordinator")
        nodes.start("coordinator", more=("--seed", "7"))
        assert "the journal is of a run with another seed; name a new folder" in refused(nodes, "coordinator")


def test_a_journal_that_cannot_be_written_ends_the_node_before_it_says_more(machine: Machine, tmp_path: Path) -> None:
    """No file may grow beyond 3 kB, as on a disk that is full."""
    with fleet(machine, SMALL, 1, tmp_path / "work") as nodes:
        nodes.start("coordinator", "learner", "auditor")
        nodes.start("users-1", file_size=3_000)
        journal = nodes.work / "state" / "users-1" / FILE
        assert refused(nodes, "users-1", status=3).startswith(f"{journal}: cannot be written: ")
        nodes.start("users-1")  # there is room again
        nodes.finish()
        assert nodes.heard("users-1", "replayed")
        nodes.collect(tmp_path / "run")
    assert audited(tmp_path / "run").passed
