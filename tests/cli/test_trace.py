"""``p2p-labeldp trace``: a run's messages in words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from asking import Command, Refused
from small import sixty

from p2p_labeldp.experiments import run


@pytest.fixture
def folder(command: Command) -> Path:
    run(sixty(), out=Path("run"))
    return Path("run")


def test_every_message_is_a_line(folder: Path, command: Command) -> None:
    status, out, err = command("trace", "run")
    assert (status, err) == (0, "")
    assert len(out.splitlines()) == json.loads((folder / "summary.json").read_text())["messages"]
    assert "-> the coordinator" in out.splitlines()[0]
    assert "features of 2 numbers" in out.splitlines()[0]


def test_a_user_s_messages_are_those_she_sent_or_was_sent(folder: Path, command: Command) -> None:
    found = json.loads(command("trace", "run", "--user", "7", "--json")[1])["messages"]
    assert {message["kind"] for message in found} >= {"hello", "assignment", "ask", "answer", "done", "goodbye"}
    assert all(7 in (message["sender"], message["receiver"]) for message in found)


def test_a_cluster_s_messages_are_those_of_its_members(folder: Path, command: Command) -> None:
    with np.load(folder / "population.npz") as population:
        members = np.flatnonzero(population["cluster"] == 1)
    found = json.loads(command("trace", "run", "--cluster", "1", "--kind", "ask", "--json")[1])["messages"]
    assert sorted(message["sender"] for message in found if message["fields"]["round"] == 0) == members.tolist()


def test_a_limit_ends_it(folder: Path, command: Command) -> None:
    assert len(command("trace", "run", "--limit", "3")[1].splitlines()) == 3
    assert len(json.loads(command("trace", "run", "--limit", "3", "--json")[1])["messages"]) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere: not a run folder"),
        (["run", "--kind", "anser"], "did you mean answer?"),
        (["run", "--user", "60"], "there is no such user; they are 0 to 59"),
        (["run", "--cluster", "9"], "there is no such cluster; they are 0 to 2"),
        (["run", "--limit", "-1"], "--limit -1 is not allowed"),
    ],
)
def test_a_wrong_request_is_answered_in_one_line(
    arguments: list[str], words: str, folder: Path, refused: Refused
) -> None:
    err = refused("trace", *arguments)
    assert words in err


def test_what_real_people_said_is_printed_only_on_request(command: Command, tmp_path: Path) -> None:
    rows = "\n".join(f"{number},{number % 2}" for number in range(60))
    (tmp_path / "mine.csv").write_text(f"age,label\n{rows}\n")
    own = ["--set", "data.name=csv", "--set", "data.path=mine.csv", "--set", "data.target=class", "--no-report"]
    assert command("run", "quickstart", *own, "--set", "clusters.count=2", "--out", "own")[0] == 0
    status, out, err = command("trace", "own")
    assert (status, out) == (2, "")
    assert "--show-labels" in err
    assert command("trace", "own", "--show-labels", "--limit", "1")[0] == 0
