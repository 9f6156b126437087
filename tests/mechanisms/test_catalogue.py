"""Mechanisms by name: what they spend, what they promise to whom, and what they refuse."""

from __future__ import annotations

import math
import pickle
import time
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms import solve
from p2p_labeldp.mechanisms.exchange import Rosters
from p2p_labeldp.mechanisms.rr_with_prior import best_kept, replacing_chance
from p2p_labeldp.mechanisms.shuffle import permuted_within
from p2p_labeldp.privacy import Parameters, account, account_clusters
from p2p_labeldp.privacy.paper import centralized_epsilon
from p2p_labeldp.scenario import MECHANISMS as KINDS
from p2p_labeldp.scenario import OPTIONS, TRUST, LabelMechanism, PrivacyWarning, make_mechanism

PURE = ("uniform_rr", "cluster_rr", "centralized", "rr_with_prior")


def make(kind: str, epsilon: float | None = 1.0, **options: Any) -> LabelMechanism:
    asked: dict[str, Any] = {"label_count": 3, "cluster_sizes": [40, 60], "delta": 1e-4} | options
    return make_mechanism(kind, epsilon=epsilon, **asked)


@given(
    st.sampled_from(PURE),
    st.floats(-8.9, math.log10(699)).map(lambda power: 10**power),
    st.sampled_from([2, 3, 10, 100]),
    st.lists(st.integers(0, 10_000), min_size=1, max_size=5).filter(any),
)
def test_pure_mechanisms_spend_what_was_asked_for(kind: str, epsilon: float, labels: int, sizes: list[int]) -> None:
    mechanism = make_mechanism(kind, epsilon=epsilon, label_count=labels, cluster_sizes=sizes)
    assert 0.999 * epsilon <= mechanism.epsilon <= epsilon
    assert mechanism.delta == 0


@pytest.mark.parametrize("kind", ["peer_to_peer", "shuffle"])
@pytest.mark.parametrize(
    ("labels", "sizes", "epsilon", "delta", "theta"),
    [
        (2, [1], 0.3, 0.0, 1.0),
        (2, [1, 7], 3.0, 1e-4, 0.5),
        (2, [50, 60, 300], 0.001, 1e-6, 1.0),
        (2, [50, 60, 300], 0.1, 1e-6, 0.3),
        (2, [200, 201, 230], 1.0, 0.0, 1.0),
        (2, [600], 5.0, 1e-6, 1.0),
        (2, [600], 9.0, 1e-6, 1.0),
        (2, [2_000], 0.5, 1e-9, 1.0),
        (3, [30, 31], 0.01, 1e-5, 1.0),
        (3, [30, 200], 2.0, 1e-5, 0.8),
        (10, [1], 0.001, 0.0, 1.0),
        (10, [300, 310], 0.5, 1e-6, 1.0),
    ],
)
def test_flipping_mechanisms_spend_what_was_asked_for_in_the_worst_cluster(
    kind: str, labels: int, sizes: list[int], epsilon: float, delta: float, theta: float
) -> None:
    options = {"theta": theta} if kind == "peer_to_peer" else {}
    mechanism = make_mechanism(kind, epsilon=epsilon, delta=delta, label_count=labels, cluster_sizes=sizes, **options)
    assert 0.999 * epsilon <= mechanism.epsilon <= epsilon
    assert mechanism.delta == delta
    view = "learner" if kind == "peer_to_peer" else "shuffle"
    shared: dict[str, Any] = {"alpha": mechanism.parameters["alpha"], "theta": theta, "labels": labels}
    spent = [account(view, cluster_size=n, thorough=False, **shared).get_epsilon(delta).epsilon for n in sizes]
    assert max(spent) == pytest.approx(mechanism.epsilon, rel=1e-9)


def test_uniform_rr_is_the_papers_setting() -> None:
    mechanism = make("uniform_rr", 1.0, label_count=10)
    chance = 10 / (9 + math.e)
    assert mechanism.parameters == {
        "tau": 0.1,
        "sigma": math.inf,
        "lambda": pytest.approx(chance),
        "beta": pytest.approx(chance),
    }
    assert mechanism.method == "exact"
    assert make("uniform_rr", correct=False).parameters["beta"] == 0


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_cluster_rr_splits_its_budget(share: float) -> None:
    mechanism = make("cluster_rr", 0.5, share=share, tau=0.05)
    p = mechanism.parameters
    assert p["sigma"] == (pytest.approx(4 / share) if share else math.inf)
    assert centralized_epsilon(p["sigma"], 0.05, p["lambda"]) == pytest.approx(0.5)
    assert p["beta"] == 0


