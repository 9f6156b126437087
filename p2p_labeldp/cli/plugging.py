"""``--plugin FILE``, which every command has that reads a scenario, and plugins that are installed."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer

from p2p_labeldp.scenario.extensions import GROUP, VARIABLE

Plugins = Annotated[
    list[Path] | None,
    typer.Option("--plugin", metavar="FILE", help="A Python file with adversaries, mechanisms, data sets or models."),
]


def with_plugins(function: Callable[..., None]) -> Callable[..., None]:
    """The command, with plugins loaded before it does anything."""

    @functools.wraps(function)
    def command(*arguments: Any, plugin: list[Path] | None = None, **named: Any) -> None:
        if plugin or os.environ.get(VARIABLE) or entry_points(group=GROUP):
            from p2p_labeldp.plugins import load_plugins

            load_plugins(plugin or ())
        function(*arguments, **named)

    signature = inspect.signature(function, eval_str=True)
    option = inspect.Parameter("plugin", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Plugins)
    result = signature.replace(parameters=[*signature.parameters.values(), option])
    command.__signature__ = result  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in result.parameters.values()} | {"return": None}
    return command
