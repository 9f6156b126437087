"""How many hosts and users a run needs, how long it waits for those who stay away, and with whom a host connects."""

from __future__ import annotations

from typing import Any

import pytest
from deployment_model import Model
from small import ONE_CLUSTER

from p2p_labeldp.deployment.coordinating import CoordinatorPart
from p2p_labeldp.deployment.items import Mail, decode_item
from p2p_labeldp.deployment.users import UsersPart
from p2p_labeldp.errors import CheckError, RunError
from p2p_labeldp.scenario import parse_scenario, replace

SMALL = parse_scenario(
    ONE_CLUSTER, overrides=["data.users=60", "data.groups=4", "clusters.minimum_size=2", "mechanism.alpha=0.1"]
)


def coordinator(model: Model) -> CoordinatorPart:
    part = model.parts["coordinator"]
    assert isinstance(part, CoordinatorPart)
    return part


def assert_ended(model: Model, why: str) -> None:
    """The coordinator stops with status 1, and so does everyone who hears of it; no report was released."""
    failure = coordinator(model).failure
    assert isinstance(failure, CheckError)
    assert str(failure) == why
    for name in model.names:
        if name in model.away | {"coordinator"}:
            continue
        with pytest.raises(CheckError, match=f"the coordinator ended the run: {why.partition('(')[0].strip()}"):
            hear_out(model, name)
    for (sender, receiver), said in model.streams.items():
        if receiver == "learner" and sender not in model.names[:3]:
            assert not any(isinstance(decode_item(body), Mail) for _, body in said)


def hear_out(model: Model, name: str) -> None:
    while model.delivered["coordinator", name] < len(model.streams["coordinator", name]):
        model.deliver("coordinator", name)


# Too few


def test_too_few_hosts_stop_the_run_before_it_begins() -> None:
    model = Model(replace(SMALL, deployment__minimum_hosts=3), 4)
    model.away = set(model.names[5:])
    model.run()
    model.expire("coordinator")
    assert_ended(model, "2 user hosts take part; deployment.minimum_hosts is 3 (2 of 4 hosts that never joined)")


def test_users_who_never_say_hello_stop_the_run_where_too_few_are_left() -> None:
    model = Model(replace(SMALL, deployment__minimum_users=45), 3)
    model.until("begun")
    model.away.add(model.names[4])
    model.run()
    model.expire("coordinator")
    assert_ended(model, "40 users take part; deployment.minimum_users is 45")


def test_a_host_lost_in_a_round_stops_the_run_before_anyone_reports() -> None:
    model = Model(replace(SMALL, deployment__minimum_hosts=3), 3)
    model.until("clustered")
    model.away.add(model.names[4])
    model.run()
    model.expire_round()
    assert_ended(model, "2 user hosts take part; deployment.minimum_hosts is 3")


def test_enough_is_enough() -> None:
    model = Model(replace(SMALL, deployment__minimum_hosts=3, deployment__minimum_users=60), 3)
    model.run()
    assert model.summary().missing == ()


# How long the others wait


def test_a_host_that_stays_away_costs_one_limit_however_many_rounds_follow() -> None:
    model = Model(replace(SMALL, mechanism__rounds=8), 3)
    model.until("clustered")
    model.away.add(model.names[4])
    model.run()
    model.expire_round()
    model.run()
    limits = [facts for name, event, facts in model.logged if (name, event) == ("coordinator", "limit")]
    # The users of the other hosts ask those of the lost one in every round, and their hosts say so at once.
    assert coordinator(model).over
    assert len(limits) == 1
    assert model.summary().missing_hosts == ("users-02",)


def test_a_host_that_comes_back_is_waited_for_again() -> None:
    model = Model(replace(SMALL, mechanism__rounds=8), 3)
    model.until("clustered")
    model.away.add(model.names[4])
    model.run()
    model.expire_round()
    assert coordinator(model).role.away == {1}  # type: ignore[union-attr]
    model.away.clear()
    model.run()
    assert coordinator(model).over
    assert model.summary().missing_hosts == ()
    last = model.summary().outcomes_by_round[7]
    assert last["reported"] + last["dropped"] == 60  # of all three


def test_hosts_that_never_joined_are_named_where_there_is_a_list() -> None:
    def make(name: str, log: Any, model: Model) -> CoordinatorPart:
        return CoordinatorPart(name, log, model.scenario, "a run", b"", ["users-01", "users-02", "users-03"])

    model = Model(SMALL, 3, parts={"coordinator": make})
    model.away.add(model.names[5])
    model.run()
    model.expire("coordinator")  # nobody else comes
    model.run()
    model.expire("coordinator")  # hellos of the share that is nobody's
    model.run()
    assert model.summary().missing_hosts == ("users-03",)


def test_a_learner_that_no_host_reaches_ends_the_run_and_no_host_is_blamed() -> None:
    model = Model(SMALL, 2)
    hosts = model.names[3:]
    while model.step():
        if all(model.parts[name].done for name in hosts):
            break
    for name in hosts:
        model.parts[name].expire(model.now, ["learner"])
        for key, clock, body in model.parts[name].said():
            model.streams[name, key].append((clock, body))
        while model.delivered[name, "coordinator"] < len(model.streams[name, "coordinator"]):
            model.deliver(name, "coordinator")
    while model.delivered["learner", "coordinator"] < len(model.streams["learner", "coordinator"]):
        model.deliver("learner", "coordinator")
    coordinator(model)._awaited.discard("learner")
    model.expire("coordinator")  # the learner may come back
    assert coordinator(model).failure is None
    model.expire("coordinator")
    failure = coordinator(model).failure
    assert type(failure) is RunError
    assert str(failure) == "no user host could reach the learner at 127.0.0.1:7410: not users-01, users-02"


# With whom a host connects


def test_a_host_connects_with_those_whose_users_share_a_cluster_with_its_own_and_nobody_else() -> None:
    model = Model(replace(SMALL, data__groups=20), 30)
    model.run()
    part = coordinator(model)
    assert part.role is not None
    clusters = part.role.clusters
    held = {holder.key: set(clusters[holder.first : holder.last].tolist()) for holder in part.shares.hosts}  # type: ignore[union-attr]
    pairs = 0
    for name in model.names[3:]:
        users = model.parts[name]
        assert isinstance(users, UsersPart)
        needed = {other for other in held if other != name and held[name] & held[other]}
        assert users.dials.keys() - {"coordinator", "learner", "auditor"} == needed
        pairs += len(needed)
    assert 0 < pairs < 0.5 * 30 * 29
