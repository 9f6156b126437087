"""The smallest plan that still fails: disasters are dropped, then hosts, users, rounds and weather made less."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from p2p_labeldp.deployment.simulated.plan import Plan
from p2p_labeldp.deployment.simulated.run import simulate

SIMPLER = ("mechanism.rounds=1", "data.groups=1", "mechanism.theta=1.0", "clusters.method=given", "data.labels=2")


def fails(plan: Plan) -> bool:
    return bool(simulate(plan).failures)


def shrink(plan: Plan, bad: Callable[[Plan], bool] = fails, tries: int = 200) -> Plan:
    """Of the plans that still fail, one of which nothing more can be taken away (within so many tries)."""
    found = True
    while found:
        found = False
        for candidate in _smaller(plan):
            if tries == 0:
                return plan
            tries -= 1
            if bad(candidate):
                plan, found = candidate, True
                break
    return plan


def _smaller(plan: Plan) -> Iterator[Plan]:
    count = len(plan.disasters)
    size = count // 2
    while size >= 1:
        for start in range(0, count, size):
            yield plan.without(*range(start, min(count, start + size)))
        size //= 2
    if plan.hosts > 1:
        gone = f"users-{plan.hosts}"
        kept = tuple(each for each in plan.disasters if gone not in (each.machine, *each.others))
        settings = tuple(
            f"deployment.hosts={plan.hosts - 1}" if each == f"deployment.hosts={plan.hosts}" else each
            for each in plan.settings
        )
        skews = tuple(pair for pair in plan.skews if pair[0] != gone)
        awaited = plan.hosts - 1 if plan.awaited else 0
        yield replace(plan, hosts=plan.hosts - 1, awaited=awaited, disasters=kept, settings=settings, skews=skews)
    if plan.skews:
        yield replace(plan, skews=())
    for simpler in SIMPLER:
        if simpler not in plan.settings:
            name = simpler.partition("=")[0]
            settings = tuple(simpler if each.startswith(f"{name}=") else each for each in plan.settings)
            yield replace(plan, settings=settings)
    if plan.jitter or plan.pieces or plan.detours:
        yield replace(plan, jitter=0.0, pieces=0.0, detours=0.0)