def test_cluster_rr_s_tau_is_a_hundredth_unless_told_and_never_more_than_one_over_k() -> None:
    assert make("cluster_rr").parameters["tau"] == 0.01
    assert make("cluster_rr", label_count=500).parameters["tau"] == 1 / 500


def test_centralized_reports_what_given_parameters_spend() -> None:
    mechanism = make("centralized", None, tau=0.1, sigma=4.0, lambda_=0.9, beta=0.5)
    assert mechanism.epsilon == pytest.approx(0.5 + math.log1p(0.1 / 0.09))
    assert mechanism.paper_epsilon == pytest.approx(0.25 + math.log1p(0.1 / 0.09))
    assert mechanism.parameters == {"tau": 0.1, "sigma": 4.0, "lambda": 0.9, "beta": 0.5}
    assert make("centralized", 0, tau=0.1, sigma=4.0, lambda_=0.9).epsilon == mechanism.epsilon


@pytest.mark.parametrize(("sigma", "epsilon"), [(0.0, math.inf), (math.inf, math.log1p(0.5 / 0.05))])
def test_no_noise_is_no_privacy_and_endless_noise_costs_nothing(sigma: float, epsilon: float) -> None:
    assert make("centralized", None, tau=0.1, sigma=sigma, lambda_=0.5).epsilon == pytest.approx(epsilon)


def test_the_lower_bounds_setting_spends_on_the_histogram_alone() -> None:
    mechanism = make("centralized", 0.5, tau=0.0, lambda_=1.0)
    assert mechanism.parameters == {"tau": 0.0, "sigma": 4.0, "lambda": 1.0, "beta": 0.0}


@pytest.mark.parametrize(
    "given_",
    [{}, {"sigma": 8.0}, {"lambda_": 0.95}, {"lambda_": 0.99, "sigma": 8.0}, {"sigma": math.inf}, {"sigma": 2.0}],
)
def test_centralized_solves_for_what_is_left_out(given_: dict[str, float]) -> None:
    mechanism = make("centralized", 1.0, **({"tau": 0.1} if len(given_) < 2 else {}), **given_)
    assert 0.999 <= mechanism.epsilon <= 1.0
    for name, value in given_.items():
        assert mechanism.parameters[name.rstrip("_")] == value


def test_correct_sets_beta_to_lambda() -> None:
    mechanism = make("centralized", 1.0, tau=0.1, correct=True)
    assert mechanism.parameters["beta"] == mechanism.parameters["lambda"]


def test_peer_to_peer_and_shuffle_report_what_a_given_alpha_spends() -> None:
    mechanism = make("peer_to_peer", None, label_count=2, cluster_sizes=[500], alpha=0.1, delta=1 / 500**2)
    assert mechanism.epsilon == pytest.approx(0.34, abs=1e-4)
    shuffled = make("shuffle", None, label_count=2, cluster_sizes=[500], alpha=0.1, delta=1 / 500**2)
    assert shuffled.epsilon == pytest.approx(0.529, abs=1e-3)


def test_a_smaller_cluster_is_never_better_shuffled() -> None:
    """The proof says so, for any number of labels; here it is seen."""
    for labels in (2, 4):
        spent = [
            account("shuffle", Parameters(alpha=0.2, labels=labels), cluster_size=n).get_epsilon(1e-4).epsilon
            for n in range(1, 60, 4)
        ]
        assert sorted(spent, reverse=True) == spent


def population(users: int = 3000, labels: int = 3, clusters: int = 10) -> tuple[Any, Any]:
    generator = np.random.default_rng(4)
    assignment = np.arange(users) % clusters
    favourite = assignment % labels
    return np.where(generator.random(users) < 0.8, favourite, generator.integers(0, labels, users)), assignment


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_is_repeatable_and_well_formed(kind: str) -> None:
    labels, clusters = population()
    mechanism = make(kind, 8.0, cluster_sizes=np.bincount(clusters))
    before = labels.copy()
    first, second = (mechanism.release(labels, clusters, np.random.default_rng(8)) for _ in range(2))
    other = mechanism.release(labels, clusters, np.random.default_rng(9))
    np.testing.assert_array_equal(labels, before)
    np.testing.assert_array_equal(first.labels, second.labels)
    assert kind == "none" or not np.array_equal(first.labels, other.labels)
    assert first.users.dtype == first.labels.dtype == np.int64
    assert (np.diff(first.users) > 0).all()
    assert first.labels.min() >= 0
    assert first.labels.max() < 3
    if first.targets is not None:
        assert first.targets.shape == (len(first.labels), 3)
        np.testing.assert_allclose(first.targets.sum(axis=1), 1, atol=1e-9)
        np.testing.assert_array_equal(first.targets.argmax(axis=1), first.labels)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mechanism_can_be_sent_to_another_process(kind: str) -> None:
    labels, clusters = population(90)
    mechanism = make(kind, 1.0, cluster_sizes=np.bincount(clusters))
    copy = pickle.loads(pickle.dumps(mechanism))
    sent, kept = (m.release(labels, clusters, np.random.default_rng(8)) for m in (copy, mechanism))
    np.testing.assert_array_equal(sent.labels, kept.labels)


