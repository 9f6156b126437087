"""Sweeps: a scenario under many settings, each many times, resumable, in one tidy table.

The folder of a sweep holds ``sweep.jsonl``, the journal that rows are appended to as they finish, and what is made of
it whenever the sweep stops: ``sweep.csv``, ``sweep.parquet`` and, where some failed, ``failures.csv``. Rows hold
nothing of the machine or the time: whoever computes one, on however many workers, gets the same bytes.
"""

from p2p_labeldp.experiments.sweeps.plan import Plan, make_plan
from p2p_labeldp.experiments.sweeps.running import sweep
from p2p_labeldp.experiments.sweeps.tables import Sweep, read_sweep

__all__ = ["Plan", "Sweep", "make_plan", "read_sweep", "sweep"]
