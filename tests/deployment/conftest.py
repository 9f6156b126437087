"""What tests of deployments share: a process that starts nodes quickly, and the image of containers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from compose import built_image
from processes import Machine, Unavailable


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    with Machine() as made:
        yield made


@pytest.fixture(scope="session")
def lab() -> Iterator[Machine]:
    """Where every node has a network namespace of its own."""
    try:
        made = Machine(networks=True)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with made:
        yield made


@pytest.fixture(scope="session")
def image() -> str:
    return built_image()
