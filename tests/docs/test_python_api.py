"""docs/python-api.md is what the docstrings say, and the examples in them are true."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest
import python_api
import sessions

import p2p_labeldp

ROOT = Path(__file__).parents[2]


def test_the_document_is_made_from_the_docstrings() -> None:
    written = python_api.PLACE.read_text(encoding="utf-8")
    assert written == python_api.page(), "run: python docs/python_api.py"


def test_every_public_name_is_in_it() -> None:
    assert set(python_api.NAMES["p2p_labeldp"]) == set(p2p_labeldp.__all__)


@pytest.mark.parametrize("module", python_api.NAMES)
def test_its_examples_are_true(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    room = importlib.import_module(module)
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(sessions.Checker())
    for thing in (room, *(getattr(room, name) for name in python_api.NAMES[module])):
        name = getattr(thing, "__qualname__", module)
        home = importlib.import_module(getattr(thing, "__module__", module))
        for test in finder.find(thing, name, globs=vars(home).copy()):
            assert runner.run(test).failed == 0, f"{name}: an example is not true"


def test_examples_and_parameters_become_markdown() -> None:
    text = "One line, ``code``.\n\n>>> 1 + 1\n2\n\nParameters\n----------\nalpha : how often,\n    of all.\n"
    assert python_api.as_markdown(text) == (
        "One line, `code`.\n\n```python\n>>> 1 + 1\n2\n```\n\n**Parameters**\n\n- `alpha`: how often,\n  of all."
    )
