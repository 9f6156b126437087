"""Adversaries and faults of a scenario in a deployment: who carries them, what colluders pool, what is measured."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deployment_model import Model
from small import ONE_CLUSTER, TWO_LABELS, sixty

from p2p_labeldp.adversaries.game import reconstruct
from p2p_labeldp.adversaries.suspects import suspects
from p2p_labeldp.audit.folder import TRACE, find
from p2p_labeldp.audit.runs import audit_runs
from p2p_labeldp.audit.trace import Trace
from p2p_labeldp.audit.views import view_of
from p2p_labeldp.deployment.attacked import executed_in
from p2p_labeldp.deployment.disturbing import Blow, disturbances, fired
from p2p_labeldp.deployment.local import deploy
from p2p_labeldp.deployment.misbehaving import Pool, assignments_of
from p2p_labeldp.deployment.users import UsersPart
from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments.run import run
from p2p_labeldp.mechanisms.coins import SeededCoins
from p2p_labeldp.privacy import Parameters, View
from p2p_labeldp.scenario import Scenario, parse_scenario, replace

DIGITS = """
[data]
name = "digits"
target = "parity"
users = 200
[clusters]
count = 3
minimum_size = 20
[mechanism]
alpha = 0.2
"""
ENTRIES = {
    "collusion": (TWO_LABELS, "fraction = 0.3"),
    "observer": (TWO_LABELS, ""),
    "liars": (TWO_LABELS, "fraction = 0.2"),
    "two_faced": (TWO_LABELS, "count = 5"),
    "curious_peers": (TWO_LABELS, "count = 5"),
    "fresh_answers": (TWO_LABELS, "count = 5"),
    "sybils": (DIGITS, "victim = 7\ncount = 30"),
    "isolating_coordinator": (DIGITS, "victim = 7\nsize = 30"),
}

SIMILAR = ("observer", "two_faced", "curious_peers", "fresh_answers")


def scenario_of(kind: str, *settings: str) -> Scenario:
    text, keys = ENTRIES[kind]
    return parse_scenario(f'{text}\n[[adversaries]]\nkind = "{kind}"\n{keys}\n', "attacked", settings, 5)


def coalition(trace: Path, members: Any, labels: Any, parameters: Parameters, **more: Any) -> Any:
    """What these members see of a run by its trace, knowing all labels."""
    known = dict(enumerate(labels.tolist()))
    coins, found = SeededCoins(5), Trace.open(trace)
    return view_of(found, "coalition", members=members, background=known, parameters=parameters, coins=coins, **more)


class Deployed(Model):
    """With what colluders pool, by host."""

    def __init__(self, *given: Any, **settings: Any) -> None:
        self.pooled: dict[str, bytes] = {}
        super().__init__(*given, **settings)

    def make_users(self, name: str, log: Any, kind: type[UsersPart]) -> UsersPart:
        made = super().make_users(name, log, kind)
        made._keep_pool = lambda content: self.pooled.update({name: content})
        return made


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] if kind in SIMILAR else []) for kind in ENTRIES]
)
def test_a_deployment_with_adversaries_is_the_simulated_run_with_them(kind: str) -> None:
    """The same noisy labels, adversaries, guarantees and headline."""
    model = Deployed(scenario_of(kind), 3)
    model.run()
    found, expected = model.summary(), run(scenario_of(kind)).summary
    assert found.noisy_sha256 == expected.noisy_sha256
    assert found.adversaries == expected.adversaries
    assert (found.headline, found.accuracy) == (expected.headline, expected.accuracy)
    for view, stated in expected.privacy.items():
        if kind != "sybils":  # a coordinator sees their claims alone, and takes the delta of such clusters
            assert found.privacy[view].delta == stated.delta
            assert found.privacy[view].epsilon == pytest.approx(stated.epsilon, rel=1e-9)
    if kind in ("liars", "sybils", "isolating_coordinator"):  # nobody is told more than the flips
        assert found.privacy[View.USER_HOST].epsilon == pytest.approx(found.privacy[View.AUDITOR].epsilon)


def test_what_colluders_pooled_is_what_a_coalition_sees_and_nothing_else(tmp_path: Path) -> None:
    """Held against the view that audits filter from the trace of the simulated run with the same seed."""
    scenario = scenario_of("collusion", "mechanism.rounds=2")
    model = Deployed(scenario, 3)
    model.run()
    pool = Pool.merged(model.pooled.values())
    simulated = run(scenario, out=tmp_path / "run")
    assert simulated.outcome is not None
    assert simulated.dataset is not None
    members = simulated.assignments[0].members
    known = dict(enumerate(simulated.dataset.labels.tolist()))
    parameters = model._plan().parameters
    expected = coalition(tmp_path / "run" / "trace.msgpack", members, simulated.dataset.labels, parameters)
    outcome = model.results[-1][0]
    assert pool.labels == {member: known[member] for member in members}
    assert pool.view(parameters, outcome.clusters, outcome.rounds, known) == expected


MIXED = ("mechanism.exchange=mixed", "mechanism.relays=2", "mechanism.rounds=2")


@pytest.mark.parametrize("noise", ["sticky", "fresh"])
def test_what_colluders_of_a_mixed_exchange_pooled_is_what_a_coalition_sees_and_nothing_else(
    noise: str, tmp_path: Path
) -> None:
    """Real packets, opened and tied to their senders with the keys that were pooled; held against everyone's flips.

    They relay in some clusters and not in others, and in some they are both of the relays.
    """
    scenario = scenario_of("collusion", *MIXED, "adversaries[1].fraction=0.5", f"mechanism.noise={noise}")
    model = Deployed(scenario, 3)
    model.run()
    model.write(tmp_path / "trace.msgpack")
    parameters, outcome, labels = model._plan().parameters, model.results[-1][0], model.dataset.labels
    known = dict(enumerate(labels.tolist()))
    members = assignments_of(scenario, len(labels))[0].members
    expected = coalition(tmp_path / "trace.msgpack", members, labels, parameters, true_labels=labels)
    found = Pool.merged(model.pooled.values()).view(parameters, outcome.clusters, outcome.rounds, known)
    assert found == expected
    assert found.opened is not None
    assert found.answers is not None
    tied = [{user for user, _ in answers} for answers in found.answers]
    ways = {
        (roster[0] in opened, roster[0] in owners)
        for opened, owners in zip(found.opened, tied, strict=True)
        for roster in found.clusters.values()
    }
    assert ways >= {(True, False), (True, True)}


def test_only_hosts_with_colluders_write_a_file_and_it_is_the_same_after_a_restart() -> None:
    scenario = scenario_of("collusion", "adversaries[1].users=[0, 1, 2]", "adversaries[1].fraction=0")
    model = Deployed(scenario, 3)
    model.run()
    assert set(model.pooled) == {model.hosts[0]}
    before = dict(model.pooled)
    model.pooled.clear()
    model.kill(model.hosts[0])
    assert model.pooled == before


FOCUSED = f'{DIGITS}\n[[adversaries]]\nkind = "%s"\nvictim = 7\ncount = 3\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[mechanism]\nexchange = "permutation"\n', 'mechanism.exchange = "permutation" is for simulations'),
        (FOCUSED % "focus", "adversaries[1] (focus): is for simulations"),
        (FOCUSED % "repeat_askers", "adversaries[1] (repeat_askers): is for simulations"),
    ],
    ids=["permutation", "focus", "repeat_askers"],
)
def test_what_no_node_can_carry_is_refused_in_one_line(text: str, why: str) -> None:
    with pytest.raises(RequestError) as refused:
        deploy(parse_scenario(text, "attacked"), hosts=2, out=Path("nowhere"))
    assert str(refused.value).startswith(why)
    assert "\n" not in str(refused.value)
    assert not Path("nowhere").exists()


def test_nodes_must_agree_on_adversaries() -> None:
    digests = scenario_of("collusion").shared_digests()
    assert digests["adversaries"] != scenario_of("liars").shared_digests()["adversaries"]
    assert "adversaries" not in sixty().shared_digests()


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [(), ("mechanism.exchange=mixed", "mechanism.relays=2")], ids=["who ask", "who relay"]
)
def test_processes_with_colluders_leave_the_table_and_their_file(
    settings: tuple[str, ...], tmp_path: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    """The row is the simulated one, since the games are the same. The attack on what was pooled is that on the view of
    a coalition, whoever relays: that is drawn from the certificates too, which are new for each deployment."""
    scenario = scenario_of("collusion", *settings)
    summary, simulated = deploy(scenario, hosts=2, out=tmp_path / "run"), run(scenario)
    (row,), (expected,) = summary.attacks, simulated.summary.attacks
    assert (row.advantage, row.bound, row.bound_exact) == (expected.advantage, expected.bound, expected.bound_exact)
    assert (row.members, row.beaten) == (expected.members, ())
    file = tmp_path / "run" / "private" / "pooled.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert len(json.loads(file.read_text())["labels"]) == len(simulated.assignments[0].members)
    (tmp_path / "attacked.toml").write_text(scenario.to_toml())
    status, printed, _ = command("attacks", "run", "attacked.toml", "--pooled", str(file), "--json")
    (later,) = json.loads(printed)["attacks"]
    assert (status, later["note"], later["advantage"]) == (0, row.note, list(row.advantage or ()))
    executed = executed_in(summary, tmp_path / "run", scenario, None)
    labels, parameters = executed.dataset.labels, executed.resolved.plan.parameters
    known, members = dict(enumerate(labels.tolist())), executed.assignments[0].members
    seen = coalition(find(tmp_path / "run", TRACE), members, labels, parameters, true_labels=labels)
    pool = Pool.merged([file.read_bytes()])
    assert pool.view(parameters, executed.outcome.clusters, executed.outcome.rounds, known) == seen
    found = reconstruct(seen, labels)
    words = f"from what they pooled in this run {found.rate:.3f} of {found.users} others' labels are named right"
    assert words in row.note


# Faults


FAULTY = """
[[faults]]
rule = "partition"
fraction = 0.5
start = 0
end = 1
[[faults]]
rule = "churn"
users = [0]
start = 0.5
end = 3
seconds = 1
[[faults]]
rule = "loss"
"""


def test_faults_are_done_to_hosts() -> None:
    scenario = parse_scenario(TWO_LABELS + FAULTY, "faulty")
    found, warnings = disturbances(scenario, 4, 60)
    cut = [each for each in found if each.blow is Blow.CUT]
    assert len(cut) == 2
    assert {(each.start, each.seconds) for each in cut} == {(0.0, 1.0)}
    (killed,) = (each for each in found if each.blow is Blow.KILL)
    assert killed.host == 0
    assert 0.5 <= killed.start <= 2
    assert warnings == ["faults[3] (loss) was left out: TCP hides it from a deployment's nodes"]
    assert [each.fired for each in fired(scenario.faults, found)] == [2, 1, 0]
    assert disturbances(scenario, 4, 60) == (found, warnings)


def test_a_cut_in_one_direction_is_for_simulations() -> None:
    text = TWO_LABELS + '[[faults]]\nrule = "partition"\nfraction = 0.5\none_way = true\n'
    with pytest.raises(RequestError, match="one_way is for simulations"):
        disturbances(parse_scenario(text, "faulty"), 2, 60)


@pytest.mark.slow
def test_hosts_cut_off_and_killed_change_nothing_in_what_comes_of_it(tmp_path: Path) -> None:
    text = TWO_LABELS + FAULTY.partition('[[faults]]\nrule = "churn"')[0]
    text += '[[faults]]\nrule = "crash"\nusers = [59]\nat = 0\nrestart = 0.5\n'
    scenario = parse_scenario(text, "faulty", ["deployment.away_limit=60"], 5)
    summary = deploy(scenario, hosts=2, out=tmp_path / "run")
    assert summary.noisy_sha256 == run(scenario, engine="vectorized").summary.noisy_sha256
    assert summary.missing == summary.missing_hosts == ()
    counts = {fault.rule: fault.fired for fault in summary.faults}
    idle = [warning for warning in summary.warnings if "never fired" in warning]
    assert sum(count == 0 for count in counts.values()) == len(idle)
    assert np.all([count <= 1 for count in counts.values()])


@pytest.mark.slow
def test_processes_whose_relays_release_their_keys_at_once_draw_as_ever(tmp_path: Path) -> None:
    """Over TLS, with certificates: everyone but the victim is crooked when she relays. Relays that tamper are tried in
    ``test_mixed``."""
    entry = f'[[adversaries]]\nkind = "crooked_relays"\nusers = {[*range(1, 24)]}\nway = "early"\n'
    settings = [
        "data.users=24", "mechanism.exchange=mixed", "mechanism.relays=3", "network.round_limit=400",
    ]  # fmt: skip
    scenario = parse_scenario(f"{ONE_CLUSTER}\n{entry}", "crooked", settings, 5)
    summary = deploy(scenario, hosts=3, out=tmp_path / "run")
    (found,) = audit_runs([tmp_path / "run"], suspects=suspects).runs
    assert found.violations == []
    assert summary.noisy_sha256 == run(replace(scenario, adversaries=()), engine="vectorized").summary.noisy_sha256
    assert found.explained["crooked_relays"]["nothing_opened_early"] > 0
