"""Plans: what mechanisms spend, what they release, and what they refuse."""

from __future__ import annotations

import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2p_labeldp.errors import RequestError
from p2p_labeldp.learning import unflip
from p2p_labeldp.mechanisms import Plan, Released, Rosters, SeededCoins, make_plan, mechanism_of, release, solve
from p2p_labeldp.mechanisms.coins import SeededRandomness
from p2p_labeldp.mechanisms.rr_with_prior import best_kept, replacing_chance
from p2p_labeldp.mechanisms.shuffle import permuted_within
from p2p_labeldp.privacy import Parameters, View, account, account_clusters
from p2p_labeldp.privacy.paper import centralized_epsilon
from p2p_labeldp.scenario import MECHANISMS as KINDS

PURE = ("uniform_rr", "subsampled_rr", "lp_2st", "cluster_rr", "centralized", "rr_with_prior")
EXCHANGE = ("theta", "rounds", "noise", "minimum_size")


def make(kind: str, epsilon: float | None = 1.0, **options: Any) -> Plan:
    """A plan for three labels in clusters of 40 and 60, unless told otherwise."""
    asked: dict[str, Any] = {"labels": 3, "sizes": [40, 60], "delta": 1e-4} | options
    exchange = {name: asked.pop(name) for name in EXCHANGE if name in asked}
    return make_plan(kind, epsilon=epsilon, parameters=Parameters(0.0, **exchange), **asked)


def released(plan: Plan, labels: Any, clusters: Any, seed: int = 0) -> Released:
    randomness = SeededRandomness(np.random.default_rng(seed))
    prior = np.full((len(labels), plan.parameters.labels), 1 / plan.parameters.labels)
    coins = SeededCoins(seed)
    found = release(plan, np.asarray(labels), np.asarray(clusters), coins, randomness, lambda users, labels: prior)
    if plan.stages is None:
        return found
    # Each user reports in one of two rounds: all of them together.
    users, noisy = (np.concatenate(column) for column in zip(*found.rounds, strict=True))
    order = np.argsort(users)
    return dataclasses.replace(found, rounds=[(users[order], noisy[order])])


@given(
    st.sampled_from(PURE),
    st.floats(-8.9, math.log10(699)).map(lambda power: 10**power),
    st.sampled_from([2, 3, 10, 100]),
    st.lists(st.integers(0, 10_000), min_size=1, max_size=5).filter(any),
)
def test_pure_mechanisms_spend_what_was_asked_for(kind: str, epsilon: float, labels: int, sizes: list[int]) -> None:
    plan = make_plan(kind, epsilon=epsilon, labels=labels, sizes=sizes)
    assert 0.999 * epsilon <= plan.epsilon <= epsilon
    assert plan.delta == 0


@pytest.mark.parametrize("kind", ["peer_to_peer", "shuffle"])
@pytest.mark.parametrize(
    ("labels", "sizes", "epsilon", "delta", "theta"),
    [
        (2, [1], 0.3, 0.0, 1.0),
        (2, [1, 7], 3.0, 1e-4, 0.5),
        (2, [50, 60, 300], 0.001, 1e-6, 1.0),
        (2, [50, 60, 300], 0.1, 1e-6, 0.3),
        (2, [200, 201, 230], 1.0, 0.0, 1.0),
        (2, [600], 9.0, 1e-6, 1.0),
        (2, [2_000], 0.5, 1e-9, 1.0),
        (3, [30, 31], 0.01, 1e-5, 1.0),
        pytest.param(3, [30, 200], 2.0, 1e-5, 0.8, marks=pytest.mark.slow),
        (10, [1], 0.001, 0.0, 1.0),
        (10, [100, 110], 0.5, 1e-6, 1.0),
    ],
)
def test_flipping_mechanisms_spend_what_was_asked_for_in_the_worst_cluster(
    kind: str, labels: int, sizes: list[int], epsilon: float, delta: float, theta: float
) -> None:
    view, theta = (View.LEARNER, theta) if kind == "peer_to_peer" else (View.SHUFFLE, 1.0)
    plan = make(kind, epsilon, delta=delta, labels=labels, sizes=sizes, theta=theta)
    assert 0.999 * epsilon <= plan.epsilon <= epsilon
    assert plan.delta == delta
    spent = [account(view, plan.parameters, cluster_size=n, thorough=False).get_epsilon(delta).epsilon for n in sizes]
    assert max(spent) == pytest.approx(plan.epsilon, rel=1e-9)


