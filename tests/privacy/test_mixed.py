"""The mixed exchange: every view against every coin of its users, relays and draws."""

import itertools
import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import Parameters, account, calibrate, cases, relays_to_withstand
from p2p_labeldp.privacy.relays import NO_RELAY, Cases


def mixed(view, users, alpha, theta, relays, *, colluders=0, **more):
    parameters = Parameters(alpha, theta, exchange="mixed", relays=relays, **more)
    return account(view, parameters, cluster_size=users, colluders=colluders)


# Every coin, by the protocol's steps. Nothing below uses the package.


class Worlds:
    """All outcomes of the coins of one round: noisy labels of the honest users, the relays' order, draws, reports.

    The victim is user 0 and the colluders are the last users, whose noisy labels are given, not drawn: what is found
    holds whatever they deposit. The order of the sealed batch is uniform because some relay is honest.
    """

    def __init__(self, users, labels, colluders, theta):
        self.users, self.labels, self.honest = users, labels, users - colluders
        self.orders = np.array(list(itertools.permutations(range(users))))
        sizes = [labels] * self.honest + [len(self.orders)] + [users] * users + [2] * (users if theta < 1 else 0)
        coins = np.unravel_index(np.arange(math.prod(sizes)), sizes)
        self.noisy = list(coins[: self.honest])
        self.batch = self.orders[coins[self.honest]]  # whose packet is at each place
        self.drawn = coins[self.honest + 1 : self.honest + 1 + users]  # the place that was drawn for each user
        kept = coins[self.honest + 1 + users :]
        self.kept = kept if theta < 1 else [np.ones(len(self.batch), dtype=np.int64)] * users
        sent = sum(self.kept)
        self.chance = theta**sent * (1 - theta) ** (users - sent) / (len(self.orders) * users**users)

    def weights(self, held, alpha):
        chance = self.chance.copy()
        for label, noisy in zip(held, self.noisy, strict=True):
            chance *= np.where(noisy == label, 1 - alpha, alpha / (self.labels - 1))
        return chance

    def seen(self, deposits, reports, known):
        """What a coalition sees: ``known`` says of whom it is a member, and whether a relay, or all of them, is in it.

        Returns a number for each world, equal where the coalition cannot tell worlds apart.
        """
        colluders, relays = known
        everyone = [*self.noisy, *(np.full_like(self.noisy[0], label) for label in deposits)]
        noisy = np.array(everyone)
        world = np.arange(noisy.shape[1])
        labels = [noisy[self.batch[world, place], world] for place in self.drawn]
        fields = []
        if reports:
            fields += [np.where(kept == 1, label + 1, 0) for label, kept in zip(labels, self.kept, strict=True)]
        for user in colluders:
            fields.append(labels[user])  # what was drawn for her
            # She recognises her packet in the batch that she is shown, still sealed.
            fields.append((self.batch == user).argmax(axis=1))
        if relays in ("some", "all"):
            # The opened batch, place by place, and which place was drawn for whom.
            fields += [noisy[self.batch[:, place], world] for place in range(self.users)]
            fields += list(self.drawn)
        if relays == "all":
            fields += [self.batch[:, place] for place in range(self.users)]
        code = np.zeros(noisy.shape[1], dtype=np.int64)
        for field in fields:
            code = np.unique(code * (self.users + self.labels + 1) + field, return_inverse=True)[1].astype(np.int64)
        return code


@lru_cache(maxsize=32)
def worlds(users, labels, colluders, theta):
    return Worlds(users, labels, colluders, theta)


@lru_cache(maxsize=256)
def codes(users, labels, colluders, theta, deposits, reports, known):
    return worlds(users, labels, colluders, theta).seen(deposits, reports, known)


def excess(first, second, epsilon):
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


def truth(users, labels, alpha, theta, epsilon, *, colluders=0, reports=True, relays=None, likely=None, member=False):
    """The worst delta over everyone's labels, averaged over ``likely``: how often which relays collude."""
    likely = likely or {relays or "none": 1.0}
    everyone = worlds(users, labels, colluders, theta)
    worst = 0.0
    for deposits in itertools.product(range(labels), repeat=colluders):
        for others in itertools.product(range(labels), repeat=users - colluders - 1):
            masses = {label: everyone.weights((label, *others), alpha) for label in range(labels)}
            for a, b in itertools.permutations(range(labels), 2):
                total = 0.0
                for case, chance in likely.items():
                    known = (tuple(range(users - colluders, users)), case)
                    code = codes(users, labels, colluders, theta, deposits, reports, known)
                    total += chance * excess(np.bincount(code, masses[a]), np.bincount(code, masses[b]), epsilon)
                worst = max(worst, total)
    return worst


