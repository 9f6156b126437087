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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from p2p_labeldp.errors import RequestError, RunError
    from p2p_labeldp.estimator import LabelPrivateClassifier
    from p2p_labeldp.experiments import run
    from p2p_labeldp.experiments.sweeps import Plan, Sweep, make_plan, read_sweep, sweep
    from p2p_labeldp.learning.saved import load_model
    from p2p_labeldp.reporting import write_report
    from p2p_labeldp.runs import Run
    from p2p_labeldp.scenario import Scenario, load_scenario, parse_scenario

    __version__: str

__all__ = [
    "LabelPrivateClassifier",
    "Plan",
    "RequestError",
    "Run",
    "RunError",
    "Scenario",
    "Sweep",
    "load_model",
    "load_scenario",
    "make_plan",
    "parse_scenario",
    "read_sweep",
    "run",
    "sweep",
    "write_report",
]

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

if not TYPE_CHECKING:  # type checkers read the imports above, and report names that there are not

    def __getattr__(name: str) -> Any:
        # On first use, so that `p2p-labeldp --help` need not import scikit-learn.
        if name == "__version__":
            from importlib.metadata import version

            return version("p2p-labeldp")
        if name in _HOMES:
            return getattr(importlib.import_module(f"p2p_labeldp.{_HOMES[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
