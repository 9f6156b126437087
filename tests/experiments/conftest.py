"""What tests of experiments share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def no_curves(without_curves: None) -> None:
    """Nothing here is about them."""
