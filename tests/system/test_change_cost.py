"""What a change costs, tried out: a toy of each noun, patched into a copy of the package, run, reported and audited.

Each trial says which source files it touches; CONTRIBUTING.md has the same numbers. A toy that works after so few
changes shows that nothing else knows the noun by name. The records' own tests run on the patched copy too.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from small import TWO_LABELS

import p2p_labeldp
from p2p_labeldp.protocol.messages import VERSION

PACKAGE = Path(p2p_labeldp.__file__).parent
ROOT = Path(__file__).parents[2]

Changes = dict[str, tuple[tuple[str, str], ...]]
"""File to (a text that stands in it once, what takes its place)."""


@dataclass(frozen=True)
class Trial:
    """A toy."""

    made: dict[str, str] = field(default_factory=dict)
    """New source files."""
    changed: Changes = field(default_factory=dict)
    documents: Changes = field(default_factory=dict)
    records: str = ""
    """Which of the tests of records are about it, as ``pytest -k`` takes it."""
    scenario: str = TWO_LABELS
    run: tuple[str, ...] = ()
    """Options of ``run``."""
    also: tuple[tuple[str, ...], ...] = ()
    """Other commands; ``RUN`` stands for the run folder. Every one must succeed."""
    audited: bool = True
    """Whether ``audit`` knows the run: an exchange of messages between peers."""
    shown: str = ""
    """What the report must say."""

    @property
    def files(self) -> set[str]:
        return {*self.made, *self.changed}


def after(anchor: str, text: str) -> tuple[str, str]:
    return anchor, anchor + text


def before(anchor: str, text: str) -> tuple[str, str]:
    return anchor, text + anchor


SECTIONS = "scenario/sections.py"

TRIALS = {
    "mechanism": Trial(
        changed={
            SECTIONS: (after("MECHANISMS = {\n", '    "half_rr": Reads(flips=True, pure=True, clusters=False),\n'),)
        },
        made={
            "mechanisms/half_rr.py": """
                '''Randomized response at half of the epsilon that was asked for.'''

                import math
                from dataclasses import replace

                from p2p_labeldp.mechanisms.plan import Holder, Mechanism, Plan, Request, spends
                from p2p_labeldp.privacy import View

                TRUST = "Nobody need be trusted."


                def plan(request: Request) -> Plan:
                    epsilon, labels = request.needed_epsilon() / 2, request.labels
                    alpha = (labels - 1) / (labels - 1 + math.exp(epsilon))
                    parameters = replace(request.parameters, alpha=alpha, theta=1.0, labels=labels, rounds=1)
                    views = (View.LEARNER, View.NETWORK, View.AUDITOR)
                    privacy = {view: spends(view, epsilon, 0.0, exact=True) for view in views}
                    return Plan(request.kind, TRUST, Holder.LEARNER, parameters, {"alpha": alpha}, privacy)


                MECHANISM = Mechanism(
                    TRUST, plan, trusts="nobody", story="tossed a coin of her own", colour="#102030", marker="x",
                    learner_sees="every noisy label, with its owner",
                )
            """
        },
        records="mechanism or plan or holder or figures",
        run=("--set", "mechanism.kind=half_rr", "--set", "mechanism.epsilon=2"),
        also=(
            ("run", "scenario.toml", "--set", "mechanism.kind=half_rr", "--set", "mechanism.epsilon=2", "--engine",
             "vectorized", "--out", "arrays"),
            ("compare", "scenario.toml", "--mechanisms", "half_rr uniform_rr", "--epsilons", "1", "--trials", "2",
             "--out", "compared"),
        ),
        audited=False,
        shown="tossed a coin of her own",
    ),
    "data set": Trial(
        changed={SECTIONS: (after("DATA_SETS = {\n", '    "moons": Examples(ships=True),\n'),)},
        made={
            "data/sets/moons.py": """
                '''Two half moons.'''

                import numpy as np

                from p2p_labeldp.data.dataset import Source
                from p2p_labeldp.data.record import DataSet
                from p2p_labeldp.data.splits import split
                from p2p_labeldp.scenario import Data


                def load(data: Data, seed: int, _: object) -> Source:
                    from sklearn.datasets import make_moons

                    features, labels = make_moons(200, noise=0.1, random_state=seed)
                    train, test = split(len(labels), seed, data.test_fraction)
                    labels = labels.astype(np.int64)
                    return Source(features[train], labels[train], features[test], labels[test], ("upper", "lower"))


                DATA_SET = DataSet("points on two half moons", load)
            """
        },
        records="data_set",
        scenario='[data]\nname = "moons"\n[clusters]\ncount = 4\n[mechanism]\nalpha = 0.2\n',
        also=(("run", "scenario.toml", "--engine", "vectorized", "--out", "arrays"),),
        shown="points on two half moons",
    ),
    "learner's model": Trial(
        changed={SECTIONS: (('MODELS: dict[str, tuple[str, ...]] = {"softmax": ()',
                             'MODELS: dict[str, tuple[str, ...]] = {"centroids": (), "softmax": ()'),)},
        made={
            "learning/models/centroids.py": """
                '''The nearest centre of a label.'''

                import numpy as np

                from p2p_labeldp.learning.model import LearnerModel, Probabilities, Storage


                class Centroids(Probabilities):
                    def __init__(self, centres):
                        self.centres = centres

                    def predict_proba(self, features):
                        far = ((np.asarray(features)[:, None, :] - self.centres) ** 2).sum(axis=2)
                        near = np.exp(far.min(axis=1, keepdims=True) - far)
                        return near / near.sum(axis=1, keepdims=True)


                def fit(settings, features, targets, weights, randomness):
                    shares = np.maximum(targets, 0.0) * (1.0 if weights is None else weights[:, None])
                    total = np.maximum(shares.sum(axis=0), 1e-9)
                    return Centroids((shares.T @ np.asarray(features)) / total[:, None])


                MODEL = LearnerModel(
                    "the nearest of each label's centres", fit,
                    Storage(Centroids, lambda model: {"centres": model.centres},
                            lambda arrays, labels, features: Centroids(arrays["centres"])),
                )
            """
        },
        records="model",
        run=("--set", "learner.model=centroids"),
        also=(("predict", "RUN", "rows.csv", "--out", "predicted.csv"),),
        shown="the nearest of each label's centres",
    ),
    "adversary": Trial(
        changed={
            "scenario/entries.py": (
                before(
                    "ADVERSARIES: dict",
                    '@dataclass(frozen=True)\nclass Echoes(SomeUsers):\n    """Users who answer a fixed label."""\n\n'
                    '    name: ClassVar[str] = "echoes"\n    label: int = key(0, Whole(0, 1), "which one")\n\n\n',
                ),
                after("        CuriousPeers,", " Echoes,"),
            )
        },
        made={
            "adversaries/kinds/echoes.py": """
                '''Users who answer with a fixed label.'''

                from p2p_labeldp.adversaries.record import Adversary, Measured
                from p2p_labeldp.protocol.messages import Answer
                from p2p_labeldp.protocol.user import User


                class Echo(User):
                    __slots__ = ("_said",)

                    def receive(self, sender, message):
                        sent = super().receive(sender, message)
                        return [(to, Answer(m.round, self._said) if type(m) is Answer else m) for to, m in sent]


                def replaces(setup, scenario, entry, honest, moved):
                    echo = Echo(honest.id, honest.label, honest.host)
                    echo._said = entry.label
                    return echo


                ADVERSARY = Adversary(
                    lambda entry: Measured.PUSHED, replaces=replaces, flips_hold=True, deployed=True,
                )
            """
        },
        records="adversary",
        scenario=TWO_LABELS + '[[adversaries]]\nkind = "echoes"\ncount = 6\nlabel = 1\n',
        shown="echoes",
    ),
    "view": Trial(
        changed={
            "privacy/views.py": (
                after('    NETWORK = "network"\n', '    ISP = "isp"\n'),
                after("RECORDS: dict[View, ViewRecord] = {\n",
                      '    View.ISP: ViewRecord("an access provider", "every answer that leaves the victim", '
                      "closed_form=True,\n        reports=False, sealed=View.LEARNER),\n"),
                ('        case "eavesdropper":', '        case "eavesdropper" | "isp":'),
            ),
            "audit/sight.py": (
                after("SIGHT: dict[View, Sight] = {\n", '    View.ISP: Sight(asks="wire", answers="wire"),\n'),
            ),
        },
        records="view",
        also=(
            ("account", "--cluster-size", "20", "--alpha", "0.2", "--theta", "1", "--delta", "1e-3", "--view", "isp"),
            ("threats", "scenario.toml", "--out", "threats.png"),
            ("audit", "RUN", "--epsilon", "--view", "isp", "--trials", "2000"),
        ),
        shown="an access provider",
    ),
    "message between two roles": Trial(
        changed={
            "protocol/messages.py": (
                (f"VERSION = {VERSION}\n", f"VERSION = {VERSION + 1}\n"),
                before(
                    "class Round(Message",
                    'class Census(Message, frozen=True, tag="census"):\n'
                    "    record = MessageRecord(\n        (COORDINATOR,), (LEARNER,), "
                    '"the coordinator says how many take part", once=True\n    )\n\n    users: Index\n\n\n',
                ),
                ("    Hello | Roster |", "    Hello | Census | Roster |"),
            ),
            "protocol/coordinator.py": (
                after("        clusters = np.flatnonzero(rosters.sizes).tolist()\n",
                      "        yield LEARNER, Census(len(self._present))\n"),
                after("    Assignment,\n", "    Census,\n"),
            ),
            "protocol/learner.py": (
                before("        if type(message) is Report and",
                      "        if type(message) is Census and sender == COORDINATOR:\n"
                      "            self.told = message.users\n            return ()\n"),
                after("    COORDINATOR,\n", "    Census,\n"),
            ),
        },
        documents={
            "docs/protocol.md": (
                before("| `roster` |", "| `census` | coordinator | learner | `users` | how many take part |\n"),
                (f"This is version {VERSION}", f"This is version {VERSION + 1}"),
            ),
        },
        records="message or answer or fault",
        also=(("deploy", "scenario.toml", "--hosts", "2", "--out", "deployed"), ("audit", "deployed")),
        shown="the coordinator says how many take part",
    ),
    "engine": Trial(
        changed={
            "scenario/engines.py": (
                after('    VECTORIZED = "vectorized"\n', '    LOOP = "loop"\n'),
                after("ENGINES = {\n", '    Engine.LOOP: EngineRecord("a plain loop", sends_messages=False),\n'),
            ),
            "runs/execute.py": (
                after("    Engine.ACTORS: _by_actors,\n", "    Engine.LOOP: _on_arrays(run_loop),\n"),
                before("from p2p_labeldp.engines.outcome import",
                       "from p2p_labeldp.engines.loop import run_loop\n"),
            ),
        },
        made={
            "engines/loop.py": """
                '''Algorithm 2 as a loop over users.'''

                import numpy as np

                from p2p_labeldp.engines.outcome import Outcome
                from p2p_labeldp.mechanisms.coins import FLIP, KEEP, PEER


                def run_loop(population, plan, coins, randomness, prior_of):
                    labels, parameters = population.labels, plan.parameters
                    users = len(labels)
                    clusters = np.asarray(population.cluster(np.arange(users), population.features), dtype=np.int64)
                    rounds, outcomes = [], []
                    for round_ in range(parameters.rounds):
                        drawn = coins.block(round_, 0, users)
                        flips = coins.block(0, 0, users) if parameters.noise == "sticky" else drawn
                        sent = {}
                        for user in range(users):
                            roster = np.flatnonzero(clusters == clusters[user])
                            peer = roster[int(drawn[user, PEER] * len(roster))]
                            noisy = labels[peer]
                            if flips[peer, FLIP] < parameters.alpha:
                                step = 1 + int(flips[peer, 3] * (parameters.labels - 1))
                                noisy = (noisy + step) % parameters.labels
                            if drawn[user, KEEP] < parameters.theta:
                                sent[user] = noisy
                        ids = np.array(list(sent), dtype=np.int64)
                        rounds.append((ids, np.array([sent[user] for user in sent], dtype=np.int64)))
                        outcomes.append({"reported": len(ids), "dropped": users - len(ids), "abstained": 0})
                    return Outcome(clusters=clusters, rounds=rounds, outcomes=outcomes)
            """
        },
        records="engine",
        run=("--engine", "loop"),
        also=(("sweep", "scenario.toml", "--vary", "mechanism.alpha=.1,.2", "--seeds", "2", "--engine", "loop",
               "--workers", "1", "--out", "swept"),),
        audited=False,
        shown="--engine loop",
    ),
    "scenario key": Trial(
        changed={
            SECTIONS: (
                before("    robust: float = key(\n",
                       '    clip: float = key(0.0, Number(0), "features beyond this are cut off; 0: none are")\n'),
            ),
            "learning/models/softmax.py": (
                before("    return fit_softmax(",
                       "    features = np.clip(features, -settings.clip or None, settings.clip or None)\n"),
            ),
        },
        records="key",
        run=("--set", "learner.clip=0.1"),
        also=(("scenarios", "--keys"),),
        shown="clip = 0.1",
    ),
}  # fmt: skip

COSTS = {
    "mechanism": 2, "data set": 2, "learner's model": 2, "adversary": 2, "view": 3, "message between two roles": 3,
    "engine": 3, "scenario key": 2,
}  # fmt: skip
"""The most source files that a change may touch."""

PROGRAM = """
import contextlib, io, json, os, sys
import pytest
import p2p_labeldp
from p2p_labeldp.cli import main

