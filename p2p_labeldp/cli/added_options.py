"""Options that commands are given by a decorator: those of a scenario's ``[deployment]``, and ``--plugin FILE``.

A flag, an environment variable and a key of ``[deployment]`` are one thing, from one list. ``--plugin`` stands with
every command that reads a scenario, and plugins that are installed are loaded there too.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer

from p2p_labeldp.scenario import Deployment, Scenario, replace
from p2p_labeldp.scenario.extensions import GROUP, VARIABLE
from p2p_labeldp.systems import require_posix

PREFIX = "P2P_LABELDP_"
Command = Callable[..., None]
Plugins = Annotated[
    list[Path] | None,
    typer.Option("--plugin", metavar="FILE", help="A Python file with adversaries, mechanisms, data sets or models."),
]


def with_deployment(*names: str) -> Callable[[Command], Command]:
    """Give a command an option for each named key (all without names); it gets them as keyword arguments."""
    keys = [item for item in dataclasses.fields(Deployment) if not names or item.name in names]
    return lambda function: _with_options(function, function, ((item.name, _option(item)) for item in keys))


def with_plugins(function: Command) -> Command:
    """The command, with plugins loaded before it does anything."""

    @functools.wraps(function)
    def command(*arguments: Any, plugin: list[Path] | None = None, **named: Any) -> None:
        if plugin or os.environ.get(VARIABLE) or entry_points(group=GROUP):
            from p2p_labeldp.plugins import load_plugins

            load_plugins(plugin or ())
        function(*arguments, **named)

    return _with_options(command, function, [("plugin", Plugins)])


def _with_options(command: Command, like: Command, added: Iterable[tuple[str, Any]]) -> Command:
    """Tell Typer a command's parameters: those of the function it is ``like``, and options that are None by default."""
    signature = inspect.signature(like, eval_str=True)
    kept = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
        for name, option in added
    ]
    result = signature.replace(parameters=[*kept, *more])
    command.__signature__ = result  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in result.parameters.values()} | {"return": None}
    return command


def _option(item: dataclasses.Field[Any]) -> Any:
    flag = "--" + item.name.replace("_", "-")
    doc = item.metadata["doc"]
    words = f"{doc[:1].upper()}{doc[1:]}."
    return Annotated[type(item.default) | None, typer.Option(flag, envvar=PREFIX + item.name.upper(), help=words)]


def with_settings(scenario: Scenario, settings: dict[str, Any]) -> Scenario:
    """The scenario with what flags and variables say in place of its own; checked like a file."""
    require_posix("a deployment")
    given = {f"deployment__{name}": value for name, value in settings.items() if value is not None}
    return replace(scenario, **given)
