"""Who is missing from a deployment: hosts that never came, hosts that were lost, and nodes that some cannot reach."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from p2p_labeldp.deployment.items import Holder
from p2p_labeldp.protocol.messages import Fault, Refused


class Absence:
    """As far as the coordinator knows. ``singles`` are the nodes that nobody can do without."""

    def __init__(self, singles: Sequence[str]) -> None:
        self.never_joined: list[str] = []
        """Names of hosts that were expected, or how many they are."""
        self.lost: list[Holder] = []
        """Hosts of which nobody knows whether all they said has arrived."""
        self.unreached: dict[str, set[str]] = {}
        """By host, whom it could not reach."""
        self._singles = singles

    @property
    def hosts(self) -> list[str]:
        """Names of all that are missing."""
        return sorted(holder.name for holder in self.lost) + self.never_joined

    @property
    def users(self) -> set[int]:
        """Of the hosts that were lost."""
        return {user for holder in self.lost for user in range(holder.first, holder.last)}

    def is_lost(self, key: str) -> bool:
        return any(holder.key == key for holder in self.lost)

    def note_never_joined(self, expected: Sequence[str], came: Collection[str], lacking: int, wanted: int) -> None:
        """By name where there is a list of those expected."""
        named = [name for name in expected if name not in came]
        self.never_joined = named or [f"{lacking} of {wanted} hosts that never joined"]

    def note_unreached(self, host: str, keys: Iterable[str], hosts: Collection[str]) -> list[str]:
        """Whom a host cannot reach, of whom it had not said so before."""
        keys = set(keys)
        if host not in hosts or not keys <= {*self._singles, *hosts}:
            raise Refused(Fault.MISDIRECTED, "a host of the run tells whom of it it cannot reach")
        told = self.unreached.setdefault(host, set())
        new = sorted(keys - told)
        told.update(new)
        return new

    def reached_by_nobody(self, hosts: Iterable[str]) -> str:
        """The node, if any, of which every host says so that might still be waited for."""
        told = [self.unreached.get(key, set()) for key in hosts if not self.is_lost(key)]
        return next((node for node in self._singles if all(node in each for each in told)), "")

    def keeps_waiting(self, from_here: Iterable[str], awaited: Iterable[str]) -> str:
        """The node, if any, that cannot be reached from here, or from a host that is waited for."""
        told = {*from_here, *(node for key in awaited for node in self.unreached.get(key, ()))}
        return next((node for node in self._singles if node in told), "")
