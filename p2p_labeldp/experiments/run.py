"""One run, and what its adversaries achieved: what ``p2p-labeldp run`` and every replicate of a sweep do."""

from __future__ import annotations

from pathlib import Path

from p2p_labeldp.experiments.attacked import measure_attacks
from p2p_labeldp.runs.execute import Observer, Prepare, Progress
from p2p_labeldp.runs.run import Run
from p2p_labeldp.runs.run import run as run_once
from p2p_labeldp.scenario import Engine, Hosting, Scenario


def run(
    scenario: Scenario,
    *,
    engine: str = Engine.ACTORS,
    hosting: str = Hosting.USER,
    data_dir: Path | None = None,
    out: Path | None = None,
    progress: Progress | None = None,
    prepare: Prepare | None = None,
    dask: str | None = None,
    observer: Observer | None = None,
) -> Run:
    """Run a scenario and measure its adversaries. With ``out``, leave a run folder there.

    ``prepare`` may put other roles in place of honest ones before the actors start; nothing is guaranteed of such a
    run. ``dask``: the address of a scheduler over whose workers the vectorized engine's exchange is split, by clusters.
    ``observer`` is shown a simulation's messages while it goes on.
    """
    return run_once(
        scenario, engine=engine, hosting=hosting, data_dir=data_dir, out=out, progress=progress, prepare=prepare,
        dask=dask, measure=measure_attacks, observer=observer,
    )  # fmt: skip
