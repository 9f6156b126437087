"""What tests share: how strict they are, wherever they run, and small scenarios that run in a blink.

Tests run the same way beside any other pytest plugin, in any order, in the background and on a busy machine: warnings
are errors unless a plugin is their origin, hypothesis draws the same examples every time and measures no time, and
processes have the interrupts that they have in a terminal where a test asks for it (``interruptible``).
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of each of the processes that share the cores; before numpy
os.environ.setdefault("PYTHONSAFEPATH", "1")  # commands are those of the installed package, whose modules are compiled

import hypothesis
import pytest
from asking import Command

from p2p_labeldp.cli import main
from p2p_labeldp.experiments import attacked

hypothesis.settings.register_profile(
    "anywhere", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("anywhere")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whatever warns during a test fails it, libraries included; what plugins have to say is theirs."""
    modules = {plugin.__name__ for plugin in config.pluginmanager.get_plugins() if isinstance(plugin, ModuleType)}
    plugins = {name.partition(".")[0] for name in modules} - {"_pytest", "tests"}
    strict = pytest.mark.filterwarnings("error", rf"default:::({'|'.join(sorted(plugins))})(\.|$)")
    for item in items:
        item.add_marker(strict, append=False)


def pytest_collection_finish() -> None:
    """What was imported stays; the garbage collector need not walk it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT interrupts, here and in processes started meanwhile, also where a shell in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Run a command in an empty folder; gives (status, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        status = main(list(arguments))
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.fixture
def refused(command: Command) -> Callable[..., str]:
    """Run a command that asks for something wrong: status 2, nothing printed; gives the one line that says what."""

    def call(*arguments: str) -> str:
        status, out, err = command(*arguments)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("p2p-labeldp: ")
        return err

    return call


@pytest.fixture(scope="module")
def without_curves() -> Iterator[None]:
    """Run folders hold no delta(epsilon) curves, which take longer than a small run: for tests of all else."""
    with pytest.MonkeyPatch.context() as patch:
        for place in ("runs.run", "runs.crowd", "deployment.results"):
            patch.setattr(f"p2p_labeldp.{place}.curves", lambda *_: {})
        yield


@pytest.fixture(scope="module", autouse=True)
def no_curves(request: pytest.FixtureRequest) -> None:
    """Nothing in these rooms is about them."""
    if request.path.parent.name in ("adversaries", "audit", "deployment", "engines", "experiments"):
        request.getfixturevalue("without_curves")


@pytest.fixture
def few_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attacks are played as often as it takes to have a table: for tests of what stands around it."""
    for name, trials in {"TRIALS": 500, "FEWEST": 20, "MOST": 50}.items():
        monkeypatch.setattr(attacked, name, trials)


@pytest.fixture
def real_files() -> Path:
    """The folder with the original data files, where there is one."""
    named = os.environ.get("P2P_LABELDP_DATA", "")
    for folder in ([Path(named)] if named else []) + [Path(__file__).resolve().parents[2] / "shared" / "data"]:
        if folder.is_dir():
            return folder
    pytest.skip("the original data files are not here; P2P_LABELDP_DATA can name their folder")
