"""One run from end to end, for engines and deployments: resolving, executing, learning, guarantees, the summary."""

from p2p_labeldp.runs.run import Run
from p2p_labeldp.runs.summary import Summary, read_summary

__all__ = ["Run", "Summary", "read_summary"]
