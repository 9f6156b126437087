"""Many runs: sweeps, comparisons, attack games; and ``run``, one run with what its adversaries achieved."""

from p2p_labeldp.experiments.run import run

__all__ = ["run"]
