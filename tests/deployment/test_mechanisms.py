"""Every mechanism deployed: who is handed what, what a curator or a shuffler passes on, and what is lost on the way.

That each gives the noisy labels, the accuracy and the epsilon of ``run`` stands in ``tests/system/test_one_path.py``.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asking import Refused
from deployment_model import Model
from processes import Machine, expected_sha256, fleet
from small import SIXTY

from p2p_labeldp.deployment.items import Mail, decode_item
from p2p_labeldp.deployment.journal import FILE
from p2p_labeldp.deployment.roles import singles_of
from p2p_labeldp.privacy import View, account
from p2p_labeldp.protocol.messages import Closed, Release, Report, Submit
from p2p_labeldp.scenario import MECHANISMS, Scenario, parse_scenario, replace

PLAIN = SIXTY.partition("[mechanism]")[0]
TRUSTED = {"shuffle": "shuffler", "cluster_rr": "curator", "centralized": "curator", "rr_with_prior": "curator"}


def scenario_of(kind: str, *settings: str) -> Scenario:
    given = not MECHANISMS[kind].epsilon or any("alpha" in each for each in settings)
    asked = [] if given else ["mechanism.epsilon=1"]
    return parse_scenario(PLAIN, "small", [f"mechanism.kind={kind}", *asked, *settings], 3)


def heard(model: Model, sender: str, receiver: str) -> list[Any]:
    """The messages of a stream, in order."""
    items = (decode_item(body) for _, body in model.streams[sender, receiver])
    return [each.message for item in items if isinstance(item, Mail) for each in item.envelopes]


class Blocked(Model):
    """Some streams deliver nothing, as if their senders had died with what they had said."""

    blocked: frozenset[tuple[str, str]] = frozenset()

    def waiting(self) -> list[tuple[str, str]]:
        return [pair for pair in super().waiting() if pair not in self.blocked]


# Who is handed what


@pytest.mark.parametrize("kind", MECHANISMS)
def test_labels_go_to_whom_the_mechanism_trusts_and_to_nobody_else(kind: str) -> None:
    model = Model(scenario_of(kind), 2)
    model.run()
    between = TRUSTED.get(kind)
    assert singles_of(model.scenario)[3:] == ([between] if between else [])
    for host in model.hosts:
        to_learner = {type(message) for message in heard(model, host, "learner")}
        assert to_learner == (set() if between else {Report})
        if between:
            assert {type(message) for message in heard(model, host, between)} == {Submit}
        if kind != "peer_to_peer":  # hosts have nothing to say to each other
            assert not any(model.streams[host, other] for other in model.hosts)


@pytest.mark.parametrize("kind", TRUSTED)
def test_what_is_passed_on_does_not_depend_on_the_order_in_which_labels_came(kind: str) -> None:
    streams = []
    for seed in (0, 1):
        model = Model(scenario_of(kind), 4, seed)
        model.run()
        streams.append(model.streams[TRUSTED[kind], "learner"])
        arrivals = [entry.peer for entry in model.journals[TRUSTED[kind]] if len(entry.peer) == 64]
        assert set(arrivals) == set(model.hosts)
    assert streams[0] == streams[1]  # clocks and bytes
    said = heard(model, TRUSTED[kind], "learner")
    users = [message.user for message in said if type(message) is Release]
    assert users == list(range(60))
    assert type(said[-1]) is Closed


@pytest.mark.parametrize("kind", TRUSTED)
def test_killed_at_any_moment_a_curator_or_a_shuffler_passes_on_the_same(kind: str) -> None:
    """Its noise is the system's: drawn anew after a restart, the learner would see two releases of the same labels."""
    model = Model(replace(scenario_of(kind), coins__source="system"), 2)
    while model.step():
        model.kill(TRUSTED[kind])  # asserts that it says again what it said
    assert len(model.results[-1][0].rounds[0][0]) == 60


def test_noise_of_the_system_is_another_one_at_each_node() -> None:
    from p2p_labeldp.mechanisms.coins import ExpandedEntropy

    first, again, other = ExpandedEntropy(b"a"), ExpandedEntropy(b"a"), ExpandedEntropy(b"b")
    drawn = [first(16), first(16)]
    assert drawn == [again(16), again(16)]
    assert len({*drawn, other(16)}) == 3


# Those who are lost


def lost_labels(scenario: Scenario) -> Blocked:
    """A host's users are done, and what they handed over never comes."""
    model = Blocked(scenario, 3)
    model.blocked = frozenset({(model.hosts[1], TRUSTED[scenario.mechanism.kind])})
    model.run()
    model.expire(TRUSTED[scenario.mechanism.kind])
    model.run()
    model.away.add(model.hosts[1])
    model.expire("coordinator")
    model.run()
    return model


