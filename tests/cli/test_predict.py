"""``predict``: new rows by the model of a run, as the run's own learner would have it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from p2p_labeldp.cli import main
from p2p_labeldp.data import load
from p2p_labeldp.scenario import Data, load_scenario

SCENARIO = """
[data]
name = "csv"
path = "people.csv"
label_column = "state"
[clusters]
count = 4
minimum_size = 5
[mechanism]
alpha = 0.1
"""


def table(rows: int) -> list[dict[str, str]]:
    generator = np.random.default_rng(2)
    found = []
    for _ in range(rows):
        age, sex = int(generator.integers(18, 90)), ("f", "m")[int(generator.integers(2))]
        ill = generator.random() < 0.1 + 0.8 * (age > 55)
        found.append({"age": str(age), "sex": sex, "state": ("healthy", "ill")[int(ill)]})
    return found


def write(path: Path, rows: list[dict[str, str]], columns: tuple[str, ...] = ("age", "sex", "state")) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run, ``run``, and the test rows of its learner, ``test.csv``."""
    folder = tmp_path_factory.mktemp("predict")
    rows = table(300)
    write(folder / "people.csv", rows)
    (folder / "study.toml").write_text(SCENARIO.replace("people.csv", str(folder / "people.csv")), encoding="utf-8")
    study = folder / "study.toml"
    assert main(["run", str(study), "--engine", "vectorized", "--seed", "3", "--out", str(folder / "run")]) == 0
    scenario = load_scenario(study, seed=3)
    everyone, users = load(scenario.data, 3), len(load(scenario.data, 3).labels)
    from p2p_labeldp.data.splits import split

    _, test = split(300, 3, Data().test_fraction)
    assert len(everyone.test_labels) == len(test) == 300 - users
    write(folder / "test.csv", [rows[row] for row in test])
    write(folder / "new.csv", [rows[row] for row in test], ("sex", "age"))
    return folder


@pytest.fixture
def quiet(capsys: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    capsys.readouterr()
    return capsys


def test_predict_equals_the_learners_own_accuracy(made: Path, quiet: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(made / "run"), str(made / "test.csv"), "--json"]) == 0
    found = json.loads(quiet.readouterr().out)
    assert found["accuracy"] == json.loads((made / "run" / "summary.json").read_text())["accuracy"]
    assert found["classes"] == ["healthy", "ill"]
    assert found["rows"] == len(found["labels"]) == 60
    for label, chances in zip(found["labels"], found["probabilities"], strict=True):
        assert sum(chances) == pytest.approx(1)
        assert found["classes"][int(np.argmax(chances))] == label


def test_columns_may_come_in_any_order_and_the_label_may_be_missing(
    made: Path, tmp_path: Path, quiet: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "labels.csv"
    assert main(["predict", str(made / "run" / "model.npz"), str(made / "new.csv"), "--out", str(out)]) == 0
    with out.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert main(["predict", str(made / "run"), str(made / "test.csv"), "--json"]) == 0
    found = json.loads(quiet.readouterr().out)
    assert [row["label"] for row in rows] == found["labels"]
    assert list(rows[0]) == ["label", "p(healthy)", "p(ill)"]
    assert [path.name for path in tmp_path.iterdir()] == ["labels.csv"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("age,sex\n30,f\n40,x\n", "line 3, column sex: it is 'x'"),
        ("age,sex\n30,f\nyoung,m\n", "line 3, column age: 'young' is not a number"),
        ("age,weight\n30,80\n", "has no column sex, which the schema names; is it of another schema?"),
        ("age,sex\n", "has 0 rows"),
        ("", "is empty"),
    ],
)
def test_rows_outside_the_schema_are_named_by_file_line_and_column(
    made: Path, tmp_path: Path, quiet: pytest.CaptureFixture[str], content: str, said: str
) -> None:
    (tmp_path / "new.csv").write_text(content, encoding="utf-8")
    out = tmp_path / "labels.csv"
    assert main(["predict", str(made / "run"), str(tmp_path / "new.csv"), "--out", str(out)]) == 2
    error = quiet.readouterr().err
    assert len(error.splitlines()) == 1
    assert str(tmp_path / "new.csv") in error
    assert said in error
    assert not out.exists()


def test_an_altered_model_is_refused(made: Path, tmp_path: Path, quiet: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    run.mkdir()
    content = (made / "run" / "model.npz").read_bytes()
    (run / "manifest.json").write_bytes((made / "run" / "manifest.json").read_bytes())
    for left, said in ((-20, "the model was altered"), (-90, "not a model, or damaged")):
        (run / "model.npz").write_bytes(content[:left])
        assert main(["predict", str(run), str(made / "test.csv")]) == 2
        assert said in quiet.readouterr().err
    # Another model, in itself whole, is not the one of that run.
    study = (made / "study.toml").read_text()
    (tmp_path / "other.toml").write_text(study.replace("alpha = 0.1", "alpha = 0.2"), encoding="utf-8")
    other = tmp_path / "other"
    assert main(["run", str(tmp_path / "other.toml"), "--engine", "vectorized", "--out", str(other)]) == 0
    (run / "model.npz").write_bytes((other / "model.npz").read_bytes())
    quiet.readouterr()
    assert main(["predict", str(run), str(made / "test.csv")]) == 2
    assert "the model was altered: manifest.json beside it names another one" in quiet.readouterr().err


def test_a_folder_without_a_model_is_named(tmp_path: Path, quiet: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(tmp_path), "new.csv"]) == 2
    assert "there is no model.npz in it" in quiet.readouterr().err


def test_the_card_tells_schema_mechanism_guarantees_metrics_and_limits(made: Path) -> None:
    card = (made / "run" / "model-card.md").read_text(encoding="utf-8")
    summary = json.loads((made / "run" / "summary.json").read_text())
    for heading in ("Data schema", "Mechanism", "Guarantees by view", "Metrics", "Who was missing", "must not be used"):
        assert f"## {heading}" in card or heading in card
    learner = next(line for line in card.splitlines() if line.startswith("| the learner |"))
    stated = summary["privacy"]["learner"]
    assert float(learner.split("|")[3].removeprefix(" at most ")) >= stated["epsilon"], "never rounded down"
    assert float(learner.split("|")[4]) >= stated["delta"]
    assert f"{summary['accuracy']:.4f}" in card
    assert "Labels of test examples are not protected" in card
    assert "| sex | f, m |" in card
    assert json.loads((made / "run" / "manifest.json").read_text())["model_sha256"] in card
    assert "commonest" not in card, "what was computed from true labels stays with its owner"
