"""The figure of every view's curve."""

from p2p_labeldp.privacy import account
from p2p_labeldp.privacy.figure import draw_curves


def test_curves_are_drawn_to_a_file(tmp_path):
    accountants = {
        view: account(view, cluster_size=12, alpha=0.2, theta=0.5) for view in ("learner", "metadata", "shuffle")
    }
    accountants["nothing"] = account("learner", cluster_size=12, alpha=0.5, theta=0.5)
    accountants["no flips"] = account("peer", cluster_size=12, alpha=0.0, theta=0.5)
    draw_curves(accountants, tmp_path / "curves.png", points=8)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
