"""Tables, plots and reports of what was found."""

from p2p_labeldp.reporting.page import write_report

__all__ = ["write_report"]
