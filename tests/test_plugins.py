"""Adversaries, mechanisms and data sets from outside the package."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from p2p_labeldp import plugins
from p2p_labeldp.adversaries.attacks import ATTACKS
from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments import run
from p2p_labeldp.mechanisms import make_plan
from p2p_labeldp.plugins import load_plugins
from p2p_labeldp.privacy import View
from p2p_labeldp.scenario import (
    ADVERSARIES,
    DATA_SETS,
    MECHANISMS,
    SECTIONS,
    Scenario,
    documentation,
    entry_documentation,
    outside,
    parse_scenario,
)

Command = Callable[..., tuple[int, str, str]]
EXAMPLE = Path(__file__).parent / "plugin_example" / "p2p_labeldp_example.py"
REGISTRIES = (ADVERSARIES, DATA_SETS, MECHANISMS, SECTIONS, outside._ADDED, ATTACKS, plugins._loaded)


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Other tests know nothing of what these load."""
    monkeypatch.setenv(outside.VARIABLE, "")
    before = [dict(registry) for registry in REGISTRIES]  # type: ignore[call-overload]
    modules = set(sys.modules)
    yield
    for registry, content in zip(REGISTRIES, before, strict=True):
        registry.clear()
        registry.update(content)  # type: ignore[arg-type]
    for name in set(sys.modules) - modules:
        if name.startswith("p2p_labeldp_plugin_"):
            del sys.modules[name]


@pytest.fixture
def small(small_scenario: Callable[..., Scenario]) -> Callable[..., Scenario]:
    load_plugins([EXAMPLE])
    return lambda *settings: small_scenario("mechanism.rounds=1", "data.labels=2", *settings)


def test_what_a_plugin_adds_is_documented_like_any_other(small: Callable[..., Scenario]) -> None:
    rules = {name: rule for name, _, rule, _ in (*documentation(), *entry_documentation())}
    assert '"truthful_rr"' in rules["mechanism.kind"]
    assert '"moons"' in rules["data.name"]
    assert rules["mechanism.truth"] == "a number from 0 to 1"
    assert "adversaries[hesitant].every" in rules


def test_a_scenario_with_a_plugin_s_keys_is_written_and_read_back(small: Callable[..., Scenario]) -> None:
    scenario = small("mechanism.kind=truthful_rr", "mechanism.truth=.9")
    assert scenario.mechanism.truth == 0.9  # type: ignore[attr-defined]
    assert parse_scenario(scenario.to_toml()) == scenario
    with pytest.raises(RequestError, match=r"mechanism.truth = 2 is not allowed; it must be a number from 0 to 1"):
        small("mechanism.truth=2")


def test_a_role_that_misbehaves_leaves_the_flips_alone(small: Callable[..., Scenario]) -> None:
    found = run(small("adversaries[hesitant].fraction=.6", "adversaries[hesitant].every=1")).summary
    (attack,) = found.attacks
    assert attack.share is not None
    assert attack.honest_share is not None
    assert attack.share > attack.honest_share
    assert found.privacy[View.LEARNER].epsilon == found.privacy[View.AUDITOR].epsilon
    assert "not everyone is honest (hesitant)" in (found.privacy[View.LEARNER].reason or "")


