"""Joining and leaving like a person: several studies, hosts that come late, lost journals, progress everywhere."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from deployment_model import Model
from processes import Machine, expected_sha256, fleet
from small import ONE_CLUSTER

from p2p_labeldp.cli import main
from p2p_labeldp.scenario import parse_scenario, replace

SCENARIO = parse_scenario(ONE_CLUSTER, overrides=["data.users=40", "mechanism.rounds=3"])


def test_two_studies_follow_each_other_with_the_same_certificates(machine: Machine, tmp_path: Path) -> None:
    several = replace(SCENARIO, deployment__studies=2, deployment__away_limit=20.0)
    with fleet(machine, several, 1, tmp_path / "work") as nodes:
        state = nodes.work / "state" / "coordinator"
        early = ["coordinator", "learner", "auditor", "users-1"]
        nodes.start(*early)
        nodes.until("the first study", lambda: (state / "study-1" / "over").exists())
        nodes.until("the word that is waited for", lambda: nodes.heard("coordinator", "waiting"))
        assert main(["next", str(state)]) == 0
        assert nodes.wait(*early) == dict.fromkeys(early, 0)
        first, second = (
            json.loads((nodes.work / "learner" / f"study-{number}" / "summary.json").read_text(encoding="utf-8"))
            for number in (1, 2)
        )
        assert first["noisy_sha256"] == second["noisy_sha256"] == expected_sha256(SCENARIO)
        assert nodes.heard("users-1", "warning", warning="study 2 of the same users: what each of them costs adds up")
        # Started again, everyone finds that all is over.
        nodes.start("coordinator")
        assert nodes.wait("coordinator") == {"coordinator": 0}


def test_a_late_host_waits_for_the_next_study_or_is_told_how_far_this_one_is(machine: Machine, tmp_path: Path) -> None:
    long = replace(SCENARIO, mechanism__rounds=60, deployment__away_limit=20.0)
    with fleet(machine, long, 3, tmp_path / "work") as nodes:
        nodes.start("coordinator", "learner", "auditor", "users-1", more=("--hosts", "1"))
        nodes.wait_for("coordinator", "begun")
        nodes.freeze("learner")
        nodes.start("users-2")
        nodes.start("users-3", more=("--studies", "2"))
        assert nodes.wait("users-2") == {"users-2": 2}
        said = nodes.said("users-2")[-1]["text"]
        assert "shares are dealt already, and this host has none: the study has begun, and " in said
        assert "the study has begun" in nodes.wait_for("users-3", "late")["reason"]
        nodes.thaw("learner")
        nodes.wait("users-1")
        assert nodes.status("users-3") is None


def test_a_host_that_has_lost_its_journal_says_so_at_once(machine: Machine, tmp_path: Path) -> None:
    long = replace(SCENARIO, mechanism__rounds=60)
    with fleet(machine, long, 2, tmp_path / "work") as nodes:
        nodes.start()
        nodes.wait_for("coordinator", "clustered")
        nodes.freeze("users-1")  # so that the study does not end meanwhile
        nodes.kill("users-2")
        place = nodes.work / "state" / "users-2"
        shutil.rmtree(place)
        nodes.start("users-2")
        assert nodes.wait("users-2") == {"users-2": 2}
        said = nodes.said("users-2")[-1]["text"]
        assert said.startswith(
            f"p2p-labeldp: --state {place}: the journal of this run is not there, or not all of it ("
        )
        assert said.endswith("name the folder that this node has run with")


def test_everyone_is_told_how_far_the_run_is() -> None:
    model = Model(SCENARIO, 2)
    seen: dict[str, list[tuple[str, int, int]]] = {name: [] for name in model.names[1:]}
    while model.step():
        for name, found in seen.items():
            told = model.parts[name].progress
            if told is not None and (not found or found[-1] != told):
                found.append(told)
    for found in seen.values():
        assert [one for one in found if one[0] == "running"] == [("running", done, 3) for done in range(3)]
        assert found[-1][1:] == (3, 3)


def test_next_wants_the_state_folder_of_a_coordinator_between_two_studies(tmp_path: Path, capsys: object) -> None:
    assert main(["next", str(tmp_path)]) == 2
    (tmp_path / "study-1").mkdir()
    assert main(["next", str(tmp_path)]) == 2
    (tmp_path / "study-1" / "over").touch()
    assert main(["next", str(tmp_path)]) == 0
    assert (tmp_path / "start-2").exists()
