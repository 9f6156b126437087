"""A run that is stopped, or has nowhere to write, says so and leaves nothing behind."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import msgpack
import pytest
from asking import Command
from processes import PATIENCE, program, until


@pytest.mark.parametrize(
    ("number", "disposition"),
    [
        pytest.param(signal.SIGINT, signal.default_int_handler, id="interrupted"),
        pytest.param(signal.SIGTERM, signal.SIG_IGN, id="asked to stop where interrupts are ignored"),
    ],
)
@pytest.mark.usefixtures("interruptible")
def test_a_run_that_is_stopped_leaves_a_readable_trace_and_says_how_far_it_got(
    tmp_path: Path, number: signal.Signals, disposition: Any
) -> None:
    signal.signal(signal.SIGINT, disposition)
    settings = ["--set", "mechanism.rounds=200", "--set", "network.jitter=1.0"]
    with program("run", "hospital", "--out", str(tmp_path / "run"), *settings) as process:
        # Long enough that the exchange has begun: a trace of some size is being written.
        until(lambda: any(path.stat().st_size > 200_000 for path in tmp_path.glob(".run.*/trace.msgpack")))
        if disposition == signal.SIG_IGN:
            process.send_signal(signal.SIGINT)  # does nothing
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (3, "")
    assert err.count("\n") == 1
    trace = tmp_path / "run.interrupted" / "trace.msgpack"
    with trace.open("rb") as file:
        messages = sum(1 for _ in msgpack.Unpacker(file)) - 1
    assert f"interrupted after {messages:,} messages; the trace so far is {trace}" in err
    assert [path.name for path in tmp_path.iterdir()] == ["run.interrupted"]


@pytest.mark.usefixtures("interruptible")
def test_where_interrupts_are_ignored_a_run_takes_no_notice_of_them(tmp_path: Path) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folder = tmp_path / "run"
    small = ["--set", "data.name=synthetic", "--set", "data.target=class", "--set", "data.users=200", "--no-report"]
    with program("run", "quickstart", "--out", str(folder), *small) as process:
        until(lambda: any(tmp_path.glob(".run.*")))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert (folder / "summary.json").exists()


def test_the_present_folder_can_be_the_run_folder_if_it_is_empty(command: Command, tmp_path: Path) -> None:
    assert command("run", "quickstart", "--engine", "vectorized", "--no-report", "--out", ".")[0] == 0
    assert (tmp_path / "summary.json").exists()


def test_an_interrupt_that_no_command_deals_with_is_told_in_one_line(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("p2p_labeldp.cli.threats.find_scenario", interrupted)
    assert command("threats", "quickstart") == (3, "", "p2p-labeldp: interrupted\n")


def test_a_reader_who_has_gone_is_no_failure() -> None:
    with program("account", "--cluster-size", "20", "--alpha", "0.1", "--theta", "1", "--delta", "1e-3") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(PATIENCE) == 0


def test_without_a_command_the_help_is_shown(command: Command) -> None:
    status, out, err = command()
    assert (status, out) == (2, "")
    assert err.startswith("Usage: p2p-labeldp")
    assert len(err.splitlines()) > 5
    said = "p2p-labeldp: p2p-labeldp certs: name a command; `p2p-labeldp certs --help` lists them\n"
    assert command("certs") == (2, "", said)
