import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2p_labeldp.data import given_clusters, kmeans_clusters, load
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Data


def points(*values):
    return np.array(values, dtype=np.float32).reshape(-1, 1)


def test_kmeans_finds_gaussians_that_lie_apart():
    made = load(Data(name="synthetic", groups=4, separation=10, spread=0.01, users=200), seed=1)
    found = kmeans_clusters(made.features, count=4, minimum_size=1, seed=1)
    pairs = np.unique(np.stack([found.assignment, made.given_clusters]), axis=1)
    assert pairs.shape[1] == 4


def test_a_small_cluster_joins_the_nearest_and_the_run_can_say_so():
    features = points(0, 0, 0, 10, 10, 10, 13)
    merged = given_clusters(features, np.array([0, 0, 0, 1, 1, 1, 2]), minimum_size=2)
    assert merged.assignment.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert merged.merged == 1
    assert merged.sizes.tolist() == [3, 4]
    assert merged.centres[:, 0].tolist() == [0, 10.75]


def test_the_smallest_cluster_is_merged_first_and_centres_move():
    # 4 (one user) joins 6 (two users), whose centre moves to 5.33 and stays nearer to 9 than 0 is.
    features = points(0, 0, 0, 0, 4, 6, 6, 9, 9, 9, 9)
    merged = given_clusters(features, np.array([0, 0, 0, 0, 1, 2, 2, 3, 3, 3, 3]), minimum_size=4)
    assert merged.assignment.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1]
    assert merged.merged == 2


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    minimum_size=st.integers(1, 30),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_merging_leaves_a_partition_with_every_cluster_big_enough_or_only_one(sizes, minimum_size, seed):
    assignment = np.repeat(np.arange(len(sizes)), sizes)
    features = np.random.default_rng(seed).normal(size=(len(assignment), 2)).astype(np.float32)
    merged = given_clusters(features, assignment, minimum_size)
    assert merged.count == 1 or merged.sizes.min() >= minimum_size
    assert merged.merged == len(sizes) - merged.count
    for old in range(len(sizes)):
        assert len(np.unique(merged.assignment[assignment == old])) == 1
    for cluster in range(merged.count):
        members = features[merged.assignment == cluster].astype(np.float64)
        assert np.allclose(merged.centres[cluster], members.mean(axis=0))


def test_points_that_coincide_give_fewer_clusters_and_no_warning():
    found = kmeans_clusters(points(*[1] * 10 + [2] * 10), count=5, minimum_size=1, seed=1)
    assert found.sizes.tolist() == [10, 10]
    assert kmeans_clusters(points(*[1] * 10), count=10, minimum_size=3, seed=1).sizes.tolist() == [10]


def test_one_user_and_one_cluster_for_everyone_work():
    assert kmeans_clusters(points(3), count=1, minimum_size=5, seed=1).assignment.tolist() == [0]
    assert kmeans_clusters(points(1, 2, 3), count=1, minimum_size=1, seed=1).sizes.tolist() == [3]


def test_every_user_may_be_a_cluster_of_her_own():
    assert kmeans_clusters(points(*range(20)), count=20, minimum_size=1, seed=1).sizes.tolist() == [1] * 20


@pytest.mark.parametrize("count", [0, 4])
def test_more_clusters_than_users_are_refused(count):
    with pytest.raises(RequestError, match=r"clusters.count is \d; between 1 and the number of users, 3"):
        kmeans_clusters(points(1, 2, 3), count=count, minimum_size=1, seed=1)


@pytest.mark.slow
def test_clusters_do_not_depend_on_the_number_of_threads():
    program = (
        "from p2p_labeldp.data import kmeans_clusters, load; from p2p_labeldp.scenario import Data\n"
        "print(kmeans_clusters(load(Data(name='digits'), 1).features, 40, 10, 1).assignment.tolist())"
    )
    threads = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "PYTHONHASHSEED": "2"}  # one each in this process
    with_two = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    here = kmeans_clusters(load(Data(name="digits"), 1).features, 40, 10, 1)
    assert with_two.strip() == str(here.assignment.tolist())


def test_another_seed_starts_elsewhere():
    features = load(Data(name="digits"), seed=1).features
    one, other = (kmeans_clusters(features, 20, 1, seed).assignment for seed in (1, 2))
    assert (one != other).any()
