"""docker-compose.yml with relays, with containers that are killed and frozen, and with adversaries.

They need a Docker engine, as ``test_containers.py`` does. Coins are seeded, so that what comes of it is known.
"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from compose import NODES, PATIENCE, ROOT, SEEDED, Project, project_of
from processes import until

from p2p_labeldp.audit.trace import Trace
from p2p_labeldp.audit.views import view_of
from p2p_labeldp.cli import main
from p2p_labeldp.deployment.attacked import executed_in
from p2p_labeldp.deployment.misbehaving import Pool
from p2p_labeldp.experiments.run import run
from p2p_labeldp.mechanisms.coins import SeededCoins
from p2p_labeldp.runs.summary import Attack, Summary, read_summary
from p2p_labeldp.scenario import Scenario, load_scenario

pytestmark = pytest.mark.containers
WELL = dict.fromkeys(NODES, 0)
LONG_LIMIT = f"round_limit = {4 * PATIENCE:g}"
LONG_ROUNDS = f"[network]\n{LONG_LIMIT}"
"""An attempt of the mixed exchange has a quarter of it: no relay is given up while its container starts."""


def written(folder: Path, name: str, **changes: str) -> Path:
    """A shipped scenario with seeded coins, and lines of it changed, in a folder of its own."""
    text = (ROOT / "scenarios" / f"{name}.toml").read_text(encoding="utf-8")
    for line, other in changes.items():
        assert line in text
        text = text.replace(line, other)
    path = folder / "scenarios" / f"{name}.toml"
    path.parent.mkdir()
    path.write_text(text + SEEDED, encoding="utf-8")
    return path


def share_of(project: Project, host: str) -> range:
    """Which users a host carries."""
    (facts,) = {(each["first"], each["last"]) for each in project.said(host, "share")}
    return range(*facts)


def test_compose_runs_the_mixed_exchange_and_a_relays_container_that_is_killed_resumes(
    image: str, tmp_path: Path
) -> None:
    """It is killed when the first relays have passed batches on; a slow host keeps the others from being done."""
    path = written(tmp_path, "mixed", **{"[mechanism]": f"{LONG_ROUNDS}\n[mechanism]"})
    expected = run(load_scenario(path)).summary
    assert expected.noisy_sha256.startswith("65f5190f")
    with project_of(tmp_path, path, {"users-3": {"cpus": 0.3}}) as project:
        project("up", "--no-build", "--detach", *NODES)
        look = ("exec", "coordinator", "grep", "-qa", "passed", "/state/journal.log")
        until(lambda: project(*look, check=False).returncode == 0, PATIENCE)
        project("kill", "users-2")
        assert not project.said("coordinator", "exchanged")
        project.resume("users-2")
        assert project.await_end(*NODES) == WELL
        assert project.said("users-2", "replayed")
        folder, mine = project.run_folder(), share_of(project, "users-2")
    summary = read_summary(folder / "summary.json")
    assert (summary.noisy_sha256, summary.missing) == (expected.noisy_sha256, ())
    relays = {event.sender for event in Trace.open(folder / "trace.msgpack") if event.kind == "passed"}
    assert relays & set(mine), "the host that was killed carries relays"
    assert relays - set(mine), "and so do others"
    assert main(["audit", str(folder)]) == 0
    (found,), (attack,) = table(folder, path, []), expected.attacks
    inside(found, attack)


def test_containers_that_are_frozen_and_killed_leave_the_noisy_data_set_of_a_run_without_faults(
    image: str, tmp_path: Path
) -> None:
    path = written(tmp_path, "churn", **{"rounds = 2": "rounds = 20", "[network]": LONG_ROUNDS})
    with project_of(tmp_path, path) as project:
        project("up", "--no-build", "--detach", *NODES)
        project.await_event("coordinator", "clustered")
        project.pause("users-1")
        project("kill", "users-2", "learner")
        assert not project.said("coordinator", "exchanged")
        project.resume("users-2")
        project.resume("learner")
        project("unpause", "users-1")
        assert project.await_end(*NODES) == WELL
        summary = read_summary(project.run_folder() / "summary.json")
    expected = run(load_scenario(path), engine="vectorized").summary
    assert (summary.noisy_sha256, summary.missing) == (expected.noisy_sha256, ())


def test_a_container_that_is_cut_off_from_the_network_for_a_while_changes_nothing(image: str, tmp_path: Path) -> None:
    """The partition that ``deploy partition`` makes of processes, made of a container's network by the engine."""
    path = written(tmp_path, "partition", **{"alpha = 0.1": "alpha = 0.1\nrounds = 20", "round_limit = 60": LONG_LIMIT})
    with project_of(tmp_path, path) as project:
        project("up", "--no-build", "--detach", *NODES)
        project.await_event("coordinator", "clustered")
        with project.cut_off("users-2"):
            project.await_event("coordinator", "disconnected")
            assert not project.said("coordinator", "exchanged")
        assert project.await_end(*NODES) == WELL
        assert not project.said("users-2", "replayed"), "its process kept running"
        summary = read_summary(project.run_folder() / "summary.json")
    expected = run(load_scenario(path), engine="vectorized").summary
    assert (summary.noisy_sha256, summary.missing) == (expected.noisy_sha256, ())


