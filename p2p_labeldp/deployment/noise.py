"""The noise that the coordinator asks for, as a user host sees it: believed after the host's own account, not before.

Where the scenario asks for an epsilon that depends on clusters, or for relays that withstand colluders, the coordinator
works out the flips and the relays, since it alone knows all clusters. A host checks them for every cluster that it has
users in, before any of their labels is flipped.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from p2p_labeldp.deployment.items import Noise
from p2p_labeldp.errors import RunError
from p2p_labeldp.mechanisms.plan import LARGEST_DELTA, Holder, Plan
from p2p_labeldp.privacy import Parameters, View, account, withstand
from p2p_labeldp.protocol.messages import Fault, Refused
from p2p_labeldp.scenario import MAX_RELAYS, MECHANISMS, Scenario


class NoiseCheck:
    """``plan`` is what is known before there are clusters."""

    def __init__(self, scenario: Scenario, plan: Plan) -> None:
        self.noise: Noise | None = None
        """What the coordinator asks for, once it has."""
        self._scenario = scenario
        self._parameters = plan.parameters
        self._view = View.LEARNER if plan.holder is Holder.PEERS else View.SHUFFLE
        self._told_flips = scenario.mechanism.epsilon > 0 and MECHANISMS[scenario.mechanism.kind].by_cluster
        self._told = self._told_flips or scenario.mechanism.withstand > 0

    def take(self, noise: Noise, users: int) -> Parameters:
        """The mechanism's parameters with what the coordinator asks for, in a run of so many users."""
        if self.noise is not None or not self._told:
            raise Refused(Fault.OUT_OF_ORDER, "nobody asked for noise now")
        delta = self._scenario.privacy.delta
        if delta and noise.delta != delta:
            raise RunError(f"the coordinator's delta is {noise.delta:g}, not privacy.delta = {delta:g}")
        if not 0 < noise.delta <= min(LARGEST_DELTA, 1 / users) and not delta:
            raise RunError(f"the coordinator's delta {noise.delta:g} is more than this host accepts")
        found = self._parameters
        if self._told_flips:
            found = replace(found, alpha=noise.alpha)
        if self._scenario.mechanism.withstand:
            most = min(MAX_RELAYS, self._scenario.clusters.minimum_size)
            if not 1 <= noise.relays <= most:
                raise RunError(f"the coordinator asks for {noise.relays} relays; 1 to {most} are allowed")
            found = replace(found, relays=noise.relays, minimum_size=max(found.minimum_size, noise.relays))
        self.noise = noise
        return found

    def check(self, size: int, parameters: Parameters) -> None:
        """Are labels flipped often enough, and are there enough relays, in a cluster of so many users?"""
        if not self._told or size < self._parameters.minimum_size:
            return
        if self.noise is None:
            raise Refused(Fault.OUT_OF_ORDER, "the flips are not known yet")
        self._check_relays(size, self.noise)
        if not self._told_flips:
            return
        wanted, spent = self._scenario.mechanism.epsilon, _spent(self._view, size, parameters, self.noise.delta)
        if spent > wanted * (1 + 1e-9):
            raise RunError(
                f"the coordinator's alpha {self.noise.alpha:g} would spend epsilon {spent:.4g} in a cluster of {size}; "
                f"mechanism.epsilon is {wanted:g}"
            )

    def _check_relays(self, size: int, noise: Noise) -> None:
        wanted, found = self._scenario.mechanism.withstand, self._parameters
        if wanted and not withstand(
            noise.relays, size, wanted, noise.delta, rounds=found.rounds, attempts=found.attempts
        ):
            raise RunError(
                f"the coordinator's {noise.relays} relays do not withstand {wanted} colluders in a cluster of {size} "
                f"at delta {noise.delta:g}"
            )


@lru_cache(maxsize=4096)
def _spent(view: View, size: int, parameters: Parameters, delta: float) -> float:
    return account(view, parameters, cluster_size=size, thorough=False).get_epsilon(delta).epsilon
