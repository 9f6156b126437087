"""Logs: one JSON object per line and event, of known facts, whatever a peer has put into them."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2p_labeldp.deployment.logs import FACTS, MAX_TEXT, Logger


def logged(event: str = "refused", **facts: Any) -> dict[str, Any]:
    """What stands in the log after one event, which must be one line."""
    stream = io.StringIO()
    Logger("users-1", stream)(event, **facts)
    text = stream.getvalue()
    assert text.endswith("\n")
    assert len(text.splitlines()) == 1
    found: dict[str, Any] = json.loads(text)
    return found


def test_a_line_says_who_and_when_and_what() -> None:
    found = logged("joined", host="users-2", hosts=2)
    assert found.pop("time").endswith("+00:00")
    assert found == {"level": "info", "node": "users-1", "event": "joined", "host": "users-2", "hosts": 2}
    assert logged("refused")["level"] == "warning"


@pytest.mark.parametrize("name", ["label", "labels", "token", "body", "detail", "message", "noisy", "key"])
def test_there_is_no_place_for_a_fact_that_is_not_on_the_list(name: str) -> None:
    assert name not in FACTS
    with pytest.raises(ValueError, match=f"no place for {name}"):
        logged(**{name: 1})


def test_a_fact_that_is_not_on_the_list_is_an_error_while_a_journal_is_replayed_too() -> None:
    stream = io.StringIO()
    logger = Logger("users-1", stream)
    logger.muted = True
    logger("joined", host="users-2")
    with pytest.raises(ValueError, match="no place for label"):
        logger("joined", label=1)
    assert stream.getvalue() == ""


@given(st.text(max_size=50) | st.sampled_from(["a\r\n", "\u2028", "\x1b[2J", '"}\n{"event": "left"', "\x85", "\ud800"]))
def test_no_text_can_forge_a_line_or_move_a_cursor(text: str) -> None:
    stream = io.StringIO()
    Logger("users-1", stream)("refused", reason=text, peer=text)
    line = stream.getvalue()
    assert line.isascii()
    assert line[:-1].isprintable()
    assert json.loads(line)["peer"] == text


def test_texts_are_cut() -> None:
    assert logged(reason="x" * 10_000)["reason"] == "x" * MAX_TEXT
    assert len(json.dumps(logged(reason="\U0001f600" * 10_000))) < 20 * MAX_TEXT


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2**64 - 1, 2**64 - 1),
        (-(2**63), -(2**63)),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (b"\xff" * 1000, str(b"\xff" * 1000)[:MAX_TEXT]),
        ([1] * 1000, str([1] * 1000)[:MAX_TEXT]),
        (ValueError("x" * 1000), "x" * MAX_TEXT),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_whatever_a_fact_is_the_line_is_json_and_short(value: Any, expected: Any) -> None:
    assert logged(count=value)["count"] == expected


def test_standard_error_is_where_lines_go_unless_told(capsys: pytest.CaptureFixture[str]) -> None:
    Logger("users-1")("left", run="a")
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err)["event"] == "left"
