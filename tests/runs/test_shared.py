"""What runs of one data set share: found once, known by its content, never mixed up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from p2p_labeldp.experiments.run import run
from p2p_labeldp.privacy import Parameters, View
from p2p_labeldp.runs import guarantees
from p2p_labeldp.runs.guarantees import COLLUDERS, Circumstances, cluster_account, worst_of
from p2p_labeldp.runs.shared import shared
from p2p_labeldp.scenario import Scenario, parse_scenario

TEXT = '[data]\nname = "digits"\nusers = 200\n[clusters]\ncount = 4\n'


def scenario(*overrides: str, seed: int = 1) -> Scenario:
    return parse_scenario(TEXT, overrides=overrides, seed=seed)


def test_data_and_clusters_are_those_of_the_coins_seed_unless_told() -> None:
    assert scenario(seed=5).data_seed == 5
    assert scenario("data.seed=0", seed=5).data_seed == 0
    told, same = (run(scenario("data.seed=7", seed=seed), engine="vectorized") for seed in (1, 2))
    own = run(scenario(seed=7), engine="vectorized")
    assert told.dataset is same.dataset
    assert told.outcome is not None
    assert same.outcome is not None
    assert own.outcome is not None
    assert (told.outcome.clusters == own.outcome.clusters).all()
    assert told.summary.nonprivate_accuracy == own.summary.nonprivate_accuracy
    assert told.summary.noisy_sha256 != same.summary.noisy_sha256
    assert told.summary.noisy_sha256 != own.summary.noisy_sha256


def test_a_run_does_not_depend_on_what_ran_before_it() -> None:
    first = run(scenario(), engine="vectorized").summary
    run(scenario("learner.l2=0.1", "clusters.count=5"), engine="vectorized")
    run(scenario(seed=3), engine="vectorized")
    again = run(scenario(), engine="vectorized").summary
    assert {**first.as_json(), "seconds": 0} == {**again.as_json(), "seconds": 0}


def test_a_file_that_has_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    generator = np.random.default_rng(1)

    def write(flip: bool) -> None:
        rows = [f"{x:.3f},{int((x > 0) ^ flip)}" for x in generator.normal(size=60)]
        path.write_text("\n".join(["x,label", *rows]) + "\n")

    chosen = parse_scenario(f'[data]\nname = "csv"\npath = "{path}"\n', seed=1)
    write(flip=False)
    before = shared(chosen)
    assert shared(chosen) is before
    write(flip=True)
    path.write_text(path.read_text() + "0.5,0\n")  # another size, should the clock be coarse
    assert shared(chosen) is not before


def test_shared_arrays_cannot_be_written_to() -> None:
    data = shared(scenario()).dataset
    for array in (data.features, data.labels, data.test_features, data.test_labels):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize("labels", [2, 4])
@pytest.mark.parametrize(("alpha", "theta", "rounds"), [(0.2, 1.0, 1), (0.05, 0.5, 1), (0.2, 1.0, 2)])
def test_a_runs_worst_guarantee_is_that_of_accounting_for_every_size(
    labels: int, alpha: float, theta: float, rounds: int
) -> None:
    parameters = Parameters(alpha, theta, labels, rounds=rounds)
    found = Circumstances(dict.fromkeys((12, 15, 19, 30), 0), 1e-3)
    for view in (View.LEARNER, View.COALITION, View.SHUFFLE, View.METADATA):
        every = [cluster_account(view, size, parameters, found).get_epsilon(1e-3).epsilon for size in found.sizes]
        assert worst_of(view, parameters, found).epsilon == pytest.approx(max(every), rel=1e-6)


@pytest.mark.parametrize(
    ("size", "labels"), [(5, 2), (20, 2), (60, 2), (5, 3), (20, 3), pytest.param(60, 3, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
def test_the_cheap_bound_is_never_below_the_account(labels: int, size: int, epsilon: float) -> None:
    parameters = Parameters(0.15, 0.8, labels)
    found = Circumstances({size: 0}, 1e-3, colluders={size: 2 * COLLUDERS})
    for view in (View.LEARNER, View.COALITION):
        cheap = guarantees._cheap_delta(view, size, parameters, found, epsilon)
        assert cheap >= cluster_account(view, size, parameters, found).get_delta(epsilon).delta * (1 - 1e-9)