@pytest.mark.parametrize("kind", ["uniform_rr", "peer_to_peer", "shuffle"])
def test_soft_targets_recover_the_labels_shares(kind: str) -> None:
    """60,000 users: the mean target is the true share, within 5 standard errors of a target's entry."""
    labels = np.random.default_rng(1).choice(3, 60_000, p=[0.6, 0.3, 0.1])
    mechanism = make("uniform_rr", 0.5) if kind == "uniform_rr" else make(kind, None, cluster_sizes=[100], alpha=0.3)
    targets = mechanism.release(labels, np.arange(60_000) % 600, np.random.default_rng(2)).targets
    assert targets is not None
    # Labels drawn with replacement add the variance of a second draw: hence the factor.
    error = math.sqrt(2) * targets.std(axis=0) / math.sqrt(60_000)
    np.testing.assert_array_less(np.abs(targets.mean(axis=0) - np.bincount(labels) / 60_000), 5 * error)


def test_none_touches_nothing_and_promises_nothing() -> None:
    labels, clusters = population()
    mechanism = make_mechanism("none", epsilon=math.inf, label_count=3, cluster_sizes=np.bincount(clusters))
    assert mechanism.epsilon == math.inf
    np.testing.assert_array_equal(mechanism.release(labels, clusters, np.random.default_rng(0)).labels, labels)


def test_theta_thins_the_reports() -> None:
    """30% of 3,000 within 6 standard deviations: fails for one seed in 500 million."""
    labels, clusters = population()
    noisy = make("peer_to_peer", 1.0, cluster_sizes=[300], theta=0.3, label_count=3).release(
        labels, clusters, np.random.default_rng(0)
    )
    assert abs(len(noisy.users) - 900) < 6 * math.sqrt(3000 * 0.3 * 0.7)


@pytest.mark.parametrize("kind", ["peer_to_peer", "shuffle"])
def test_clusters_below_the_minimum_abstain_and_do_not_weigh_on_the_others(kind: str) -> None:
    clusters = np.repeat([0, 1, 2], [4, 200, 300])
    labels = np.arange(504) % 3
    alone = make(kind, 0.5, cluster_sizes=[200, 300])
    beside = make(kind, 0.5, cluster_sizes=[4, 200, 300], minimum_size=10)
    assert beside.parameters == alone.parameters
    noisy = beside.release(labels, clusters, np.random.default_rng(0))
    np.testing.assert_array_equal(noisy.users, np.arange(4, 504))


@pytest.mark.parametrize("kind", ["peer_to_peer", "shuffle"])
def test_clusters_that_were_not_accounted_for_are_refused(kind: str) -> None:
    mechanism = make(kind, cluster_sizes=[40, 60])
    with pytest.raises(RequestError, match="cluster of 50 users"):
        mechanism.release(np.zeros(50, dtype=np.int64), np.zeros(50, dtype=np.int64), np.random.default_rng(0))


def test_shuffling_keeps_each_clusters_labels_and_forgets_their_owners() -> None:
    clusters = np.random.default_rng(0).integers(0, 5, 1000)
    values = np.arange(1000)
    rosters = Rosters.of(clusters)
    shuffled = permuted_within(values, rosters, np.random.default_rng(1))
    for cluster in range(5):
        np.testing.assert_array_equal(np.sort(shuffled[clusters == cluster]), np.flatnonzero(clusters == cluster))
    # A permutation of a thousand has a fixed point or so per cluster; 30 are out of the question.
    assert (shuffled == values).sum() < 30


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8), st.floats(0.01, 8))
def test_the_number_of_labels_kept_is_the_best_one(weights: list[float], epsilon: float) -> None:
    prior = np.array([weights])
    kept = int(best_kept(prior, epsilon)[0])
    ranked = sorted(weights, reverse=True)
    right = [math.exp(epsilon) / (math.exp(epsilon) + k) * sum(ranked[: k + 1]) for k in range(len(ranked))]
    assert right[kept - 1] == pytest.approx(max(right), rel=1e-12)


