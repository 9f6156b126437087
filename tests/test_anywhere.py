"""Tests are as strict on any machine: our warnings are errors, and what other pytest plugins say is not."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TALKATIVE = """
import warnings

def pytest_configure(): warnings.warn("while pytest starts")
def pytest_collection(): warnings.warn("while tests are found")
def pytest_runtest_setup(): warnings.warn("while a test begins", DeprecationWarning)
def pytest_sessionfinish(): warnings.warn("at the end")
"""


@pytest.mark.parametrize("category", [UserWarning, DeprecationWarning, ResourceWarning, RuntimeWarning])
def test_a_warning_is_an_error(category: type[Warning]) -> None:
    with pytest.raises(category):
        warnings.warn("from a test", category, stacklevel=1)
    with pytest.raises(category):
        warnings.warn_explicit("from a library", category, "library.py", 1, "library")


def test_a_warning_while_our_modules_are_imported_is_one_too(pytestconfig: pytest.Config) -> None:
    (ours,) = pytestconfig.getini("filterwarnings")
    action, _, module = ours.partition(":::")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.filterwarnings(action, module=module)
        for name in ("p2p_labeldp", "p2p_labeldp.cli.run", "tests.data.test_load"):
            with pytest.raises(UserWarning):
                warnings.warn_explicit("imported", UserWarning, "there.py", 1, name)
        warnings.warn_explicit("imported", UserWarning, "there.py", 1, "some_plugin")
    assert len(told) == 1


def test_a_plugin_that_warns_all_the_time_breaks_nothing(tmp_path: Path) -> None:
    (tmp_path / "talkative.py").write_text(TALKATIVE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "talkative", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, f"{Path(__file__).relative_to(ROOT)}::test_a_warning_is_an_error"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for when in ("while pytest starts", "while tests are found", "while a test begins", "at the end"):
        assert when in done.stdout + done.stderr
    assert "4 passed" in done.stdout
