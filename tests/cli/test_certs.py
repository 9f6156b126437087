"""``p2p-labeldp certs`` as a person or a program meets it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from asking import Command, Refused

from p2p_labeldp.deployment import certificates


@pytest.fixture
def command(command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.delenv("P2P_LABELDP_HOSTS", raising=False)
    return partial(command, "certs")


def found(answer: tuple[int, str, str]) -> dict[str, Any]:
    status, out, err = answer
    assert (status, err, out.count("\n")) == (0, "", 1)
    parsed: dict[str, Any] = json.loads(out)
    return parsed


def test_init_makes_the_folder_and_says_what_to_do_with_it(command: Command, tmp_path: Path) -> None:
    status, out, err = command("init", "certs", "--hosts", "2")
    assert (status, err) == (0, "")
    for word in ("coordinator", "learner", "auditor", "users-1", "users-2", "enrolment", "Keep authority to yourself"):
        assert word in out
    assert (tmp_path / "certs/users-2/cert.pem").exists()


def test_json_is_one_object_and_the_same_for_all_three(command: Command) -> None:
    made = found(command("init", "certs", "--hosts", "1", "--days", "30", "--json"))
    assert made.keys() == {"folder", "authority", "enrolment", "nodes"}
    assert [(node["role"], node["name"]) for node in made["nodes"]] == [
        ("coordinator", "coordinator"), ("learner", "learner"), ("auditor", "auditor"), ("users", "users-1"),
    ]  # fmt: skip
    assert found(command("show", "certs", "--json")) == made
    renewed = found(command("renew", "certs", "--days", "60", "--json"))
    assert renewed["authority"] == made["authority"]
    for old, new in zip(made["nodes"], renewed["nodes"], strict=True):
        assert len(new["fingerprint"]) == 64
        assert new["fingerprint"] != old["fingerprint"]
        longer = datetime.fromisoformat(new["not_after"]) - datetime.fromisoformat(old["not_after"])
        assert timedelta(days=29) < longer < timedelta(days=31)


def test_no_secret_is_printed(command: Command, tmp_path: Path) -> None:
    printed = command("init", "certs")[1] + command("show", "certs", "--json")[1]
    printed += command("invite", "certs", "clinic")[1] + command("sites", "certs/enrolment")[1]
    assert (tmp_path / "certs/join-clinic/token").read_text().strip() not in printed
    assert (tmp_path / "certs/enrolment/secret").read_text() not in printed
    assert "PRIVATE" not in printed


def test_hosts_may_come_from_the_environment_and_the_flag_wins(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("P2P_LABELDP_HOSTS", "2")
    assert len(found(command("init", "two", "--json"))["nodes"]) == 5
    assert len(found(command("init", "one", "--hosts", "1", "--json"))["nodes"]) == 4


def test_show_marks_what_has_expired(command: Command, tmp_path: Path) -> None:
    certificates.init_certificates(tmp_path / "certs", days=1, now=datetime.now(UTC) - timedelta(days=3))
    lines = command("show", "certs")[1].splitlines()
    assert [line.split()[0] for line in lines if "expired" in line] == [
        "enrolment",
        "coordinator",
        "learner",
        "auditor",
    ]
    command("renew", "certs")
    assert "expired" not in command("show", "certs")[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["init"], "DIR"),
        (["init", "certs", "--hosts", "-1"], "--hosts -1 is not allowed; it must be 0 to 10000"),
        (["init", "certs", "--hosts", "10001"], "--hosts 10001"),
        (["init", "certs", "--hosts", "many"], "--hosts"),
        (["init", "certs", "--days", "0"], "--days 0 is not allowed; it must be 1 to 3650"),
        (["init", "certs", "--days", "3651"], "--days 3651"),
        (["init", "file"], "file: exists already"),
        (["init", "file/below"], "file/below: cannot be written"),
        (["init", "."], "exists already"),
        (["renew", "certs"], "certs: cannot be read: No such file or directory"),
        (["renew", "."], "holds no node's certificate"),
        (["renew", "certs", "--days", "0"], "--days 0"),
        (["show", "file"], "file: cannot be read: Not a directory"),
        (["shwo", "certs"], "shwo"),
        (["invite", "certs", "clinic"], "certs/enrolment/secret: cannot be read"),
        (["invite", "certs", "The Clinic"], "site 'The Clinic' is not allowed"),
        (["invite", "certs", "learner"], "site 'learner' is not allowed"),
        (["invite", "certs", "clinic", "--days", "0"], "--days 0"),
        (["invite", "certs", "clinic", "--certificate-days", "0"], "--certificate-days 0"),
        ([], "certs"),
    ],
)
def test_a_wrong_request_is_answered_in_one_line_with_status_2(
    arguments: list[str], words: str, refused: Refused, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for options in ([], ["--json"]):
        assert words in refused(*arguments, *(options if arguments else []))
    assert list(tmp_path.rglob("*")) == [tmp_path / "file"]
