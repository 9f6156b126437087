"""The smallest plan that still fails in the same way: disasters are dropped, then hosts, users, rounds and weather made
less."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from p2p_labeldp.deployment.simulated.plan import Plan
from p2p_labeldp.deployment.simulated.run import simulate
from p2p_labeldp.errors import RequestError

SIMPLER = ("mechanism.rounds=1", "data.groups=1", "mechanism.theta=1.0", "clusters.method=given", "data.labels=2")
TRIES = 200
FEWEST = 3  # users, and no host without one
_PARTICULAR = re.compile(r"(users-|coordinator|learner|auditor|[0-9])[-+.\w]*")


def kind_of(failure: str) -> str:
    """What a failure says, whoever it is about and whatever the numbers."""
    return _PARTICULAR.sub("_", failure.partition(":")[0])


def _ways_of(plan: Plan) -> list[str]:
    """In which a plan fails."""
    try:
        return [kind_of(failure) for failure in simulate(plan).failures]
    except RequestError:  # no plan that can be run
        return []


def shrink(plan: Plan) -> Plan:
    """Of the plans that still fail, one of which nothing more can be taken away (within ``TRIES``)."""
    known = _ways_of(plan)[:1]
    candidates = _smaller(plan)
    for _ in range(TRIES):
        candidate = next(candidates, None)
        if candidate is None:
            break
        if set(known) & set(_ways_of(candidate)):
            plan, candidates = candidate, _smaller(candidate)
    return plan


def _smaller(plan: Plan) -> Iterator[Plan]:
    count = len(plan.disasters)
    size = count
    while size >= 1:
        for start in range(0, count, size):
            yield plan.without(*range(start, min(count, start + size)))
        size //= 2
    if plan.hosts > 1:
        gone = f"users-{plan.hosts}"
        kept = tuple(each for each in plan.disasters if gone not in (each.machine, *each.others))
        skews = tuple(pair for pair in plan.skews if pair[0] != gone)
        awaited = plan.hosts - 1 if plan.awaited else 0
        smaller = replace(plan, hosts=plan.hosts - 1, awaited=awaited, disasters=kept, skews=skews)
        yield _set(smaller, f"deployment.hosts={awaited}")
    if plan.adversaries:
        yield replace(plan, adversaries="")
    if plan.skews:
        yield replace(plan, skews=())
    users = plan.scenario.data.users
    if users // 2 >= max(FEWEST, plan.hosts):
        yield _set(plan, f"data.users={users // 2}")
    for simpler in SIMPLER:
        if simpler not in plan.settings:
            yield _set(plan, simpler)
    if plan.jitter or plan.pieces or plan.detours:
        yield replace(plan, jitter=0.0, pieces=0.0, detours=0.0)


def _set(plan: Plan, setting: str) -> Plan:
    name = setting.partition("=")[0]
    settings = tuple(setting if each.startswith(f"{name}=") else each for each in plan.settings)
    return replace(plan, settings=settings)
