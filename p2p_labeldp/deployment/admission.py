"""What belongs together: the peers that a node talks to, and the journal that it resumes with.

Peers are those with its scenario and version, in its run, and one of each single role. A journal is of a version of the
program, a role, a scenario and a node's rows; that it is of one certificate it has seen to itself. A node that finds
another's journal in its state folder does not start.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Set
from importlib.metadata import version as version_of

from p2p_labeldp.data.rows import Rows
from p2p_labeldp.deployment.journal import Journal
from p2p_labeldp.deployment.parts import Part
from p2p_labeldp.errors import RequestError
from p2p_labeldp.network.credentials import Identity
from p2p_labeldp.network.frames import Barred, Open, Parting
from p2p_labeldp.network.words import plain
from p2p_labeldp.protocol.beforehand import rounds_of
from p2p_labeldp.protocol.messages import VERSION, Fault, Refused
from p2p_labeldp.scenario import Scenario

PROGRAM = version_of("p2p-labeldp")
SHUNNED = "this host was refused too often"


class Admission:
    """Asked by the transport whenever a peer with a valid certificate introduces itself."""

    def __init__(
        self,
        role: str,
        scenario: Scenario,
        part: Part,
        digest: str,
        allowed: Set[str] | None,
        known: dict[str, str],
    ) -> None:
        """``allowed``: names and fingerprints of user hosts, at a coordinator that has such a list.

        ``known``: by single role, the fingerprint of whoever was first in this run, and stays it; empty: nobody yet.
        """
        self._role, self._scenario, self._part = role, scenario, part
        self._digest, self._allowed, self._known = digest, allowed, known
        self.met: dict[str, str] = {}
        """The single roles that were met since the journal was last written."""
        self.misfit = ""
        """Why this node and the coordinator cannot work together."""

    def greet(self, peer: Identity) -> tuple[int, str, str]:
        """What to say first; nothing to a second one of those of whom there is one, though it has a certificate."""
        if self._known.get(peer.role, "") not in ("", peer.fingerprint):
            detail = f"the {peer.role} of this run has another certificate"
            raise Barred(Parting.CERTIFICATE, Fault.MISDIRECTED, detail)
        return VERSION, self._digest, self._part.run

    def admit(self, peer: Identity, opening: Open) -> None:
        """Whether a peer with a valid certificate is one to talk to; its scenario must be ours."""
        part = self._part
        disagreement = self._disagreement(peer, opening)
        if disagreement is not None:
            # The coordinator refuses this node for the same reason at the same moment; neither hears the other.
            if peer.role == "coordinator":
                self.misfit = str(disagreement)
            raise disagreement
        if peer.role == self._role and self._role != "users":
            raise Refused(Fault.MISDIRECTED, f"there is one {self._role}, and this is it")
        if peer.role != "users":
            if peer.role not in self._known:
                raise Refused(Fault.MISDIRECTED, f"{self._scenario.mechanism.kind} has no {peer.role}")
            if not self._known[peer.role]:
                self._known[peer.role] = self.met[peer.role] = peer.fingerprint
            return
        if peer.key in part.costs.shunned:
            raise Barred(Parting.SHUNNED, Fault.MISDIRECTED, SHUNNED)
        if self._role == "coordinator":
            if self._allowed is not None and not self._allowed & {peer.name, peer.fingerprint}:
                detail = f"{peer.name} is not on the coordinator's list of hosts that may join"
                raise Barred(Parting.NOT_ALLOWED, Fault.MISDIRECTED, detail)
            if not part.may_join(peer.key):
                raise Barred(Parting.DEALT, Fault.MISDIRECTED, self.too_late())
        elif not part.may_join(peer.key):
            raise Barred(Parting.NO_SHARE, Fault.MISDIRECTED, "this host has no share")

    def too_late(self) -> str:
        closed, rounds = self._part.closed, rounds_of(self._scenario)
        far = f"{closed} of {rounds} rounds are over" if closed else "its first round is under way"
        return f"shares are dealt already, and this host has none: the study has begun, and {far}"

    def _disagreement(self, peer: Identity, opening: Open) -> Barred | None:
        """What keeps two nodes from ever working together."""
        if opening.program != PROGRAM:
            its = f"p2p-labeldp {plain(opening.program)}" if opening.program else "an older p2p-labeldp"
            detail = f"{peer.name} runs {its}, and this is p2p-labeldp {PROGRAM}"
            return Barred(Parting.VERSION, Fault.MALFORMED, detail)
        if opening.version != VERSION:
            detail = f"protocol version {opening.version}, but this is {VERSION}"
            return Barred(Parting.VERSION, Fault.MALFORMED, detail)
        if opening.digest != self._digest:
            detail = f"the scenario differs in {difference(opening.digest, self._digest)}"
            return Barred(Parting.SCENARIO, Fault.MALFORMED, detail)
        if opening.run and self._part.run and opening.run != self._part.run:
            return Barred(Parting.RUN, Fault.MISDIRECTED, f"{peer.name} belongs to another run")
        return None


def difference(mine: str, its: str) -> str:
    """The first key in which two lists of digests differ."""
    ours, theirs = (dict(part.partition("=")[::2] for part in text.split(",")) for text in (mine, its))
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    return ", ".join(names[:3]) + (" and more" if len(names) > 3 else "")


def digest_of(scenario: Scenario) -> str:
    """Of what all nodes of a run must agree on."""
    return ",".join(f"{name}={value}" for name, value in scenario.shared_digests().items())


def require_own(journal: Journal, role: str, scenario: Scenario) -> None:
    """RequestError where the journal is of another version, role or scenario."""
    if (its := journal.fact("program", PROGRAM)) != PROGRAM:
        raise RequestError(
            f"--state {journal.path.parent}: the journal is of p2p-labeldp {its}, and this is {PROGRAM}; "
            "finish the run with that version, or name a new folder"
        )
    seed = str(scenario.coins.seed) if scenario.coins.source == "seeded" else ""
    for name, mine in (("role", role), ("scenario", digest_of(scenario)), ("seed", seed)):
        its = journal.fact(name, mine)
        if its != mine:
            what = difference(mine, its) if name == "scenario" else f"another {name}"
            raise _refusal(journal, what)
    if role == "coordinator":
        hosts = str(scenario.deployment.hosts)
        if (its := journal.fact("hosts", hosts)) != hosts:
            raise RequestError(
                f"--state {journal.path.parent}: the journal is of a run with deployment.hosts = {its}, not {hosts}"
            )


def require_same_rows(journal: Journal, rows: Rows, secret: bytes) -> None:
    """RequestError where the journal is of other rows; what it keeps of them tells no label.

    With other labels under the same coins, what was answered would not be what is answered. Without the node's key,
    ``secret``, nobody can try labels out on this.
    """
    assert rows.labels is not None
    clusters = b"" if rows.clusters is None else rows.clusters.tobytes()
    facts = {
        "data": hashlib.sha256(rows.features.tobytes() + clusters + repr(rows.persons).encode()).hexdigest(),
        "labels": hmac.new(secret, rows.labels.tobytes(), "sha256").hexdigest(),
    }
    for name, mine in facts.items():
        if journal.fact(name, mine) != mine:
            raise _refusal(journal, f"other {name}")


def _refusal(journal: Journal, what: str) -> RequestError:
    return RequestError(f"--state {journal.path.parent}: the journal is of a run with {what}; name a new folder")
