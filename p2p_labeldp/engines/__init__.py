"""Scenario in, run out: actors with real messages, or arrays; the same answer bit for bit."""

from p2p_labeldp.engines.runner import Run, run

__all__ = ["Run", "run"]
