"""Nobody holds anyone else's rows: what was planted in one host's file is found nowhere else, not even in memory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from deployment_model import Model
from processes import Fleet, Machine, fleet
from sentinels import FEATURES, PLACES, STUDY, files_below, found_in, labels_in, memory_of, own, planted
from small import THREE_CLUSTERS
from small import study as write_study

from p2p_labeldp.audit.folder import find
from p2p_labeldp.cli import main
from p2p_labeldp.data import load
from p2p_labeldp.deployment.making import EXACT
from p2p_labeldp.experiments.run import run
from p2p_labeldp.scenario import load_scenario, parse_scenario, replace

HOSTS, EACH = 3, 20


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """People in three places. Of each place somebody's row has values that nobody else's has, and a note."""
    chance = np.random.default_rng(4)
    rows = [
        f"{chance.integers(0, 900)},{chance.integers(40, 180)},{('healthy', 'ill')[place % 2]},-"
        for place in range(HOSTS * EACH * 5 // 4)
    ]
    return write_study(tmp_path_factory.mktemp("study"), ["dose,pulse,state,note", *rows], STUDY)


def plant(fleet: Fleet) -> None:
    """One more row in each host's file."""
    for place in range(HOSTS):
        path = fleet._local.rows[f"users-{place + 1}"]
        path.write_text(path.read_text(encoding="utf-8") + planted(place)[0] + "\n", encoding="utf-8")


@pytest.mark.slow
def test_what_is_in_one_hosts_file_is_found_in_no_other_process_journal_log_or_result(
    machine: Machine, study: Path, tmp_path: Path
) -> None:
    with fleet(machine, load_scenario(study), HOSTS, tmp_path / "work") as running:
        plant(running)
        labels = [labels_in(running._local.rows[f"users-{place + 1}"]) for place in range(HOSTS)]
        running.start()
        running.wait_for("coordinator", "clustered")
        for name in running.names:
            running.send(name, 19)  # SIGSTOP; one that is done already has nothing more to hide
        try:
            seen = {
                name: found_in(memory_of(pid), labels)
                for name, pid in running.pids.items()
                if running.status(name) is None
            }
        except PermissionError:
            pytest.skip("this machine does not let a process look at the memory of those it started")
        finally:
            for name in running.names:
                running.send(name, 18)  # SIGCONT
        running.finish()
        summary = json.loads(find(tmp_path / "work" / "learner", "summary.json").read_text(encoding="utf-8"))
    assert summary["users"] == HOSTS * (EACH + 1)
    everyones = {(place, "row") for place in PLACES}
    features = {(place, kind) for place in PLACES for kind in FEATURES}
    # Features reach the learner, by the protocol; how many of them are still in its memory depends on the moment.
    assert seen["learner"] <= features
    assert seen["coordinator"] <= features
    assert seen["auditor"] == set()
    for place in range(HOSTS):
        mine = own(place) | {(PLACES[place], kind) for kind in labels[place]}
        assert seen[f"users-{place + 1}"] <= mine
        state = tmp_path / "work" / "state" / f"users-{place + 1}"
        assert found_in(files_below(state), labels) == set(), "a journal holds what came, and no row"
    assert any((PLACES[place], "labels <i8") in seen[f"users-{place + 1}"] for place in range(HOSTS))
    work = tmp_path / "work"
    assert found_in(files_below(work / "auditor", work / "state" / "auditor", work / "logs"), labels) == set()
    for name in ("learner", "coordinator"):
        assert found_in(files_below(work / "state" / name), labels) == everyones
    assert found_in(files_below(work / "learner"), labels) == set(), "results hold nobody's row"


@pytest.mark.parametrize("checks", [False, True])
def test_features_reach_coordinator_and_learner_alone_unless_hosts_check_their_assignment(checks: bool) -> None:
    """Then they get the centres of all cells, and that of a cell of one user is her row, as docs/deployment.md says."""
    scenario = replace(parse_scenario(THREE_CLUSTERS), clusters__count=5, defences__check_assignment=checks)
    dataset = load(scenario.data, 0)
    dataset.features[0] = 50.125, 60.25  # far from everyone else, at the first host
    model = Model(scenario, 2, dataset=dataset)
    model.run()
    row = dataset.features[0].astype("<f4").tobytes()
    own, other = model.hosts
    told = {pair for pair, items in model.streams.items() for _, body in items if row in body}
    centres = {("coordinator", own), ("coordinator", other)} if checks else set()
    assert told == {(own, "coordinator"), (own, "learner")} | centres