told = {"package": p2p_labeldp.__file__, "status": {}, "out": {}}
for command in json.loads(sys.argv[1]):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        told["status"][" ".join(command)] = main(command)
    told["out"][" ".join(command)] = out.getvalue()
with contextlib.redirect_stdout(sys.stderr):
    told["records"] = int(pytest.main(
        ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-n", "0", "-c", os.devnull, "--rootdir", ".",
         "tests/test_records.py", "-k", sys.argv[2]]
    ))
print(json.dumps(told))
"""


def patched(trial: Trial, place: Path) -> None:
    """The package with the toy in it, the tests of its records, and the documents that these compare."""
    shutil.copytree(PACKAGE, place / "p2p_labeldp", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("tests/test_records.py", "docs/protocol.md"):
        (place / name).parent.mkdir()
        shutil.copy(ROOT / name, place / name)
    changes = {f"p2p_labeldp/{name}": found for name, found in trial.changed.items()} | trial.documents
    for name, replaced in changes.items():
        text = (place / name).read_text(encoding="utf-8")
        for old, new in replaced:
            assert text.count(old) == 1, f"{name}: {old!r} stands in it {text.count(old)} times"
            text = text.replace(old, new)
        (place / name).write_text(text, encoding="utf-8")
    for name, text in trial.made.items():
        (place / "p2p_labeldp" / name).write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")


def tried(trial: Trial, place: Path) -> dict[str, Any]:
    (place / "scenario.toml").write_text(trial.scenario)
    (place / "rows.csv").write_text("x0,x1\n0.5,1\n-1,0.25\n")
    commands = [["run", "scenario.toml", *trial.run, "--out", "run"], ["report", "run"]]
    commands += [["audit", "run"]] if trial.audited else []
    commands += [["run" if part == "RUN" else part for part in command] for command in trial.also]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands), trial.records],
        cwd=place, env=os.environ | {"PYTHONPATH": str(place)}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert Path(told["package"]).is_relative_to(place)
    return told | {"err": done.stderr}


@pytest.mark.slow
@pytest.mark.parametrize("noun", TRIALS)
def test_a_toy_of_each_noun_runs_and_is_reported_after_few_changes(noun: str, tmp_path: Path) -> None:
    trial = TRIALS[noun]
    assert len(trial.files) <= COSTS[noun]
    patched(trial, tmp_path)
    told = tried(trial, tmp_path)
    assert set(told["status"].values()) == {0}, (told["status"], told["err"])
    assert told["records"] == 0, told["err"]
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert trial.shown in page.replace("&#39;", "'")
    outcomes = {name: json.loads((tmp_path / name / "summary.json").read_text()) for name in ("run", "arrays")
                if (tmp_path / name / "summary.json").exists()}  # fmt: skip
    assert len({found["noisy_sha256"] for found in outcomes.values()}) == 1, "engines agree"


def test_contributing_tells_what_a_change_costs() -> None:
    """The numbers of the table are those of the trials."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| an? ([^|]+?) \| (\d) of at most \d \|", text, re.MULTILINE))
    assert {noun: int(told[noun]) for noun in TRIALS} == {noun: len(trial.files) for noun, trial in TRIALS.items()}
    assert COSTS.keys() == TRIALS.keys()
