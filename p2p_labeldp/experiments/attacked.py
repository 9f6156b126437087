"""What the adversaries of a scenario achieve: one measured row each, beside what is proved about their view.

Those who only look play a game on arrays (``experiments.games``), which gives digit for digit what the actors would.
Those who change messages play it with the actors: clusters are independent, so the victim's cluster, as it came about
in the run, is copied once for each trial, everyone in it behaving as in the run, and the view is read from the trace.
Those who push labels are measured by what they did to the run itself, beside the honest run of the same seed.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from p2p_labeldp.adversaries.attacks import ATTACKS
from p2p_labeldp.adversaries.bounds import Bounds
from p2p_labeldp.adversaries.evidence import evidence_of
from p2p_labeldp.adversaries.game import GameResult, judge
from p2p_labeldp.adversaries.install import replaced
from p2p_labeldp.adversaries.kinds import adversary_of
from p2p_labeldp.adversaries.record import Assignment, Measured
from p2p_labeldp.arrays import Labels
from p2p_labeldp.audit.trace import Trace
from p2p_labeldp.audit.views import View as Seen
from p2p_labeldp.audit.views import view_of
from p2p_labeldp.engines.actors import Simulation
from p2p_labeldp.engines.outcome import Outcome, Population
from p2p_labeldp.experiments.games import Game, play_each
from p2p_labeldp.mechanisms.coins import SeededCoins
from p2p_labeldp.privacy import RECORDS, View, account
from p2p_labeldp.runs.execute import Executed
from p2p_labeldp.runs.guarantees import Circumstances, cluster_sizes, colluders_by_size, worst_of
from p2p_labeldp.runs.results import learned
from p2p_labeldp.runs.summary import Attack, Rate
from p2p_labeldp.scenario import EXCHANGES, Network, entries
from p2p_labeldp.streams import Purpose, stream

TRIALS = 20_000  # of a game on arrays: a fraction of a second for clusters of a hundred
MOST_USERS = 30_000  # of a game of actors: about two seconds
FEWEST, MOST = 60, 1000  # trials of a game of actors
OPTIMAL, SIMPLE = "likelihood_ratio", ("majority", "face_value")

Row = dict[str, Any]  # fields of an Attack


def measure_attacks(executed: Executed) -> tuple[Attack, ...]:
    """A row for every adversary of a run."""
    return tuple(
        Attack(number=part.number, kind=part.entry.name, members=len(part.members), **_measured(executed, part))
        for part in executed.assignments
    )


def _measured(run: Executed, part: Assignment) -> Row:
    entry = part.entry
    if part.victim is not None and part.victim in run.silent:
        return {"note": f"user {part.victim} abstained: there is nothing of hers to see"}
    record = adversary_of(entry)
    measured, view = record.measured(entry), record.view(entry)
    if measured is Measured.PUSHED:
        return _pushed(run, part)
    if measured is Measured.PLAYED:
        return _active(run, part)
    if measured is Measured.WATCHED:
        return _watched(run, part, view) if view is not None else {"note": "sees no label and no report"}
    missing = len(run.outcome.missing)
    refused = run.outcome.messages.get("refusal", 0)
    return {"note": f"changes what is said; {missing} users missed something, {refused} messages were refused"}


def _watched(run: Executed, part: Assignment, view: View) -> Row:
    """The game of a view, in the cluster that it tells most about."""
    if view == View.COALITION:
        size, colluders = _worst_coalition(run, part)
        return _passive(run, part, view, size, colluders)
    if part.victim is not None:
        return _passive(run, part, view, len(run.cluster_of(part.victim)))
    # Nobody is asked in a cluster of one, and on the wire there is nothing of it to see but its reports.
    least = 1 if RECORDS[view].reports else 2
    return _passive(run, part, view, _smallest(run, least))


def _sizes(run: Executed) -> Labels:
    clusters = run.outcome.clusters
    return np.bincount(clusters[clusters >= 0])


def _smallest(run: Executed, least: int = 1) -> int:
    sizes = _sizes(run)
    return int(min(sizes[sizes >= max(least, run.parameters.minimum_size)], default=0))


def _worst_coalition(run: Executed, part: Assignment) -> tuple[int, int]:
    """Size and colluders of the victim's cluster or, of all with both colluders and others, of the one that the table
    of guarantees calls the worst; 0 where there is none."""
    clusters, parameters = run.outcome.clusters, run.parameters
    if part.victim is not None:
        users = run.cluster_of(part.victim) if clusters[part.victim] >= 0 else np.empty(0, dtype=np.int64)
        return len(users), min(max(0, len(users) - 1), int(np.isin(users, part.members).sum()))
    pooled = colluders_by_size(clusters, part.members, cluster_sizes(clusters, parameters))
    exposed = {size: colluders for size, colluders in pooled.items() if colluders}
    found = Circumstances(dict.fromkeys(exposed, 0), run.resolved.delta, colluders=exposed)
    worst = worst_of(View.COALITION, parameters, found)
    return worst.cluster_size or 0, worst.colluders or 0


def _passive(run: Executed, part: Assignment, view: View, size: int, colluders: int = 0) -> Row:
    if size < max(1, run.parameters.minimum_size):
        return {"note": "there is nobody to see: all abstained, or none shares a cluster with them"}
    parameters = dataclasses.replace(run.parameters, minimum_size=1)
    users = 400_000 if EXCHANGES[parameters.exchange].relayed else 4_000_000  # who relays is worked out user by user
    trials = min(TRIALS, max(FEWEST, users // size))
    game = Game(view, size, parameters, trials, run.scenario.coins.seed, colluders)
    others = (*SIMPLE, *(attack.name for attack in adversary_of(part.entry).attacks))
    results = play_each(game, (OPTIMAL, *others))
    row = _row(results[OPTIMAL], size, (results[name] for name in others))
    row["beaten"] = tuple(dict.fromkeys(beaten for found in results.values() for beaten in found.beaten))
    return row | ({"colluders": colluders} if view == View.COALITION else {})


def _active(run: Executed, part: Assignment) -> Row:
    """A game of actors on copies of the victim's cluster."""
    victim = part.victim
    assert victim is not None
    users = run.cluster_of(victim)
    if getattr(part.entry, "way", "") == "inconsistent":
        users = np.array(sorted({victim, *part.members}), dtype=np.int64)  # what she was told
    size = len(users)
    place_of = {user: place for place, user in enumerate(users.tolist())}
    trials = min(MOST, max(FEWEST, MOST_USERS // size))
    labels = np.tile(run.dataset.labels[users], (trials, 1))
    positive = stream(run.scenario.coins.seed, Purpose.GAME).random(trials) < 0.5
    labels[:, place_of[victim]] = positive
    own = [place_of[member] for member in part.members if member in place_of]
    seen = _played(run, part, labels, place_of, own)
    evidence = [evidence_of(seen, trial * size + place_of[victim]) for trial in range(trials)]
    results = {}
    buggy = any(isinstance(other.entry, entries.FreshAnswers) and victim in other.members for other in run.assignments)
    names = ("averaging", OPTIMAL) if buggy else (OPTIMAL, "averaging")
    local = account(View.AUDITOR, run.parameters.flips_alone, cluster_size=1)
    bounds = None if buggy else Bounds(local, 0.5)
    ties = stream(run.scenario.coins.seed, Purpose.GAME, 1).random(trials)
    for name in names:
        attack = ATTACKS[name]
        scores = np.array([attack.score(each, (0, 1))[0] for each in evidence])
        results[name] = judge("coalition", attack, positive, scores, ties, bounds=bounds)
    row = _row(results[names[0]], size, [results[names[1]]])
    if buggy:
        row["note"] = "no guarantee holds: the victim makes new noise for every asker"
    return row


def _played(run: Executed, part: Assignment, labels: Labels, place_of: dict[int, int], own: list[int]) -> Seen:
    """Run all copies at once; the view of the coalition whose members have these places."""
    trials, size = labels.shape
    parameters = dataclasses.replace(run.parameters, minimum_size=1)
    plan = dataclasses.replace(run.resolved.plan, parameters=parameters)
    clusters = np.repeat(np.arange(trials), size)
    everyone = labels.ravel()
    population = Population(np.zeros((len(everyone), 1), dtype=np.float32), everyone, lambda ids, _: clusters[ids])
    coins = SeededCoins(run.scenario.coins.seed)
    starts = range(0, len(everyone), size)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.msgpack"
        with path.open("wb") as file:
            simulation = Simulation(
                population, plan, coins, Network(), hosting="cluster", seed=run.scenario.coins.seed, write=file.write
            )
            # Copies have no features, so that nothing of their assignment could be checked: she took part in the run.
            simulation.host.one_answer = run.scenario.defences.one_answer
            for start in starts:
                _replace(simulation, run, part, place_of, start)
            simulation.run()
        victims = {start + place_of[part.victim or 0] for start in starts}
        known = {user: int(label) for user, label in enumerate(everyone.tolist()) if user not in victims}
        members = [start + place for start in starts for place in own]
        return view_of(
            Trace.open(path), "coalition", members=members, background=known, parameters=parameters, coins=coins
        )


def _replace(simulation: Simulation, run: Executed, part: Assignment, place_of: dict[int, int], start: int) -> None:
    """Whoever misbehaved in the run does so in the copy whose users count from ``start``."""
    for other in run.assignments:
        entry = other.entry
        if isinstance(entry, entries.Liars) and entry.cluster != entries.NOBODY:
            if entry.cluster != run.outcome.clusters[part.victim or 0]:
                continue
            entry = dataclasses.replace(entry, cluster=entries.NOBODY)  # copies have numbers of their own
        for place in (place_of[member] for member in other.members if member in place_of):
            honest = simulation.users[start + place]
            simulation.users[start + place] = replaced(
                simulation, run.scenario, entry, honest, lambda victim: start + place_of.get(victim, 0)
            )


def _row(found: GameResult, size: int, others: Iterable[GameResult]) -> Row:
    bounds = found.bounds
    return {
        "view": found.view,
        "cluster_size": size,
        "attack": found.attack,
        "trials": found.trials,
        "confidence": found.confidence,
        "advantage": (found.advantage.value, max(-1.0, found.advantage.low), min(1.0, found.advantage.high)),
        "bound": None if bounds is None else bounds.advantage,
        "bound_exact": None if bounds is None else bounds.exact,
        "reconstruction": (found.reconstruction.value, found.reconstruction.low, found.reconstruction.high),
        "true_rates": tuple(
            Rate(
                point.target,
                point.true_rate.value,
                point.true_rate.low,
                point.true_rate.high,
                None if bounds is None else point.bound(bounds),
                point.false_rate.value,
                point.false_rate.high,
            )
            for point in found.roc
        ),
        "beaten": found.beaten,
        "others": {other.attack: other.advantage.value for other in others},
    }


def _pushed(run: Executed, part: Assignment) -> Row:
    """The pushed label's share in the clusters of liars, with and without them, and what the model loses."""
    entry, honest = part.entry, run.again()
    label, only = getattr(entry, "label", 0), getattr(entry, "cluster", entries.NOBODY)
    clusters = run.outcome.clusters
    touched = np.unique(clusters[np.array(part.members, dtype=np.int64)])
    if only != entries.NOBODY:
        touched = touched[touched == only]

    def share(outcome: Outcome) -> float | None:
        users = np.concatenate([users for users, _ in outcome.rounds])
        noisy = np.concatenate([labels for _, labels in outcome.rounds])
        here = np.isin(clusters[users], touched)
        return float(np.mean(noisy[here] == label)) if here.any() else None

    return {
        "pushes": True,
        "pushed_label": label if getattr(entry, "lie", "label") == "label" else None,
        "share": share(run.outcome),
        "honest_share": share(honest),
        "honest_accuracy": learned(run.resolved, run.dataset, honest).accuracy,
    }
