"""Adversaries, mechanisms, data sets and models from outside the package."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from asking import Command, Refused
from small import sixty

from p2p_labeldp import LabelPrivateClassifier, load_model, plugins
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
    MODELS,
    SECTIONS,
    Scenario,
    documentation,
    entry_documentation,
    extensions,
    parse_scenario,
)

EXAMPLE = Path(__file__).parent / "plugin_example" / "p2p_labeldp_example.py"
REGISTRIES = (ADVERSARIES, DATA_SETS, MECHANISMS, MODELS, SECTIONS, extensions._ADDED, ATTACKS, plugins._loaded)


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Other tests know nothing of what these load."""
    monkeypatch.setenv(extensions.VARIABLE, "")
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
def small() -> Callable[..., Scenario]:
    load_plugins([EXAMPLE])
    return lambda *settings: sixty("mechanism.rounds=1", "data.labels=2", *settings)


def test_what_a_plugin_adds_is_documented_like_any_other(small: Callable[..., Scenario]) -> None:
    rules = {name: rule for name, _, rule, _ in (*documentation(), *entry_documentation())}
    assert '"truthful_rr"' in rules["mechanism.kind"]
    assert '"moons"' in rules["data.name"]
    assert rules["mechanism.truth"] == "a number from 0 to 1"
    assert "adversaries[hesitant].every" in rules
    assert '"nearest", or the class name' in rules["learner.model"]
    assert rules["learner.sharpness"] == "a number from 0 to 1000"


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
    record = extensions._ADDED["adversary", "hesitant"].record
    careless = plugins.Adversary(record.measured, replaces=record.replaces)
    monkeypatch.setitem(extensions._ADDED, ("adversary", "hesitant"), extensions.Extension("it", careless))
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


def test_a_model_of_a_plugin_is_fitted_kept_and_read_back(small: Callable[..., Scenario], tmp_path: Path) -> None:
    folder = tmp_path / "out"
    found = run(small("learner.model=nearest", "learner.sharpness=4"), engine="vectorized", out=folder).summary
    other = run(small("learner.model=softmax"), engine="vectorized").summary
    assert found.accuracy is not None
    assert found.accuracy > 0.6
    assert found.noisy_sha256 == other.noisy_sha256  # what is released does not depend on who learns from it
    assert found.privacy == other.privacy
    assert found.nonprivate_accuracy != other.nonprivate_accuracy or found.metrics != other.metrics
    assert float(load_model(folder).stored.model.sharpness) == 4.0  # type: ignore[attr-defined]


def test_the_estimator_takes_a_model_of_a_plugin() -> None:
    load_plugins([EXAMPLE])
    features = np.random.default_rng(0).normal(size=(200, 2))
    labels = (features[:, 0] > 0).astype(int)
    fitted = LabelPrivateClassifier("uniform_rr", epsilon=4.0, estimator="nearest", random_state=0)
    assert fitted.fit(features, labels).score(features, labels) > 0.8


def test_a_key_of_a_model_is_swept_for_that_model_alone(command: Command) -> None:
    vary = ["--vary", "learner.sharpness=1,9", "--seeds", "1", "--workers", "1", "--no-report", "--json"]
    base = ["sweep", "quickstart", "--plugin", str(EXAMPLE), "--set", "data.name=moons", "--set", "data.target=class"]
    status, _, err = command(*base, *vary)
    assert status == 2
    assert "changes nothing here: it is for learner.model = nearest, not softmax" in err
    status, out, err = command(*base, "--set", "learner.model=nearest", *vary)
    assert (status, err) == (0, "")
    assert '"failures": []' in out


@pytest.mark.slow
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
    ("PLUGIN = Plugin([], [NewMechanism('m', Reads(), RECORD)])", "colour must be as #17becf, not ''"),
    ("PLUGIN = Plugin(models=[LearnerModel('a', fit)])", "which is no NewModel"),
    ("PLUGIN = Plugin(models=[NewModel('mlp', LearnerModel('a', fit))])", "there is one of that name already"),
    ("PLUGIN = Plugin(models=[NewModel('m', LearnerModel('a', 3))])", "a fit that can be called"),
    ("PLUGIN = Plugin(models=[NewModel('m', LearnerModel('a', fit), {'l2': MU})])", "there is a key learner.l2"),
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
def fit(settings, features, targets, weights, randomness):
    pass
"""
BROKEN_MODELS = [
    ("pass", "failed on a few rows: AttributeError: 'NoneType' object has no attribute 'predict_proba'"),
    ("1 / 0", "failed on a few rows: ZeroDivisionError: division by zero"),
    ("return Says(np.ones((len(features), 2)) / 2)", "gives shape (6, 2), not (6, 3)"),
    ("return Says(np.ones((len(features), 3)))", "gives rows that are no probabilities"),
]
MODEL_OPENING = """
import numpy as np
from p2p_labeldp.plugins import *

class Says(Probabilities):
    def __init__(self, chances):
        self.chances = chances
    def predict_proba(self, features):
        return self.chances

def fit(settings, features, targets, weights, randomness):
    BODY

PLUGIN = Plugin(models=[NewModel("mine", LearnerModel("a model", fit))])
"""


@pytest.mark.parametrize(("body", "words"), BROKEN_MODELS, ids=[words for _, words in BROKEN_MODELS])
def test_a_model_that_breaks_its_contract_is_refused_before_anything_runs(
    body: str, words: str, refused: Refused, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(MODEL_OPENING.replace("BODY", body))
    err = refused("run", "quickstart", "--plugin", "mine.py", "--set", "learner.model=mine")
    assert err.startswith("p2p-labeldp: plugin mine.py: model mine: ")
    assert words in err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("text", "words"), CONTRACT, ids=[words for _, words in CONTRACT])
def test_a_plugin_that_breaks_its_contract_is_refused_in_one_line(
    text: str, words: str, refused: Refused, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(OPENING + text)
    err = refused("run", "quickstart", "--plugin", "mine.py")
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