def test_uniform_rr_is_the_papers_setting() -> None:
    plan = make("uniform_rr", 1.0, labels=10)
    chance = 10 / (9 + math.e)
    assert plan.numbers == {"alpha": pytest.approx(0.9 * chance), "lambda": pytest.approx(chance)}
    assert plan.stated.method == "exact"


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_cluster_rr_splits_its_budget(share: float) -> None:
    plan = make("cluster_rr", 0.5, share=share, tau=0.05)
    p = plan.numbers
    assert p["sigma"] == (pytest.approx(4 / share) if share else math.inf)
    assert centralized_epsilon(p["sigma"], 0.05, p["lambda"]) == pytest.approx(0.5)
    assert p["beta"] == 0


def test_cluster_rr_s_tau_is_a_hundredth_unless_told_and_never_more_than_one_over_k() -> None:
    assert make("cluster_rr").numbers["tau"] == 0.01
    assert make("cluster_rr", labels=500).numbers["tau"] == 1 / 500


def test_centralized_states_what_given_parameters_spend() -> None:
    plan = make("centralized", None, tau=0.1, sigma=4.0, lambda_=0.9, beta=0.5)
    assert plan.epsilon == pytest.approx(0.5 + math.log1p(0.1 / 0.09))
    assert plan.paper_epsilon == pytest.approx(0.25 + math.log1p(0.1 / 0.09))
    assert plan.numbers == {"tau": 0.1, "sigma": 4.0, "lambda": 0.9, "beta": 0.5}
    assert make("centralized", 0, tau=0.1, sigma=4.0, lambda_=0.9).epsilon == plan.epsilon


@pytest.mark.parametrize(("sigma", "epsilon"), [(0.0, math.inf), (math.inf, math.log1p(0.5 / 0.05))])
def test_no_noise_is_no_privacy_and_endless_noise_costs_nothing(sigma: float, epsilon: float) -> None:
    assert make("centralized", None, tau=0.1, sigma=sigma, lambda_=0.5).epsilon == pytest.approx(epsilon)


def test_the_lower_bounds_setting_spends_on_the_histogram_alone() -> None:
    plan = make("centralized", 0.5, tau=0.0, lambda_=1.0)
    assert plan.numbers == {"tau": 0.0, "sigma": 4.0, "lambda": 1.0, "beta": 0.0}


@pytest.mark.parametrize(
    "given_",
    [{}, {"sigma": 8.0}, {"lambda_": 0.95}, {"lambda_": 0.99, "sigma": 8.0}, {"sigma": math.inf}, {"sigma": 2.0}],
)
def test_centralized_solves_for_what_is_left_out(given_: dict[str, float]) -> None:
    plan = make("centralized", 1.0, **({"tau": 0.1} if len(given_) < 2 else {}), **given_)
    assert 0.999 <= plan.epsilon <= 1.0
    for name, value in given_.items():
        assert plan.numbers[name.rstrip("_")] == value


def test_peer_to_peer_and_shuffle_state_what_a_given_alpha_spends() -> None:
    plan = make("peer_to_peer", None, labels=2, sizes=[500], alpha=0.1, delta=1 / 500**2)
    assert plan.epsilon == pytest.approx(0.34, abs=1e-4)
    shuffled = make("shuffle", None, labels=2, sizes=[500], alpha=0.1, delta=1 / 500**2)
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


NOISY = [kind for kind in KINDS if kind not in ("none", "dp_sgd")]  # those whose noise is in what is released


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_is_repeatable_and_well_formed(kind: str) -> None:
    labels, clusters = population()
    plan = make(kind, 8.0, sizes=np.bincount(clusters))
    before = labels.copy()
    ((users, first),) = released(plan, labels, clusters, 8).rounds
    ((_, second),), ((_, other),) = (released(plan, labels, clusters, seed).rounds for seed in (8, 9))
    np.testing.assert_array_equal(labels, before)
    np.testing.assert_array_equal(first, second)
    assert np.array_equal(first, other) == (kind not in NOISY)
    assert users.dtype == np.int64
    assert (np.diff(users) > 0).all()
    assert first.min() >= 0
    assert first.max() < 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_can_be_sent_to_another_process(kind: str) -> None:
    labels, clusters = population(90)
    plan = make(kind, 1.0, sizes=np.bincount(clusters))
    sent, kept = (released(each, labels, clusters) for each in (pickle.loads(pickle.dumps(plan)), plan))
    np.testing.assert_array_equal(sent.rounds[0][1], kept.rounds[0][1])


