"""How each view's (epsilon, delta) is computed, and what sort of number comes out.

| view | one round, or sticky noise | fresh noise |
|---|---|---|
| peer, metadata, eavesdropper, network, auditor | closed form, exact | composed, exact |
| learner, shuffle, two labels | every n1 searched, exact | every n1 composed, upper bound on a grid |
| learner, shuffle, more labels | privacy blanket, upper bound (``bounds``) | the blanket composed, upper bound |
| coalition, two labels | exact for few colluders, else more is revealed | clones composed, upper bound |
| coalition, more labels | privacy blanket of the honest, upper bound | the same, composed |

The views of the mixed exchange are the learner's and the shuffled one, or a coalition with ``cases`` (``relays``): with
two labels every n1 and every number of ones among the colluders' own noisy labels is searched, exact; with more labels
or fresh noise it is bounded as above.

In the permutation every view but the learner's and the shuffled one has a closed form, that of a coalition too. The
learner has the shuffled view, exactly at theta = 1; else it bounds hers, who is sent a random part of those labels.

Sticky noise over R rounds is one flip seen through R times as many reports. Whatever is proved for someone who
sees more bounds someone who sees less: the learner sees less than the metadata view and a coalition less than one that
also sees who asked whom, so the closed forms cap both.

**Without flips** (low = 0) those caps decide everything: delta(epsilon) <= chance * high for every epsilon, and if
no other user can show the victim's label (n1 = 0) it is no less however large epsilon is. So
epsilon is zero from that delta on and infinite below.

**Pure epsilon of the learner** (delta = 0, two labels). delta_m grows with m and P'_m/P_m grows with k, so the
largest ratio is at k = m = M, all reports arrived and all ones. There it is a growing function of
E[(B+1)^M] / E[B^M], B the noisy ones of the others. (j+1)^M / j^M falls with j and B's distribution moves up in
likelihood ratio with n1, so the quotient falls with n1: the worst is n1 = 0, where B ~ Binomial(n-1, alpha).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from p2p_labeldp.privacy.attained import Attained, Counting
from p2p_labeldp.privacy.binomial import Draws, log_pmf
from p2p_labeldp.privacy.bounds import Bound
from p2p_labeldp.privacy.coalition import coalition
from p2p_labeldp.privacy.fresh import Composed, Fresh, WalkedFamily
from p2p_labeldp.privacy.guarantee import Method
from p2p_labeldp.privacy.losses import of_local
from p2p_labeldp.privacy.mixture import Mixture
from p2p_labeldp.privacy.pairs import solve
from p2p_labeldp.privacy.relays import Cases, OneDraw
from p2p_labeldp.privacy.reports import Reports
from p2p_labeldp.privacy.shuffle import Labels
from p2p_labeldp.privacy.views import CLOSED_FORM, ClosedForm, LocalNoise, chance_seen
from p2p_labeldp.privacy.worst import SMALLEST_DELTA, WORK, Family, Worst, worst_delta, worst_epsilon

_TAIL = 1e-11


@dataclass(frozen=True)
class Found:
    """An epsilon or a delta, rounded up, and how it was found."""

    value: float
    method: Method
    error_bound: float = 0.0
    searched: float | None = None
    ones: int | None = None
    words: str = ""


@dataclass(frozen=True)
class Profile:
    """One view of one cluster; the values have been checked."""

    view: str
    cluster_size: int
    alpha: float
    theta: float
    labels: int
    rounds: int
    fresh: bool
    colluders: int
    work: float = WORK
    cases: Cases | None = None
    """Of a coalition in the mixed exchange: which of the relays are among it."""
    reports: bool = True
    """Whether the learner is one of the coalition; she is but in the mixed exchange's view of one user."""
    seen: float | None = None
    """The chance that the victim's noisy label is seen for one flip, where the exchange is a permutation."""

    @property
    def noise(self) -> LocalNoise:
        return LocalNoise.flip(self.alpha, self.labels)

    @property
    def closed_form(self) -> bool:
        """Whether there is a formula, which in most cases is the chance that the victim's noisy label is seen."""
        return self.view in CLOSED_FORM or self._one_draw or (self.cases is not None and self.cases.all >= 1)

    @property
    def _subsampled(self) -> bool:
        """Whether it is the learner of a permutation, who is sent some of the shuffled labels: those bound her view."""
        return self.view == "shuffle" and self.seen is not None

    @property
    def _one_draw(self) -> bool:
        return not self.reports and self.colluders == 1 and self.rounds == 1

    @property
    def _at_once(self) -> int:
        """Rounds that share one flip."""
        return 1 if self.fresh else self.rounds

    @property
    def bounds(self) -> Bound:
        """What is proved whatever the labels of the others are."""
        fresh = self.rounds if self.fresh else 1
        return Bound(
            self.view, self.cluster_size, self.theta, self.labels, self._at_once, fresh, self.colluders, self.noise,
            self.cases, self.reports,
        )  # fmt: skip

    @property
    def local_epsilon(self) -> float:
        """What the flips alone guarantee against someone who sees every noisy label of the victim."""
        return self.noise.epsilon * (self.rounds if self.fresh else 1)

    @property
    def chance(self) -> float:
        """The chance that the victim's noisy label is seen for one flip, or in the searched views a bound on it."""
        if self.seen is not None:
            return self.seen
        if self.view == "shuffle":
            return 1.0
        view = "metadata" if self.view == "learner" else self.view
        theta = self.theta if self.reports else 0.0
        chance = chance_seen(view, self.cluster_size, theta, self._at_once, self.colluders)
        if self.cases is None:
            return chance
        return min(1.0, self.cases.all + self.cases.some + self.cases.none * chance)

    @property
    def certain_delta(self) -> float:
        """delta(infinity): the chance of an outcome that only one of two labels can cause."""
        if self.noise.low > 0:
            return 0.0
        once = self.chance * self.noise.high
        return once if not self.fresh else -math.expm1(self.rounds * math.log1p(-once)) if once < 1 else 1.0

    def epsilon(self, delta: float) -> Found:
        """The least epsilon at ``delta``."""
        if self.noise.high == self.noise.low or self.chance == 0:
            return Found(0.0, "exact")
        if self.noise.low == 0:
            return Found(math.inf if delta < self.certain_delta else 0.0, "exact")
        cap = self._cap_epsilon(delta)
        if self.closed_form or cap.value == 0:
            return cap
        if delta < SMALLEST_DELTA:
            return _least(self._pure(exact=delta == 0), cap)
        families, exact = self._families(delta)
        if not families:
            found = _bounded(self.bounds.epsilon(delta))
        else:
            if self.view == "shuffle" and not self.fresh:
                bounded = _bounded(self.bounds.epsilon(delta))
                cap = _least(bounded, cap) if self._subsampled else bounded
            found = _largest(
                _from_search(worst_epsilon(family, delta, self.local_epsilon, self.work), exact, family)
                for family in families
            )
        return _least(found, cap)

    def attained(self, delta: float, found: Found) -> Attained | None:
        """An epsilon that a data set reaches where ``found`` is proved; None where that would take too long.

        With two labels the search has found the worst n1 up to its error bound; else a data set is tried.
        """
        searched = None
        if found.method == "exact" or found.error_bound < found.value:
            least = found.value if found.value == math.inf else max(0.0, found.value - found.error_bound)
            searched = Attained(least, self._named(found))
        if found.method == "exact" or delta < SMALLEST_DELTA or self._subsampled:
            return searched
        if self.cases is not None and self.labels == 2:
            return searched  # the colluders' own labels are among the candidates: reports of these do not stand out
        honest = self.cluster_size - self.colluders
        seen = chance_seen("peer", self.cluster_size, 0.0, self.colluders * self._at_once) if self.colluders else 0.0
        draws, shuffled = Draws(honest * self._at_once, self.theta / self.cluster_size), 0.0
        if self.cases is not None:
            own, sent = self.colluders * self._at_once, draws.trials if self.reports else 0
            draws, seen = Draws(sent, draws.rate, own, 1 / self.cluster_size), self.cases.all
            shuffled = self.cases.some / (1 - seen) if seen < 1 else 0.0
        counting = Counting(
            honest - 1,
            None if self.view == "shuffle" else draws,
            self.noise,
            self.labels,
            self.alpha > (self.labels - 1) / self.labels,
            seen,
            self.rounds if self.fresh else 1,
            shuffled,
        )
        tried = counting.epsilon(delta, min(self.local_epsilon, found.value))
        return max(filter(None, (tried, searched)), key=lambda each: each.epsilon, default=None)

    def _named(self, found: Found) -> str:
        if found.ones is not None:
            return f"{found.ones} of the others hold label 1"
        if self.noise.low == 0 and not self.closed_form:
            return "no other user can show the label that gives the victim away"
        return "any labels of the others"

    def bound(self, delta: float) -> float:
        """An epsilon that holds whatever the others' labels are: quick at any size."""
        if self.noise.low == 0 or self.noise.high == self.noise.low or delta < SMALLEST_DELTA:
            return self.epsilon(delta).value
        return self.bounds.epsilon(delta)

    def glance(self, delta: float) -> float:
        """An epsilon that is cheap and often right, never above the exact or bounding one: that of n1 = 0 alone."""
        if self.labels != 2 or self.fresh or self.closed_form or self._subsampled or delta < SMALLEST_DELTA:
            return self.epsilon(delta).value
        families, _ = self._families(delta)
        if not families or self.noise.low == 0 or self.noise.high == self.noise.low:
            return self.epsilon(delta).value
        return solve(families[0].rows(0, 0, delta * 1e-6), delta, self.local_epsilon)

    def delta(self, epsilon: float, enough: float = 0.0) -> Found:
        """The least delta at ``epsilon``; where it is bounded, any that is ``enough``."""
        if self.noise.high == self.noise.low or self.chance == 0:
            return Found(0.0, "exact")
        if epsilon >= self.local_epsilon or self.noise.low == 0:
            return Found(self.certain_delta, "exact", 1e-15)
        cap = self._cap_delta(epsilon)
        if self.closed_form:
            return cap
        families, exact = self._families(cap.value)
        if not families:
            found = _bounded(self.bounds.delta(epsilon, cap.value, enough))
        else:
            found = _largest(
                _from_search(worst_delta(family, epsilon, self.work), exact, family) for family in families
            )
        return _least(found, cap)

    def _cap_epsilon(self, delta: float) -> Found:
        """The closed form: this view itself, or one that sees more."""
        method: Method = "exact" if self.closed_form else "upper_bound"
        if self._one_draw:
            value = OneDraw(self.cluster_size, self.noise).epsilon(delta)
        elif not self.fresh:
            value = ClosedForm(self.chance, self.noise).epsilon(delta)
        elif delta < SMALLEST_DELTA:
            value = self.local_epsilon
        else:
            value = solve(self._composed_cap(delta * _TAIL), delta, self.local_epsilon)
        return Found(value, method, (1e-13 if self.fresh else 1e-14) * (1 + value))

    def _cap_delta(self, epsilon: float) -> Found:
        method: Method = "exact" if self.closed_form else "upper_bound"
        if self._one_draw:
            value = OneDraw(self.cluster_size, self.noise).delta(epsilon)
        elif not self.fresh:
            value = ClosedForm(self.chance, self.noise).delta(epsilon)
        else:
            value = float(self._composed_cap(1e-40).deltas(epsilon).max())
        return Found(value, method, 1e-12 * value + 1e-15)

    def _composed_cap(self, tail: float) -> Composed:
        once = of_local(self.noise.high, self.noise.low, self.chance)
        losses = once.times(self.rounds, tail / (4 * self.rounds))
        return Composed([(losses, losses)], self.rounds, 1e-15)

    def _pure(self, exact: bool) -> Found:
        if self.view != "learner" or self.labels != 2:
            # Where no colluder is a relay nobody sees a noisy label for what it is, nor all of them.
            alike = self.view in ("shuffle", "coalition") and self.labels == 2 and self.cases is None
            return Found(self.local_epsilon, "exact" if alike and exact else "upper_bound", 1e-15)
        trials = self.cluster_size * self._at_once
        value = pure_epsilon(self.cluster_size, trials, self.noise.low) * (self.rounds if self.fresh else 1)
        method: Method = "exact" if exact else "upper_bound"
        return Found(value, method, 1e-14 * trials + 1e-12, ones=0, words="n1 = 0, proved to be the worst")

    def _families(self, delta: float) -> tuple[list[Family], bool]:
        """The pairs to search (two labels), and whether they are this view itself rather than a bound on it."""
        n, flip = self.cluster_size, self.noise.low
        if self.labels != 2:
            return [], False
        if self.cases is not None:
            families, exact = self._relayed(self.cases)
            return ([self._composed(each) for each in families], False) if self.fresh else ([*families], exact)
        one_round: WalkedFamily
        if self.view == "learner":
            one_round = Reports(n - 1, n, n * self._at_once, self.theta, flip, flip)
        elif self.view == "shuffle":
            one_round = Labels(n - 1, flip, flip)
        elif not self.fresh:
            family, exact = coalition(n, self.colluders, flip, self.theta, self.rounds, self.noise, delta)
            return [family], exact
        else:
            return [], False
        return ([self._composed(one_round)], False) if self.fresh else ([one_round], not self._subsampled)

    def _composed(self, one_round: WalkedFamily) -> Fresh:
        return Fresh(one_round, self.rounds, self.noise.epsilon)

    def _relayed(self, cases: Cases) -> tuple[list[Mixture], bool]:
        """A coalition in the mixed exchange: a family for each number of ones among the colluders' noisy labels.

        Where that would be too many, or where they change from round to round, it is revealed instead which reports
        carry the colluders' labels.
        """
        n, flip, honest = self.cluster_size, self.noise.low, self.cluster_size - self.colluders
        own, sent = self.colluders * self._at_once, honest * self._at_once if self.reports else 0
        reports = Reports(honest - 1, n, sent, self.theta, flip, flip, sure=own)
        shuffled = Labels(honest - 1, flip, flip)

        def family(hidden: Reports) -> Mixture:
            parts: list[tuple[float, Family]] = [(cases.none, hidden), (cases.some, shuffled)]
            return Mixture(tuple(part for part in parts if part[0] > 0), cases.all, self.noise)

        if self.fresh or (self.colluders + 1) * reports.cost(16) * (honest / 32 + 1) > self.work:
            share = honest / n
            return [family(replace(reports, size=honest, rate=self.theta * share, sure_rate=share))], False
        return [family(replace(reports, known=ones)) for ones in range(self.colluders + 1)], True


