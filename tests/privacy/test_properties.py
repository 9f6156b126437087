"""What post-processing proves must hold of every answer, up to its own error bound."""

from accounting import accounted
from hypothesis import given, settings
from hypothesis import strategies as st

from p2p_labeldp.privacy import Parameters, account

sizes = st.integers(1, 60)
alphas = st.floats(0.01, 0.99)
thetas = st.floats(0.0, 1.0)
deltas = st.sampled_from([0.0, 1e-12, 1e-6, 1e-3, 0.05])
few = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def learner(cluster_size, alpha, theta, delta, **more):
    view = "coalition" if "colluders" in more else "learner"
    return accounted(view, cluster_size=cluster_size, alpha=alpha, theta=theta, **more).get_epsilon(delta)


def surely(answer):
    """A value that the exact one is not below."""
    return answer.epsilon - answer.error_bound


@few
@given(sizes, alphas, thetas, thetas, deltas)
def test_epsilon_never_falls_with_theta(cluster_size, alpha, one, other, delta):
    low, high = sorted((one, other))
    assert surely(learner(cluster_size, alpha, low, delta)) <= learner(cluster_size, alpha, high, delta).epsilon


@few
@given(sizes, alphas, thetas, st.integers(1, 4), deltas)
def test_epsilon_never_falls_with_sticky_rounds(cluster_size, alpha, theta, rounds, delta):
    fewer = learner(cluster_size, alpha, theta, delta, rounds=rounds)
    assert surely(fewer) <= learner(cluster_size, alpha, theta, delta, rounds=rounds + 1).epsilon


@few
@given(st.integers(2, 30), alphas, thetas, st.data(), deltas)
def test_epsilon_never_falls_with_colluders(cluster_size, alpha, theta, data, delta):
    colluders = data.draw(st.integers(0, min(cluster_size - 2, 4)))
    fewer = learner(cluster_size, alpha, theta, delta, colluders=colluders)
    assert surely(fewer) <= learner(cluster_size, alpha, theta, delta, colluders=colluders + 1).epsilon


@few
@given(sizes, alphas, thetas, st.integers(1, 3), deltas, st.sampled_from(["sticky", "fresh"]), st.integers(2, 4))
def test_epsilon_never_exceeds_the_local_or_the_shuffled_one(cluster_size, alpha, theta, rounds, delta, noise, labels):
    answer = learner(cluster_size, alpha, theta, delta, rounds=rounds, noise=noise, labels=labels)
    assert 0 <= answer.epsilon <= answer.shuffle_epsilon <= answer.local_epsilon


@few
@given(sizes, alphas, thetas, deltas, deltas)
def test_epsilon_never_rises_with_delta(cluster_size, alpha, theta, one, other):
    low, high = sorted((one, other))
    assert surely(learner(cluster_size, alpha, theta, high)) <= learner(cluster_size, alpha, theta, low).epsilon


@few
@given(sizes, alphas, thetas, deltas)
def test_the_pair_of_an_answer_holds(cluster_size, alpha, theta, delta):
    accountant = account("learner", Parameters(alpha=alpha, theta=theta), cluster_size=cluster_size)
    answer = accountant.get_epsilon(delta)
    found = accountant.get_delta(answer.epsilon)
    assert found.delta - found.error_bound <= delta + 1e-15
