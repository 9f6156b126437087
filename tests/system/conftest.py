"""What tests of whole runs share: a browser, and a process that starts nodes quickly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import Browser
from processes import Machine


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with Machine() as made:
        yield made
