"""A run leads with the strongest adversary that is present, on the terminal, on its page and in its attack table."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from small import TWO_LABELS, sixty

from p2p_labeldp.cli.summary import summary_lines
from p2p_labeldp.cli.tables import print_facts
from p2p_labeldp.engines.actors import Simulation
from p2p_labeldp.experiments.run import run
from p2p_labeldp.privacy import Parameters, View, account
from p2p_labeldp.reporting.recorded import read_run
from p2p_labeldp.reporting.report import page_of
from p2p_labeldp.runs.guarantees import colluders_by_size
from p2p_labeldp.runs.summary import Summary


def summary_of(*adversaries: str, engine: str = "vectorized", out: Path | None = None) -> Summary:
    extra = "".join(f"[[adversaries]]\n{each}\n" for each in adversaries)
    return run(sixty(text=TWO_LABELS + extra), engine=engine, out=out).summary


@pytest.mark.parametrize(
    ("adversary", "view"),
    [
        ('kind = "curious_peers"\nusers = [3]', View.PEER),
        ('kind = "collusion"\nusers = [3]', View.COALITION),
        ('kind = "observer"', View.METADATA),
        ('kind = "observer"\nsees = "content"', View.NETWORK),
        ('kind = "observer"\nsees = "content"\nreports = false', View.EAVESDROPPER),
        ('kind = "observer"\nreports = false', View.LEARNER),
    ],
)
def test_the_adversary_that_is_present_leads(adversary: str, view: View) -> None:
    assert summary_of(adversary).headline == view
    assert summary_of().headline == View.LEARNER


def test_of_several_the_one_that_learns_most_leads() -> None:
    both = summary_of('kind = "curious_peers"\nusers = [3]', 'kind = "observer"\nsees = "content"')
    assert both.headline == View.NETWORK
    assert both.privacy[View.NETWORK].epsilon > both.privacy[View.PEER].epsilon


def test_colluders_are_counted_where_they_are_and_together() -> None:
    summary = summary_of('kind = "collusion"\nusers = [0, 1, 2]', 'kind = "collusion"\nusers = [7, 8]')
    finished = run(sixty(text=TWO_LABELS), engine="vectorized")
    assert finished.outcome is not None
    clusters = finished.outcome.clusters
    inside = np.bincount(clusters[[0, 1, 2, 7, 8]], minlength=3)
    delta = summary.privacy[View.COALITION].delta
    parameters = Parameters(alpha=0.2, theta=0.7)
    expected = max(
        account(
            View.COALITION if pooled else View.LEARNER, parameters, cluster_size=int(size), colluders=int(pooled)
        ).get_epsilon(delta).epsilon
        for size, pooled in zip(np.bincount(clusters), inside, strict=True)
    )  # fmt: skip
    assert summary.privacy[View.COALITION].epsilon == pytest.approx(expected, rel=1e-9)
    assert summary.privacy[View.COALITION].epsilon > summary_of().privacy[View.COALITION].epsilon > 0


def test_a_cluster_of_colluders_alone_has_nobody_to_protect() -> None:
    clusters = np.array([0, 0, 0, 1, 1, 1, 1, -1])
    assert colluders_by_size(clusters, [0, 1, 2, 3, 7], [3, 4]) == {3: 0, 4: 1}


def test_terminal_page_and_attack_table_agree(tmp_path: Path) -> None:
    summary = summary_of('kind = "collusion"\nfraction = 0.2', out=tmp_path / "run")
    found = summary.privacy[View.COALITION]
    (attack,) = summary.attacks
    assert (attack.cluster_size, attack.colluders) == (found.cluster_size, found.colluders)
    assert found.cluster_size is not None
    assert found.colluders is not None
    assert found.colluders > 1
    parameters = Parameters(alpha=0.2, theta=0.7)
    there = account(View.COALITION, parameters, cluster_size=found.cluster_size, colluders=found.colluders)
    assert attack.bound == there.get_delta(0.0).delta
    printed = io.StringIO()
    print_facts(summary_lines(summary), Console(width=200, file=printed))
    page = page_of(read_run(tmp_path / "run"), None)
    shown = page.tiles[0][0]
    who = f"the learner colluding with {found.colluders} users"
    assert float(shown) >= found.epsilon
    assert page.tiles[0][1] == f"epsilon: {who}"
    first = next(line for line in printed.getvalue().splitlines() if line.startswith("privacy"))
    assert f"{shown}: {who}, at delta" in first
    assert f"{shown} at delta" in page.verdict


def test_replaced_roles_leave_nothing_and_the_reason() -> None:
    def prepare(simulation: Simulation) -> None:
        """Even where nothing is changed: nobody knows that."""

    finished = run(sixty(text=TWO_LABELS), prepare=prepare).summary
    assert {guarantee.epsilon for guarantee in finished.privacy.values()} == {math.inf}
    assert {guarantee.method for guarantee in finished.privacy.values()} == {"upper_bound"}
    assert all("replaced" in str(guarantee.reason) for guarantee in finished.privacy.values())
    assert finished.curves == {}