def likely_cases(users, colluders, relays):
    """By listing every set of relays."""
    found = {"all": 0, "some": 0, "none": 0}
    sets = list(itertools.combinations(range(users), relays))
    for chosen in sets:
        inside = sum(user >= users - colluders for user in chosen)
        found["all" if inside == relays else "some" if inside else "none"] += 1
    return {case: count / len(sets) for case, count in found.items() if count}


EPSILONS = (0.0, 0.3, 1.2)


FOUR = pytest.param(4, 0.3, 0.6, marks=pytest.mark.slow)
SETTINGS = [(users, alpha, theta) for users in (2, 3) for alpha, theta in ((0.1, 1.0), (0.3, 0.6))]


@pytest.mark.parametrize(("users", "alpha", "theta"), [*SETTINGS, (4, 0.1, 1.0), FOUR])
def test_views_without_colluders_are_those_of_every_coin(users, alpha, theta):
    for epsilon in EPSILONS:
        learner = truth(users, 2, alpha, theta, epsilon)
        # Packets have one size and whole batches travel, so that metadata tell nothing.
        for view in ("learner", "metadata", "network"):
            assert mixed(view, users, alpha, theta, 2).get_delta(epsilon).delta == pytest.approx(learner, abs=1e-12)
        opened = truth(users, 2, alpha, theta, epsilon, relays="some")
        assert mixed("auditor", users, alpha, theta, 2).get_delta(epsilon).delta == pytest.approx(opened, abs=1e-12)
        relay = truth(users, 2, alpha, theta, epsilon, colluders=1, reports=False, relays="some")
        assert mixed("relay", users, alpha, theta, 2).get_delta(epsilon).delta == pytest.approx(relay, abs=1e-12)
        told = truth(users, 2, alpha, theta, epsilon, colluders=1, reports=True, relays="some")
        assert told == pytest.approx(relay, abs=1e-12), "the learner's reports add nothing to what a relay sees"
        peer = truth(users, 2, alpha, theta, epsilon, colluders=1, reports=False)
        assert mixed("peer", users, alpha, theta, 2).get_delta(epsilon).delta == pytest.approx(peer, abs=1e-12)
        assert mixed("eavesdropper", users, alpha, theta, 2).get_delta(epsilon).delta == 0


@pytest.mark.parametrize(("users", "alpha", "theta"), [*SETTINGS, (4, 0.1, 1.0), FOUR])
@pytest.mark.parametrize("colluders", [1, 2, 3])
def test_coalitions_are_those_of_every_coin_for_any_number_of_relays(users, colluders, alpha, theta):
    for relays in range(1, users + 1) if colluders < users else ():
        accountant = mixed("coalition", users, alpha, theta, relays, colluders=colluders)
        for epsilon in EPSILONS:
            found = accountant.get_delta(epsilon)
            every = truth(
                users, 2, alpha, theta, epsilon, colluders=colluders, likely=likely_cases(users, colluders, relays)
            )
            assert found.delta == pytest.approx(every, abs=1e-12)
            assert found.method == "exact"


@pytest.mark.parametrize("relays", [2, 3])
def test_conditional_values_stand_beside_the_averaged_one(relays):
    users, colluders, delta = 3, 1, 0.02
    answer = mixed("coalition", users, 0.2, 0.7, relays, colluders=colluders).get_epsilon(delta)
    assert answer.all_relays_chance == pytest.approx(likely_cases(users, colluders, relays).get("all", 0.0))
    for case, epsilon in (("none", answer.no_relay_epsilon), ("some", answer.relay_epsilon)):
        at = truth(users, 2, 0.2, 0.7, epsilon, colluders=colluders, relays=case)
        below = truth(users, 2, 0.2, 0.7, epsilon - 1e-6, colluders=colluders, relays=case)
        assert at <= delta + 1e-12
        assert below >= delta - 1e-12