def test_where_labels_are_lost_a_shuffled_label_hides_among_those_that_came() -> None:
    model = lost_labels(scenario_of("shuffle", "mechanism.alpha=0.2"))
    came = model.results[-1][0].rounds[0][0]
    assert not set(range(20, 40)) & set(came.tolist())
    clusters = model.results[-1][0].clusters
    smallest = int(np.bincount(clusters[came]).min())
    assert smallest < np.bincount(clusters).min()
    stated = model.summary().privacy[View.LEARNER]
    parameters = model._plan().parameters
    expected = account(View.SHUFFLE, parameters, cluster_size=smallest).get_epsilon(stated.delta)
    assert stated.epsilon == pytest.approx(expected.epsilon)
    assert stated.epsilon > account(View.SHUFFLE, parameters, cluster_size=20).get_epsilon(stated.delta).epsilon


def test_where_labels_are_lost_and_an_epsilon_was_asked_for_a_shuffler_passes_nothing_on_of_their_clusters() -> None:
    model = lost_labels(scenario_of("shuffle"))
    outcome = model.results[-1][0]
    broken = {int(cluster) for cluster in outcome.clusters[20:40]}
    assert set(outcome.withheld) == broken
    assert not broken & set(outcome.clusters[outcome.rounds[0][0]].tolist())
    assert model.summary().privacy[View.LEARNER].epsilon <= 1


def test_a_cluster_of_which_too_few_labels_came_is_not_passed_on_by_a_shuffler() -> None:
    """Users abstain in a cluster below the minimum size; no account is made of one, and none may be released."""
    scenario = scenario_of("shuffle", "mechanism.alpha=0.2", "clusters.minimum_size=16")
    model = lost_labels(scenario)
    outcome = model.results[-1][0]
    sizes = np.bincount(outcome.clusters[outcome.rounds[0][0]], minlength=3)
    assert all(size == 0 or size >= 16 for size in sizes)
    assert (np.bincount(outcome.clusters) - sizes).max() > 0


def test_what_a_curator_releases_costs_the_same_whoever_is_lost() -> None:
    model = lost_labels(scenario_of("cluster_rr"))
    assert len(model.results[-1][0].rounds[0][0]) == 40
    assert model.summary().privacy[View.LEARNER].epsilon == pytest.approx(1)


def test_a_host_beside_a_shuffler_knows_its_own_users_labels() -> None:
    model = Model(scenario_of("shuffle"), 2)
    model.run()
    privacy = model.summary().privacy
    assert privacy[View.LEARNER].epsilon < privacy[View.USER_HOST].epsilon <= privacy[View.SHUFFLER].epsilon


# Two stages


def test_features_that_come_late_are_waited_for_before_users_are_told_what_is_expected() -> None:
    scenario = scenario_of("lp_2st")
    model = Blocked(scenario, 2)
    learner: Any = model.parts["learner"]
    model.blocked = frozenset({(model.hosts[1], "learner")})
    model.run()
    assert learner._role.prior is None
    model.blocked = frozenset()
    model.run()
    undisturbed = Model(scenario, 2, seed=5)
    undisturbed.run()
    assert model.digest == undisturbed.digest


# Requests


@pytest.mark.parametrize("role", ["curator", "shuffler"])
def test_a_node_for_a_role_that_the_mechanism_lacks_is_refused_in_one_line(role: str, refused: Refused) -> None:
    said = refused("node", role, "quickstart", "--certs", "certs", "--state", "state")
    assert f"role {role} is not allowed: peer_to_peer has no {role}" in said
    assert not Path("state").exists()


def test_certificates_are_made_for_roles_that_there_are(refused: Refused) -> None:
    said = refused("certs", "init", "certs", "--role", "keeper")
    assert "--role keeper is not allowed; it must be one of curator, shuffler" in said
    assert not Path("certs").exists()


# Processes


def test_a_curator_killed_and_started_again_changes_nothing_and_says_what_it_keeps(
    machine: Machine, tmp_path: Path
) -> None:
    scenario = replace(scenario_of("cluster_rr"), coins__source="seeded", deployment__away_limit=30)
    with fleet(machine, scenario, 2, tmp_path / "work") as nodes:
        nodes.start()
        nodes.wait_for("curator", "trust")
        nodes.kill("curator")
        nodes.start("curator")
        nodes.finish()
        said = [line["warning"] for line in nodes.heard("curator", "warning")]
        assert any("every user's true label, with its owner, and its journal keeps them" in line for line in said)
        journal = tmp_path / "work" / "state" / "curator" / FILE
        assert stat.S_IMODE(journal.stat().st_mode) == 0o600
        assert stat.S_IMODE(journal.parent.stat().st_mode) == 0o700
        summary = nodes.collect(tmp_path / "run")
    assert summary.noisy_sha256 == expected_sha256(scenario)
    assert "curator is trusted with every true label" in summary.trust
    assert "curator is trusted with every true label" in (tmp_path / "run" / "model-card.md").read_text()