def test_shares_are_published_where_the_learner_undoes_the_drawing_and_nowhere_else() -> None:
    labels, clusters = population()
    for beta in (0.0, 0.5):
        plan = make("centralized", 1.0, tau=0.1, beta=beta, sizes=np.bincount(clusters))
        shares = released(plan, labels, clusters).shares
        assert (shares is not None) == (beta > 0)
        assert plan.beta == beta
    assert shares is not None
    assert shares.shape == (10, 3)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


def test_labels_drawn_anew_nearly_always_are_pooled_and_others_are_not() -> None:
    """Public parameters decide: lambda of cluster_rr grows as epsilon falls."""
    assert [make("cluster_rr", epsilon).exchangeable for epsilon in (0.1, 8.0)] == [True, False]
    assert not make("centralized", 0.1, beta=0.5).exchangeable
    pooled = {kind for kind in KINDS if make(kind, 8.0).exchangeable}
    assert pooled == {"peer_to_peer", "shuffle"}


@pytest.mark.parametrize("kind", ["uniform_rr", "peer_to_peer", "shuffle"])
def test_undone_flips_recover_the_labels_shares(kind: str) -> None:
    """60,000 users: the mean target is the true share, within 5 standard errors of a target's entry."""
    labels = np.random.default_rng(1).choice(3, 60_000, p=[0.6, 0.3, 0.1])
    plan = make("uniform_rr", 0.5) if kind == "uniform_rr" else make(kind, None, sizes=[100], alpha=0.3)
    ((_, noisy),) = released(plan, labels, np.arange(60_000) % 600, 2).rounds
    targets = unflip(np.eye(3)[noisy], plan.parameters.alpha)
    # Labels drawn with replacement add the variance of a second draw: hence the factor.
    error = math.sqrt(2) * targets.std(axis=0) / math.sqrt(60_000)
    np.testing.assert_array_less(np.abs(targets.mean(axis=0) - np.bincount(labels) / 60_000), 5 * error)


def test_none_touches_nothing_and_guarantees_nothing() -> None:
    labels, clusters = population()
    plan = make_plan("none", epsilon=math.inf, labels=3, sizes=np.bincount(clusters))
    assert plan.epsilon == math.inf
    np.testing.assert_array_equal(released(plan, labels, clusters).rounds[0][1], labels)


@pytest.mark.parametrize("kind", KINDS)
def test_clusters_below_the_minimum_abstain_and_do_not_weigh_on_the_others(kind: str) -> None:
    clusters = np.repeat([0, 1, 2], [4, 20, 30])
    labels = np.arange(54) % 2
    alone = make(kind, 0.5, labels=2, sizes=[20, 30])
    beside = make(kind, 0.5, labels=2, sizes=[4, 20, 30], minimum_size=10)
    assert beside.numbers == alone.numbers
    assert beside.parameters == dataclasses.replace(alone.parameters, minimum_size=10)
    noisy = released(beside, labels, clusters)
    np.testing.assert_array_equal(noisy.rounds[0][0], np.arange(4, 54))
    assert noisy.abstained == 4


@pytest.mark.parametrize("kind", KINDS)
def test_where_everyone_abstains_nothing_is_released(kind: str) -> None:
    plan = make(kind, minimum_size=100)
    noisy = released(plan, np.zeros(40, dtype=np.int64), np.zeros(40, dtype=np.int64))
    assert noisy.abstained == 40
    assert not len(noisy.rounds[0][0])


