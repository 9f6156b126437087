"""The benchmark beside other libraries: everyone delivers as many messages, and the same noisy data set comes out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "peers.py"


@pytest.mark.slow
def test_everyone_s_exchange_has_the_same_messages_and_outcome() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), "--users", "600", "--times", "1"],
        capture_output=True, text=True, check=True, timeout=300,
        env={name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"},  # it imports its neighbour
    )  # fmt: skip
    first, *others = done.stdout.splitlines()
    assert first.endswith("the same noisy data set from everyone")
    assert len(others) == 8
