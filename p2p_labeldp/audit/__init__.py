"""Trace files: reading them, their invariants, and tests of the coins they show."""

from p2p_labeldp.audit.runs import Audit, audit_runs

__all__ = ["Audit", "audit_runs"]
