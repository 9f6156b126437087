"""The accountant: ask for a view, get epsilon at a delta or delta at an epsilon.

    account("learner", Parameters(alpha=0.1), cluster_size=500).get_epsilon(4e-6).epsilon   # 0.3400

Requests are checked here and answers put together; ``profile`` does the work. Answers are kept, since a run asks
for the same cluster sizes again and again.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import structs

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy.binomial import Floats
from p2p_labeldp.privacy.guarantee import Guarantee
from p2p_labeldp.privacy.paper import lemma_epsilon
from p2p_labeldp.privacy.parameters import Parameters
from p2p_labeldp.privacy.profile import Found, Profile, met
from p2p_labeldp.privacy.relays import NO_RELAY, Cases, cases
from p2p_labeldp.privacy.trade_off import Curve, renyi, trade_off
from p2p_labeldp.privacy.views import RECORDS, View, chance_permuted, views_of
from p2p_labeldp.privacy.worst import WORK
from p2p_labeldp.scenario import Exchange
from p2p_labeldp.threads import one_thread

# An answer within this fraction of the local epsilon is said to have fallen to it.
_FALLEN = 0.05
# Work of a quick answer, as a fraction of a thorough one.
_QUICK = 0.1
# In larger clusters the shuffled epsilon that stands beside an answer is a bound: it is not what was asked for.
_LARGE = 20_000


@dataclass(frozen=True)
class Account:
    """The privacy of one view of one cluster. Made by `account`."""

    profile: Profile
    view: str
    """As it was asked for: a coalition without colluders has the learner's profile."""

    @property
    def local_epsilon(self) -> float:
        """What the flips alone guarantee against someone who sees every noisy label of the victim."""
        return self.profile.local_epsilon

    def get_epsilon(self, target_delta: float) -> Guarantee:
        """The least epsilon of this view at ``target_delta``, rounded up."""
        if not 0 <= target_delta <= 1:
            raise RequestError(f"delta must be within 0..1, not {target_delta}")
        return structs.replace(_epsilon_answer(self.profile, float(target_delta)), view=self.view)

    def get_delta(self, target_epsilon: float) -> Guarantee:
        """The least delta of this view at ``target_epsilon``, rounded up."""
        if not target_epsilon >= 0:
            raise RequestError(f"epsilon must be 0 or more, not {target_epsilon}")
        return structs.replace(_delta_answer(self.profile, float(target_epsilon)), view=self.view)

    def glance(self, delta: float) -> float:
        """An epsilon that is cheap and never above `get_epsilon`'s, for searches that ask in full afterwards."""
        with one_thread():
            return self.profile.glance(delta)

    def keeps_to(self, epsilon: float, delta: float) -> bool:
        """Whether (epsilon, delta) is proved for this view: cheaper than to ask how small delta is."""
        return _delta(self.profile, float(epsilon), float(delta)) <= delta

    def conditional(self, target_delta: float) -> dict[str, Any]:
        """Of a coalition in the mixed exchange: what is averaged over who the relays are. Else nothing."""
        cases = self.profile.cases
        return {} if cases is None or cases == NO_RELAY else _conditional(self.profile, float(target_delta))

    def curve(self, epsilons: npt.ArrayLike) -> Floats:
        """delta at each epsilon."""
        wanted = np.asarray(epsilons, dtype=np.float64)
        deltas = [self.get_delta(float(epsilon)).delta for epsilon in wanted.ravel()]
        return np.array(deltas).reshape(wanted.shape)

    def trade_off(self, rates: npt.ArrayLike) -> Floats:
        """The least false negative rate of any test between two neighbours at each false positive rate (f-DP)."""
        return trade_off(self._deltas(), rates)

    def renyi(self, orders: npt.ArrayLike) -> Floats:
        """An upper bound on the Renyi divergence between neighbours, for each order from 1 on (RDP)."""
        return renyi(self._deltas(), orders, self.get_epsilon(0.0).epsilon)

    def _deltas(self) -> Curve:
        return Curve(lambda epsilon: self.get_delta(epsilon).delta, self.local_epsilon)


