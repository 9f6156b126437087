"""``python -m p2p_labeldp.deployment.simulated``: replay a seed, shrink it, or try many."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from p2p_labeldp.deployment.simulated.diagram import diagram, readable
from p2p_labeldp.deployment.simulated.history import Outcome
from p2p_labeldp.deployment.simulated.plan import Plan, draw
from p2p_labeldp.deployment.simulated.run import simulate
from p2p_labeldp.deployment.simulated.shrink import shrink
from p2p_labeldp.deployment.simulated.swarm import Record, swarm

COMMAND = "python -m p2p_labeldp.deployment.simulated"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="replay one seed")
    which.add_argument("--seeds", help="FIRST:LAST, try that many; what fired is told at the end")
    which.add_argument("--plan", type=Path, help="run a plan that --shrink has written")
    parser.add_argument(
        "--results", type=Path, help="of --seeds: a line for each seed; those that it has are not tried"
    )
    parser.add_argument("--trace", action="store_true", help="the history, line by line, and the space-time diagram")
    parser.add_argument("--svg", type=Path, help="write the space-time diagram to a file")
    parser.add_argument("--shrink", type=Path, help="write the smallest plan that still fails")
    parser.add_argument("--digest", action="store_true", help="digests of the history and of what was sent")
    chosen = parser.parse_args(arguments)
    if chosen.seeds:
        return _many(chosen.seeds, chosen.results)
    plan = Plan.from_json(chosen.plan.read_text(encoding="utf-8")) if chosen.plan else draw(chosen.seed)
    outcome = simulate(plan)
    if chosen.digest:
        print(outcome.history.sha256, outcome.history.content_sha256)
        return 1 if outcome.failures else 0
    if chosen.trace:
        print(readable(outcome))
    if chosen.svg:
        chosen.svg.write_text(diagram(outcome), encoding="utf-8")
    print(_summary(outcome))
    if chosen.shrink and outcome.failures:
        smallest = shrink(plan)
        chosen.shrink.write_text(smallest.to_json(), encoding="utf-8")
        print(f"enough: {len(smallest.disasters)} of {len(plan.disasters)} disasters, {smallest.hosts} hosts")
        print(_summary(simulate(smallest)))
        print(f"again: {COMMAND} --plan {chosen.shrink} --trace")
    return 1 if outcome.failures else 0


def _many(text: str, results: Path | None) -> int:
    first, _, last = text.partition(":")

    def told(record: Record) -> None:
        if record.failure:
            print(f"seed {record.seed} failed: {record.failure}\n  {COMMAND} --seed {record.seed} --trace", flush=True)
        if record.seed % 100 == 99:
            print(f"seed {record.seed}", file=sys.stderr, flush=True)

    found = swarm(range(int(first), int(last)), told, results)
    print(found.table())
    return 1 if found.failed else 0


def _summary(outcome: Outcome) -> str:
    plan = outcome.plan
    lines = [
        f"seed {plan.seed}: {plan.hosts} hosts, {len(plan.disasters)} disasters, {outcome.seconds:.1f} virtual seconds"
    ]
    lines += [f"  {each}" for each in plan.disasters]
    lines += [f"  {name} ended: {how}" for name, how in outcome.endings.items() if how != "done"]
    lines += [f"FAILED: {failure}" for failure in outcome.failures] or ["all is well"]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
