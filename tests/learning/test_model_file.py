"""A model as a file: it reads back to the same model, and whatever else a file holds is refused in one line."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from p2p_labeldp import load_model
from p2p_labeldp.errors import RequestError
from p2p_labeldp.learning import SoftmaxModel
from p2p_labeldp.learning.model_file import StoredModel, parse_model, write_model
from p2p_labeldp.scenario import Schema
from p2p_labeldp.scenario.schema import Category, Number

SCHEMA = Schema(
    columns=(
        Number("age", range=(0.0, 120.0), unit="years", centre=50.0, scale=20.0),
        Category("sex", ("?", "f", "m")),
    ),
    classes=("healthy", "ill"),
)
MODEL = SoftmaxModel(np.array([[0.5, 0.0, 0.1, 0.2], [-0.5, 0.0, 0.3, -0.2]]), np.array([0.25, -0.25]))
ROWS = [{"age": 70, "sex": "f"}, {"age": "20", "sex": "m"}, {"age": 120.0, "sex": ""}]
FEATURES = np.array([[1, 0, 1, 0], [-1.5, 0, 0, 1], [3.5, 1, 0, 0]])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.npz"
    path.write_bytes(write_model(StoredModel(MODEL, SCHEMA, "state")))
    return path


def rewritten(content: bytes, **changes: Any) -> bytes:
    """The same archive with some members replaced."""
    with np.load(io.BytesIO(content)) as found:
        arrays = {name: found[name] for name in found.files}
    buffer = io.BytesIO()
    np.savez(buffer, **(arrays | changes))
    return buffer.getvalue()


def test_a_model_reads_back_to_the_same_one_and_the_same_bytes(file: Path) -> None:
    stored = parse_model(file.read_bytes())
    assert isinstance(stored.model, SoftmaxModel)
    assert (stored.schema, stored.label_column) == (SCHEMA, "state")
    assert stored.model.weights.tobytes() == MODEL.weights.tobytes()
    assert write_model(stored) == file.read_bytes()


def test_it_predicts_from_rows_in_any_form_as_from_their_features(file: Path) -> None:
    model = load_model(file)
    expected = MODEL.predict_proba(FEATURES)
    columns = {name: [row[name] for row in ROWS] for name in ("sex", "age")}
    numeric = {"age": np.array([70, 20, 120]), "sex": np.array(["f", "m", "?"])}
    for rows in (FEATURES, ROWS, columns, numeric):
        assert model.predict_proba(rows) == pytest.approx(expected, abs=1e-6)
        assert model.predict(rows).tolist() == ["healthy", "ill", "healthy"]


def test_it_follows_scikit_learns_conventions(file: Path) -> None:
    model = load_model(file)
    assert model.classes_.tolist() == ["healthy", "ill"]
    assert model.n_features_in_ == 4
    pipeline = make_pipeline(FunctionTransformer(), model)
    assert pipeline.predict(FEATURES).tolist() == ["healthy", "ill", "healthy"]
    assert pipeline.score(FEATURES, ["healthy", "ill", "ill"]) == pytest.approx(2 / 3)
    assert clone(pipeline).fit(FEATURES, ["ill"] * 3).predict_proba(FEATURES) == pytest.approx(
        model.predict_proba(FEATURES)
    )
    assert list(model.get_params()) == ["stored"]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"age": 121, "sex": "f"}], "row 0, column age: 121.0 is not a number from 0 to 120 years"),
        ([{"age": "old", "sex": "f"}], "row 0, column age: 'old' is not a number"),
        ([{"age": "", "sex": "f"}], "a number is missing"),
        ([{"age": 1, "sex": "x"}], "row 0, column sex: it is 'x'; allowed are '?', 'f', 'm'"),
        ([{"age": 1}], "X has no column sex"),
        (np.zeros((2, 3)), "a matrix with 4 features"),
        (np.full((2, 4), np.nan), "not finite"),
    ],
)
def test_what_does_not_fit_the_schema_is_refused(file: Path, rows: Any, said: str) -> None:
    with pytest.raises(RequestError, match=said.replace("?", r"\?").replace("(", r"\(")):
        load_model(file).predict(rows)


def test_an_altered_file_is_refused_wherever_it_was_altered(file: Path) -> None:
    content = file.read_bytes()
    weights = MODEL.weights.copy()
    weights[0, 0] += 1e-9
    with pytest.raises(RequestError, match="altered"):
        parse_model(rewritten(content, weights=weights))
    with np.load(file) as found:
        about = json.loads(found["about"].tobytes())
    about["schema"]["classes"] = ["ill", "healthy"]
    with pytest.raises(RequestError, match="altered"):
        parse_model(rewritten(content, about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)))
    for place in range(len(content)):
        with pytest.raises(RequestError):
            parse_model(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
    (file.parent / "model-card.md").write_text("of another model", encoding="utf-8")
    with pytest.raises(RequestError, match=r"altered: model-card.md beside it names another one"):
        load_model(file)


class Executed:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("a model file was executed",))


def test_nothing_in_a_file_is_executed(file: Path) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, about=np.array([Executed()], dtype=object), weights=np.zeros(2))
    with pytest.raises(RequestError, match="not a model, or damaged"):
        parse_model(buffer.getvalue())
    with pytest.raises(RequestError, match="not a model, or damaged"):
        parse_model(pickle.dumps(Executed()))


def test_a_file_that_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("p2p_labeldp.learning.model_file.LARGEST", 1 << 20)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("weights.npy", bytes((1 << 20) + 1))
    with pytest.raises(RequestError, match="unpacks to more than"):
        parse_model(buffer.getvalue())


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"kind": "oracle"}, "kind 'oracle'; this program knows softmax"), ({"format": 2}, "format 2; this program")],
)
def test_models_of_another_kind_or_format_are_named(file: Path, changes: dict[str, Any], said: str) -> None:
    with np.load(file) as found:
        about = json.loads(found["about"].tobytes()) | changes
    content = rewritten(file.read_bytes(), about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8))
    with pytest.raises(RequestError, match=said):
        parse_model(content)
