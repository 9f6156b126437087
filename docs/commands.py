"""Commands that documents show: where they stand, whether the program takes them, in which order a reader types them.

A command is ours if it calls ``p2p-labeldp``, a module of the package, a script of ``benchmarks/`` or ``docs/``, or
``docker compose``. It stands in a block marked ``sh`` or ``console``, in a table, between backticks, or in a comment
of a scenario. Between backticks the program's name may be left out (``run churn``), and so may what a command needs
(``p2p-labeldp account``): that is a mention, of which the rest is checked all the same.

Words in capitals stand for what a reader has: ``PLACEHOLDERS`` says what is put there to check a command, or to run it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import os
import re
import runpy
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import typer
from sessions import BLOCK, Step, steps_of
from typer.main import get_command

from p2p_labeldp.cli import app
from p2p_labeldp.cli.output import find_scenario
from p2p_labeldp.privacy import View
from p2p_labeldp.scenario import MECHANISMS, Engine, Exchange, Hosting, check_override

ROOT = Path(__file__).parents[1]
PROGRAM = "p2p-labeldp"
PLACEHOLDERS = {
    "SCENARIO": "quickstart", "NAME": "quickstart", "RUN": "runs/quickstart", "VIEW": "metadata", "SEED": "7",
    "DATA": "data", "COLUMN": "readmitted", "FILE": "hesitant.py", "FOLDER": "data", "HOST": "127.0.0.1", "C": "1",
}  # fmt: skip
INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
INDENTED = re.compile(r"^#? {4,}(\S.*)$", re.MULTILINE)
OPERATORS = ("&&", "||", "|", ";", "(", ")", ">", ">>", "<", "<<", "&")
ALLOWED: dict[str, Sequence[str]] = {
    "engine": tuple(Engine), "hosting": tuple(Hosting), "view": tuple(View), "exchange": tuple(Exchange),
    "noise": ("sticky", "fresh"),
    "role": ("coordinator", "learner", "auditor", "users", "curator", "shuffler"),
}  # fmt: skip
"""Options that take one of a few words, by the name of the parameter: commands look at these themselves."""


@dataclass(frozen=True)
class Command:
    """One call of a program of ours, as a page has it."""

    page: str
    line: int
    words: tuple[str, ...]
    inline: bool = False
    variables: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return " ".join(self.words)


class CommandError(Exception):
    """A document shows a command that the program does not take."""


def commands_of(page: Path) -> Iterator[Command]:
    """Every command of ours on a page, or in the comments of a scenario, in order."""
    for line, text, inline in _shown(page):
        for words in _calls(text):
            variables, rest = _variables(words)
            if inline and len(rest) > 1 and rest[0] in _subcommands():
                rest = [PROGRAM, *rest]
            if _ours(rest):
                yield Command(page.name, line, tuple(rest), inline, tuple(variables))


def session_of(page: Path) -> Iterator[tuple[Step, bool]]:
    """What a reader who follows the page writes and types: files, blocks line by line, and what is between backticks.

    With each step: does the page show what it prints? So it is in sessions, which are marked ``console``.
    """
    document = page.read_text(encoding="utf-8")
    here = 0
    for block in BLOCK.finditer(document):
        yield from _typed_inline(document[here : block.start()])
        here = block.end()
        if block["mark"].strip() == "sh":
            yield from ((Step("", line), False) for line in logical_lines(block["body"]))
        else:
            yield from ((step, not step.name) for step in steps_of(block[0]))
    yield from _typed_inline(document[here:])


def logical_lines(block: str) -> Iterator[str]:
    """The lines of a shell's block, with what a backslash or a here-document joins to them; no empty ones."""
    lines = iter(block.splitlines())
    for line in lines:
        whole = line
        while whole.endswith("\\"):
            whole += "\n" + next(lines)
        if (until := re.search(r"<<'?(\w+)'?", line)) is not None:
            for more in lines:
                whole += "\n" + more
                if more == until[1]:
                    break
        if whole.strip():
            yield whole


def is_ours(text: str) -> bool:
    """Whether a line of the shell calls a program of ours."""
    return any(_ours(_variables(words)[1]) for words in _calls(text))


def filled(text: str) -> str:
    """The text with something in place of each word in capitals."""
    return re.sub(rf"\b(?:{'|'.join(PLACEHOLDERS)})\b", lambda found: PLACEHOLDERS[found[0]], text)