def test_a_role_that_does_not_say_that_flips_hold_leaves_nothing(
    small: Callable[..., Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = outside._ADDED["adversary", "hesitant"].record
    careless = plugins.Adversary(record.measured, replaces=record.replaces)
    monkeypatch.setitem(outside._ADDED, ("adversary", "hesitant"), outside.Outside("it", careless))
    found = run(small("adversaries[hesitant].fraction=.3")).summary
    assert found.privacy[View.LEARNER].epsilon == float("inf")


def test_an_attack_is_played_beside_the_best_and_bounded_by_its_view(small: Callable[..., Scenario]) -> None:
    (attack,) = run(small("adversaries[gullible].kind=gullible"), engine="vectorized").summary.attacks
    assert (attack.view, attack.beaten) == ("network", ())
    assert attack.bound is not None
    assert 0.1 < attack.others["believes"] < attack.bound + 0.05


def test_a_mechanism_states_its_guarantee_in_both_engines(small: Callable[..., Scenario]) -> None:
    scenario = small("mechanism.kind=truthful_rr", "mechanism.truth=.9", "mechanism.theta=1")
    one, other = (run(scenario, engine=engine).summary for engine in ("actors", "vectorized"))
    assert one.noisy_sha256 == other.noisy_sha256
    assert one.privacy[View.LEARNER].epsilon == pytest.approx(2.1972, abs=1e-3)
    assert "the guarantee of truthful_rr is what plugin p2p_labeldp_example.py states" in one.warnings


def test_a_mechanism_that_states_less_than_its_flips_spend_is_refused(
    small: Callable[..., Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules["p2p_labeldp_plugin_p2p_labeldp_example"]
    truly = module.spends
    monkeypatch.setattr(module, "spends", lambda view, epsilon, delta, exact: truly(view, epsilon / 2, delta))
    with pytest.raises(RequestError, match=r"states epsilon 1\.098.* spend 2\.197"):
        make_plan("truthful_rr", labels=2, sizes=[30], truth=0.9)


def test_a_data_set_of_a_plugin_is_loaded(small: Callable[..., Scenario]) -> None:
    found = run(parse_scenario("[data]\nname = 'moons'\n"), engine="vectorized").summary
    assert (found.users, found.labels) == (500, 2)


def test_workers_of_a_sweep_load_plugins_and_their_keys_are_swept(command: Command) -> None:
    status, out, err = command(
        "sweep", "quickstart", "--plugin", str(EXAMPLE), "--set", "data.name=moons", "--set", "data.target=class",
        "--set", "adversaries[gullible].kind=gullible", "--vary", "mechanism.alpha=.1,.3", "--seeds", "1",
        "--workers", "2", "--no-report", "--json",
    )  # fmt: skip
    assert (status, err) == (0, "")
    assert "failures" not in out.replace('"failures": []', "")


CONTRACT = [
    ("import nothing_of_that_name", "cannot be imported: ModuleNotFoundError"),
    ("def (", "cannot be imported: SyntaxError"),
    ("1 / 0", "cannot be imported: ZeroDivisionError"),
    ("", "has no PLUGIN of type p2p_labeldp.plugins.Plugin"),
    ("PLUGIN = 3", "has no PLUGIN"),
    ("PLUGIN = Plugin(adversaries=[3])", "adversaries holds 3, which is no NewAdversary"),
    ("PLUGIN = Plugin(adversaries=[NewAdversary(Liar, None)])", "a record must be of type Adversary"),
    ("PLUGIN = Plugin(adversaries=[NewAdversary(int, LOOKS)])", "an entry must be a dataclass made from Entry"),
    ("Liar.name = 'silent'\nPLUGIN = Plugin([NewAdversary(Liar, LOOKS)])", "there is one of that name already"),
    ("Liar.name = 'no word'\nPLUGIN = Plugin([NewAdversary(Liar, LOOKS)])", "its name must be a word"),
    ("Liar.__doc__ = ''\nPLUGIN = Plugin([NewAdversary(Liar, LOOKS)])", "needs a docstring"),
    ("PLUGIN = Plugin([NewAdversary(Liar, Adversary(None))])", "misbehaves, but replaces and installs nothing"),
    ("PLUGIN = Plugin([], [NewMechanism('m', Reads(('mu',)), RECORD)])", "reads mu, which are no keys of [mechanism]"),
    ("PLUGIN = Plugin([], [NewMechanism('m', Reads(), RECORD, {'alpha': MU})])", "there is a key mechanism.alpha"),
    ("PLUGIN = Plugin([], [NewMechanism('m', Reads(), RECORD, {'mu': 3})])", "must be declared by scenario.rules.key"),
    ("PLUGIN = Plugin([], [NewMechanism('m', Reads(('mu',)), RECORD, {'mu': MU})])", "its record's options lack mu"),
    ("PLUGIN = Plugin([], [], [NewDataSet('digits', Examples(), DATA)])", "there is one of that name already"),
]
OPENING = """
from dataclasses import dataclass
from p2p_labeldp.plugins import *

@dataclass(frozen=True)
class Liar(Entry):
    "Someone who lies."
Liar.name = "liar"
LOOKS = Adversary(None, misbehaves=False)
RECORD = Mechanism("nobody", None, trusts="", story="", learner_sees="", colour="", marker="")
MU = key(0.5, Number(0, 1), "some number")
DATA = DataSet("examples", None)
"""


@pytest.mark.parametrize(("text", "words"), CONTRACT, ids=[words for _, words in CONTRACT])
def test_a_plugin_that_breaks_its_contract_is_refused_in_one_line(
    text: str, words: str, command: Command, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(OPENING + text)
    status, out, err = command("run", "quickstart", "--plugin", "mine.py")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("p2p-labeldp: plugin mine.py: ")
    assert words in err
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["mine.py"]


def test_a_plugin_s_file_that_is_not_there(command: Command) -> None:
    status, _, err = command("run", "quickstart", "--plugin", "none.py")
    assert (status, err) == (
        2,
        "p2p-labeldp: plugin none.py: cannot be imported: FileNotFoundError: there is no such file\n",
    )


@pytest.mark.slow
def test_a_plugin_that_pip_installed_is_found_by_its_entry_point(tmp_path: Path) -> None:
    place = tmp_path / "installed"
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", EXAMPLE.name):  # a build leaves files beside the source
        (source / name).write_bytes((EXAMPLE.parent / name).read_bytes())
    quiet = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *quiet, "--target", str(place), str(source)], check=True, timeout=300
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(place), *filter(None, sys.path)])}

    def call(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "p2p_labeldp", *arguments],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    assert "adversaries[hesitant].every" in call("scenarios", "--keys")
    moons = ["--set", "data.name=moons", "--set", "data.target=class", "--no-report"]
    assert "hesitant: 100 users" in call("run", "quickstart", *moons, "--set", "adversaries[hesitant].count=100")
    told = call("run", "quickstart", *moons, "--set", "mechanism.kind=truthful_rr", "--set", "mechanism.truth=.9")
    assert "epsilon 2.198: the learner, at delta 0" in told
