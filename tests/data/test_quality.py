import numpy as np
import pytest

from p2p_labeldp.data import load
from p2p_labeldp.data.quality import cluster_shares, phi, psi, purity
from p2p_labeldp.scenario import Data


def test_phi_is_the_mean_distance_to_the_clusters_distribution():
    conditional = np.array([[1.0, 0.0], [0.0, 1.0], [0.3, 0.7]])
    assert phi(conditional, np.array([0, 0, 1])) == pytest.approx((1 + 1 + 0) / 3)


def test_phi_is_nothing_when_everyone_is_alone_and_grows_as_clusters_mix():
    made = load(Data(name="synthetic"), seed=1)
    alone = phi(made.conditional, np.arange(len(made.labels)))
    given = phi(made.conditional, made.given_clusters)
    together = phi(made.conditional, np.zeros(len(made.labels), dtype=np.int64))
    assert alone == pytest.approx(0, abs=1e-12)
    assert 0 < given < together < 2


LABELS = np.array([0, 0, 1, 1, 1])
CLUSTERS = np.array([0, 0, 0, 1, 1])


def test_shares_are_those_of_the_labels_in_each_cluster():
    assert np.allclose(cluster_shares(LABELS, CLUSTERS, 3), [[2 / 3, 1 / 3, 0], [0, 1, 0]])


def test_an_empty_cluster_has_uniform_shares():
    assert cluster_shares(np.array([1]), np.array([1]), 2).tolist() == [[0.5, 0.5], [0, 1]]


def test_psi_is_the_worst_clusters_distance():
    q = np.array([[2 / 3, 1 / 3], [0.25, 0.75]])
    assert psi(q, LABELS, CLUSTERS, 2) == pytest.approx(0.5)
    assert psi(cluster_shares(LABELS, CLUSTERS, 2), LABELS, CLUSTERS, 2) == 0


def test_psi_leaves_out_clusters_with_nobody_in_them():
    assert psi(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1]), np.array([1]), 2) == 0


def test_psi_refuses_a_q_of_the_wrong_shape():
    with pytest.raises(ValueError, match="shape"):
        psi(np.ones((1, 2)), LABELS, CLUSTERS, 2)


def test_purity_is_the_share_of_the_majorities():
    assert purity(LABELS, CLUSTERS, 2) == pytest.approx(4 / 5)
