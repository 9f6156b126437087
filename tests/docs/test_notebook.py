"""Every cell of docs/quickstart.ipynb prints what stands there."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import sessions

BOOK = Path(sessions.__file__).with_name("quickstart.ipynb")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Jupyter's own modules
def test_the_notebook_is_true() -> None:
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel: pip install '.[test]'")
    pytest.importorskip("ipykernel", reason="needs nbclient and ipykernel: pip install '.[test]'")
    import nbformat

    written = nbformat.read(BOOK, as_version=4)
    run = copy.deepcopy(written)
    nbclient.NotebookClient(run, timeout=300).execute()
    cells = [pair for pair in zip(written.cells, run.cells, strict=True) if pair[0].cell_type == "code"]
    assert len(cells) >= 4
    for before, now in cells:
        said, says = ("".join(output["text"] for output in cell.outputs) for cell in (before, now))
        assert said
        assert sessions.agrees(sessions.Step("", "", said), says), f"{before.source}\nprinted\n{says}\nnot\n{said}"
