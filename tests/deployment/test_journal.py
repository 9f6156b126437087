"""The journal: private, one node's alone, the same again in the same order, or an error of one line."""

from __future__ import annotations

import errno
import os
import random
import stat
from pathlib import Path

import numpy as np
import pytest

from p2p_labeldp.deployment.journal import EXPIRED, FILE, JOINED, SETTLED, TAKEN, Entry, Journal, JournaledCoins
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.mechanisms.coins import make_coins

ENTRIES = [
    Entry(1.5, JOINED, name="127.0.0.1:7430"),
    Entry(2.25, TAKEN, "coordinator", "coordinator", 7, b"\x00\xff body"),
    Entry(2.25, TAKEN, "f" * 64, "users-2", 2**63 - 1, b""),
    Entry(1.0, EXPIRED),  # clocks may run back; the order is that of writing
    Entry(3.0, SETTLED),
]


def opened(folder: Path, secret: bytes = b"key", owner: str = "0f") -> Journal:
    return Journal(folder, owner=owner, secret=secret)


def filled(folder: Path) -> Journal:
    journal = opened(folder)
    for entry in ENTRIES:
        journal.append(entry)
    journal.commit()
    return journal


def read(folder: Path) -> tuple[list[Entry], str]:
    try:
        journal = opened(folder)
    except RequestError as error:
        return [], str(error)
    found = list(journal.entries())
    journal.close()
    return found, ""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# Whose it is


def test_the_folder_and_its_files_are_the_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        journal = filled(tmp_path / "state" / "node")
        assert mode(tmp_path / "state" / "node") == 0o700
        files = sorted(path.name for path in (tmp_path / "state" / "node").iterdir())
        assert FILE in files
        assert {mode(tmp_path / "state" / "node" / name) for name in files} == {0o600}
    finally:
        os.umask(before)
    journal.close()


def test_one_journal_one_node(tmp_path: Path) -> None:
    journal = filled(tmp_path)
    with pytest.raises(RequestError, match=f"--state {tmp_path}: another process uses it"):
        opened(tmp_path)
    journal.close()
    assert read(tmp_path) == (ENTRIES, "")


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / FILE).mkdir()
    for place in (tmp_path / "file" / "state", tmp_path):
        assert read(place)[1].startswith(f"--state {place}: cannot be written: ")


# What it keeps