@pytest.mark.parametrize(("users", "colluders"), [(2, 1), (3, 1), (3, 2)])
@pytest.mark.parametrize(("alpha", "theta"), [(0.1, 1.0), (0.5, 0.6), (0.9, 1.0)])
def test_three_labels_are_bounded_above_every_coin(users, colluders, alpha, theta):
    for relays in (1, 2):
        likely = likely_cases(users, colluders, relays)
        accountant = mixed("coalition", users, alpha, theta, relays, colluders=colluders, labels=3)
        for epsilon in EPSILONS:
            every = truth(users, 3, alpha, theta, epsilon, colluders=colluders, likely=likely)
            assert every <= accountant.get_delta(epsilon).delta + 1e-15
    delta = 0.01
    attained = accountant.get_epsilon(delta).attained_epsilon
    if attained:
        assert truth(users, 3, alpha, theta, attained, colluders=colluders, likely=likely) >= delta * (1 - 1e-9)


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_one_user_s_draw_is_exact_for_three_labels(alpha):
    accountant = mixed("peer", 3, alpha, 1.0, 2, labels=3)
    for epsilon in EPSILONS:
        every = truth(3, 3, alpha, 1.0, epsilon, colluders=1, reports=False)
        assert accountant.get_delta(epsilon).delta == pytest.approx(every, abs=1e-12)
    answer = accountant.get_epsilon(0.01)
    assert answer.method == "exact"
    assert accountant.get_delta(answer.epsilon).delta == pytest.approx(0.01, abs=1e-12) or answer.epsilon == 0


def twice(users, alpha, theta, epsilon, noise, colluders, relays):
    """Two rounds: the reports and draws of both, the batch opened in those that a relay colludes in."""
    everyone, members = worlds(users, 2, colluders, theta), tuple(range(users - colluders, users))
    per_round = likely_cases(users, colluders, relays)
    honest = users - colluders
    noisy = np.ravel_multi_index(everyone.noisy, [2] * honest)
    worst = 0.0
    for deposits in itertools.product(range(2), repeat=colluders):
        for others in itertools.product(range(2), repeat=honest - 1):
            totals = [0.0, 0.0]
            for pair in itertools.product(per_round, repeat=2):
                chance = per_round[pair[0]] * per_round[pair[1]]
                tables = []
                for case in pair:
                    code = codes(users, 2, colluders, theta, deposits, True, (members, case))
                    table = np.zeros((2**honest, int(code.max()) + 1))
                    np.add.at(table, (noisy, code), everyone.chance)
                    tables.append(table)  # P(seen | noisy labels)
                seen = []
                for label in (0, 1):
                    flips = np.ones(1)
                    for held in (label, *others):
                        flips = np.outer(flips, [1 - alpha, alpha] if held == 0 else [alpha, 1 - alpha]).ravel()
                    if noise == "sticky":
                        seen.append((flips[:, None, None] * tables[0][:, :, None] * tables[1][:, None]).sum(axis=0))
                    else:
                        seen.append(np.outer(flips @ tables[0], flips @ tables[1]))
                totals[0] += chance * excess(seen[0], seen[1], epsilon)
                totals[1] += chance * excess(seen[1], seen[0], epsilon)
            worst = max(worst, *totals)
    return worst


@pytest.mark.parametrize(("users", "relays"), [(2, 1), (2, 2), (3, 2)])
def test_rounds_are_those_of_every_coin(users, relays):
    for alpha, theta in ((0.1, 1.0), (0.3, 0.6)) if users == 2 else ((0.2, 1.0),):
        for noise in ("sticky", "fresh"):
            accountant = mixed("coalition", users, alpha, theta, relays, colluders=1, rounds=2, noise=noise)
            for epsilon in (0.1, 0.8):
                every = twice(users, alpha, theta, epsilon, noise, 1, relays)
                found = accountant.get_delta(epsilon).delta
                if noise == "sticky":
                    assert found == pytest.approx(every, abs=1e-12)
                else:
                    assert every - 1e-12 <= found <= 1.3 * every + 1e-9


# The account at the sizes that matter.


N, ALPHA, DELTA = 500, 0.1, 4e-6


def epsilon_of(view, relays=3, **more):
    return mixed(view, N, ALPHA, 1.0, relays, **more).get_epsilon(DELTA)


