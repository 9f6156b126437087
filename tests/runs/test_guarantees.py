"""What a run promises: the worst of the clusters that took part, and no less when users went missing."""

from __future__ import annotations

import numpy as np
import pytest

from p2p_labeldp.engines.outcome import Outcome
from p2p_labeldp.privacy import Parameters, account
from p2p_labeldp.runs.guarantees import guarantees

PARAMETERS = Parameters(alpha=0.1, theta=0.8)


def outcome_of(*sizes: int, missing: list[int] | None = None) -> Outcome:
    return Outcome(np.repeat(np.arange(len(sizes)), sizes), [], missing=missing or [])


def test_the_worst_cluster_counts() -> None:
    found = guarantees(outcome_of(30, 60), PARAMETERS, 1e-4)["learner"]
    alone = account("learner", Parameters(alpha=0.1, theta=0.8), cluster_size=30).get_epsilon(1e-4)
    assert found["cluster_size"] == 30
    assert found["epsilon"] == pytest.approx(alone.epsilon, abs=1e-6)


def test_the_default_delta_is_one_over_the_square_of_the_smallest_cluster() -> None:
    assert guarantees(outcome_of(40, 60), PARAMETERS)["peer"]["delta"] == 1 / 1600


def test_a_tiny_cluster_does_not_set_a_delta_at_which_nothing_is_promised() -> None:
    assert guarantees(outcome_of(1, 4000), PARAMETERS)["peer"]["delta"] == 1 / 4001
    assert guarantees(outcome_of(1), PARAMETERS)["peer"]["delta"] == 1e-3


def test_clusters_that_abstain_do_not_count() -> None:
    parameters = Parameters(alpha=0.1, theta=0.8, minimum_size=40)
    assert guarantees(outcome_of(30, 60), parameters, 1e-4)["learner"]["cluster_size"] == 60


def test_where_everyone_abstains_nothing_is_learned() -> None:
    parameters = Parameters(alpha=0.1, theta=0.8, minimum_size=100)
    found = guarantees(outcome_of(30, 60), parameters)
    assert all(view["epsilon"] == 0 and "abstained" in view["reason"] for view in found.values())


def test_missing_users_make_no_guarantee_smaller_and_it_is_called_a_bound() -> None:
    whole = guarantees(outcome_of(30, 60), PARAMETERS, 1e-4)
    lacking = guarantees(outcome_of(30, 60, missing=[0, 1, 2]), PARAMETERS, 1e-4)
    for view in whole:
        assert lacking[view]["epsilon"] >= whole[view]["epsilon"] - 1e-9
    assert lacking["learner"]["method"] == "upper_bound"
    assert "3 of 30 users went missing" in lacking["learner"]["reason"]
    shuffled = account("shuffle", Parameters(alpha=0.1), cluster_size=27).get_epsilon(1e-4)
    assert lacking["learner"]["epsilon"] == pytest.approx(shuffled.epsilon, abs=1e-6)


def test_users_who_never_came_were_never_in_a_cluster() -> None:
    clusters = np.repeat([0, 1, -1], [30, 60, 5])
    found = guarantees(Outcome(clusters, [], missing=[90, 91, 92, 93, 94]), PARAMETERS, 1e-4)
    assert found == guarantees(outcome_of(30, 60), PARAMETERS, 1e-4)


@pytest.mark.parametrize("noise", ["sticky", "fresh"])
def test_over_several_rounds_one_who_left_in_between_has_her_flips_alone(noise: str) -> None:
    """What changes when she leaves tells her noisy label apart from the others'."""
    parameters = Parameters(alpha=0.1, theta=0.8, rounds=4, noise=noise)
    lacking = guarantees(outcome_of(60, missing=[7]), parameters, 1e-4)
    local = account("learner", Parameters(alpha=0.1, theta=0.8, noise=noise, rounds=4), cluster_size=60).local_epsilon
    for view in ("learner", "shuffle", "coalition"):
        assert lacking[view]["epsilon"] == pytest.approx(local)
        assert lacking[view]["method"] == "upper_bound"


def test_where_someone_misbehaves_the_flips_alone_are_counted_on() -> None:
    found = guarantees(outcome_of(30, 60), PARAMETERS, 1e-4, ["liars", "silent"])
    local = account("learner", Parameters(alpha=0.1, theta=0.8), cluster_size=30).local_epsilon
    for view in found.values():
        assert view["epsilon"] == pytest.approx(local, abs=1e-3)
        assert view["epsilon"] <= local + 1e-9
        assert view["method"] == "upper_bound"
        assert "not everyone is honest (liars, silent)" in view["reason"]


def test_new_noise_for_every_asker_leaves_no_guarantee() -> None:
    found = guarantees(outcome_of(30, 60), PARAMETERS, 1e-4, ["fresh_answers", "focus"])
    assert all(view["epsilon"] == "inf" for view in found.values())
