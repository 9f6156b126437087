"""The auditor: a batch becomes a plain stream of MessagePack objects."""

from __future__ import annotations

import io
from typing import Any

import msgpack
import numpy as np
import pytest

from p2p_labeldp.protocol import Auditor
from p2p_labeldp.protocol.messages import KINDS, PARTIES, Ask, Fault, Features, Goodbye, Hello, Refusal, Report


def objects(data: bytes) -> list[Any]:
    return list(msgpack.Unpacker(io.BytesIO(data), max_buffer_size=0))


@pytest.mark.parametrize("size", [1, 15, 16, 17, 65_535, 65_536])
def test_a_batch_of_any_size_is_one_object_per_message(size: int) -> None:
    auditor = Auditor()
    auditor.batch += [(number, 0.5, number, -2, Ask(3)) for number in range(size)]
    assert objects(auditor.take()) == [[number, 0.5, number, -2, ["ask", 3]] for number in range(size)]


def test_an_empty_batch_is_no_bytes() -> None:
    assert Auditor().take() == b""


def test_a_batch_is_empty_once_taken_and_stays_the_same_list() -> None:
    auditor = Auditor()
    batch = auditor.batch
    batch.append((0, 0.0, 1, 2, Goodbye(False)))
    assert auditor.take()
    assert auditor.batch is batch
    assert batch == []


def test_batches_follow_each_other_and_the_header_in_one_stream() -> None:
    auditor = Auditor()
    stream = auditor.header(users=2)
    for number in range(3):
        auditor.batch.append((number, 0.0, 0, 1, Report(0, number)))
        stream += auditor.take()
    header, *records = objects(stream)
    assert header["users"] == 2
    assert [record[4] for record in records] == [["report", 0, 0], ["report", 0, 1], ["report", 0, 2]]


def test_the_header_names_format_fields_kinds_and_parties() -> None:
    (header,) = objects(Auditor().header(users=2, labels=3))
    assert header["format"] == "p2p_labeldp trace"
    assert header["version"] == 3
    assert header["record"] == ["number", "time", "sender", "receiver", "message"]
    assert header["kinds"] == {kind: list(fields) for kind, fields in KINDS.items()}
    assert header["parties"] == PARTIES
    assert (header["users"], header["labels"]) == (2, 3)


def test_of_features_the_trace_keeps_only_how_many_there_are() -> None:
    auditor = Auditor()
    auditor.batch.append((0, 0.0, 1, -1, Hello(1, Features(np.zeros(7, dtype=np.float32)))))
    assert objects(auditor.take()) == [[0, 0.0, 1, -1, ["hello", 1, 7]]]


def test_a_refusal_is_readable_as_it_stands() -> None:
    auditor = Auditor()
    auditor.batch.append((0, 0.0, 1, -3, Refusal(4, "ask", Fault.DUPLICATE, "again")))
    assert objects(auditor.take())[0][4] == ["refusal", 4, "ask", "duplicate", "again"]


def test_messages_are_numbered_from_zero() -> None:
    auditor = Auditor()
    assert [next(auditor.number) for _ in range(3)] == [0, 1, 2]