def table(folder: Path, path: Path, pooled: list[Path]) -> list[dict[str, Any]]:
    """What ``attacks`` prints."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        files = [word for each in pooled for word in ("--pooled", str(each))]
        assert main(["attacks", str(folder), str(path), "--json", *files]) == 0
    rows: list[dict[str, Any]] = json.loads(said.getvalue())["attacks"]
    return rows


def inside(found: dict[str, Any], expected: Attack) -> None:
    """A game's row lies inside the simulated interval, beside the same bound, and does not refute it."""
    assert expected.advantage is not None
    assert expected.bound is not None
    _, low, high = expected.advantage
    assert low <= found["advantage"][0] <= high
    assert found["bound"] == pytest.approx(expected.bound, rel=1e-9)
    assert found["advantage"][1] <= found["bound"], "the lower end of its interval"


def pool_is_what_the_coalition_of(
    simulated: Path, scenario: Scenario, summary: Summary, folder: Path, pooled: list[Path]
) -> None:
    """What colluders wrote down in containers is their view of the simulated run, and nothing else."""
    executed = executed_in(summary, folder, scenario, None)
    known = dict(enumerate(executed.dataset.labels.tolist()))
    parameters = executed.resolved.plan.parameters
    pool = Pool.merged(each.read_bytes() for each in pooled)
    expected = view_of(
        Trace.open(simulated / "trace.msgpack"),
        "coalition",
        members=executed.assignments[0].members,
        background=known,
        parameters=parameters,
        coins=SeededCoins(0),
    )
    assert pool.view(parameters, executed.outcome.clusters, executed.outcome.rounds, known) == expected


@pytest.mark.parametrize("name", ["collusion", "sybils", "poisoning", "traffic-analysis", "isolating-coordinator"])
def test_rows_of_an_attack_in_containers_lie_inside_the_intervals_of_the_simulated_ones(
    name: str, image: str, tmp_path: Path
) -> None:
    """And beside the same bounds; with one seed nothing is left to chance."""
    path = written(tmp_path, name)
    with project_of(tmp_path, path) as project:
        assert project("up", "--no-build", check=False).returncode == 0
        folder, pooled = project.run_folder(), project.pooled()
    summary, scenario = read_summary(folder / "summary.json"), load_scenario(path)
    simulated = run(scenario, out=tmp_path / "simulated")
    assert summary.noisy_sha256 == simulated.summary.noisy_sha256
    (found,), (expected,) = table(folder, path, pooled), simulated.summary.attacks
    assert (found["kind"], found.get("members", 0)) == (expected.kind, expected.members)
    if expected.pushes:  # liars: how far they move a share, which no interval is around
        assert found["share"] == expected.share
        assert found["honest_share"] == expected.honest_share
        assert summary.accuracy == pytest.approx(simulated.summary.accuracy, abs=0.01)
        return
    inside(found, expected)
    assert found["advantage"][0] > 0.1, "an attack that achieves something"
    if name == "collusion":
        assert "from what they pooled in this run" in found["note"]
        pool_is_what_the_coalition_of(tmp_path / "simulated", scenario, summary, folder, pooled)
