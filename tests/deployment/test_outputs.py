"""Where results go: a folder named after the run, and nowhere a lying coordinator would like."""

from __future__ import annotations

from pathlib import Path

import pytest

from p2p_labeldp.audit.folder import TRACE
from p2p_labeldp.deployment.disk import RealDisk
from p2p_labeldp.deployment.outputs import prepare_place, trace_writer
from p2p_labeldp.errors import RequestError, RunError


def test_a_place_may_be_named_after_the_run(tmp_path: Path) -> None:
    trace_writer(tmp_path / "{run}", lambda: "0f1e2d", RealDisk())(iter([b"a", b"b"]))
    assert (tmp_path / "0f1e2d" / TRACE).read_bytes() == b"ab"


@pytest.mark.parametrize("run", ["../elsewhere", "/elsewhere", "", "a/b", ".", "0f" * 40, "0f\n"])
def test_a_run_whose_name_is_no_folder_is_not_written(tmp_path: Path, run: str) -> None:
    with pytest.raises(RunError, match="name for the run"):
        trace_writer(tmp_path / "in" / "{run}", lambda: run, RealDisk())(iter([b"a"]))
    assert not any(tmp_path.iterdir())


def test_a_place_that_is_taken_is_refused_unless_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RequestError, match="exists already"):
        prepare_place(tmp_path, resuming=False)
    assert prepare_place(tmp_path, resuming=True) == tmp_path
    assert prepare_place(tmp_path / "{run}", resuming=False) == tmp_path / "{run}"
