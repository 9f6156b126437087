"""Trace files: reading them, their invariants, tests of the coins they show, and what each adversary sees of them."""

from p2p_labeldp.audit.folder import RecordedRun
from p2p_labeldp.audit.runs import Audit, audit_runs
from p2p_labeldp.audit.views import view_of

__all__ = ["Audit", "RecordedRun", "audit_runs", "view_of"]
