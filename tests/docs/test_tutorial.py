"""Every command of docs/tutorial.md, in order, prints what stands there."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for their module
    spec.loader.exec_module(module)
    return module


sessions = load("sessions")
SMALL = """
```sh
not run
```
```text greeting.txt
hello
```
```console
$ cat greeting.txt
hello
$ echo one; \\
  echo two $((1 + 1))
one
...
```
"""


def test_the_tutorial_is_true(tmp_path: Path) -> None:
    steps = list(sessions.steps_of((DOCS / "tutorial.md").read_text(encoding="utf-8")))
    assert sum(not step.name for step in steps) >= 10
    for step in steps:
        printed = sessions.perform(step, tmp_path)
        assert step.name or sessions.agrees(step, printed), (
            f"$ {step.text}\n{printed}\nbut the tutorial says\n{step.printed}"
        )
    assert (tmp_path / "runs" / "first" / "report.html").exists()
    assert (tmp_path / "runs" / "question" / "report.html").exists()


def test_files_are_written_and_commands_are_run_and_compared(tmp_path: Path) -> None:
    file, cat, echo = sessions.steps_of(SMALL)
    assert sessions.perform(file, tmp_path) == ""
    assert sessions.perform(cat, tmp_path) == "hello\n"
    assert sessions.agrees(cat, "hello\n")
    assert not sessions.agrees(cat, "hallo\n")
    assert sessions.perform(echo, tmp_path) == "one\ntwo 2\n"
    assert sessions.agrees(echo, "one\ntwo 2\n")
    assert not sessions.agrees(echo, "two 2\n")


def test_outputs_are_renewed_and_nothing_else(tmp_path: Path) -> None:
    assert sessions.renewed(SMALL, tmp_path) == SMALL.replace("...", "two 2")


@pytest.mark.parametrize("link", ["privacy", "threats", "deployment", "sweeps", "large-runs", "python-api"])
def test_what_it_points_to_is_there(link: str) -> None:
    assert f"({link}.md)" in (DOCS / "tutorial.md").read_text(encoding="utf-8")
    assert (DOCS / f"{link}.md").exists()