def _largest(found: Iterable[Found]) -> Found:
    """Of several families, of which any may be the worst."""
    listed = list(found)
    worst = max(listed, key=lambda each: each.value)
    attained = max(each.value - each.error_bound for each in listed)
    searched = [each.searched for each in listed if each.searched is not None]
    method: Method = "exact" if all(each.method == "exact" for each in listed) else "upper_bound"
    error = max(0.0, worst.value - attained)
    return replace(worst, method=method, error_bound=error, searched=max(searched, default=None))


def _bounded(value: float) -> Found:
    return Found(value, "upper_bound", value, words="no n1: holds whatever the others' labels are")


def _from_search(worst: Worst, exact: bool, family: Family) -> Found:
    proved = exact and worst.exact
    words = f"all {family.others + 1} values of n1: {worst.compared} evaluated, the rest ruled out by a bound"
    # Composed pairs sit on a grid, but they are the view's own and say how far off they may be.
    own = exact or isinstance(family, Fresh)
    return Found(
        worst.value,
        "exact" if proved else "upper_bound",
        worst.error_bound if own else worst.value,
        searched=worst.searched if own and not worst.exact else None,
        ones=worst.ones,
        words=words,
    )


def _least(found: Found, cap: Found) -> Found:
    """The smaller of two proved values."""
    if cap.value >= found.value:
        return found
    if found.method == "exact":
        # The exact value lies within found's error bound, and the cap above it within the same.
        return Found(cap.value, "exact", found.error_bound, ones=found.ones, words=found.words)
    return Found(cap.value, "upper_bound", cap.value, found.searched, found.ones, found.words)