def test_one_colluder_no_longer_undoes_the_exchange():
    pull = account("coalition", Parameters(ALPHA), cluster_size=N, colluders=1).get_epsilon(DELTA)
    assert pull.epsilon == pytest.approx(2.195, abs=1e-3)
    assert epsilon_of("learner").epsilon == pytest.approx(0.3400, abs=1e-4)
    assert epsilon_of("metadata").epsilon == epsilon_of("learner").epsilon
    one = epsilon_of("coalition", colluders=1)
    assert one.no_relay_epsilon == pytest.approx(0.3402, abs=1e-4)
    assert one.relay_epsilon == pytest.approx(0.5298, abs=1e-4)
    assert one.epsilon == pytest.approx(0.351, abs=1e-3)
    assert epsilon_of("coalition", relays=6, colluders=1).epsilon == pytest.approx(0.360, abs=1e-3)
    assert epsilon_of("relay").epsilon == pytest.approx(0.5298, abs=1e-4)


def test_a_tenth_of_the_users_is_withstood_by_six_relays_and_not_by_three():
    many = epsilon_of("coalition", relays=6, colluders=50)
    assert many.epsilon == pytest.approx(0.540, abs=1e-3)
    assert many.no_relay_epsilon == pytest.approx(0.361, abs=1e-3)
    assert many.relay_epsilon == pytest.approx(0.567, abs=1e-3)
    assert epsilon_of("coalition", relays=3, colluders=50).epsilon == pytest.approx(2.19, abs=5e-3)
    assert many.all_relays_chance == pytest.approx(stats.hypergeom.pmf(6, 500, 50, 6))


def test_views_order_as_what_they_see_does():
    peer, learner = epsilon_of("peer").epsilon, epsilon_of("learner").epsilon
    one = epsilon_of("coalition", colluders=1)
    auditor, relay = epsilon_of("auditor").epsilon, epsilon_of("relay").epsilon
    assert 0 < peer < learner < one.no_relay_epsilon < one.epsilon < auditor < relay < one.local_epsilon
    assert epsilon_of("relay", relays=1).epsilon == pytest.approx(one.local_epsilon, rel=1e-4), "she knows every label"


def test_more_attempts_only_add_to_the_chance_that_all_relays_collude():
    once, thrice = cases(500, 50, 3), cases(500, 50, 3, attempts=3)
    assert thrice.all == pytest.approx(1 - (1 - once.all) ** 3)
    assert sum((thrice.all, thrice.some, thrice.none)) == pytest.approx(1)
    assert mixed("coalition", 500, 0.1, 1.0, 6, colluders=50, attempts=3).get_epsilon(DELTA).epsilon > 0.5400


def simulated(rng, samples, users, colluders, alpha, victim, relay):
    """Counts of ones that the coalition sees, by the protocol's steps; all others hold 0 and the colluders show 0."""
    noisy = (rng.random((samples, users)) < alpha).astype(np.int64)
    noisy[:, 0] = np.where(rng.random(samples) < alpha, 1 - victim, victim)
    noisy[:, users - colluders :] = 0
    if relay:
        return noisy.sum(axis=1)
    drawn = np.take_along_axis(noisy, rng.integers(0, users, (samples, users)), axis=1)
    return drawn.sum(axis=1)


