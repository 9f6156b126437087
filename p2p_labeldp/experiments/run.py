"""One run, and what its adversaries achieved: what ``p2p-labeldp run`` and every replicate of a sweep do."""

from __future__ import annotations

import contextlib
from pathlib import Path

from p2p_labeldp.errors import RunError
from p2p_labeldp.experiments.attacked import measure_attacks
from p2p_labeldp.runs.execute import Observer, Prepare, Progress, Setting, check_engine, workers_at
from p2p_labeldp.runs.folder import RunFolder
from p2p_labeldp.runs.run import Run, run_once
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
    check_engine(scenario, engine, hosting, dask)
    tell = progress or (lambda stage, done, total: None)
    folder = None if out is None else RunFolder(out, private=not scenario.ships)
    try:
        with folder or contextlib.nullcontext(), workers_at(dask) as workers:
            setting = Setting(Engine(engine), hosting, tell, folder, workers, prepare, observer)
            return run_once(scenario.settled(), setting, data_dir, measure_attacks)
    except KeyboardInterrupt:
        if folder is None:
            raise
        raise RunError(f"interrupted {folder.how_far()}") from None
    except OSError as error:
        if folder is None:
            raise
        raise RunError(f"--out {out}: cannot be written: {error.strerror or error}; nothing was kept") from None
