"""What a journal belongs to: a version of the program, a role, a scenario, a node's rows.

That it is of one certificate it has seen to itself. A node that finds another's journal in its state folder does not
start.
"""

from __future__ import annotations

import hashlib
import hmac

from p2p_labeldp.data.rows import Rows
from p2p_labeldp.deployment.admission import PROGRAM, difference
from p2p_labeldp.deployment.journal import Journal
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Scenario


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
