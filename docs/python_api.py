"""Writes docs/python-api.md from the docstrings: ``python docs/python_api.py``."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PLACE = Path(__file__).with_name("python-api.md")
NAMES = {
    "p2p_labeldp": (
        "load_scenario", "parse_scenario", "Scenario", "run", "Run", "write_report", "make_plan", "Plan", "sweep",
        "Sweep", "read_sweep", "LabelPrivateClassifier", "load_model", "RequestError", "RunError",
    ),
    "p2p_labeldp.learning.saved": ("SavedModel",),
    "p2p_labeldp.scenario": ("replace", "make_entry", "documentation", "entry_documentation"),
    "p2p_labeldp.privacy": (
        "account", "Account", "Parameters", "Guarantee", "View", "account_clusters", "ClusterGuarantees", "calibrate",
        "Calibration", "variance", "together", "to_dp_accounting",
    ),
    "p2p_labeldp.mechanisms": (
        "make_plan", "Plan", "release", "Released", "exchange", "Rosters", "SeededCoins", "SystemCoins",
        "noisy_sha256",
    ),
    "p2p_labeldp.learning": (
        "learn", "Reports", "targets_of", "Targets", "fit_softmax", "SoftmaxModel", "pooled_reports", "trimmed_reports",
    ),
    "p2p_labeldp.runs": ("Summary", "read_summary"),
    "p2p_labeldp.audit": ("audit_runs", "Audit", "view_of", "RecordedRun"),
    "p2p_labeldp.adversaries": ("judge", "GameResult", "reconstruct", "Reconstruction", "Attack", "Bounds"),
    "p2p_labeldp.plugins": ("Plugin", "NewAdversary", "NewMechanism", "NewDataSet", "load_plugins"),
}  # fmt: skip
"""What is meant to stay, in the order in which a reader meets it."""

OPENING = """\
# The Python interface

Made from the docstrings by `python docs/python_api.py`. What is listed here is meant to stay; everything else may
change. Requests that make no sense raise `RequestError` with one line that names the field; a run that breaks raises
`RunError`. The examples are run by the tests. trio is its own event loop: call `run` from plain code, not from inside
a coroutine.

```python
from p2p_labeldp import load_scenario, run
from p2p_labeldp.privacy import Parameters, account

finished = run(load_scenario("scenarios/quickstart.toml"), engine="vectorized")
print(finished.summary.accuracy, finished.summary.privacy["learner"].epsilon)
print(account("coalition", Parameters(alpha=0.1), cluster_size=500, colluders=1).get_epsilon(4e-6).epsilon)
```

`LabelPrivateClassifier` is the same for scikit-learn's pipelines. Every fit is a release of its own:
`privacy_.repeated(10)` is what ten cost.

