import shutil
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

from p2p_labeldp.data import load
from p2p_labeldp.data.sets import adult
from p2p_labeldp.data.sets import diabetes130 as tables
from p2p_labeldp.data.splits import split_by_owner
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Data

HEADER = ["encounter_id", *tables.DIABETES_NEEDED, "readmitted"]


def encounter(number, **changes):
    values = dict.fromkeys(HEADER, "No")
    values |= dict.fromkeys(tables.DIABETES_NUMBERS, "3") | dict.fromkeys(tables.DIABETES_DIAGNOSES, "250.8")
    values |= {"encounter_id": str(number), "patient_nbr": str(number // 2), "age": "[70-80)"}
    values |= {"readmitted": ("NO", ">30", "<30")[number % 3]}
    return ",".join((values | changes).values())


def diabetes(tmp_path, lines, member=tables.DIABETES_MEMBER):
    (tmp_path / "diabetes-130").mkdir(exist_ok=True)
    with zipfile.ZipFile(tmp_path / "diabetes-130" / "dataset_diabetes.zip", "w") as archive:
        archive.writestr(member, "\n".join(lines) + "\n")
    return tmp_path


@pytest.mark.parametrize(
    ("code", "chapter"),
    [
        ("250", "diabetes"), ("250.83", "diabetes"), ("276", "endocrine"), ("428", "circulatory"),
        ("8", "infections"), ("V45", "supplementary"), ("E885", "external causes"),
        ("?", "?"), ("", "?"), ("1000", "?"), ("0", "?"),
    ],
)  # fmt: skip
def test_a_diagnosis_is_known_by_its_chapter(code, chapter):
    assert tables.icd9_chapter(code) == chapter


def test_no_owner_is_on_both_sides_of_a_split():
    owners = np.random.default_rng(1).integers(300, size=1000)
    train, test = split_by_owner(owners, seed=1, test_fraction=0.3)
    assert sorted([*train, *test]) == list(range(1000))
    assert not np.intersect1d(owners[train], owners[test]).size
    assert 0.2 < len(test) / 1000 < 0.4


def test_no_patient_is_in_both_training_and_test(tmp_path):
    # The length of stay is different for every patient, so that it tells them apart.
    lines = [encounter(i, time_in_hospital=str(i // 2)) for i in range(40)]
    made = load(Data(name="diabetes130"), seed=1, data_dir=diabetes(tmp_path, [",".join(HEADER), *lines]))
    stay = 1 + tables.DIABETES_NUMBERS.index("time_in_hospital")
    assert len(np.unique(made.features[:, stay])) == 16
    assert not np.intersect1d(made.features[:, stay], made.test_features[:, stay]).size


def test_the_targets_of_diabetes130_ask_about_early_or_any_readmission(tmp_path):
    folder = diabetes(tmp_path, [",".join(HEADER), *(encounter(i) for i in range(30))])
    whole = load(Data(name="diabetes130"), seed=1, data_dir=folder)
    early = load(Data(name="diabetes130", target="early"), seed=1, data_dir=folder)
    any_ = load(Data(name="diabetes130", target="any"), seed=1, data_dir=folder)
    assert whole.classes == ("NO", ">30", "<30")
    assert np.array_equal(early.labels, whole.labels == 2)
    assert np.array_equal(any_.labels, whole.labels > 0)


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        (["encounter_id,readmitted", "1,NO"], "lacks the column patient_nbr"),
        ([",".join(HEADER)], "no rows"),
        ([",".join(HEADER), encounter(1), "1,2,3"], "row 3 has 3 fields"),
        ([",".join(HEADER), encounter(1), encounter(2, num_medications="x")], "num_medications is 'x'"),
        ([",".join(HEADER), encounter(1), encounter(2, age="old")], "age is 'old'"),
        ([",".join(HEADER), encounter(1), encounter(2, readmitted="maybe")], "readmitted has another value than"),
        ([",".join(HEADER), encounter(0), encounter(1)], "one patient only"),
    ],
)
def test_a_broken_diabetes_table_is_named_in_one_line(tmp_path, lines, word):
    folder = diabetes(tmp_path, lines)
    with pytest.raises(RequestError, match=r"dataset_diabetes.zip") as caught:
        load(Data(name="diabetes130"), seed=1, data_dir=folder)
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_damaged_zip_is_named(tmp_path):
    path = diabetes(tmp_path, ["x"], member="other.csv") / "diabetes-130" / "dataset_diabetes.zip"
    with pytest.raises(RequestError, match=r"lacks dataset_diabetes/diabetic_data\.csv"):
        load(Data(name="diabetes130"), seed=1, data_dir=tmp_path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(RequestError, match=r"dataset_diabetes.zip is cut short or damaged"):
        load(Data(name="diabetes130"), seed=1, data_dir=tmp_path)


@pytest.mark.slow
def test_diabetes130_is_the_published_one_and_split_by_patient(real_files):
    whole = load(Data(name="diabetes130"), seed=1, data_dir=real_files)
    counts = np.bincount(whole.labels) + np.bincount(whole.test_labels)
    assert counts.tolist() == [54_864, 35_545, 11_357]
    assert 0.19 < len(whole.test_labels) / 101_766 < 0.21


def test_adult_is_the_published_one(real_files):
    adult = load(Data(name="adult"), seed=1, data_dir=real_files)
    assert np.bincount(adult.labels).tolist() == [24_720, 7_841]
    assert np.bincount(adult.test_labels).tolist() == [12_435, 3_846]
    assert adult.classes == ("<=50K", ">50K")
    assert adult.features[:, 0].mean(dtype=float) == pytest.approx(0, abs=1e-6)  # age


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (lambda text: text[: text.index("\n", 100_000) + 1], "32561"),
        (lambda text: text[: text.index("\n", 100_000) - 20], "fields, not 15"),
        (lambda text: text.replace(", 77516,", ", many,", 1), "fnlwgt is 'many'"),
        (lambda text: text.replace("<=50K", "<=5", 1), "another label"),
    ],
)
def test_a_damaged_adult_file_is_named_in_one_line(tmp_path, real_files, damage, word):
    (tmp_path / "adult").mkdir()
    shutil.copy(real_files / "adult" / "adult.test", tmp_path / "adult")
    text = (real_files / "adult" / "adult.data").read_text()
    (tmp_path / "adult" / "adult.data").write_text(damage(text))
    with pytest.raises(RequestError, match=r"adult.data") as caught:
        load(Data(name="adult"), seed=1, data_dir=tmp_path)
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def as_openml(columns, numbers, target):
    """What fetch_openml makes of a table: codes of nominal columns, NaN for what is missing."""
    categories = {
        name: sorted({v for v in column if v != "?"}) for name, column in columns.items() if name not in numbers
    }
    data = [
        [float(v) if name in numbers else categories[name].index(v) if v != "?" else np.nan for v in column]
        for name, column in columns.items()
    ]
    return SimpleNamespace(
        data=np.array(data, dtype=float).T,
        target=np.array(target, dtype=object),
        feature_names=list(columns),
        categories=categories,
    )


def test_diabetes130_from_openml_is_the_same_as_from_its_file(tmp_path, nothing_installed, openml):
    lines = [encounter(i, race="?" if i % 4 else "Asian") for i in range(1000)]
    from_file = load(Data(name="diabetes130"), seed=1, data_dir=diabetes(tmp_path, [",".join(HEADER), *lines]))
    columns = dict(zip(HEADER, zip(*(line.split(",") for line in lines), strict=True), strict=True))
    target = columns.pop("readmitted")
    calls = openml(as_openml(columns, (*tables.DIABETES_NUMBERS, "encounter_id", "patient_nbr"), target))
    fetched = load(Data(name="diabetes130"), seed=1)
    assert calls[0]["data_id"] == 4541
    assert np.array_equal(fetched.features, from_file.features)
    assert np.array_equal(fetched.labels, from_file.labels)


@pytest.mark.slow
def test_adult_from_openml_is_the_same_as_from_its_files(real_files, nothing_installed, openml):
    from_files = load(Data(name="adult"), seed=1, data_dir=real_files)
    rows = [
        adult._read_adult(real_files / "adult" / name, count) for name, count in reversed(adult.ADULT_FILES.items())
    ]
    *values, target = zip(*rows[0], *rows[1], strict=True)
    columns = dict(zip(adult.ADULT_COLUMNS, values, strict=True))
    numbers = tuple(name for name, is_number in adult.ADULT_COLUMNS.items() if is_number)
    openml(as_openml(columns, numbers, target))
    fetched = load(Data(name="adult"), seed=1)
    assert np.array_equal(fetched.features, from_files.features)
    assert np.array_equal(fetched.test_labels, from_files.test_labels)


def test_an_openml_answer_that_is_not_the_table_is_refused(nothing_installed, openml):
    openml(SimpleNamespace(data=np.zeros((2, 1)), target=["NO", "NO"], feature_names=["x"], categories={}))
    for name in ("adult", "diabetes130"):
        with pytest.raises(RequestError, match="OpenML"):
            load(Data(name=name), seed=1)
