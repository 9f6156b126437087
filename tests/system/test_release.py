"""Nothing leaves that should not: targets that are no longer kept, journals, and nodes with other data."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
from deployment_model import Model
from journals import facts_of
from live_deployment import Live
from processes import Machine, fleet

from p2p_labeldp.cli import main
from p2p_labeldp.data import load
from p2p_labeldp.data.rows import Rows
from p2p_labeldp.deployment import local
from p2p_labeldp.deployment.certificates import init_certificates
from p2p_labeldp.deployment.dividing import rows_of, study_of
from p2p_labeldp.deployment.journal import FILE
from p2p_labeldp.deployment.logs import Logger
from p2p_labeldp.deployment.node import Node
from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments.run import run
from p2p_labeldp.privacy import Parameters, account
from p2p_labeldp.scenario import parse_scenario, replace

TARGET = parse_scenario("""
[data]
name = "synthetic"
users = 200
[clusters]
count = 2
minimum_size = 20
[mechanism]
epsilon = 0.5
[network]
latency = 0.05
round_limit = 2
""")


# A target is kept, or nothing is released


@pytest.mark.parametrize("hosting", ["user", "cluster"])
def test_users_cut_off_while_asking_and_back_before_the_close_keep_their_clusters_from_releasing(hosting: str) -> None:
    """Asks leave at 0.1 s and get through when the cut is over, at 3.2 s; the round is closed at 2.05 s."""
    text = '[[faults]]\nrule = "partition"\nusers = [0, 1]\nstart = 0.08\nend = 2.0\n'
    found = run(replace(TARGET, faults=parse_scenario(text).faults), hosting=hosting)
    outcome = found.outcome
    assert outcome is not None
    cut = sorted({int(outcome.clusters[user]) for user in outcome.missing})
    assert cut
    assert outcome.withheld == list(found.summary.withheld) == cut
    reporters, _ = outcome.rounds[0]
    assert not np.isin(outcome.clusters[reporters], cut).any()
    held_back = int(np.isin(outcome.clusters, cut).sum()) - len(outcome.missing)
    assert outcome.outcomes[0] == {
        "reported": 200 - held_back - len(outcome.missing), "dropped": 0, "abstained": 0, "withheld": held_back,
    }  # fmt: skip


def test_without_faults_a_target_withholds_nothing() -> None:
    outcome = run(TARGET).outcome
    assert outcome is not None
    assert (outcome.withheld, outcome.missing, outcome.reports) == ([], [], 200)


def test_clusters_that_came_out_smaller_than_planned_are_withheld_unless_they_keep_the_target() -> None:
    """Half of the users never say hello; the flips were worked out for everyone."""
    users = ", ".join(map(str, range(100)))
    text = f'[[faults]]\nrule = "crash"\nusers = [{users}]\nat = 0.0\n'
    scenario = replace(TARGET, faults=parse_scenario(text).faults, network__hello_limit=1.0)
    found = run(scenario)
    outcome = found.outcome
    assert outcome is not None
    assert outcome.missing == list(range(100))

    def spent(size: int, alpha: float) -> float:
        delta = found.summary.privacy["learner"].delta
        return account("learner", Parameters(alpha=alpha), cluster_size=size).get_epsilon(delta).epsilon

    sizes = np.bincount(outcome.clusters[100:]).tolist()
    fails = [cluster for cluster, size in enumerate(sizes) if spent(size, found.summary.alpha) > 0.5]
    assert 0 < len(fails) < len(sizes), "there is something to tell apart"
    assert outcome.withheld == fails
    assert not np.isin(outcome.clusters[outcome.rounds[0][0]], fails).any()


def test_behind_a_firewall_between_two_hosts_a_deployment_with_a_target_releases_nothing() -> None:
    model = Model(replace(TARGET, data__users=60), 2, seed=1)
    walled = {(model.names[3], model.names[4]), (model.names[4], model.names[3])}
    waiting = model.waiting
    model.waiting = lambda: [pair for pair in waiting() if pair not in walled]  # type: ignore[method-assign]
    model.run()
    model.expire_round()
    model.run()
    summary = model.summary()
    clusters = list(range(summary.clusters))
    assert clusters
    assert list(summary.withheld) == clusters
    assert summary.reports == 0
    assert model.parts["learner"].withheld == clusters  # type: ignore[attr-defined]


SILENT = replace(TARGET, data__users=80, mechanism__epsilon=1.0, network__round_limit=1.0, deployment__away_limit=2.0)


@pytest.mark.slow
def test_a_learner_to_whom_clusters_released_nothing_says_which_and_ends_with_status_1(tmp_path: Path) -> None:
    with Machine() as machine, fleet(machine, SILENT, 2, tmp_path / "work") as nodes:
        nodes.start()
        nodes.wait_for("coordinator", "clustered")
        nodes.freeze("users-2")
        others = ["coordinator", "learner", "auditor", "users-1"]
        assert nodes.wait(*others) == dict.fromkeys(others, 0) | {"learner": 1}
        last = nodes.said("learner")[-1]["text"]
        summary = json.loads((nodes.work / "learner" / "summary.json").read_text())
        nodes.thaw("users-2")
    withheld = summary["withheld"]
    assert withheld
    assert re.fullmatch(r"p2p-labeldp: clusters? [\d, ]+ ha(s|ve) released nothing: .*mechanism\.epsilon.*", last)
    assert all(str(cluster) in last for cluster in withheld)


def test_deploy_says_which_clusters_were_withheld_and_ends_with_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finished = run(replace(TARGET, mechanism__epsilon=0.0), engine="vectorized")
    withheld = msgspec.structs.replace(finished.summary, withheld=(1, 3))
    monkeypatch.setattr(local, "deploy", lambda *_, **__: withheld)
    assert main(["deploy", "quickstart", "--hosts", "1", "--no-report", "--out", str(tmp_path / "run"), "--json"]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["withheld"] == [1, 3]
    assert said.err.startswith("p2p-labeldp: clusters 1, 3 have released nothing: ")


# Journals


def journal_of(name: str, rows: Rows | None, folder: Path) -> dict[str, str]:
    """The facts in the journal of a node that has just been made."""
    init_certificates(folder / "certificates", 1)
    scenario = replace(TARGET, data__users=40)
    made = Node(
        name.partition("-")[0],
        study_of(scenario, load(scenario.data, 0), 1),
        certificates=folder / "certificates" / name,
        state=folder / "state",
        rows=rows,
        logger=Logger(name, io.StringIO()),
    )
    made.journal.commit()
    made.journal.close()
    return facts_of(folder / "state" / FILE)


def test_a_learners_journal_begins_without_a_word_on_anyones_rows(tmp_path: Path) -> None:
    facts = journal_of("learner", None, tmp_path)
    known = {f"known {role}" for role in ("coordinator", "learner", "auditor")}
    assert facts.keys() == {"program", "role", "scenario", "seed", *known}  # of system coins the seed is empty


@pytest.mark.parametrize("name", ["users-1", "learner"])
def test_a_journal_keeps_of_labels_what_nobody_can_try_without_its_key(tmp_path: Path, name: str) -> None:
    """It has to notice other labels when it comes back. With another key the same labels leave another mark."""
    rows = rows_of(load(replace(TARGET, data__users=40).data, 0), np.arange(40))
    one, other = (journal_of(name, rows, tmp_path / place) for place in ("one", "other"))
    assert one["labels"] != other["labels"]
    assert one["data"] == other["data"]
    assert rows.labels is not None
    changed = dataclasses.replace(rows, labels=1 - rows.labels)
    assert journal_of(name, changed, tmp_path / "third")["data"] == one["data"]


# Nodes with another schema


@pytest.mark.parametrize("odd", ["users-2", "learner"])
async def test_a_node_with_another_schema_is_refused_before_anyone_begins(odd: str, tmp_path: Path) -> None:
    live = Live(tmp_path / "live", TARGET, hosts=2, deployment__away_limit=20.0)
    schema = live.scenario.data.schema
    another = msgspec.structs.replace(schema, classes=schema.classes[::-1])

    async def play() -> None:
        async with live.running():
            await live.start("coordinator", "auditor", "users-1")
            await live.start(odd, data__schema=another)
            await live.finish()

    with pytest.raises(BaseExceptionGroup) as group:
        await play()
    assert group.group_contains(RequestError, match=r"the scenario differs in data\.schema")
    assert not live.lines("coordinator", "begun")