@pytest.mark.parametrize("relay", [False, True])
def test_simulated_coalitions_keep_to_the_account(relay):
    """The likelihood-ratio test is a threshold on the count; each comparison fails by chance once in 10^6 runs."""
    users, colluders, alpha, samples, epsilon = 60, 6, 0.15, 400_000, 0.5
    rng = np.random.default_rng(8)
    ones, zeros = (
        np.concatenate([simulated(rng, samples // 8, users, colluders, alpha, held, relay) for _ in range(8)])
        for held in (1, 0)
    )
    answer = mixed("coalition", users, alpha, 1.0, 3, colluders=colluders)
    profile = replace(answer.profile, cases=Cases(0.0, 1.0, 0.0) if relay else NO_RELAY)
    proved = profile.delta(epsilon).value
    reach = stats.norm.isf(1e-6)
    seen = []
    for threshold in range(users):
        first, second = (zeros <= threshold).mean(), (ones <= threshold).mean()
        error = reach * math.sqrt((first + math.exp(2 * epsilon) * second) / samples)
        seen.append((first - math.exp(epsilon) * second, error))
    best, error = max(seen)
    assert best - error <= proved
    assert proved <= best + error + 1e-4, "and the account is what this data set attains"


def test_what_public_places_would_cost_the_learner():
    """With places known, reports that share a source are one draw: she sees the labels of D distinct users.

    All others hold 0: ones among the D are Binomial(D, alpha), or one of them is the victim's, with chance D/n.
    """
    n, alpha = 500, 0.1
    # The distribution of D, one draw after another.
    distinct = np.zeros(n + 1)
    distinct[0] = 1.0
    for _ in range(n):
        moved = distinct * (n - np.arange(n + 1)) / n
        distinct = distinct - moved
        distinct[1:] += moved[:-1]
    k = np.arange(n + 1)

    def delta(epsilon):
        total = 0.0
        for count in np.flatnonzero(distinct > 1e-12):
            alone, rest = stats.binom.pmf(k, count, alpha), stats.binom.pmf(k, count - 1, alpha)
            shifted = np.append(0.0, rest[:-1])
            held = [(1 - count / n) * alone + count / n * (p * shifted + (1 - p) * rest) for p in (1 - alpha, alpha)]
            total += distinct[count] * excess(held[1], held[0], epsilon)
        return total

    known = delta(0.3400)
    hidden = mixed("learner", n, alpha, 1.0, 3).get_delta(0.3400).delta
    assert hidden == pytest.approx(DELTA, rel=0.01)
    assert known > 3 * hidden
    assert delta(0.373) > DELTA > delta(0.374), "with this data set alone epsilon rises from .340 to .3736"


# Requests.


def test_relays_follow_from_the_colluders_to_withstand():
    assert relays_to_withstand(500, 0, 4e-6, most=32) == 2
    assert relays_to_withstand(500, 1, 4e-6, most=32) == 2
    assert relays_to_withstand(500, 50, 4e-6, most=32) == 6
    for users, colluders in ((4, 3), (20, 5), (100, 30)):
        found = relays_to_withstand(users, colluders, 1e-4, most=32)
        assert likely_all(users, colluders, found) <= 0.25e-4 < likely_all(users, colluders, found - 1)


def likely_all(users, colluders, relays):
    return stats.hypergeom.pmf(relays, users, colluders, relays)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (lambda: relays_to_withstand(500, 400, 4e-6, most=32), "withstand = 400 is not possible with up to 32 relays"),
        (lambda: relays_to_withstand(5, 5, 4e-6, most=32), "withstand = 5 is not allowed"),
        (lambda: relays_to_withstand(1, 0, 4e-6, most=32), "at least 2 users"),
        (lambda: mixed("learner", 5, 0.1, 1.0, 6), "relays must be at least 1 and at most the cluster size 5, not 6"),
        (lambda: account("relay", Parameters(0.1), cluster_size=5), "view must be one of"),
        (lambda: mixed("learner", 5, 0.1, 1.0, 3, attempts=0), "attempts must be"),
    ],
)
def test_wrong_requests_are_refused_in_one_line(request_, words):
    with pytest.raises(RequestError, match=words) as refused:
        request_()
    assert "\n" not in str(refused.value)


def test_calibration_withstands_colluders():
    found = calibrate(
        cluster_size=100, epsilon=0.9, delta=1e-4, theta=1.0, view="coalition", colluders=3, exchange="mixed", relays=4
    )
    assert 0.89 < found.guarantee.epsilon <= 0.9
    again = mixed("coalition", 100, found.alpha, 1.0, 4, colluders=3).get_epsilon(1e-4)
    assert again.epsilon == pytest.approx(found.guarantee.epsilon, rel=1e-6)


@pytest.mark.parametrize("users", [2, 3, 4, 9])
@pytest.mark.parametrize("labels", [2, 3])
def test_all_but_one_may_collude(users, labels):
    """Nobody is left to hide among: as much is lost as against the learner alone, and no more than the flips allow."""
    found = mixed("coalition", users, 0.2, 1.0, 2, colluders=users - 1, labels=labels, rounds=3)
    epsilon = found.get_epsilon(0.01).epsilon
    assert mixed("learner", users, 0.2, 1.0, 2, labels=labels, rounds=3).get_epsilon(0.01).epsilon <= epsilon
    assert 0 < epsilon <= found.local_epsilon