def test_a_study_that_was_divided_gives_the_data_set_of_run_and_the_model_its_own_accuracy(
    machine: Machine, study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = load_scenario(study)
    expected = run(scenario, engine="vectorized").summary
    with fleet(machine, scenario, HOSTS, tmp_path / "work") as running:
        tests = running._local.rows["learner"]
        running.start("coordinator", "learner", "auditor", "users-1", "users-2")
        running.start("users-3", more=("--out", str(tmp_path / "model")))
        running.finish()
        assert running.heard("learner", "warning", warning=EXACT)
        results = tmp_path / "work" / "learner"
        summary = json.loads(find(results, "summary.json").read_text(encoding="utf-8"))
        assert (summary["noisy_sha256"], summary["accuracy"]) == (expected.noisy_sha256, expected.accuracy)
        assert (tmp_path / "model" / "model.npz").read_bytes() == (results / "model.npz").read_bytes()
        assert (tmp_path / "model" / "model-card.md").read_bytes() == (results / "model-card.md").read_bytes()
        capsys.readouterr()
        assert main(["predict", str(tmp_path / "model"), str(tests), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == summary["accuracy"]


def test_divided_rows_are_their_owners_alone_and_a_full_disk_leaves_none(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["divide", str(study), "--hosts", "2", "--out"]
    assert main([*words, str(tmp_path / "divided")]) == 0
    owned = [path for path in (tmp_path / "divided").rglob("*") if path.name != "study.toml"]
    assert {path.stat().st_mode & 0o777 for path in owned} == {0o600, 0o700}

    def full(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("p2p_labeldp.deployment.dividing._write_test", full)
    assert main([*words, str(tmp_path / "again")]) == 2
    assert "again: cannot be written: No space left on device" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["divided"]


def test_a_row_outside_the_schema_stops_its_host_before_anyone_hears_of_it(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("dose,pulse,state,note\n1,2,ill,-\n2000,70,ill,-\n", encoding="utf-8")
    words = ["node", "users", str(study), "--rows", str(rows)]
    words += ["--certs", str(tmp_path / "none"), "--state", str(tmp_path / "state")]
    assert main(words) == 2
    said = f"p2p-labeldp: {rows} line 3, column dose: 2000 is not a number from 0 to 1000"
    assert capsys.readouterr().err.splitlines() == [said]
    assert not (tmp_path / "state").exists()


def test_two_hosts_with_one_person_end_with_status_2_and_write_nothing(
    machine: Machine, study: Path, tmp_path: Path
) -> None:
    lines = study.with_name("people.csv").read_text(encoding="utf-8").splitlines()
    named = [lines[0] + ",who", *(f"{line},p{number}" for number, line in enumerate(lines[1:]))]
    persons = STUDY.replace("[data.schema]", 'person_column = "who"\n[data.schema]', 1)
    scenario = load_scenario(write_study(tmp_path, named, persons))
    with fleet(machine, scenario, 2, tmp_path / "work") as running:
        one, other = (running._local.rows[f"users-{place}"] for place in (1, 2))
        again = one.read_text(encoding="utf-8").splitlines()[-1]
        other.write_text(other.read_text(encoding="utf-8") + again + "\n", encoding="utf-8")
        running.start()
        ended = running.wait(*running.names)
        last = [line.get("text", "") for line in running.said("users-1")][-1]
    assert set(ended.values()) == {2}
    assert "users-1 and users-2 have rows of one person; she may take part at one host" in last
    assert again.rpartition(",")[2] not in last
    assert not (tmp_path / "work" / "learner").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adult", "diabetes130"])
def test_large_tables_divided_over_four_hosts_give_the_data_set_of_run_and_a_model_that_predicts_as_it_says(
    name: str, tmp_path: Path, real_files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "study.toml"
    study.write_text(f'[data]\nname = "{name}"\n[clusters]\ncount = 50\n[coins]\nseed = 0\n', encoding="utf-8")
    expected = run(load_scenario(study), engine="vectorized", data_dir=real_files).summary
    more = ["--hosts", "4", "--data-dir", str(real_files), "--json"]
    assert main(["divide", str(study), *more, "--out", str(tmp_path / "divided")]) == 0
    capsys.readouterr()
    assert main(["deploy", str(study), *more, "--no-report", "--out", str(tmp_path / "run")]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["noisy_sha256"], summary["accuracy"]) == (expected.noisy_sha256, expected.accuracy)
    assert main(["predict", str(tmp_path / "run"), str(tmp_path / "divided" / "learner" / "test.npz"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == summary["accuracy"]