def account(
    view: str,
    parameters: Parameters,
    *,
    cluster_size: int,
    colluders: int = 0,
    thorough: bool = True,
    relaying: bool = False,
) -> Account:
    """An accountant for ``view``; raises RequestError, naming the field, where a value is out of range.

    >>> from p2p_labeldp.privacy import Parameters
    >>> flips = Parameters(alpha=0.1)
    >>> learner = account("learner", flips, cluster_size=500)
    >>> round(learner.get_epsilon(4e-6).epsilon, 3), str(learner.get_epsilon(4e-6).method)
    (0.34, 'exact')
    >>> round(account("coalition", flips, cluster_size=500, colluders=1).get_epsilon(4e-6).epsilon, 3)
    2.195

    ``thorough=False`` gives up the search for the worst n1 ten times sooner: clusters of more than some ten
    thousand users then get a proved bound in seconds. ``relaying``: colluders see the
    shuffled view of the others for any choice of relays in the mixed exchange, and every label where all relays are
    theirs; else it is averaged whether one of them is a relay.
    """
    parameters.check()
    allowed = views_of(parameters.exchange)
    if view not in allowed:
        raise RequestError(f"view must be one of {', '.join(allowed)}, not {view!r}")
    if int(cluster_size) != cluster_size or cluster_size < 1:
        raise RequestError(f"cluster_size must be a whole number of at least 1, not {cluster_size}")
    if int(colluders) != colluders or not 0 <= colluders < cluster_size:
        raise RequestError(
            f"colluders must be a whole number of at least 0 and less than the cluster size {cluster_size}, "
            f"not {colluders}"
        )
    if colluders and view != View.COALITION:
        raise RequestError(f"colluders needs the view coalition, not {view}")
    profile = Profile(
        str(View.LEARNER if view == View.COALITION and not colluders else view),
        int(cluster_size),
        float(parameters.alpha),
        float(parameters.theta),
        int(parameters.labels),
        int(parameters.rounds),
        parameters.fresh,
        int(colluders),
        work=WORK if thorough else WORK * _QUICK,
    )
    profile = COMES_TO[Exchange(parameters.exchange)](View(view), profile, parameters)
    if relaying and profile.cases is not None and view == View.COALITION:
        profile = replace(profile, cases=Cases(profile.cases.all, 1 - profile.cases.all, 0.0))
    return Account(profile, str(view))


def _mixed(view: View, pull: Profile, parameters: Parameters) -> Profile:
    """Labels travel sealed, so who sees the wire learns what the reports tell, and nothing without them."""
    n, relays = pull.cluster_size, parameters.relays
    if not 1 <= relays <= n:
        raise RequestError(f"relays must be at least 1 and at most the cluster size {n}, not {relays}")
    match view:
        case View.RELAY if relays == 1 or n == 1:  # she alone knows every label
            return replace(pull, view="auditor", cluster_size=1)
        case View.RELAY:
            return replace(pull, view="shuffle", cluster_size=n - 1)
        case View.PEER if n == 1:  # there is no other user
            return replace(pull, view="learner", theta=0.0)
        case View.PEER:
            return replace(pull, view="coalition", colluders=1, reports=False, cases=NO_RELAY)
        case View.COALITION if pull.colluders:
            rounds = 1 if pull.fresh else pull.rounds
            return replace(pull, cases=cases(n, pull.colluders, relays, rounds, parameters.attempts))
        case View.COALITION:  # the learner alone
            return pull
    record = RECORDS[view]
    assert record.sealed, f"nothing says what {view} comes to in the mixed exchange"
    return replace(pull, view=str(record.sealed), theta=pull.theta if record.reports else 0.0)


def _permuted(view: View, pull: Profile, parameters: Parameters) -> Profile:
    if pull.view == View.SHUFFLE:
        return pull
    rounds = 1 if pull.fresh else pull.rounds
    seen = chance_permuted(pull.view, pull.cluster_size, pull.theta, rounds, pull.colluders)
    if pull.view == View.LEARNER:
        shuffled = replace(pull, view="shuffle", theta=1.0, rounds=pull.rounds if pull.fresh else 1)
        return shuffled if pull.theta == 1 else replace(shuffled, seen=seen)
    if pull.view == View.COALITION:  # its members know the permutation, so that it is a matter of the chance alone
        return replace(pull, view="auditor", colluders=0, seen=seen)
    return replace(pull, seen=seen)


COMES_TO: dict[Exchange, Callable[[View, Profile, Parameters], Profile]] = {
    Exchange.PULL: lambda view, pull, parameters: pull,
    Exchange.MIXED: _mixed,
    Exchange.PERMUTATION: _permuted,
}
"""What a view of each exchange comes to, given what it would be of the pull exchange."""


@dataclass(frozen=True)
class ClusterGuarantees:
    """``worst`` is the guarantee of the run; ``by_size[n]`` that of every user in a cluster of n."""

    worst: Guarantee
    worst_size: int
    by_size: Mapping[int, Guarantee]


def account_clusters(
    view: str,
    parameters: Parameters,
    sizes: Iterable[int],
    delta: float,
    *,
    colluders: int = 0,
) -> ClusterGuarantees:
    """epsilon at ``delta`` for each distinct cluster size. Empty clusters have no user to protect.

    A smaller cluster mostly protects less, but not always (two labels, theta 1, alpha .01, two sticky rounds, delta
    1e-6: 3.844 for three users, 3.869 for four), so every size is accounted for. ``colluders`` are in the victim's
    cluster, all but her at most.
    """
    distinct = sorted({int(size) for size in sizes if size > 0})
    if not distinct:
        raise RequestError("cluster sizes must include a cluster with at least one user")
    by_size = {
        size: account(
            view, parameters, cluster_size=size, colluders=min(colluders, size - 1), thorough=False
        ).get_epsilon(delta)
        for size in distinct
    }
    worst_size = max(distinct, key=lambda size: by_size[size].epsilon)
    return ClusterGuarantees(by_size[worst_size], worst_size, by_size)


