from __future__ import annotations

import pytest


@pytest.fixture
def rules_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits without the tests of the coins, which take as long as the rest of an audit of a small run."""
    monkeypatch.setattr("p2p_labeldp.audit.runs.fit_tests", lambda *_: [])
