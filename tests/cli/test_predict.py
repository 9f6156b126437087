"""``predict``: new rows by the model of a run, as the run's own learner would have it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from asking import Command, Refused

from p2p_labeldp.cli import main
from p2p_labeldp.data import load
from p2p_labeldp.data.splits import split
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
    everyone = load(scenario.data, 3)
    _, test = split(300, 3, Data().test_fraction)
    assert len(everyone.test_labels) == len(test) == 300 - len(everyone.labels)
    write(folder / "test.csv", [rows[row] for row in test])
    write(folder / "new.csv", [rows[row] for row in test], ("sex", "age"))
    return folder


def test_predict_equals_the_learners_own_accuracy(made: Path, command: Command) -> None:
    found = json.loads(command("predict", str(made / "run"), str(made / "test.csv"), "--json")[1])
    assert found["accuracy"] == json.loads((made / "run" / "summary.json").read_text())["accuracy"]
    assert found["classes"] == ["healthy", "ill"]
    assert found["rows"] == len(found["labels"]) == 60
    for label, chances in zip(found["labels"], found["probabilities"], strict=True):
        assert sum(chances) == pytest.approx(1)
        assert found["classes"][int(np.argmax(chances))] == label


def test_columns_may_come_in_any_order_and_the_label_may_be_missing(
    made: Path, tmp_path: Path, command: Command
) -> None:
    assert command("predict", str(made / "run/model.npz"), str(made / "new.csv"), "--out", "labels.csv")[0] == 0
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = json.loads(command("predict", str(made / "run"), str(made / "test.csv"), "--json")[1])
    assert [row["label"] for row in rows] == found["labels"]
    assert list(rows[0]) == ["label", "p(healthy)", "p(ill)"]
    assert [path.name for path in tmp_path.iterdir()] == ["labels.csv"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("age,sex\n30,f\n40,x\n", "line 3, column sex: it is 'x'"),
        ("age,weight\n30,80\n", "has no column sex, which the schema names; is it of another schema?"),
        ("age,sex\n", "has 0 rows"),
        ("", "is empty"),
    ],
)
def test_rows_outside_the_schema_are_named_by_file_line_and_column(
    made: Path, tmp_path: Path, refused: Refused, content: str, said: str
) -> None:
    (tmp_path / "new.csv").write_text(content, encoding="utf-8")
    error = refused("predict", str(made / "run"), "new.csv", "--out", "labels.csv")
    assert "new.csv" in error
    assert said in error
    assert not (tmp_path / "labels.csv").exists()


def test_another_model_than_that_of_the_run_is_refused(
    made: Path, tmp_path: Path, command: Command, refused: Refused
) -> None:
    """One that is damaged, and one that is in itself whole."""
    (tmp_path / "manifest.json").write_bytes((made / "run/manifest.json").read_bytes())
    content = (made / "run/model.npz").read_bytes()
    (tmp_path / "model.npz").write_bytes(content[:-20])
    assert "the model was altered" in refused("predict", ".", str(made / "test.csv"))
    other = ("--set", "mechanism.alpha=.2", "--engine", "vectorized", "--out", "other")
    assert command("run", str(made / "study.toml"), *other)[0] == 0
    (tmp_path / "model.npz").write_bytes((tmp_path / "other/model.npz").read_bytes())
    said = "the model was altered: manifest.json beside it names another one"
    assert said in refused("predict", ".", str(made / "test.csv"))
    (tmp_path / "model.npz").unlink()
    assert "there is no model.npz in it" in refused("predict", ".", "new.csv")


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
