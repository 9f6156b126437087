"""Bugs planted in the shipped code are found by the simulated world: each within so many seeds from 0.

`python benchmarks/disasters.py` tells for every one of them which seed found it, and which were not found in 1,000.
"""

from __future__ import annotations

import pytest
from planted_disasters import BUGS

from p2p_labeldp.deployment.simulated.run import simulate

SEEDS = 100
QUICK = ("a_journal_that_is_not_synced", "a_dropped_acknowledgement", "a_redrawn_coin")
SLOW = (
    "an_answer_before_its_journal_entry", "an_acknowledgement_before_the_commit", "deduplication_off_by_one",
    "a_limit_forgotten", "a_flip_made_again_in_every_round", "a_limit_that_is_not_journaled",
    "reports_in_the_order_of_answers", "a_restart_that_forgets_what_it_took",
    "a_flood_that_is_journaled_before_it_is_judged", "a_relay_that_does_not_wait_for_the_last_go",
)  # fmt: skip


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[name](monkeypatch)
    assert any(simulate(seed).failures for seed in range(SEEDS))


def test_what_happens_to_a_clock_explains_nobodys_end(monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS["a_node_that_ends_when_its_clock_runs_back"](monkeypatch)
    assert "without any disaster that explains it" in simulate(237).failures[0]
