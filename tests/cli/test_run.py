"""``p2p-labeldp run`` as a person or a program meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from asking import Command, Refused
from small import THREE_CLUSTERS

from p2p_labeldp.scenario import load_scenario


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.toml"
    path.write_text(THREE_CLUSTERS)
    return path


@pytest.fixture
def command(command: Command) -> Command:
    """Without a report unless it is asked for."""
    return lambda what, *more: command(what, *(["--no-report"] if what == "run" else []), *more)


def test_a_run_prints_a_table_and_leaves_a_folder(command: Command, scenario: Path, tmp_path: Path) -> None:
    status, out, err = command("run", str(scenario), "--report")
    assert (status, err) == (0, "")
    for word in ("users", "clusters", "messages", "accuracy", "run folder"):
        assert word in out
    folder = tmp_path / "runs" / "scenario"
    assert sorted(path.name for path in folder.iterdir()) == [
        "manifest.json", "model-card.md", "model.npz", "population.npz", "report.html", "reports.npz", "scenario.toml",
        "summary.json", "trace.msgpack",
    ]  # fmt: skip
    assert load_scenario(folder / "scenario.toml") == load_scenario(scenario).settled()


def test_json_is_one_object_with_the_keys_others_rely_on_and_the_folder_holds_what_it_says(
    command: Command, scenario: Path
) -> None:
    status, out, err = command("run", str(scenario), "--json")
    summary: dict[str, Any] = json.loads(out)
    assert (status, err) == (0, "")
    needed = {
        "users", "clusters", "reports", "messages", "seed", "engine", "noisy_sha256", "accuracy",
        "nonprivate_accuracy", "seconds", "out",
    }  # fmt: skip
    assert needed <= summary.keys()
    folder = Path(summary["out"])
    assert json.loads((folder / "summary.json").read_text()) == summary
    with np.load(folder / "reports.npz") as reports:
        assert reports["user"].dtype == np.int64
        assert len(reports["user"]) == len(reports["label"]) == len(reports["round"]) == summary["reports"]
    with np.load(folder / "population.npz") as population:
        assert len(population["cluster"]) == len(population["true_label"]) == summary["users"]
    with (folder / "trace.msgpack").open("rb") as file:
        assert sum(1 for _ in msgpack.Unpacker(file)) == summary["messages"] + 1
    manifest = json.loads((folder / "manifest.json").read_text())
    assert {"versions", "seed", "coins", "assignment_sha256"} <= manifest.keys()


def test_a_second_run_takes_a_new_folder_and_a_named_one_is_never_overwritten(
    command: Command, scenario: Path, tmp_path: Path
) -> None:
    assert [command("run", str(scenario))[0] for _ in range(2)] == [0, 0]
    assert (tmp_path / "runs" / "scenario-2").is_dir()
    status, out, err = command("run", str(scenario), "--out", "runs/scenario")
    assert (status, out) == (2, "")
    assert "exists already" in err


def test_overrides_and_the_seed_change_the_run(command: Command, scenario: Path) -> None:
    digests = {
        json.loads(command("run", str(scenario), "--json", *options)[1])["noisy_sha256"]
        for options in ([], ["--seed", "1"], ["--set", "mechanism.alpha=.4"])
    }
    assert len(digests) == 3


def test_nothing_reported_gives_no_accuracy_and_says_why(command: Command, scenario: Path) -> None:
    status, out, _ = command("run", str(scenario), "--set", "mechanism.theta=0")
    assert status == 0
    assert "none: nothing was reported" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "missing.toml"], "missing.toml: there is no such scenario file"),
        (["run", "quickstrat"], "neither a file nor a shipped scenario; did you mean quickstart?"),
        (["run", "scenario.toml", "--set", "mechanism.alpha=1.2"], "mechanism.alpha = 1.2 is not allowed"),
        (["run", "scenario.toml", "--set", "clusters.count=41"], "clusters.count = 41"),
        (["run", "scenario.toml", "--set", "learner.model=mpl"], 'did you mean "mlp"?'),
        (["run", "scenario.toml", "--set", "learner.model=KNeighborsClassifier"], "its fit takes no sample_weight"),
        (["deploy", "scenario.toml", "--set", "learner.model=mpl"], 'did you mean "mlp"?'),
        (["sweep", "scenario.toml", "--vary", "learner.model=softmax,mpl", "--seeds", "1"], 'did you mean "mlp"?'),
        (["run", "scenario.toml", "--engine", "quantum"], "one of actors, vectorized"),
        (["run", "scenario.toml", "--hosting", "cloud"], "one of user, cluster"),
        (["run", "scenario.toml", "--seed", "-1"], "coins.seed = -1"),
        (["run", "scenario.toml", "--seed", "x"], "--seed"),
        (["run", "scenario.toml", "--sed", "1"], "--seed"),
        (["run"], "SCENARIO"),
        (["rnu", "scenario.toml"], "rnu"),
        (["run", "scenario.toml", "--out", "scenario.toml"], "exists already"),
        (["run", "scenario.toml", "--out", "scenario.toml/below"], "cannot be written"),
        (["run", "scenario.toml", "--set", "data.name=csv", "--set", "data.path=no.csv"], "no.csv"),
        (["run", "scenario.toml", "--set", "data.name=digits", "--set", "clusters.method=given"], "names no clusters"),
        (
            ["run", "scenario.toml", "--set", "learner.correct_flips=true", "--set", "mechanism.alpha=0.5"],
            "learner.correct_flips",
        ),
        (["audit", "nowhere"], "nowhere: not a run folder"),
        (["audit", "."], "summary.json: is missing"),
        (["audit", ".", "--family-wise-error", "0"], "between 0 and 1"),
    ],
)
def test_a_wrong_request_is_answered_in_one_line_with_status_2_and_writes_nothing(
    arguments: list[str], words: str, refused: Refused, scenario: Path, tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert words in refused(*arguments)
    assert sorted(tmp_path.rglob("*")) == before


def test_absent_data_files_are_named(refused: Refused, scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(b"\x1f\x8b cut")
    for name in ("train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (tmp_path / "mnist" / f"{name}-ubyte.gz").write_bytes(b"")
    assert "mnist" in refused("run", str(scenario), "--set", "data.name=mnist", "--data-dir", str(tmp_path))


def test_the_audit_of_an_altered_trace_fails_with_status_1(command: Command, scenario: Path) -> None:
    folder = Path(json.loads(command("run", str(scenario), "--json")[1])["out"])
    assert command("audit", str(folder))[0] == 0
    with (folder / "trace.msgpack").open("rb") as file:
        objects = list(msgpack.Unpacker(file))
    report = next(record for record in objects[1:] if record[4][0] == "report")
    report[4][2] = 1 - report[4][2]
    (folder / "trace.msgpack").write_bytes(b"".join(map(msgpack.packb, objects)))
    status, out, _ = command("audit", str(folder))
    assert status == 1
    assert f"report_is_answer: at message {report[0]}" in out
    status, out, _ = command("audit", str(folder), "--json")
    assert (status, json.loads(out)["passed"]) == (1, False)


def test_what_ships_is_listed_and_every_key_is_documented(command: Command) -> None:
    status, out, _ = command("scenarios")
    assert status == 0
    assert {line.split()[0] for line in out.splitlines()} >= {"quickstart", "hospital", "ten-thousand"}
    assert "mechanism.alpha" in json.loads(command("scenarios", "--keys", "--json")[1])["keys"]


def test_help_is_shown_without_importing_scikit_learn() -> None:
    program = "import sys; from p2p_labeldp.cli import main; main(['--help']); sys.exit('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "run" in done.stdout