@lru_cache(maxsize=4096)
def _epsilon(profile: Profile, delta: float) -> Found:
    with one_thread():
        return profile.epsilon(delta)


def _shuffled(profile: Profile) -> Profile:
    """The shuffled view of the same cluster, which does not depend on who reports or asks."""
    return replace(
        profile, view="shuffle", theta=1.0, rounds=profile.rounds if profile.fresh else 1, colluders=0,
        work=profile.work * _QUICK, cases=None, reports=True, seen=None,
    )  # fmt: skip


@lru_cache(maxsize=4096)
def _epsilon_answer(profile: Profile, delta: float) -> Guarantee:
    found = _epsilon(profile, delta)
    shuffle = None if profile.fresh and profile.view not in ("learner", "shuffle") else found.value
    if shuffle is not None and (profile.view != "shuffle" or profile.seen is not None):
        shuffled = _shuffled(profile)
        large = profile.cluster_size > _LARGE
        with one_thread():
            shuffle = shuffled.bound(delta) if large else _epsilon(shuffled, delta).value
    value = found.value
    if profile.view == "learner" and shuffle is not None:
        value = min(value, shuffle)
    with one_thread():
        attained = profile.attained(delta, found) if profile.work >= WORK else None
    if attained is not None and attained.epsilon < math.inf:
        found = met(found, value, attained.epsilon)
    conditional: dict[str, Any] = (
        {} if profile.cases in (None, NO_RELAY) or profile.work < WORK else _conditional(profile, delta)
    )
    applies = profile.view == "learner" and profile.labels == 2 and profile.rounds == 1
    paper = lemma_epsilon(profile.cluster_size, profile.alpha, profile.theta, delta) if applies else None
    return Guarantee(
        epsilon=value,
        delta=delta,
        view=profile.view,
        method=found.method,
        error_bound=min(found.error_bound, value),
        searched_epsilon=found.searched,
        attained_epsilon=None if attained is None else attained.epsilon,
        attained_by=None if attained is None else attained.data_set,
        worst_ones=found.ones,
        searched=found.words,
        reason=_reason(profile, value, delta),
        local_epsilon=profile.local_epsilon,
        paper_epsilon=paper,
        shuffle_epsilon=shuffle,
        **conditional,
    )


def _conditional(profile: Profile, delta: float) -> dict[str, Any]:
    """What a coalition of the mixed exchange learns, given which of the relays are among it."""
    assert profile.cases is not None
    honest = profile.cluster_size - profile.colluders
    shuffled = replace(profile, view="shuffle", cluster_size=honest, colluders=0, cases=None)
    return {
        "all_relays_chance": profile.cases.all,
        "no_relay_epsilon": _epsilon(replace(profile, cases=NO_RELAY), delta).value,
        "relay_epsilon": _epsilon(shuffled, delta).value,
    }


@lru_cache(maxsize=16384)
def _delta(profile: Profile, epsilon: float, enough: float) -> float:
    with one_thread():
        return profile.delta(epsilon, enough).value


@lru_cache(maxsize=16384)
def _delta_answer(profile: Profile, epsilon: float) -> Guarantee:
    with one_thread():
        found = profile.delta(epsilon)
    return Guarantee(
        epsilon=epsilon,
        delta=found.value,
        view=profile.view,
        method=found.method,
        error_bound=min(found.error_bound, found.value),
        searched_delta=found.searched,
        worst_ones=found.ones,
        searched=found.words,
        reason=_reason(profile, epsilon, found.value) if epsilon == math.inf else None,
        local_epsilon=profile.local_epsilon,
    )


def _reason(profile: Profile, epsilon: float, delta: float) -> str | None:
    """Why epsilon is infinite, or that it is no better than the flips alone."""
    if epsilon == math.inf:
        return (
            f"alpha = {profile.alpha:g} leaves an outcome that only one of two labels can cause, "
            f"with probability {profile.certain_delta:.6g}, more than delta = {delta:g}"
        )
    local = profile.local_epsilon
    if local == 0:
        uniform = f"with {profile.labels} labels every report is uniform, whatever was held"
        return f"alpha = {profile.alpha:g} leaves only noise: {uniform}"
    if 0 < local < math.inf and epsilon >= (1 - _FALLEN) * local:
        return (
            f"the guarantee has fallen to the local one (epsilon {local:.4g}): the flip protects, "
            "the exchange hardly does"
        )
    return None
