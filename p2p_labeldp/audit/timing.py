"""When messages leave, in virtual time: each when the one that caused it arrives, and a wait ends at its limit.

The times of a deployment are those of several machines' clocks and say nothing of the kind; then nothing
here is required.
"""

from __future__ import annotations

import math

from p2p_labeldp.audit.rules import require
from p2p_labeldp.audit.trace import Event
from p2p_labeldp.scenario import Network


class Timing:
    def __init__(self, network: Network, exact: bool) -> None:
        self._network = network
        self._exact = exact
        # Jittered arrival times are sums in another order, hence the rounding slack there.
        self._slack = 1e-9 if network.jitter else 0.0
        self._began = -1.0  # the present round, with the broadcast of its first message
        self._closed_at = -1.0
        self._dones: list[float] = []  # of the present round

    def follows(self, event: Event, cause: float, what: str, late: bool = False) -> None:
        """The event left when the message sent at ``cause`` arrived; one of a round that is over, no earlier."""
        low = cause + self._network.latency
        high = math.inf if late else low + self._network.jitter
        within = low - self._slack <= event.time <= high + self._slack
        self._require(within, f"left at {event.time}, but {what} arrived between {low} and {high}")

    def hello(self, event: Event) -> None:
        self._require(event.time == 0.0, "a hello leaves at time 0")

    def assigns(self, event: Event, everyone: bool, missing: bool) -> None:
        """Part of the first broadcast; it begins when ``everyone`` has said hello, or at the limit."""
        if self._began < 0:
            limit = self._network.hello_limit
            # A hello of someone who is missing may have come too late.
            if everyone and not (missing and event.time == limit):
                self.follows(event, 0.0, "the last hello")
            elif not everyone:
                why = f"left at {event.time}, but the wait for hellos ends at {limit}"
                self._require(event.time == limit, why)
            self._began = event.time
        self._require(event.time == self._began, f"a broadcast that began at {self._began}")

    def done(self, event: Event) -> None:
        self._dones.append(event.time)

    def closes(self, event: Event, everyone: bool, missing: bool) -> None:
        """The end of a round: ``everyone`` who is waited for has said that she is done, or the limit is over.

        Where some are missing, whose word was the last that was waited for is not known from outside.
        """
        network = self._network
        end = network.hello_limit if self._began < 0 else self._began + network.round_limit
        if everyone and self._began >= 0 and not missing:
            self.follows(event, max(self._dones, default=-1.0), "the last word")
        elif event.time != end:
            heard = (at + network.latency for at in self._dones)
            within = any(at - self._slack <= event.time <= at + network.jitter + self._slack for at in heard)
            why = "when nobody's word arrived" if everyone else f"but the round ends at {end}"
            self._require(everyone and within, f"left at {event.time}, {why}")
        self._closed_at = event.time
        self._dones = []
        if self._began >= 0:
            self._began = event.time

    def after_closing(self, event: Event) -> None:
        at = self._closed_at
        self._require(event.time == at, f"left at {event.time}, not when the round was closed")

    def _require(self, holds: bool, detail: str) -> None:
        require(holds or not self._exact, "timing", detail)
