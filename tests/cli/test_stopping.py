"""A run that is stopped, or has nowhere to write, says so and leaves nothing behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from p2p_labeldp.cli import main


def test_being_asked_to_stop_is_being_interrupted(tmp_path: Path) -> None:
    settings = ["--set", "mechanism.rounds=200", "--set", "network.jitter=1.0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "p2p_labeldp", "run", "hospital", "--out", str(tmp_path / "run"), *settings],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for _ in range(600):
            if any(path.stat().st_size > 200_000 for path in tmp_path.glob(".run.*/trace.msgpack")):
                break
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 3
    assert "interrupted after" in err
    assert [path.name for path in tmp_path.iterdir()] == ["run.interrupted"]


def test_the_present_folder_can_be_the_run_folder_if_it_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert main(["run", "quickstart", "--engine", "vectorized", "--out", "."]) == 0
    assert (tmp_path / "here" / "summary.json").exists()


def test_limits_that_an_honest_message_could_run_into_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "quickstart", "--set", "network.latency=10", "--set", "network.round_limit=40"]) == 2
    assert "network.round_limit = 40 is not allowed; it must be above 40" in capsys.readouterr().err
    assert main(["run", "quickstart", "--set", "network.jitter=10", "--set", "network.hello_limit=1"]) == 2
    assert "network.hello_limit" in capsys.readouterr().err


def test_an_interrupt_that_no_command_deals_with_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("p2p_labeldp.cli.threats.find_scenario", interrupted)
    assert main(["threats", "quickstart"]) == 3
    assert capsys.readouterr().err == "p2p-labeldp: interrupted\n"


def test_a_reader_who_has_gone_is_no_failure() -> None:
    arguments = ["account", "--cluster-size", "20", "--alpha", "0.1", "--theta", "1", "--delta", "1e-3"]
    process = subprocess.Popen(
        [sys.executable, "-m", "p2p_labeldp", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as complaints:
        assert complaints.read() == b""
    assert process.wait(timeout=60) == 0


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("Usage: p2p-labeldp")
    assert len(shown.splitlines()) > 5
    assert main(["certs"]) == 2
    said = "p2p-labeldp: p2p-labeldp certs: name a command; `p2p-labeldp certs --help` lists them\n"
    assert capsys.readouterr().err == said
