"""What one peer may cost a node: bytes that it keeps, refusals that it traces and logs.

More than any honest peer needs, so that what a host can make others keep has an end: one that goes beyond it is
shunned, which means that nothing is taken from it any more. The nodes of which there is one are not: without them there
is no run.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from p2p_labeldp.deployment.items import Directory
from p2p_labeldp.deployment.logs import Log
from p2p_labeldp.deployment.roles import SINGLES
from p2p_labeldp.protocol.beforehand import rounds_of
from p2p_labeldp.protocol.messages import ATTEMPTS
from p2p_labeldp.scenario import EXCHANGES, MAX_RELAYS, Scenario

MOST_REFUSED = 1000  # of one peer, beyond what its users may say late; so many are logged
PAGE = 1 << 14  # bytes that no honest peer sends: each more in them counts like one more refusal
FAIR_BYTES = 1 << 20  # of one user host, before anyone knows how many users there are: a thousand times what it says
USER_BYTES = 4096  # for each user and round: many times what an honest one's messages and their records take
LAYERS_BYTES = 96  # of a packet of the mixed exchange, for each relay: it is in every relay's batch, and in evidence
GO_BYTES = 512  # for each relay: a user's go, and more than everything else that is said of her packet
HEAD_BYTES = 64  # of an item in a journal, besides its body


class Costs:
    def __init__(self, scenario: Scenario, log: Log) -> None:
        self.directory: Directory | None = None
        """Who takes part, once that is known."""
        self.shunned: set[str] = set()
        """User hosts that have cost too much."""
        self.refused: Counter[str] = Counter()
        """How often, by key; a long refusal counts for several."""
        self._log = log
        self._rounds = rounds_of(scenario)
        mechanism = scenario.mechanism
        relayed = EXCHANGES[mechanism.exchange].relayed
        # As far as is known before there are clusters.
        self._relays = (mechanism.relays or MAX_RELAYS) if relayed else 0
        self._logged: Counter[str] = Counter()
        self._traced = 0
        self._bytes: Counter[str] = Counter()

    @property
    def most_bytes(self) -> int:
        """That one user host may make this node keep: more than all users together say in an honest run."""
        if self.directory is None:
            return FAIR_BYTES
        relays = self._relays
        a_round = USER_BYTES + ATTEMPTS * relays * (GO_BYTES + 2 * LAYERS_BYTES * relays)
        a_user = 8 * self.directory.features + USER_BYTES + a_round * self._rounds
        return FAIR_BYTES + a_user * self.directory.users

    @property
    def most_messages(self) -> int:
        """More than all users together send in an honest run, and so more than one peer's can be late."""
        users = 0 if self.directory is None else self.directory.users
        each = ATTEMPTS * (8 + self._relays) if self._relays else 5
        return MOST_REFUSED + each * self._rounds * users

    def admits(self, key: str, name: str, size: int) -> bool:
        """Whether to take an item of so many bytes: asked before it is journaled, so that nobody fills this disk."""
        if key in self.shunned:
            return False
        if key in SINGLES or self._bytes[key] + size + HEAD_BYTES <= self.most_bytes:
            return True
        self._shun(key, peer=name, bytes=self._bytes[key])
        return False

    def keep(self, key: str, size: int) -> None:
        """An item of so many bytes was taken."""
        self._bytes[key] += size + HEAD_BYTES

    def refuse(self, key: str, name: str, size: int) -> bool:
        """Count a refusal of so many bytes; whether to tell of it."""
        self.refused[key] += 1 + size // PAGE
        if not key or self.refused[key] <= self.most_messages:
            return True
        if key not in SINGLES:
            self._shun(key, peer=name, count=self.refused[key])
        return False

    def trace(self) -> bool:
        """Whether one more refusal may be traced."""
        fits = self._traced < self.most_messages
        self._traced += fits
        return fits

    def log(self, key: str, name: str, **facts: Any) -> None:
        """Tell of a refusal, if there were not too many of the same peer."""
        self._logged[key] += 1
        if self._logged[key] <= MOST_REFUSED:
            self._log("refused", **facts)
        elif self._logged[key] == MOST_REFUSED + 1:
            self._log("warning", peer=name, warning=f"refused {MOST_REFUSED} times; no more of it will be logged")

    def _shun(self, key: str, **facts: Any) -> None:
        self.shunned.add(key)
        self._log("shunned", **facts)
