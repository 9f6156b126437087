"""The direction of the arrows: a room imports only from rooms above it in the design's list, and nothing in circles."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import p2p_labeldp

ROOMS = (
    "arrays", "collector", "errors", "stderr", "streams", "systems", "threads", "scenario", "data", "privacy",
    "mechanisms", "learning", "protocol", "network", "audit", "adversaries", "plugins", "engines", "runs",
    "experiments", "estimator", "deployment", "reporting", "cli",
)  # fmt: skip
PACKAGE = Path(p2p_labeldp.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
FRONT_DOORS = ("__init__.py", "__main__.py")  # of the whole package: they open every room
IN_ROOMS = [path for path in FILES if path.parent != PACKAGE or path.name not in FRONT_DOORS]


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_modules(text: str, package: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything a file imports, under ``if TYPE_CHECKING`` and inside functions too."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            base += [node.module] if node.module else []
            yield from ((node.lineno, ".".join([*base, name.name])) for name in node.names)


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    package = ("p2p_labeldp", *path.relative_to(PACKAGE).parts[:-1])
    return imported_modules(path.read_text(encoding="utf-8"), package)


def rooms_entered(path: Path) -> Iterator[tuple[int, str]]:
    for line, module in imports_of(path):
        parts = module.split(".")
        if parts[0] == "p2p_labeldp":
            yield line, parts[1] if len(parts) > 1 else ""


def names(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def test_there_are_rooms_to_check() -> None:
    assert {"errors", "scenario", "mechanisms", "protocol", "network", "engines", "cli"} <= {
        room_of(path) for path in IN_ROOMS
    }


def test_every_file_stands_in_a_room_of_the_design() -> None:
    assert [names(path) for path in IN_ROOMS if room_of(path) not in ROOMS] == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_rooms_above_it(room: str) -> None:
    allowed = ROOMS[: ROOMS.index(room) + 1]
    wrong = [
        f"{names(path)}, line {line} enters {entered!r}"
        for path in IN_ROOMS
        if room_of(path) == room
        for line, entered in rooms_entered(path)
        if entered not in allowed
    ]
    assert not wrong, f"{room} may enter {', '.join(allowed)}"


def test_roles_know_nothing_of_trio_or_tls() -> None:
    for path in PACKAGE.glob("protocol/**/*.py"):
        roots = {module.split(".")[0] for _, module in imports_of(path)}
        assert not roots & {"trio", "ssl", "socket", "asyncio", "threading", "time"}, names(path)


def test_the_check_sees_imports_for_type_checkers_and_inside_functions() -> None:
    text = "if TYPE_CHECKING:\n    from ..engines import run\ndef f():\n    import p2p_labeldp.cli.run\n"
    seen = list(imported_modules(text, ("p2p_labeldp", "protocol")))
    assert seen == [(2, "p2p_labeldp.engines.run"), (4, "p2p_labeldp.cli.run")]


# Circles


def module_of(path: Path) -> str:
    return ".".join(("p2p_labeldp", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def named_modules(text: str) -> Iterator[str]:
    """What ``import_module`` is called with; of a name that is put together, the part before the first gap."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            (name,) = node.args
            parts = name.values if isinstance(name, ast.JoinedStr) else [name]
            assert isinstance(parts[0], ast.Constant), f"line {node.lineno} imports what nobody can tell beforehand"
            yield str(parts[0].value)


def dependencies() -> dict[str, set[str]]:
    """The modules that each module imports anywhere in its text, functions and names put together included.

    That a package is imported with each of its modules is not an import of the module's.
    """
    modules = {module_of(path): path for path in IN_ROOMS}
    found: dict[str, set[str]] = {}
    for module, path in modules.items():
        whole = {name if name in modules else name.rpartition(".")[0] for _, name in imports_of(path)}
        looked_up = {
            each
            for prefix in named_modules(path.read_text(encoding="utf-8"))
            for each in modules
            if each == prefix or (prefix.endswith(".") and each.rpartition(".")[0] == prefix[:-1])
        }
        found[module] = (whole & modules.keys()) | looked_up - {module}
    return found


def circle(graph: Mapping[str, Set[str]]) -> list[str]:
    """Modules of which each imports the next one, the last being the first; none where there is no circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1][::-1]
        return found
    return []


def test_no_module_imports_itself_by_way_of_others_be_it_inside_functions_or_by_name() -> None:
    found = dependencies()
    assert sum(map(len, found.values())) > 500
    assert "p2p_labeldp.data.sets.adult" in found["p2p_labeldp.data.sets"]  # looked up by its name
    assert circle(found) == []


def test_circles_are_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) in (["b", "c", "b"], ["c", "b", "c"])
    text = 'import_module("a.b")\nimportlib.import_module(f"a.{name}.c")\n'
    assert list(named_modules(text)) == ["a.b", "a."]
