"""Bugs planted on purpose, and what finds each of them; the honest protocol passes.

Those that leak more than is stated are planted in the engine's trials and found by the lower bound on epsilon. Those
that may leak nothing are planted in the actors, whose coins are not recomputed (else the first wrong one would give
them away), and found by the audit of 100 runs' traces at a family-wise error of 1e-6.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from small import population_of, simulated

from p2p_labeldp.adversaries.roles import FreshAnswerer
from p2p_labeldp.audit.array_views import ClusterViews
from p2p_labeldp.audit.epsilon import Floats
from p2p_labeldp.audit.invariants import Checker
from p2p_labeldp.audit.runs import Audit, RunAudit
from p2p_labeldp.audit.sample import Sample, fit_tests
from p2p_labeldp.audit.trace import Trace
from p2p_labeldp.cli import main
from p2p_labeldp.engines.actors import Simulation
from p2p_labeldp.experiments.epsilon import EngineSampler, Setting, ShiftedCoins, audit_epsilon
from p2p_labeldp.experiments.run import run
from p2p_labeldp.mechanisms import SeededCoins
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol.host import Host
from p2p_labeldp.protocol.messages import Answer, Ask, Assignment, Message, Outgoing, Round
from p2p_labeldp.protocol.user import WAITING, User
from p2p_labeldp.scenario import Network, parse_scenario
from p2p_labeldp.streams import KeyedStream, Purpose

# Bugs that leak: in the trials of the vectorized engine.

LEAKY = Parameters(alpha=0.2, theta=1.0)


class TooFewFlips(EngineSampler):
    """Flips with four fifths of the probability that was accounted for."""

    def views(self, labels: NDArray[np.int64], coins: SeededCoins) -> ClusterViews:
        return flipping_with(self, 0.8 * LEAKY.alpha, labels, coins)


class NoiseForEveryAsker(EngineSampler):
    """Flips her true label anew for each who asks."""

    def views(self, labels: NDArray[np.int64], coins: SeededCoins) -> ClusterViews:
        assert isinstance(coins, ShiftedCoins)
        views = flipping_with(self, 0.0, labels, coins)
        flips = np.random.default_rng([self.seed, coins.first]).random((len(labels), 1, labels.shape[1])) < LEAKY.alpha
        noisy = [
            None if seen is None else np.where(seen < 0, seen, seen ^ flips) for seen in (views.answers, views.reports)
        ]
        return replace(views, answers=noisy[0], reports=noisy[1])


def flipping_with(sampler: EngineSampler, alpha: float, labels: NDArray[np.int64], coins: SeededCoins) -> ClusterViews:
    """The engine's views with another alpha, told as if it were the stated one."""
    sampler.parameters = replace(LEAKY, alpha=alpha)
    return replace(EngineSampler.views(sampler, labels, coins), parameters=LEAKY)


def setting(view: str) -> Setting:
    return Setting(view, 10, LEAKY, 0.01, 2 if view == "coalition" else 0)


@pytest.mark.parametrize("bug", [TooFewFlips, NoiseForEveryAsker])
@pytest.mark.parametrize(("view", "trials"), [("learner", 200_000), ("auditor", 40_000), ("eavesdropper", 40_000)])
def test_leaks_are_found_by_the_lower_bound(
    bug: Callable[[Setting, int], EngineSampler], view: str, trials: int
) -> None:
    """Found for every one of 20 seeds tried of each."""
    audit = audit_epsilon(setting(view), trials, 0, sampler=bug(setting(view), 0))
    assert not audit.passed
    assert audit.bound.epsilon > audit.epsilon


@pytest.mark.parametrize("view", ["learner", "auditor", "eavesdropper", "coalition"])
def test_the_honest_engine_is_not_accused(view: str) -> None:
    """Five seeds each. At a confidence of 1 - 1e-4 one of these 20 is accused in one of 500 such tests at most."""
    for seed in range(5):
        assert audit_epsilon(setting(view), 10_000, seed, confidence=1 - 1e-4).passed


