"""Every command of docs/tutorial.md, in order, prints what stands there."""

from __future__ import annotations

from pathlib import Path

import pytest
import sessions

DOCS = Path(__file__).parents[2] / "docs"
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


def play(document: str, place: Path, most: int | None = None) -> int:
    """Perform every step of a document, or its first ones; how many commands there were."""
    steps = list(sessions.steps_of((DOCS / document).read_text(encoding="utf-8")))[:most]
    for step in steps:
        printed = sessions.perform(step, place)
        assert step.name or sessions.agrees(step, printed), (
            f"$ {step.text}\n{printed}\nbut the document says\n{step.printed}"
        )
    return sum(not step.name for step in steps)


def test_the_tutorial_begins_as_it_says(tmp_path: Path) -> None:
    assert play("tutorial.md", tmp_path, 3) >= 2


@pytest.mark.slow
def test_the_tutorial_is_true(tmp_path: Path) -> None:
    assert play("tutorial.md", tmp_path) >= 10
    assert (tmp_path / "runs" / "first" / "report.html").exists()
    assert (tmp_path / "runs" / "question" / "report.html").exists()


@pytest.mark.slow
def test_the_tutorial_of_attackers_is_true_and_writes_one_in_twenty_lines(tmp_path: Path) -> None:
    assert play("own-attacker.md", tmp_path) >= 6
    written = (tmp_path / "hesitant.py").read_text(encoding="utf-8").partition("@dataclass")[2]
    assert len([line for line in written.splitlines() if line.strip()]) <= 20


def test_files_are_written_and_commands_are_run_and_compared(tmp_path: Path) -> None:
    file, cat, echo = sessions.steps_of(SMALL)
    assert sessions.perform(file, tmp_path) == ""
    assert sessions.perform(cat, tmp_path) == "hello\n"
    assert sessions.agrees(cat, "hello\n")
    assert not sessions.agrees(cat, "hallo\n")
    assert sessions.perform(echo, tmp_path) == "one\ntwo 2\n"
    assert sessions.agrees(echo, "one\ntwo 2\n")
    assert not sessions.agrees(echo, "two 2\n")


@pytest.mark.parametrize(
    ("text", "written", "near", "far"),
    [
        ("accuracy        {} on the noisy labels", "0.8914", "0.8750", "0.8700"),
        ("                {} without privacy", "0.9331", "0.9431", "0.9600"),
        ("     2     8  {} ± 0.0222   0.3", "0.8564", "0.8586", "0.8786"),
        ("     2     8  0.8564 ± {}   0.3", "0.0222", "0.0150", "0.0522"),
        ("{{'accuracy': {}, 'epsilon': 0.79}}", "0.891", "0.889", "0.991"),
        ("0.856 with few clusters, {} with many (p = 0.001)", "0.761", "0.760", "0.856"),
        ("0.856 with few clusters, 0.761 with many (p = {})", "0.001", "0.003", "0.050"),
    ],
)
def test_accuracies_are_compared_with_a_tolerance(text: str, written: str, near: str, far: str) -> None:
    step = sessions.Step("", "", text.format(written) + "\n")
    assert sessions.agrees(step, text.format(near) + "\n")
    assert not sessions.agrees(step, text.format(far) + "\n")


def test_all_else_is_compared_exactly() -> None:
    printed = "accuracy        0.8914 on the noisy labels\nprivacy         epsilon 0.7856 against the learner\n"
    step = sessions.Step("", "", printed)
    assert sessions.agrees(step, printed)
    assert not sessions.agrees(step, printed.replace("0.7856", "0.7857"))
    assert not sessions.agrees(step, printed.replace("0.8914", "0.891"))
    assert not sessions.agrees(step, printed + "                0.9331 without privacy\n")


def test_outputs_are_renewed_and_nothing_else(tmp_path: Path) -> None:
    assert sessions.renewed(SMALL, tmp_path) == SMALL.replace("...", "two 2")
