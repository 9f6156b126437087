from pathlib import Path

import pytest

from p2p_labeldp.data import files


@pytest.fixture
def nothing_installed(tmp_path, monkeypatch) -> Path:
    """No data file anywhere; returns the (empty) cache folder."""
    monkeypatch.delenv(files.ENVIRONMENT, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "p2p_labeldp"


@pytest.fixture
def openml(monkeypatch):
    """Puts a made-up answer, or an error, in the place of OpenML; returns the list of calls."""

    def install(answer):
        calls = []

        def fetch(**arguments):
            calls.append(arguments)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
        return calls

    return install