def test_a_leak_ends_the_command_with_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def leaking(self: EngineSampler, label: int, trials: range) -> dict[str, Floats]:
        return honest(TooFewFlips(setting("auditor"), self.seed), label, trials)

    honest = EngineSampler.__call__
    monkeypatch.setattr(EngineSampler, "__call__", leaking)
    numbers = ["--cluster-size", "10", "--alpha", "0.2", "--theta", "1", "--delta", "0.01", "--trials", "40000"]
    assert main(["audit", "--epsilon", "--view", "auditor", *numbers, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["passed"] is False
    assert found["epsilon_lower"] > found["epsilon"]
    assert main(["audit", "--epsilon", "--view", "auditor", *numbers]) == 1
    assert "FAILED" in capsys.readouterr().out


# Bugs in the actors: up to 100 runs of twelve clusters of twenty.

RUNS, CLUSTERS, SIZE = 100, 12, 20
PARAMETERS = Parameters(alpha=0.2, theta=0.5)
ERROR = 1e-6
FAVOURITE = 107


class Planted(User):
    """A user with one bug in how she begins a round."""

    def __init__(self, id_: int, label: int, host: Host, seed: int) -> None:
        super().__init__(id_, label, host)
        self.random = random.Random(f"{seed} {id_}")

    def receive(self, sender: int, message: Message) -> Sequence[Outgoing]:
        said = super().receive(sender, message)
        if type(message) in (Assignment, Round) and self.state == WAITING:
            self.begun()
            return [(self._peer, out) if type(out) is Ask else (to, self.anew(out)) for to, out in said]
        return said

    def anew(self, message: Message) -> Message:
        return Answer(message.round, self.noisy) if type(message) is Answer else message

    def begun(self) -> None:
        """She has flipped her label and chosen a peer, and may think again."""


class NeverHerself(Planted):
    def begun(self) -> None:
        while self._peer == self.id:
            self._peer = self.random.choice(self._roster)


class FlipsTooRarely(Planted):
    def begun(self) -> None:
        self.noisy = self.label ^ (self.random.random() < 0.8 * self.host.parameters.alpha)


class FlipsTooOften(Planted):
    def begun(self) -> None:
        self.noisy = self.label ^ (self.random.random() < 1.2 * self.host.parameters.alpha)


class HasAFavourite(Planted):
    """Asks the favourite, if she is in the cluster, with twice the probability."""

    def begun(self) -> None:
        size = len(self._roster)
        if FAVOURITE in self._roster and self._peer != FAVOURITE and self.random.random() < 1 / (size - 1):
            self._peer = FAVOURITE


class NewNoise(FreshAnswerer):
    def __init__(self, id_: int, label: int, host: Host, seed: int) -> None:
        super().__init__(id_, label, host, KeyedStream(seed, Purpose.ADVERSARIES))


def put(bug: type[User], seed: int) -> Callable[[Simulation], None]:
    """Makes everyone of a simulation such a user, and her coins those of the seed whatever the scenario says."""

    def prepare(simulation: Simulation) -> None:
        simulation.host._coins = SeededCoins(seed)
        users = simulation.users
        users[:] = [bug(user.id, user.label, user.host, seed) for user in users]  # type: ignore[call-arg]

    return prepare


@pytest.fixture
def traces(tmp_path: Path) -> Callable[..., Iterator[Checker]]:
    """Runs of actors, each checked; with a bug the auditor does not know the coins."""
    clusters = np.repeat(np.arange(CLUSTERS), SIZE)
    labels = (np.arange(CLUSTERS * SIZE) % 3 == 0).astype(np.int64)
    population = population_of(labels, clusters)

    def make(seeds: range, bug: type[User] | None = None) -> Iterator[Checker]:
        for seed in seeds:
            coins, path = SeededCoins(seed), tmp_path / "trace.msgpack"
            with path.open("wb") as file:
                simulation = simulated(population, PARAMETERS, hosting="cluster", seed=seed, write=file.write)
                if bug is not None:
                    put(bug, seed)(simulation)
                simulation.run()
            known = coins if bug is None else None
            checker = Checker(len(labels), 1, PARAMETERS, Network(), coins=known, clusters=clusters, true_labels=labels)
            for event in Trace.open(path):
                checker.feed(event)
            checker.finish()
            yield checker

    return make


def audited(checkers: Sequence[Checker]) -> Audit:
    """As ``audit_runs`` pools them."""
    pooled = Sample()
    for checker in checkers:
        pooled.pool(checker.sample)
    runs = [RunAudit(Path(), 0, 0, False, checker.violations) for checker in checkers]
    return Audit(runs, fit_tests(pooled, PARAMETERS), ERROR)


@pytest.mark.parametrize(
    ("bug", "test", "runs"),
    [
        (NeverHerself, "self_asks", 20),
        (FlipsTooRarely, "flips", 60),
        pytest.param(FlipsTooOften, "flips", 60, marks=pytest.mark.slow),
        (HasAFavourite, "asked_by_user", RUNS),
    ],
)
def test_bugs_that_break_no_rule_are_found_by_the_tests_of_the_coins(
    traces: Callable[..., Iterator[Checker]], bug: type[User], test: str, runs: int
) -> None:
    """Self-asks move by 15 standard deviations, flips by 9, where 5.3 are enough: one set of seeds in 10^4 misses one.
    One favourite among 240 moves by 10, where for one of so many 6.8 are enough: one set of seeds in 240 misses her."""
    audit = audited(list(traces(range(runs), bug)))
    assert not any(run.violations for run in audit.runs)
    assert test in {failed.name for failed in audit.failed_tests}
    assert not audit.passed


def test_new_noise_for_every_asker_breaks_a_rule(traces: Callable[..., Iterator[Checker]]) -> None:
    """Every run shows it: of 240 users about 63 are asked more than once, and a third of them contradict themselves."""
    audit = audited(list(traces(range(5), NewNoise)))
    assert all({found.invariant for found in run.violations} == {"same_answer"} for run in audit.runs)


@pytest.mark.slow
def test_the_honest_protocol_passes_for_200_of_200_seeds(traces: Callable[..., Iterator[Checker]]) -> None:
    """Each alone and all together, every coin recomputed: 201 audits, of which one fails in 5,000 such tests."""
    checkers = list(traces(range(1000, 1200)))
    assert sum(audited([checker]).passed for checker in checkers) == 200
    assert audited(checkers).passed


SCENARIO = """
[data]
name = "synthetic"
users = 240
groups = 12
[clusters]
method = "given"
minimum_size = 2
[mechanism]
alpha = 0.2
theta = 0.5
[coins]
source = "system"
[learner]
max_iterations = 1
"""


@pytest.mark.slow
def test_a_favourite_is_found_in_the_folders_of_100_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From beginning to end. The scenario says that coins are the operating system's, so that the auditor does not
    recompute them; they are seeded all the same, so that this test says the same every time."""
    scenario = parse_scenario(SCENARIO)
    folders = [tmp_path / str(number) for number in range(RUNS)]
    for number, folder in enumerate(folders):
        summary = run(scenario, hosting="cluster", out=folder, prepare=put(HasAFavourite, number)).summary
        assert summary.clusters == CLUSTERS
    assert main(["audit", *map(str, folders), "--family-wise-error", f"{ERROR}", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not any(run["violations"] for run in found["runs"])
    failed = [test for test in found["tests"] if test["p_value"] < found["threshold"]]
    assert [test["test"] for test in failed] == ["asked_by_user"]
    assert failed[0]["seen"].startswith(f"user {FAVOURITE} asked")