```python
from sklearn.datasets import load_digits
from p2p_labeldp import LabelPrivateClassifier

features, labels = load_digits(return_X_y=True)
classifier = LabelPrivateClassifier("cluster_rr", epsilon=2.0, random_state=0).fit(features / 16, labels)
print(classifier.score(features / 16, labels), classifier.privacy_.epsilon, classifier.plan_.trust)
```
"""
WIDTH = 100


def page() -> str:
    """The whole document."""
    parts = [OPENING]
    for module_name, names in NAMES.items():
        module = importlib.import_module(module_name)
        parts.append(f"## `{module_name}`\n\n{as_markdown(documented(module_name, module))}\n")
        parts += [entry(name, getattr(module, name)) for name in names]
    return "\n".join(parts)


def entry(name: str, thing: Any) -> str:
    """One name: how it is called, what it says of itself, and what a reader may touch of it."""
    plain = inspect.isclass(thing) and (dataclasses.is_dataclass(thing) or issubclass(thing, Exception))
    called = "" if plain else f"```python\n{call(name, thing, WIDTH)}\n```\n\n"
    text = f"### `{name}`\n\n{called}{as_markdown(documented(name, thing))}\n"
    if inspect.isclass(thing):
        fields = [f"- {field}" for field in fields_of(thing)]
        methods = [f"- {method}" for method in methods_of(thing)]
        text += "".join("\n" + "\n".join(lines) + "\n" for lines in (fields, methods) if lines)
    return text


def documented(name: str, thing: Any) -> str:
    found = inspect.getdoc(thing)
    if not found:
        raise SystemExit(f"{name} has no docstring")
    return found


def call(name: str, thing: Any, width: float) -> str:
    """The call as it stands in the source, one argument to a line where it is too long for one."""
    function = vars(thing).get("__init__", object) if inspect.isclass(thing) else thing
    if function is object:
        return f"{name}()"
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(node, ast.FunctionDef)
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    arguments = [
        _argument(*pair) for pair in zip(positional, defaults, strict=True) if pair[0].arg not in ("self", "cls")
    ]
    arguments += ["*"] if given.kwonlyargs else []
    arguments += [_argument(*pair) for pair in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    arguments += [f"**{given.kwarg.arg}"] if given.kwarg else []
    returned = "" if node.returns is None or inspect.isclass(thing) else f" -> {ast.unparse(node.returns)}"
    line = f"{name}({', '.join(arguments)}){returned}"
    if len(line) <= width:
        return line
    return f"{name}(\n" + "".join(f"    {argument},\n" for argument in arguments) + f"){returned}"


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    kind = "" if argument.annotation is None else f": {ast.unparse(argument.annotation).strip(chr(39))}"
    return f"{argument.arg}{kind}" + ("" if default is None else f" = {ast.unparse(default)}")


def methods_of(cls: type) -> Iterator[str]:
    """Public methods and properties of the class itself that say what they are for."""
    for name, member in vars(cls).items():
        function = getattr(member, "__func__", member)
        is_property = isinstance(function, property)
        if name.startswith("_") or not (inspect.isfunction(function) or is_property) or not inspect.getdoc(function):
            continue
        shown = name if is_property else call(name, function, float("inf"))
        yield f"`{shown}`: {' '.join(as_markdown(inspect.getdoc(function) or '').split())}"


def fields_of(cls: type) -> Iterator[str]:
    """A dataclass's fields as they stand in the source, with the string that follows one."""
    if not dataclasses.is_dataclass(cls):
        return
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(body, ast.ClassDef)
    for place, field in enumerate(body.body):
        if not isinstance(field, ast.AnnAssign):
            continue
        made = isinstance(field.value, ast.Call)  # by a factory, which says nothing to a reader
        default = "" if field.value is None or made else f" = {ast.unparse(field.value)}"
        following = body.body[place + 1] if place + 1 < len(body.body) else None
        note = ""
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            note = ": " + as_markdown(" ".join(str(following.value.value).split()))
        yield f"`{ast.unparse(field.target)}: {ast.unparse(field.annotation)}{default}`{note}"


def as_markdown(text: str) -> str:
    """A docstring's marks as Markdown's: code, sections, lists of parameters, examples."""
    text = re.sub(r":\w+:`(\w+)`", r"`\1`", text).replace("``", "`")
    lines: list[str] = []
    source = text.splitlines()
    in_section = False
    for line, following in zip(source, [*source[1:], ""], strict=True):
        if re.fullmatch(r"-{3,}", line):
            in_section = True
            lines.append("")
        elif re.fullmatch(r"-{3,}", following):
            lines.append(f"**{line}**")
        elif in_section:
            lines.append(re.sub(r"^([\w, ]+) : ", r"- `\1`: ", re.sub(r"^ {4}", "  ", line)))
        else:
            lines.append(line)
    return "\n\n".join(map(_fenced, re.split(r"\n\n+", "\n".join(lines).strip("\n")))).rstrip()


def _fenced(paragraph: str) -> str:
    """An example, which is indented or begins like a session, as a block of code."""
    if paragraph.startswith((">>>", "    ")):
        return f"```python\n{textwrap.dedent(paragraph)}\n```"
    return paragraph


if __name__ == "__main__":
    PLACE.write_text(page(), encoding="utf-8")