def check(command: Command) -> None:
    """Whether the programs take this command; raises ``CommandError``, runs nothing."""
    words = [filled(word) for word in command.words]
    try:
        if words[0] == PROGRAM:
            _check_ours(words[1:], mention=command.inline)
        elif words[:2] == ["docker", "compose"]:
            _check_compose(words[2:], [variable.partition("=")[0] for variable in command.variables])
        else:
            _check_script(words[1:])
    except CommandError as error:
        raise CommandError(f"{command.page}:{command.line}: {command.text}: {error}") from error


def _shown(page: Path) -> Iterator[tuple[int, str, bool]]:
    """Line, text, and whether it is between backticks, of whatever may be a command."""
    document = page.read_text(encoding="utf-8")

    def at(place: int) -> int:
        return document.count("\n", 0, place) + 1

    if page.suffix == ".toml":
        for comment in re.finditer(r"(?:^#.*\n)+", document, re.MULTILINE):
            text = re.sub(r"^# ?", "", comment[0], flags=re.MULTILINE)
            yield from ((at(comment.start()), found[1], True) for found in INLINE.finditer(text))
            yield from ((at(comment.start()), found[1], False) for found in INDENTED.finditer(comment[0]))
        return
    prose = BLOCK.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), document)
    inline = (found for found in INLINE.finditer(prose) if not re.match(r"\w+\(", found[1]))  # a call in Python is none
    shown = [(found.start(), found[1], True) for found in inline]
    for block in BLOCK.finditer(document):
        mark = block["mark"].strip()
        if mark == "sh":
            shown += [(block.start(), line, False) for line in logical_lines(block["body"])]
        elif mark == "console":
            shown += [(block.start(), step.text, False) for step in steps_of(block[0])]
    yield from ((at(place), text, between) for place, text, between in sorted(shown))


