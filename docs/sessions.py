"""Plays the sessions of a document: its files are written, its commands run, its outputs compared or renewed.

    python docs/sessions.py docs/tutorial.md      runs every command anew and puts what it prints into the document

Blocks marked ``console`` hold commands after ``$`` with what they print below; ``...`` stands for what changes from
run to run. Blocks marked with a language and a name (``toml clinic.toml``) are files. Other blocks are not touched.

What comes out of the learner (``LEARNED``) depends on the processor, which decides in what order sums are taken and so
when the optimiser stops. It is compared to within ``TOLERANCE``, everything else exactly.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^```(?P<mark>[^\n`]*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
LIMIT = 600  # seconds for one command, on a machine that is busy with others
PROGRAMS = 'python() { "$PYTHON" "$@"; }; p2p-labeldp() { python -m p2p_labeldp "$@"; }\n'
"""Commands are those of the Python that runs this, wherever it was installed."""
CHANGING = (
    (re.compile(r"^(seconds +)[\d.]+ ", re.MULTILINE), r"\1... "),
    (re.compile(r"; [\d.]+ in all$", re.MULTILINE), "; ... in all"),
)
"""What differs from one run to the next, and what stands in its place."""
LEARNED = re.compile(
    r"accuracy\W+\d\.\d+"
    r"|\d\.\d+(?= on the noisy labels| without privacy| with (?:few|many)\b)"
    r"|\d\.\d+ ± \d\.\d+"
    r"|(?<=\(p = )\d\.\d+"
)
"""Accuracies, and what is computed from them."""
TOLERANCE = 0.02


@dataclass(frozen=True)
class Step:
    """A file to write (``name``), or a command to run and what it prints."""

    name: str
    text: str
    printed: str = ""


def steps_of(document: str) -> Iterator[Step]:
    """Files and commands in the document's order."""
    for block in BLOCK.finditer(document):
        mark, body = block["mark"].split(), block["body"]
        if mark == ["console"]:
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, printed = _command(part)
                yield Step("", command, printed)
        elif len(mark) == 2:
            yield Step(mark[1], body)


def _command(part: str) -> tuple[str, str]:
    """A command, with the lines that a backslash joins to it, and the rest."""
    lines = part.splitlines(keepends=True)
    last = next(place for place, line in enumerate(lines) if not line.endswith("\\\n"))
    return "".join(lines[: last + 1]).rstrip("\n"), "".join(lines[last + 1 :])


def perform(step: Step, place: Path) -> str:
    """Write the file, or run the command in ``place`` and return what it prints, on both outputs."""
    return execute(step, place)[1]


def execute(step: Step, place: Path) -> tuple[int, str]:
    """The same, with the exit status before what is printed."""
    if step.name:
        (place / step.name).write_text(step.text, encoding="utf-8")
        return 0, ""
    environment = os.environ | {"PYTHON": sys.executable, "COLUMNS": "100"}
    environment.pop("PYTHONSAFEPATH", None)  # a reader's shell has none, and imports what is in the present folder
    done = subprocess.run(
        ["bash", "-euc", PROGRAMS + step.text], cwd=place, env=environment, timeout=LIMIT, text=True, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.returncode, "".join(line.rstrip() + "\n" for line in done.stdout.splitlines())


class Checker(doctest.OutputChecker):
    """Compares as doctest does, but for what was learned."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(want, _settled(want, got), optionflags)


def _settled(want: str, got: str) -> str:
    """What was got, with what was learned as in what was wanted where that is close enough."""
    wanted = [found[0] for found in LEARNED.finditer(want)]
    if len(wanted) != len(LEARNED.findall(got)):
        return got
    left = iter(wanted)

    def settle(found: re.Match[str]) -> str:
        old = next(left)
        return old if _close(old, found[0]) else found[0]

    return LEARNED.sub(settle, got)


def _close(old: str, new: str) -> bool:
    def numbers(text: str) -> list[float]:
        return [float(each) for each in re.findall(r"\d\.\d+", text)]

    def form(text: str) -> str:
        return re.sub(r"\d", "0", text)  # digits and spaces where they were

    return form(old) == form(new) and all(
        abs(before - now) <= TOLERANCE for before, now in zip(numbers(old), numbers(new), strict=True)
    )


def agrees(step: Step, printed: str) -> bool:
    return Checker().check_output(step.printed, printed, doctest.ELLIPSIS)


def renewed(document: str, place: Path) -> str:
    """The document with what its commands print now."""

    def renew(block: re.Match[str]) -> str:
        parts = []
        for step in steps_of(block[0]):
            printed = perform(step, place)
            for pattern, instead in CHANGING:
                printed = pattern.sub(instead, printed)
            parts.append(step.text if step.name else f"$ {step.text}\n{printed}")
        return f"```{block['mark']}\n{''.join(parts)}```" if parts else block[0]

    return BLOCK.sub(renew, document)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            Path(name).write_text(renewed(Path(name).read_text(encoding="utf-8"), Path(folder)), encoding="utf-8")