def test_what_was_taken_comes_again_in_the_same_order(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    assert not journal.used
    assert list(journal.entries()) == []
    journal.close()
    filled(tmp_path).close()
    again = opened(tmp_path)
    assert again.used
    assert list(again.entries()) == ENTRIES
    again.append(Entry(9.0, EXPIRED))
    again.commit()
    again.close()
    assert read(tmp_path) == ([*ENTRIES, Entry(9.0, EXPIRED)], "")


def test_what_was_not_committed_never_was(tmp_path: Path) -> None:
    journal = filled(tmp_path)
    journal.append(Entry(9.0, EXPIRED))
    journal.fact("late", "never")
    journal.keep_block(0, 0, 1, np.zeros((1, 4)))
    journal.close()
    again = opened(tmp_path)
    assert list(again.entries()) == ENTRIES
    assert again.fact("late", "new") == "new"
    assert again.block(0, 0, 1) is None
    again.close()


def test_a_fact_is_what_was_said_first_unless_it_is_replaced(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    assert journal.fact("run", "one") == "one"
    assert journal.fact("run", "two") == "one"
    assert journal.fact("listen", "") == ""
    journal.replace_fact("listen", "127.0.0.1:1")
    journal.commit()
    journal.close()
    again = opened(tmp_path)
    assert again.fact("run", "three") == "one"
    assert again.fact("listen", "") == "127.0.0.1:1"
    again.close()


def test_the_systems_coins_are_drawn_once(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    coins = JournaledCoins(make_coins("system", 0), journal)
    first, second = coins.block(0, 3, 9), coins.block(1, 3, 9)
    assert first.shape == (6, 4)
    assert not np.array_equal(first, second)
    assert np.array_equal(coins.block(0, 3, 9), first)
    journal.commit()
    journal.close()
    again = opened(tmp_path)
    coins = JournaledCoins(make_coins("system", 0), again)
    assert np.array_equal(coins.block(0, 3, 9), first)
    assert np.array_equal(coins.block(1, 3, 9), second)
    assert not np.array_equal(coins.block(0, 3, 8), first[:5])  # of another block, new ones
    again.close()


# When a crash or someone else has been at it


@pytest.mark.parametrize(
    "content", [b"?" * 2000, b"p2p-labeldp" + b"?" * 5000, bytes(10_000)], ids=["text", "head", "zeros"]
)
def test_a_file_that_is_no_journal_is_an_error_of_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).touch(0o600)
    (tmp_path / FILE).write_bytes(content)
    assert read(tmp_path)[1].startswith(f"--state {tmp_path}: {FILE} is not a journal")
    assert (tmp_path / FILE).read_bytes() == content  # left for whoever wants to look


@pytest.mark.parametrize("length", [0, 5, 20])
def test_a_node_killed_while_it_made_its_journal_makes_it_again(tmp_path: Path, length: int) -> None:
    opened(tmp_path).close()
    head = (tmp_path / FILE).read_bytes()
    for left in (head[:length], bytes(length)):
        (tmp_path / FILE).write_bytes(left)
        filled(tmp_path).close()
        assert read(tmp_path) == (ENTRIES, "")


def test_the_journal_of_another_certificate_or_key_is_refused(tmp_path: Path) -> None:
    filled(tmp_path).close()
    with pytest.raises(RequestError, match="the journal is of a run with another certificate; name a new folder"):
        opened(tmp_path, owner="1e")
    with pytest.raises(RequestError, match="was changed, or damaged"):
        opened(tmp_path, secret=b"another")


def commits(folder: Path, count: int = 6) -> tuple[list[int], list[Entry]]:
    """A journal of several commits; where each begins, and what is in them."""
    entries = [Entry(float(n), TAKEN, "coordinator", "c", n, random.Random(n).randbytes(700)) for n in range(count)]
    journal, places = opened(folder), []
    for entry in entries:
        places.append((folder / FILE).stat().st_size)
        journal.append(entry)
        journal.commit()
    journal.close()
    return places, entries


def edited(content: bytes, places: list[int], how: str) -> bytes:
    """What somebody without the key might make of a journal."""
    first, second, third = places[1:4]
    head = content[: places[1]]
    match how:
        case "a byte":
            return content[: second - 50] + bytes([content[second - 50] ^ 1]) + content[second - 49 :]
        case "a length":
            return head + (2**24).to_bytes(4, "big") + content[first + 4 :]
        case "a commit left out":
            return head + content[second:]
        case "two exchanged":
            return head + content[second:third] + content[first:second] + content[third:]
        case "one twice":
            return head + content[first:second] + content[first:]
    raise AssertionError(how)


@pytest.mark.parametrize("how", ["a byte", "a length", "a commit left out", "two exchanged", "one twice"])
def test_a_journal_that_was_edited_is_refused(tmp_path: Path, how: str) -> None:
    places, _ = commits(tmp_path)
    content = edited((tmp_path / FILE).read_bytes(), places, how)
    (tmp_path / FILE).write_bytes(content)
    assert read(tmp_path)[1].startswith(f"--state {tmp_path}: {FILE} was changed, or damaged")
    assert (tmp_path / FILE).read_bytes() == content


@pytest.mark.parametrize("seed", range(40))
def test_what_a_crash_leaves_of_the_last_commit_is_dropped_and_the_rest_is_there(tmp_path: Path, seed: int) -> None:
    """Its beginning, or zeros in place of some of its sectors; the journal grows again from there."""
    chance = random.Random(seed)
    places, entries = commits(tmp_path)
    content = (tmp_path / FILE).read_bytes()
    if seed % 2:
        content = content[: chance.randrange(places[-1], len(content))]
    else:
        edges = [places[-1], *range(512 * (places[-1] // 512 + 1), len(content), 512), len(content)]
        low = chance.randrange(len(edges) - 1)
        content = content[: edges[low]] + bytes(edges[low + 1] - edges[low]) + content[edges[low + 1] :]
    (tmp_path / FILE).write_bytes(content)
    journal = opened(tmp_path)
    assert list(journal.entries()) == entries[:-1]
    assert journal.dropped == len(content) - places[-1]
    journal.append(entries[0])
    journal.commit()
    journal.close()
    again = opened(tmp_path)
    assert list(again.entries()) == [*entries[:-1], entries[0]]
    assert again.dropped == 0
    again.close()


@pytest.mark.parametrize(
    ("half", "edge"),
    [*(("first", edge) for edge in range(2, 12)), *(("second", edge) for edge in range(1, 12))],
)
def test_so_is_a_last_commit_whose_first_bytes_lie_in_two_sectors(tmp_path: Path, edge: int, half: str) -> None:
    """One of the two was written; an edit of what was written whole is refused there, too."""
    first, second = (Entry(1.0, TAKEN, "coordinator", "c", 1, bytes(size)) for size in (400, 70_000))

    def begun(padding: int) -> int:
        """Where the second commit begins after so many bytes more."""
        folder = tmp_path / str(padding)
        journal = opened(folder)
        journal.append(first._replace(body=bytes(400 + padding)))
        journal.commit()
        place = (folder / FILE).stat().st_size
        journal.append(second)
        journal.commit()
        journal.close()
        return place

    padding = (-edge - begun(0)) % 512
    place = begun(padding)
    assert -place % 512 == edge
    file = tmp_path / str(padding) / FILE
    content = bytearray(file.read_bytes())
    low, high = (place, place + edge) if half == "first" else (place + edge, place + edge + 512)
    content[low:high] = bytes(high - low)
    file.write_bytes(content)
    journal = opened(file.parent)
    assert [len(entry.body) for entry in journal.entries()] == [400 + padding]
    journal.close()
    content[place + 11] ^= 1
    file.write_bytes(content)
    assert "was changed, or damaged" in read(file.parent)[1]


@pytest.mark.parametrize("seed", range(30))
def test_damage_anywhere_is_never_a_traceback(tmp_path: Path, seed: int) -> None:
    """Overwritten or cut off: nothing comes up that was not there, or an error says that it cannot be read."""
    chance = random.Random(seed)
    _, entries = commits(tmp_path)
    content = bytearray((tmp_path / FILE).read_bytes())
    place = chance.randrange(len(content))
    cut = chance.random() < 0.3
    if cut:
        del content[place:]
    else:
        content[place : place + 200] = chance.randbytes(min(200, len(content) - place))
    (tmp_path / FILE).write_bytes(content)
    found, error = read(tmp_path)
    assert found == entries[: len(found)]
    assert error or cut
    assert not error or ("\n" not in error and str(tmp_path) in error)


def test_a_disk_that_is_full_ends_the_node_and_costs_it_one_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = filled(tmp_path)
    write = os.pwrite

    def full(descriptor: int, data: memoryview, place: int) -> int:
        if len(data) > 100:
            return write(descriptor, data[:100], place)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    journal.append(Entry(9.0, TAKEN, "coordinator", "c", 1, bytes(90)))
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(RunError, match="cannot be written: No space left on device"):
            journal.commit()
    journal.close()
    again = opened(tmp_path)
    assert list(again.entries()) == ENTRIES
    assert again.dropped == 0
    again.close()