@given(st.integers(2, 1000), st.floats(1e-8, 699))
def test_response_among_the_kept_labels_costs_what_it_may(kept: int, epsilon: float) -> None:
    chance = replacing_chance(kept, epsilon)
    assert 0.999 * epsilon <= math.log1p(kept * (1 - chance) / chance) <= epsilon


def test_a_public_prior_leaves_the_whole_budget_to_the_labels() -> None:
    labels, clusters = population()
    mechanism = make("rr_with_prior", 1.0, prior=[0.98, 0.01, 0.01])
    assert mechanism.parameters == {"sigma": math.inf, "labels_epsilon": 1.0}
    assert not mechanism.release(labels, clusters, np.random.default_rng(0)).labels.any()
    per_cluster = make("rr_with_prior", 1.0, prior=np.eye(3)[np.arange(10) % 3])
    noisy = per_cluster.release(labels, clusters, np.random.default_rng(0))
    np.testing.assert_array_equal(noisy.labels, clusters % 3)


@pytest.mark.parametrize("kind", KINDS)
def test_every_mechanism_says_in_one_sentence_whom_to_trust(kind: str) -> None:
    mechanism = make(kind)
    assert mechanism.trust == TRUST[kind]
    assert mechanism.trust.endswith(".")
    assert "\n" not in mechanism.trust
    assert kind in OPTIONS


