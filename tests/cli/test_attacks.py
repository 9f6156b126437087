"""What ``attacks`` is asked for must fit together: one line, status 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from asking import Refused
from small import sixty

from p2p_labeldp.experiments.run import run


@pytest.mark.parametrize(
    ("scenario", "pooled", "said"),
    [
        ("quickstart", None, "quickstart: has no adversaries"),
        ("collusion", None, "a run of 60 users, but synthetic has 600"),
        ("collusion", "nothing.json", "nothing.json: No such file or directory"),
        ("collusion", "run/summary.json", "summary.json: not what the colluders of a host wrote down"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    scenario: str,
    pooled: str | None,
    said: str,
    refused: Refused,
    tmp_path: Path,
) -> None:
    run(sixty(), out=tmp_path / "run")
    options = [] if pooled is None else ["--pooled", str(tmp_path / pooled)]
    err = refused("attacks", str(tmp_path / "run"), scenario, *options)
    assert said in err


def test_a_folder_without_a_run_is_refused_in_one_line(refused: Refused, tmp_path: Path) -> None:
    assert "summary.json: cannot be read" in refused("attacks", str(tmp_path), "collusion")
