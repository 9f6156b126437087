"""``--watch`` as a person or a program meets it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from asking import Command, Refused
from processes import PATIENCE, program, until
from small import TWENTY_FOUR

WATCH = "p2p-labeldp: watch it at http://127.0.0.1:"


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    (tmp_path / "small.toml").write_text(TWENTY_FOUR)
    return str(tmp_path / "small.toml")


def test_with_json_the_address_goes_to_standard_error_and_the_command_ends_with_the_run(
    command: Command, scenario: str
) -> None:
    digests = []
    for watch in ([], ["--watch"]):
        status, out, err = command("run", scenario, "--json", "--no-report", *watch)
        assert status == 0
        assert err.startswith(WATCH) if watch else err == ""
        assert err.count("\n") == len(watch)
        digests.append(json.loads(out)["noisy_sha256"])
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["--engine", "vectorized", "--watch"],
            "--watch is not allowed with --engine vectorized, which sends no messages",
        ),
        (["--paused"], "--paused is not allowed without --watch"),
        (["--watch-port", "8000"], "--watch-port is not allowed without --watch"),
        (["--watch", "--watch-port", "70000"], "--watch-port 70000 is not allowed; it must be from 1 to 65535"),
    ],
)
def test_what_cannot_be_watched_is_refused_in_one_line(
    refused: Refused, scenario: str, tmp_path: Path, words: list[str], line: str
) -> None:
    err = refused("run", scenario, *words)
    assert line in err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", ["run", "deploy"])
def test_a_port_in_use_is_told_in_one_line_and_nothing_runs(
    command: Command, scenario: str, tmp_path: Path, name: str
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        status, out, err = command(name, scenario, "--watch", "--watch-port", port)
    assert (status, out) == (2, "")
    assert err == f"p2p-labeldp: --watch-port {port}: cannot listen there: Address already in use\n"
    assert not (tmp_path / "runs").exists()


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.startswith(WATCH), line
    return line.split()[-1]


def state_of(address: str) -> Any:
    """What a page is told first."""
    with urllib.request.urlopen(f"{address}events", timeout=PATIENCE) as events:
        return next(json.loads(line[6:]) for line in events if line.startswith(b"data: "))


@pytest.mark.usefixtures("interruptible")
def test_a_paused_run_can_be_interrupted(scenario: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with program("run", scenario, "--watch", "--paused", "--out", str(folder)) as process:
        address = address_of(process)
        assert until(lambda: state_of(address)["sent"]) == 1
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (3, "")
    assert "interrupted after" in err
    assert (tmp_path / "run.interrupted" / "trace.msgpack").exists()