def test_a_tau_from_private_labels_earns_a_warning_that_says_why() -> None:
    with pytest.warns(PrivacyWarning, match=r"private labels.*does not cover"):
        make("cluster_rr", tau=0.1, tau_from_labels=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make("cluster_rr", tau=0.1, tau_from_labels=False)


def test_the_papers_noise_earns_a_warning_that_says_why() -> None:
    with pytest.warns(PrivacyWarning, match="floating point"):
        mechanism = make("centralized", 1.0, tau=0.1, continuous=True)
    labels, clusters = population()
    first, second = (mechanism.release(labels, clusters, np.random.default_rng(8)) for _ in range(2))
    np.testing.assert_array_equal(first.labels, second.labels)


@pytest.mark.parametrize(
    ("labels", "clusters"), [([0, 3], [0, 0]), ([0, -1], [0, 0]), ([0, 1], [0, -1]), ([0], [0, 0])]
)
def test_labels_and_clusters_that_cannot_be_are_refused(labels: list[int], clusters: list[int]) -> None:
    with pytest.raises(ValueError, match="labels"):
        make("uniform_rr").release(np.array(labels), np.array(clusters), np.random.default_rng(0))


@pytest.mark.parametrize("kind", PURE)
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_label_association_is_as_hard_as_the_paper_proves(kind: str, epsilon: float) -> None:
    """precision * recall * e^-epsilon <= s/(K-s) over the proof's data sets: less than half of it here."""
    size, labels, clusters = 4, 24, np.repeat(np.arange(500), 4)
    generator = np.random.default_rng(3)
    true = generator.permuted(np.tile(np.arange(labels), (500, 1)), axis=1)[:, :size].ravel()
    mechanism = make_mechanism(kind, epsilon=epsilon, label_count=labels, cluster_sizes=[size])
    model, truth = np.zeros((500, labels), dtype=bool), np.zeros((500, labels), dtype=bool)
    model[clusters, mechanism.release(true, clusters, generator).labels] = True
    truth[clusters, true] = True
    hits = (model & truth).sum()
    assert hits / model.sum() * hits / truth.sum() * math.exp(-epsilon) < size / (labels - size) / 2


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("cluster_rr", {"tau": 0.34}, r"mechanism\.tau is 0\.34; from 0 to 1/K = 0\.333333"),
        ("cluster_rr", {"tau": -0.1}, r"mechanism\.tau"),
        ("cluster_rr", {"tau": math.nan}, r"mechanism\.tau"),
        ("cluster_rr", {"tau": "phi"}, r"mechanism\.tau"),
        ("cluster_rr", {"tau": 0.0}, r"mechanism\.epsilon.*tau of 0"),
        ("cluster_rr", {"share": 1.5}, r"mechanism\.share"),
        ("cluster_rr", {"beta": 0.5}, r"mechanism\.beta is no option of cluster_rr; allowed are: tau, share"),
        ("centralized", {"beta": 1.0}, r"mechanism\.beta is 1\.0; at least 0 and less than 1"),
        ("centralized", {"beta": math.nan}, r"mechanism\.beta"),
        ("centralized", {"tau": 0.0, "lambda_": 1.0, "correct": True}, r"mechanism\.beta"),
        ("centralized", {"sigma": -1.0}, r"mechanism\.sigma"),
        ("centralized", {"sigma": 1e-300}, r"mechanism\.sigma"),
        ("centralized", {"lambda_": 1.5}, r"mechanism\.lambda"),
        ("centralized", {"sigma": 1.0}, r"mechanism\.sigma is 1, which alone costs .* at least 2"),
        ("centralized", {"lambda_": 0.1}, r"mechanism\.lambda is 0\.1, which alone costs .* at least"),
        ("centralized", {"lambda_": 0.1, "sigma": 4.0}, r"mechanism\.epsilon is 1, .* at least"),
        ("centralized", {"tau": 0.1, "lambda_": 0.99, "sigma": 9.0}, r"spend 0\.\d+; leave one of them out"),
        ("centralized", {"epsilon": None, "tau": 0.1}, r"mechanism\.sigma is missing"),
        ("uniform_rr", {"epsilon": 0.0}, r"mechanism\.epsilon is needed"),
        ("uniform_rr", {"epsilon": -1.0}, r"mechanism\.epsilon is -1\.0"),
        ("uniform_rr", {"epsilon": math.nan}, r"mechanism\.epsilon is nan"),
        ("uniform_rr", {"epsilon": math.inf}, r"mechanism\.epsilon is inf"),
        ("uniform_rr", {"delta": math.nan}, r"privacy\.delta"),
        ("peer_to_peer", {"epsilon": None}, r"mechanism\.epsilon is needed for peer_to_peer unless mechanism\.alpha"),
        ("peer_to_peer", {"alpha": 0.1}, r"mechanism\.alpha"),
        ("peer_to_peer", {"theta": 1.5}, r"mechanism\.theta"),
        ("peer_to_peer", {"minimum_size": 100}, r"mechanism\.minimum_size is 100; the largest cluster has 60"),
        ("peer_to_peer", {"delta": 0.9}, r"privacy\.delta is 0\.9"),
        ("peer_to_peer", {"epsilon": 1e-8, "delta": 0.0}, r"mechanism\.epsilon 1e-08 .* the least reachable is"),
        ("shuffle", {"epsilon": 50.0}, r"mechanism\.epsilon is 50; at most 21"),
        ("rr_with_prior", {"share": 1.0}, r"mechanism\.share"),
        ("rr_with_prior", {"prior": [0.5, 0.5]}, r"mechanism\.prior"),
        ("dp_sgd", {}, r"dp_sgd is a learner"),
        ("laplace", {}, r"mechanism\.kind is 'laplace'; one of uniform_rr"),
        ("uniform_rr", {"label_count": 1}, r"at least 2"),
        ("uniform_rr", {"cluster_sizes": []}, r"cluster sizes"),
    ],
)
def test_a_bad_request_is_answered_in_one_line_that_names_the_field(kind: str, options: Any, words: str) -> None:
    with pytest.raises(RequestError, match=words) as refusal:
        make(kind, **({"epsilon": 1.0} | options))
    assert "\n" not in str(refusal.value)


def test_a_thousand_clusters_of_ten_labels_take_a_blink() -> None:
    """A tenth of a second on an idle core; the limit leaves room for a busy one."""
    clusters = np.arange(60_000) % 1000
    mechanism = make("cluster_rr", 0.5, label_count=10, cluster_sizes=[60])
    start = time.process_time()
    mechanism.release(clusters % 10, clusters, np.random.default_rng(0))
    assert time.process_time() - start < 2


def test_asking_again_for_the_same_clusters_is_free() -> None:
    solve._flips.cache_clear()
    for _ in range(3):
        make("peer_to_peer", 0.7, cluster_sizes=[90, 80])
    assert solve._flips.cache_info().hits == 2


@pytest.mark.slow
def test_flips_keep_every_cluster_to_epsilon_though_more_flips_do_not_always_spend_less() -> None:
    """With ten labels the account is a bound, which rises with alpha in places: the search goes on past them."""
    sizes = np.random.default_rng(0).integers(86, 233, 30)
    made = make_mechanism("peer_to_peer", epsilon=2.0, delta=2e-4, label_count=10, cluster_sizes=sizes)
    spent = account_clusters("learner", Parameters(alpha=made.parameters["alpha"], labels=10), sizes, 2e-4).worst
    assert 0.999 * 2.0 <= spent.epsilon <= made.epsilon <= 2.0