def met(found: Found, value: float, attained: float) -> Found:
    """``found`` with the error that ``attained`` leaves: exact where the two meet to 1e-6."""
    error = max(0.0, value - attained)
    if error >= found.error_bound:
        return found
    method: Method = "exact" if error <= max(1e-9, 1e-6 * value) else found.method
    return replace(found, method=method, error_bound=error)


def pure_epsilon(cluster_size: int, trials: int, flip: float) -> float:
    """The learner's epsilon at delta = 0, two labels, rounded up; see the module's text."""
    j = np.arange(cluster_size, dtype=np.float64)
    distribution = log_pmf(j, cluster_size - 1, flip)
    # log of B(j) (j+1)^M and B(j) j^M, both over n^M.
    grown = distribution + trials * np.log((j + 1) / cluster_size)
    base = np.full(cluster_size, -np.inf)
    base[1:] = distribution[1:] + trials * np.log(j[1:] / cluster_size)
    top = float(grown.max())
    numerator, denominator = float(np.exp(grown - top).sum()), float(np.exp(base - top).sum())
    margin = 1e-14 * trials + 1e-12
    # (flip + (1 - flip) x) / (1 - flip + flip x) grows with x = numerator / denominator.
    ratio = (flip * denominator + (1 - flip) * numerator) / ((1 - flip) * denominator + flip * numerator)
    return min(math.log(ratio) + margin, math.log(1 - flip) - math.log(flip))
