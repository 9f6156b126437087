"""The figure of every view's curve."""

from __future__ import annotations

from pathlib import Path

import pytest

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import Account, account
from p2p_labeldp.reporting.curves import draw_curves


def accountants() -> dict[str, Account]:
    views = ("learner", "metadata", "shuffle")
    found = {view: account(view, cluster_size=12, alpha=0.2, theta=0.5) for view in views}
    found["nothing"] = account("learner", cluster_size=12, alpha=0.5, theta=0.5)
    found["no flips"] = account("peer", cluster_size=12, alpha=0.0, theta=0.5)
    return found


def test_curves_are_drawn_to_a_file_and_nothing_else_is_left(tmp_path: Path) -> None:
    draw_curves(accountants(), tmp_path / "below" / "curves.png", points=8, delta=1e-4)
    assert (tmp_path / "below" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((tmp_path / "below").iterdir())) == 1


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match=r"curves.svg: cannot be written"):
        draw_curves(accountants(), tmp_path / "file" / "curves.svg", points=2)