def _calls(text: str) -> Iterator[list[str]]:
    """The calls that a line of the shell is made of."""
    lexer = shlex.shlex(text.partition("<<")[0].replace("\\\n", " "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found: list[str] = []
    try:
        for word in lexer:
            if word in OPERATORS:
                yield found
                found = []
            else:
                found.append(word)
    except ValueError:  # a lone quotation mark: no line of the shell
        return
    yield found


def _variables(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """What is set for a call, and the call."""
    first = next((place for place, word in enumerate(words) if not re.match(r"[A-Z][A-Z0-9_]*=", word)), len(words))
    return words[:first], words[first:]


def _ours(words: Sequence[str]) -> bool:
    if len(words) < 2:
        return False
    if words[0] == "python":
        return words[1].startswith(("benchmarks/", "docs/")) or (
            words[1] == "-m" and words[2].startswith("p2p_labeldp")
        )
    return words[0] == PROGRAM or words[:2] == ["docker", "compose"]


def _typed_inline(prose: str) -> Iterator[tuple[Step, bool]]:
    """Commands between backticks that name their program or, without it, more than a command's name."""
    for found in INLINE.finditer(prose):
        text = " ".join(found[1].split())
        calls = [words for words in _calls(text) if words]
        if len(calls) == 1 and calls[0][0] in _subcommands() and len(calls[0]) > 1:
            text = f"{PROGRAM} {text}"
        if is_ours(text):
            yield Step("", text), False


@cache
def _program() -> Any:
    return get_command(app)


def _subcommands() -> tuple[str, ...]:
    return tuple(_program().commands)


def _check_ours(words: list[str], *, mention: bool = False) -> None:
    program = _program()
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # --help prints
            context = program.make_context(PROGRAM, list(words))
            while hasattr(program, "commands"):
                name, program, rest = program.resolve_command(context, [*context._protected_args, *context.args])
                context = program.make_context(name, list(rest), parent=context)
    except typer.Exit:  # --help, --version
        return
    except typer.TyperException as error:
        if mention and type(error).__name__ in ("MissingParameter", "NoArgsIsHelpError", "BadOptionUsage"):
            return
        raise CommandError(error.format_message()) from error
    _check_values(context.params)


def _check_values(given: dict[str, Any]) -> None:
    for name, allowed in ALLOWED.items():
        if (value := given.get(name)) is not None and any(each not in allowed for each in _list(value)):
            raise CommandError(f"{value} is none of {', '.join(allowed)}")
    for each in re.findall(r"(?:^|\s)(\w+)", given.get("mechanisms") or ""):
        if each not in (*MECHANISMS, "as_printed"):
            raise CommandError(f"there is no mechanism {each}")
    if given.get("plugin"):  # it may bring keys of its own
        return
    try:
        for setting in given.get("settings") or ():
            check_override(setting)
        for varied in _list(given.get("vary") or ()):
            key, _, values = varied.partition("=")
            if key != "clusters":  # which `compare` varies
                for value in values.split(","):
                    check_override(f"{key}={value}")
        for scenario in (given.get("scenario"), given.get("source")):
            if scenario is not None and "." not in str(scenario):  # not a file of the reader's
                find_scenario(str(scenario), given.get("settings"), given.get("seed"))
    except Exception as error:
        raise CommandError(str(error)) from error


def _list(value: Any) -> Sequence[Any]:
    return [value] if isinstance(value, str) else value


class _Parsed(Exception):
    """A script has parsed its arguments; nothing was done with them."""


def _check_script(words: list[str]) -> None:
    """A script or module takes these arguments: it is run up to where it has parsed them."""
    if words[0] == "-m":
        name, given = words[1], words[2:]
        module = importlib.util.find_spec(f"{name}.__main__")
        path = Path(str(module.origin)) if module is not None else Path()
    else:
        path, given = ROOT / words[0], words[1:]
    if not path.is_file():
        raise CommandError(f"there is no {words[0]}")
    source = path.read_text(encoding="utf-8")
    if "ArgumentParser" not in source:
        if missing := [word for word in given if word.startswith("--") and f'"{word}"' not in source]:
            raise CommandError(f"it knows no {', '.join(missing)}")
        return
    parse = argparse.ArgumentParser.parse_args

    def parse_only(parser: argparse.ArgumentParser, *arguments: Any, **named: Any) -> NoReturn:
        parse(parser, *arguments, **named)
        raise _Parsed

    def refuse(parser: argparse.ArgumentParser, message: str) -> NoReturn:
        raise CommandError(message)

    with (
        mock.patch.object(argparse.ArgumentParser, "parse_args", parse_only),
        mock.patch.object(argparse.ArgumentParser, "error", refuse),
        mock.patch.object(sys, "argv", [str(path), *given]),
        mock.patch.object(sys, "path", [str(path.parent), *sys.path]),
        mock.patch.dict(os.environ),
    ):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except _Parsed:
            return
    raise CommandError("it does not look at its arguments")


COMPOSE = {
    "up": ("--build", "--detach", "--scale"), "down": ("-v",), "cp": (), "ps": ("-a",), "logs": (),
    "run": ("--rm", "--no-deps", "--entrypoint"),
}  # fmt: skip
"""What the documentation uses of Docker Compose."""


def _check_compose(words: list[str], variables: Sequence[str]) -> None:
    """Services, profiles and variables are those of docker-compose.yml; what a service runs is checked too."""
    file = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    services = re.findall(r"^  ([\w-]+):$", file.partition("\nservices:")[2].partition("\nnetworks:")[0], re.MULTILINE)
    if unknown := [name for name in variables if f"${{{name}" not in file]:
        raise CommandError(f"docker-compose.yml reads no {', '.join(unknown)}")
    if words[:1] == ["--profile"]:
        if f"profiles: [{words[1]}]" not in file:
            raise CommandError(f"there is no profile {words[1]}")
        words = words[2:]
    name, *rest = words or ["up"]
    if name not in COMPOSE:
        raise CommandError("the documentation uses no such command of Docker Compose")
    options, program = [], [PROGRAM, "sweep"]
    while rest and rest[0].startswith("-"):
        options.append(rest.pop(0))
        if options[-1] == "--entrypoint":
            program = [rest.pop(0)]
    if unknown := [option for option in options if option not in COMPOSE[name]]:
        raise CommandError(f"the documentation does not use {', '.join(unknown)} of it")
    if name == "run":
        rest, told = rest[:1], rest[1:]
        _check_ours([*program[1:], *told])
    named = [word.partition(":")[0].partition("=")[0] for word in rest if name != "cp" or ":" in word]
    if unknown := [each for each in named if each not in services]:
        raise CommandError(f"there is no service {', '.join(unknown)}")
