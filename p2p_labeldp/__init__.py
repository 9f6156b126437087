"""Peer-to-peer label privacy: the protocol with real actors, and what each party could learn.

>>> from p2p_labeldp import load_scenario, run
>>> finished = run(load_scenario("scenarios/quickstart.toml"), engine="vectorized")
>>> {"accuracy": round(finished.summary.accuracy, 3)}
{'accuracy': 0.905}
>>> round(finished.summary.privacy["learner"].epsilon, 2)
0.79
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "RequestError": "errors",
    "RunError": "errors",
    "Scenario": "scenario",
    "load_model": "learning.saved",
    "load_scenario": "scenario",
    "parse_scenario": "scenario",
    "Run": "runs",
    "run": "experiments",
    "LabelPrivateClassifier": "estimator",
    "Plan": "experiments.sweeps",
    "Sweep": "experiments.sweeps",
    "make_plan": "experiments.sweeps",
    "read_sweep": "experiments.sweeps",
    "sweep": "experiments.sweeps",
    "write_report": "reporting",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    # On first use, so that `p2p-labeldp --help` need not import scikit-learn.
    if name in _HOMES:
        return getattr(importlib.import_module(f"p2p_labeldp.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
