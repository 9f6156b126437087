"""The figure of every view's curve."""

from __future__ import annotations

from pathlib import Path

import pytest

from p2p_labeldp.errors import RequestError
from p2p_labeldp.reporting.curves import draw_curves
from p2p_labeldp.runs.summary import Curve

CURVES = {
    "learner": Curve((0.0, 0.4, 0.9), (0.1, 1e-4, 1e-9), "account"),
    "nothing": Curve((0.0, 0.5), (0.0, 0.0), "account"),
    "no flips": Curve((0.0, 1.0), (0.08, 0.08), "account"),
}


def test_curves_are_drawn_to_a_file_and_nothing_else_is_left(tmp_path: Path) -> None:
    draw_curves(CURVES, tmp_path / "below" / "curves.png", delta=1e-4)
    assert (tmp_path / "below" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((tmp_path / "below").iterdir())) == 1


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match=r"curves.svg: cannot be written"):
        draw_curves(CURVES, tmp_path / "file" / "curves.svg", delta=1e-4)
