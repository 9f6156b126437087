"""The journal: private, one node's alone, the same again in the same order, or an error of one line."""

from __future__ import annotations

import os
import random
import sqlite3
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


def filled(folder: Path) -> Journal:
    journal = Journal(folder)
    for entry in ENTRIES:
        journal.append(entry)
    journal.commit()
    return journal


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
        Journal(tmp_path)
    journal.close()
    again = Journal(tmp_path)
    assert list(again.entries()) == ENTRIES
    again.close()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match=f"--state {tmp_path / 'file' / 'state'}: cannot be written"):
        Journal(tmp_path / "file" / "state")


def test_a_folder_in_the_journals_place_is_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(RequestError, match=f"--state {tmp_path}: ") as error:
        Journal(tmp_path)
    assert "\n" not in str(error.value)


# What it keeps


def test_what_was_taken_comes_again_in_the_same_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert not journal.used
    assert list(journal.entries()) == []
    journal.close()
    filled(tmp_path).close()
    again = Journal(tmp_path)
    assert again.used
    assert list(again.entries()) == ENTRIES
    again.append(Entry(9.0, EXPIRED))
    again.commit()
    again.close()
    last = Journal(tmp_path)
    assert list(last.entries()) == [*ENTRIES, Entry(9.0, EXPIRED)]
    last.close()


def test_what_was_not_committed_never_was(tmp_path: Path) -> None:
    journal = filled(tmp_path)
    journal.append(Entry(9.0, EXPIRED))
    journal.fact("late", "never")
    journal.keep_block(0, 0, 1, np.zeros((1, 4)))
    journal.close()
    again = Journal(tmp_path)
    assert list(again.entries()) == ENTRIES
    assert again.fact("late", "new") == "new"
    assert again.block(0, 0, 1) is None
    again.close()


def test_a_fact_is_what_was_said_first_unless_it_is_replaced(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.fact("run", "one") == "one"
    assert journal.fact("run", "two") == "one"
    assert journal.fact("listen", "") == ""
    journal.replace_fact("listen", "127.0.0.1:1")
    journal.commit()
    journal.close()
    again = Journal(tmp_path)
    assert again.fact("run", "three") == "one"
    assert again.fact("listen", "") == "127.0.0.1:1"
    again.close()


def test_the_systems_coins_are_drawn_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    coins = JournaledCoins(make_coins("system", 0), journal)
    first, second = coins.block(0, 3, 9), coins.block(1, 3, 9)
    assert first.shape == (6, 4)
    assert not np.array_equal(first, second)
    assert np.array_equal(coins.block(0, 3, 9), first)
    journal.commit()
    journal.close()
    again = Journal(tmp_path)
    coins = JournaledCoins(make_coins("system", 0), again)
    assert np.array_equal(coins.block(0, 3, 9), first)
    assert np.array_equal(coins.block(1, 3, 9), second)
    assert not np.array_equal(coins.block(0, 3, 8), first[:5])  # of another block, new ones
    again.close()


# When it is damaged


@pytest.mark.parametrize(
    "content", [b"?" * 2000, b"SQLite format 3\0" + b"?" * 5000, bytes(10_000)], ids=["text", "head", "zeros"]
)
def test_a_file_that_is_no_journal_is_an_error_of_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(RequestError, match=f"--state {tmp_path}: ") as error:
        Journal(tmp_path)
    assert "\n" not in str(error.value)
    assert (tmp_path / FILE).read_bytes() == content  # left for whoever wants to look


def test_an_empty_file_is_a_new_journal(tmp_path: Path) -> None:
    """As a node leaves it that was killed between making the file and writing to it."""
    (tmp_path / FILE).write_bytes(b"")
    filled(tmp_path).close()
    again = Journal(tmp_path)
    assert list(again.entries()) == ENTRIES
    again.close()


def test_tables_of_another_shape_are_an_error_of_one_line(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / FILE)
    database.execute("CREATE TABLE log (something TEXT)")
    database.commit()
    database.close()
    journal = Journal(tmp_path)
    with pytest.raises(RequestError, match="is damaged: no such column"):
        list(journal.entries())
    with pytest.raises(RunError, match="cannot be written"):
        journal.append(ENTRIES[0])
    journal.close()


@pytest.mark.parametrize("seed", range(30))
def test_damage_anywhere_is_never_a_traceback(tmp_path: Path, seed: int) -> None:
    """Pages overwritten or cut off: nothing comes up that was not there, or an error says that it cannot be read."""
    chance = random.Random(seed)
    journal = Journal(tmp_path)
    entries = [Entry(float(number), TAKEN, "coordinator", "c", number, bytes(3000)) for number in range(20)]
    for entry in entries:
        journal.append(entry)
    journal.fact("run", "one")
    journal.commit()
    journal.close()
    content = bytearray((tmp_path / FILE).read_bytes())
    place = chance.randrange(100, len(content))
    if chance.random() < 0.3:
        del content[place:]
    else:
        content[place : place + 2000] = chance.randbytes(min(2000, len(content) - place))
    (tmp_path / FILE).write_bytes(content)
    found, error = read_and_write(tmp_path)
    assert len(found) <= len(entries)
    assert error or len(found) == len(entries)
    assert "\n" not in error
    assert not error or str(tmp_path) in error


def read_and_write(folder: Path) -> tuple[list[Entry], str]:
    """What a node that starts again finds, and how far it gets."""
    found: list[Entry] = []
    opened: Journal | None = None
    try:
        opened = Journal(folder)
        assert opened.used in (True, False)
        opened.fact("run", "two")
        found += opened.entries()
        opened.append(ENTRIES[0])
        opened.commit()
    except (RequestError, RunError) as error:
        return found, str(error)
    finally:
        if opened is not None:
            opened.close()
    return found, ""
