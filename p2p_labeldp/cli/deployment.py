"""Flags that are also environment variables and keys of a scenario's ``[deployment]``, from one list."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from p2p_labeldp.scenario import Deployment, Scenario, replace
from p2p_labeldp.systems import require_posix

PREFIX = "P2P_LABELDP_"


def with_deployment(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each named key (all without names); it gets them as keyword arguments."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True)
        kept = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        added = [
            inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(item))
            for item in dataclasses.fields(Deployment)
            if not names or item.name in names
        ]
        result = signature.replace(parameters=[*kept, *added])
        function.__signature__ = result  # type: ignore[attr-defined]
        function.__annotations__ = {p.name: p.annotation for p in result.parameters.values()} | {"return": None}
        return function

    return decorate


def _option(item: dataclasses.Field[Any]) -> Any:
    flag = "--" + item.name.replace("_", "-")
    kind = type(item.default) | None
    doc = item.metadata["doc"]
    words = f"{doc[:1].upper()}{doc[1:]}."
    return Annotated[kind, typer.Option(flag, envvar=PREFIX + item.name.upper(), help=words)]


def with_settings(scenario: Scenario, settings: dict[str, Any]) -> Scenario:
    """The scenario with what flags and variables say in place of its own; checked like a file."""
    require_posix("a deployment")
    given = {f"deployment__{name}": value for name, value in settings.items() if value is not None}
    return replace(scenario, **given)
