"""The command line itself: its help, its completion, its tables, and scenarios to begin with."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from asking import Command, Refused
from rich.console import Console

import p2p_labeldp
from p2p_labeldp.cli import app
from p2p_labeldp.cli.tables import print_facts, print_table
from p2p_labeldp.scenario import parse_scenario


def test_help_has_whole_sentences_at_eighty_columns(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    status, out, _ = command("--help")
    assert status == 0
    assert "..." not in out.replace("[ARGS]...", "")
    assert max(map(len, out.splitlines())) <= 80
    assert all(f"\n  {each.name} " in out for each in app.registered_commands)


def test_version(command: Command) -> None:
    assert command("--version") == (0, f"p2p-labeldp {p2p_labeldp.__version__}\n", "")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("p2p-labeldp sce", "scenarios"),
        ("p2p-labeldp run quick", "quickstart"),
        ("p2p-labeldp run quickstart --set mechanism.al", "mechanism.alpha="),
    ],
)
def test_a_shell_completes_commands_scenarios_and_keys(words: str, found: str) -> None:
    completing = {
        "_P2P_LABELDP_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    done = subprocess.run(
        [sys.executable, "-c", "from p2p_labeldp.cli import script; script()"],
        env=os.environ | completing, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.split() == [found]


# Tables


def printed(width: int) -> str:
    rows = (
        ("eavesdropper", "2.197", "at most nine times as likely, plus delta: the flip alone protects"),
        ("learner", "0.786", "at most 2.2 times as likely"),
    )
    page = io.StringIO()
    print_table(("view", "epsilon", "what anything seen says of it"), rows, where=Console(width=width, file=page))
    return page.getvalue()


@pytest.mark.parametrize("width", [12, 20, 40, 46, 60, 80, 200])
def test_tables_never_break_inside_a_word(width: int) -> None:
    words = set(printed(300).replace(":", "").split())
    assert set(printed(width).replace(":", "").split()) == words


@pytest.mark.parametrize("width", [20, 40, 46, 60, 80])
def test_tables_keep_to_the_width_there_is(width: int) -> None:
    assert max(map(len, printed(width).splitlines())) <= width


def test_a_path_longer_than_the_line_is_left_whole_and_disturbs_no_other_line() -> None:
    page = io.StringIO()
    print_facts((("seconds", "three"), ("folder", "/a" * 50)), Console(width=60, file=page))
    assert page.getvalue().splitlines() == ["seconds  three", "folder   " + "/a" * 50]


# Scenarios to begin with


def test_a_shipped_scenario_can_be_read(command: Command) -> None:
    status, out, _ = command("scenarios", "--show", "quickstart")
    assert status == 0
    assert parse_scenario(out).data.name == "digits"
    assert json.loads(command("scenarios", "--show", "quickstart", "--json")[1])["text"] == out
    assert command("scenarios", "--show", "quickstrat")[0] == 2


def test_a_new_scenario_runs_as_it_is_and_with_everything_uncommented(command: Command) -> None:
    status, out, _ = command("new", "study")
    assert (status, out) == (0, "study.toml; next: p2p-labeldp run study.toml\n")
    text = Path("study.toml").read_text()
    scenario = parse_scenario(text)
    assert (scenario.data.target, scenario.mechanism.epsilon, scenario.adversaries) == ("parity", 1.0, ())
    every = re.sub(r"^# ((# )?(\w+ = |\[\[))", r"\1", text, flags=re.MULTILINE).replace("alpha = ", "# alpha = ")
    everything = parse_scenario(every)
    assert ([entry.name for entry in everything.adversaries], [entry.name for entry in everything.faults]) == (
        ["liars"],
        ["loss"],
    )
    assert command("new", "study")[0] == 2


def test_a_new_scenario_for_one_s_own_examples(command: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text('age,"severity, today"\n1,2\n')
    assert command("new", "mine", "--csv", "mine.csv", "--label", "severity, today")[0] == 0
    data = parse_scenario(Path("mine.toml").read_text()).data
    assert (data.name, data.path, data.label_column) == ("csv", "mine.csv", "severity, today")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["other", "--csv", "mine.csv", "--label", "severity"], "--label severity: mine.csv has no such column"),
        (["other", "--csv", "none.csv"], "none.csv: cannot be read"),
        (["other", "--label", "severity"], "--label is for a CSV file: name it with --csv"),
        (["missing/other"], "missing/other.toml: cannot be written"),
    ],
)
def test_what_a_new_scenario_cannot_be_made_of(
    arguments: list[str], words: str, refused: Refused, tmp_path: Path
) -> None:
    (tmp_path / "mine.csv").write_text("age,diagnosis\n1,2\n")
    assert words in refused("new", *arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.csv"]


# The package from Python


def test_the_package_lists_its_names_and_has_each_of_them() -> None:
    assert {*p2p_labeldp.__all__, "__version__"} <= set(dir(p2p_labeldp))
    assert all(getattr(p2p_labeldp, name) is not None for name in p2p_labeldp.__all__)
    assert set(p2p_labeldp.__all__) == set(p2p_labeldp._HOMES)


@pytest.mark.slow
def test_type_checkers_know_the_types_of_the_package_s_names(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    page = tmp_path / "page.py"
    page.write_text("import p2p_labeldp\nreveal_type(p2p_labeldp.run)\nreveal_type(p2p_labeldp.__version__)\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), str(page)], capture_output=True, text=True
    )
    shown = re.findall(r'Revealed type is "(.*)"', done.stdout)
    assert shown[0].startswith("def (scenario: p2p_labeldp.scenario.whole.Scenario")
    assert shown[1] in ("str", "builtins.str")