def test_shuffling_keeps_each_clusters_labels_and_forgets_their_owners() -> None:
    clusters = np.random.default_rng(0).integers(0, 5, 1000)
    values = np.arange(1000)
    rosters = Rosters.of(clusters)
    shuffled = permuted_within(values, rosters, SeededRandomness(np.random.default_rng(1)))
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
    plan = make("rr_with_prior", 1.0, prior=[0.98, 0.01, 0.01])
    assert plan.numbers == {"sigma": math.inf, "labels_epsilon": 1.0}
    assert not released(plan, labels, clusters).rounds[0][1].any()
    per_cluster = make("rr_with_prior", 1.0, prior=np.eye(3)[np.arange(10) % 3])
    np.testing.assert_array_equal(released(per_cluster, labels, clusters).rounds[0][1], clusters % 3)
    with pytest.raises(RequestError, match=r"mechanism\.prior has 2 rows; there are 10 clusters"):
        released(make("rr_with_prior", 1.0, prior=np.eye(3)[:2]), labels, clusters)


@pytest.mark.parametrize("kind", KINDS)
def test_every_mechanism_says_in_one_paragraph_whom_to_trust(kind: str) -> None:
    trust = make(kind).trust
    assert trust == mechanism_of(kind).trust
    assert trust.endswith(".")
    assert "\n" not in trust


@pytest.mark.parametrize("kind", PURE)
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_label_association_is_as_hard_as_the_paper_proves(kind: str, epsilon: float) -> None:
    """precision * recall * e^-epsilon <= s/(K-s) over the proof's data sets: less than half of it here."""
    size, labels, clusters = 4, 24, np.repeat(np.arange(500), 4)
    generator = np.random.default_rng(3)
    true = generator.permuted(np.tile(np.arange(labels), (500, 1)), axis=1)[:, :size].ravel()
    plan = make_plan(kind, epsilon=epsilon, labels=labels, sizes=[size])
    model, truth = np.zeros((500, labels), dtype=bool), np.zeros((500, labels), dtype=bool)
    model[clusters, released(plan, true, clusters, 3).rounds[0][1]] = True
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
        ("peer_to_peer", {"noise": "loud"}, r"noise must be sticky or fresh"),
        ("peer_to_peer", {"rounds": 0}, r"rounds"),
        ("peer_to_peer", {"delta": 0.9}, r"privacy\.delta is 0\.9"),
        ("peer_to_peer", {"epsilon": 1e-8, "delta": 0.0}, r"mechanism\.epsilon 1e-08 .* the least reachable is"),
        ("shuffle", {"epsilon": 50.0}, r"mechanism\.epsilon is 50; at most 21"),
        ("rr_with_prior", {"share": 1.0}, r"mechanism\.share"),
        ("rr_with_prior", {"prior": [0.5, 0.5]}, r"mechanism\.prior"),
        ("dp_sgd", {"delta": 0.0, "clip": 0.0}, r"mechanism\.clip"),
        ("dp_sgd", {"epsilon": None}, r"mechanism\.epsilon is needed for dp_sgd"),
        ("laplace", {}, r"mechanism\.kind is 'laplace'; one of peer_to_peer"),
        ("uniform_rr", {"labels": 1}, r"at least 2"),
        ("uniform_rr", {"sizes": [-1]}, r"cluster sizes"),
    ],
)
def test_a_bad_request_is_answered_in_one_line_that_names_the_field(kind: str, options: Any, words: str) -> None:
    with pytest.raises(RequestError, match=words) as refusal:
        make(kind, **({"epsilon": 1.0} | options))
    assert "\n" not in str(refusal.value)


def test_asking_again_for_the_same_clusters_is_free() -> None:
    solve._flips.cache_clear()
    for _ in range(3):
        make("peer_to_peer", 0.7, labels=2, sizes=[90, 80])
    assert solve._flips.cache_info().hits == 2


@pytest.mark.slow
def test_flips_keep_every_cluster_to_epsilon_though_more_flips_do_not_always_spend_less() -> None:
    """With ten labels the account is a bound, which rises with alpha in places: the search goes on past them."""
    sizes = np.random.default_rng(0).integers(86, 233, 30)
    made = make("peer_to_peer", 2.0, delta=2e-4, labels=10, sizes=sizes)
    spent = account_clusters(View.LEARNER, made.parameters, sizes.tolist(), 2e-4).worst
    assert 0.999 * 2.0 <= spent.epsilon <= made.epsilon <= 2.0
