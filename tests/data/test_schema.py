"""A public schema: features are made from it and nothing else, and a proposal says what to look at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small import PEOPLE
from small import study as write_study

from p2p_labeldp.cli import main
from p2p_labeldp.data import load
from p2p_labeldp.data.propose import propose
from p2p_labeldp.data.rows import Named, read_rows
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Scenario, load_scenario, parse_scenario

SCHEMA = """
[data]
name = "csv"
path = "people.csv"
label_column = "state"
[data.schema]
classes = ["healthy", "ill"]
ignore = ["visit"]
missing = ["", "NA"]
[data.schema.columns]
age = {range = [0, 120], unit = "years"}
weight = {range = [20, 220], centre = 70, scale = 10, missing = "centre"}
sex = {values = ["f", "m", "?"]}
town = {values = ["Bern", "Chur"], other = true}
"""
HEADER = "visit,sex,age,weight,town,state"
ROWS = ("1,f,60,80,Bern,ill", "2,m,0,NA,Chur,healthy", "3,NA,120,60,Thun,ill", "4,f,30,70,Bern,healthy")
FEATURES = {
    "1,f,60,80,Bern,ill": [0, 1, 1, 0, 0, 1, 0, 0],
    "2,m,0,NA,Chur,healthy": [-2, 0, 0, 1, 0, 0, 1, 0],
    "3,NA,120,60,Thun,ill": [2, -1, 0, 0, 1, 0, 0, 1],
    "4,f,30,70,Bern,healthy": [-1, 0, 1, 0, 0, 1, 0, 0],
}


def study(folder: Path, rows: tuple[str, ...] = ROWS, header: str = HEADER) -> Scenario:
    return load_scenario(write_study(folder, [header, *rows], SCHEMA))


def test_features_are_those_of_the_schema_whoever_else_is_in_the_file(tmp_path: Path) -> None:
    found = load(study(tmp_path, ROWS * 3).data, 0)
    everyone = np.concatenate([found.features, found.test_features]).tolist()
    assert sorted(everyone) == sorted(FEATURES[row] for row in ROWS * 3)
    (tmp_path / "few").mkdir()
    few = load(study(tmp_path / "few", (ROWS[0], ROWS[2])).data, 0)
    assert sorted([*few.features.tolist(), *few.test_features.tolist()]) == sorted(
        [FEATURES[ROWS[0]], FEATURES[ROWS[2]]]
    )
    assert few.classes == ("healthy", "ill")


def test_paths_are_relative_to_the_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert len(load(load_scenario("../study.toml").data, 0).classes) == 2


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("5,f,121,70,Bern,ill", "line 6, column age: 121 is not a number from 0 to 120 years"),
        ("5,f,old,70,Bern,ill", "line 6, column age: 'old' is not a number"),
        ("5,f,nan,70,Bern,ill", "line 6, column age: 'nan' is not a number"),
        ("5,f,,70,Bern,ill", "line 6, column age: a number is missing, which the schema does not allow"),
        ("5,x,1,70,Bern,ill", "line 6, column sex: it is 'x'; allowed are 'f', 'm', '?'"),
        ("5,f,1,70,Bern,dead", "line 6, column state: its value is not among 'healthy', 'ill'"),
        ("5,f,1,70,Bern", "line 6 has 5 fields, not 6"),
    ],
)
def test_a_row_outside_the_schema_is_named_by_file_line_and_column(tmp_path: Path, row: str, said: str) -> None:
    with pytest.raises(RequestError) as caught:
        load(study(tmp_path, (*ROWS, row)).data, 0)
    assert str(caught.value) == f"{tmp_path / 'people.csv'} {said}"
    assert "dead" not in str(caught.value), "a label is not quoted"


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (HEADER.replace("age", "years"), "has no column age, which the schema names"),
        (HEADER.replace("visit", "doctor"), "column doctor is not in the schema"),
        (HEADER.replace("state", "outcome"), "has no column state"),
    ],
)
def test_columns_must_be_those_of_the_schema(tmp_path: Path, header: str, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        load(study(tmp_path, header=header).data, 0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('sex = {values = ["f", "m", "?"]}', "data.schema.columns.sex must be a table with range"),
        ("age = {range = [0, 120]", "data.schema.columns.age.range must be two numbers, the smaller one first"),
        ('unit = "years"', "data.schema.columns.age is a number and has no key colour"),
        ('classes = ["healthy", "ill"]', "data.schema.classes has 1 entries; at least 2"),
        ('ignore = ["visit"]', "data.schema.ignore has age, which is among data.schema.columns"),
        ('missing = ["", "NA"]', "unknown key data.schema.mising"),
        ('label_column = "state"', "data.label_column is 'sex', which data.schema names too"),
    ],
)
def test_a_wrong_schema_is_answered_in_one_line(tmp_path: Path, change: str, said: str) -> None:
    wrong = {
        'sex = {values = ["f", "m", "?"]}': "sex = 3",
        "age = {range = [0, 120]": "age = {range = [120, 0]",
        'unit = "years"': 'colour = "red"',
        'classes = ["healthy", "ill"]': 'classes = ["ill"]',
        'ignore = ["visit"]': 'ignore = ["age"]',
        'missing = ["", "NA"]': 'mising = ["", "NA"]',
        'label_column = "state"': 'label_column = "sex"',
    }
    study(tmp_path)
    with pytest.raises(RequestError) as caught:
        load(parse_scenario(SCHEMA.replace(change, wrong[change])).data, 0, tmp_path)
    assert said in str(caught.value)


# Rows of one person


def test_rows_of_one_person_stand_together_or_all_but_the_first_sit_out(tmp_path: Path) -> None:
    people = ["a", "b", "a", "c", "b", "a", "d", "e"]
    text = "who,x,label\n" + "".join(f"{who},{place},{'yn'[place % 2]}\n" for place, who in enumerate(people))
    (tmp_path / "people.csv").write_text(text)
    toml = PEOPLE + 'person_column = "who"\nseed = 1\n'
    everyone = load(parse_scenario(toml).data, 1, tmp_path)
    persons = everyone.persons
    assert persons is not None
    assert (np.diff(np.flatnonzero(np.diff(persons, prepend=-1))) > 0).all()
    assert sum(np.diff(persons) != 0) + 1 == len({*persons.tolist()}), "each person's rows are together"
    assert everyone.person_rows == int(np.bincount(persons).max()) > 1
    one = load(parse_scenario(toml + 'person_rows = "one"').data, 1, tmp_path)
    assert one.person_rows == 1
    assert len(one.labels) == len({*persons.tolist()})


# Proposals


def file_of(folder: Path, columns: dict[str, list[str]], separator: str = ",", encoding: str = "utf-8") -> Path:
    lines = [separator.join(columns), *(separator.join(row) for row in zip(*columns.values(), strict=True))]
    path = folder / "rows.csv"
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    return path


def columns_of(rows: int = 200) -> dict[str, list[str]]:
    chance = np.random.default_rng(0)
    return {
        "age": [str(age) for age in chance.integers(18, 90, rows)],
        "pressure": [f"{value:.1f}" for value in chance.normal(120, 15, rows)],
        "sex": ["fm"[code] for code in chance.integers(0, 2, rows)],
        "label": ["no", "yes"] * (rows // 2),
    }


def test_a_proposal_reads_back_and_fits_the_file_it_was_made_from(tmp_path: Path) -> None:
    file = file_of(tmp_path, columns_of())
    out = tmp_path / "study.toml"
    assert main(["schema", str(file), "--label", "label", "--out", str(out)]) == 0
    scenario = load_scenario(out)
    assert scenario.data.schema.names == ("age", "pressure", "sex")
    assert scenario.data.schema.features == 4
    assert len(load(scenario.data, 0).labels) == 160
    assert propose(file, "label").warnings == []
    out.write_text("edited by a person", encoding="utf-8")
    assert main(["schema", str(file), "--label", "label", "--out", str(out)]) == 2
    assert out.read_text(encoding="utf-8") == "edited by a person"


WARNED = {
    "identifier": ({"patient": [f"P{place:05}" for place in range(200)]}, "patient is different in nearly every row"),
    "number": ({"row": [str(place) for place in range(200)]}, "row is different in nearly every row"),
    "person": ({"patient_id": [str(place // 2 * 7919) for place in range(200)]}, "patient_id looks like an identifier"),
    "date": ({"seen": [f"2024-03-{1 + place % 28:02}" for place in range(200)]}, "seen holds dates: ignored"),
    "month": ({"seen": [f"2024-{1 + place % 12:02}" for place in range(200)]}, "seen holds dates: ignored"),
    "day": ({"seen": [f"{1 + place % 28} March 2024" for place in range(200)]}, "seen holds dates: ignored"),
    "compact": ({"seen": [f"202403{1 + place % 28:02}" for place in range(200)]}, "seen holds dates: ignored"),
    "seconds": ({"visit_timestamp": [str(10**9 + place // 2) for place in range(200)]}, "visit_timestamp holds dates"),
    "constant": ({"site": ["north"] * 200}, "site is always the same"),
    "missing": ({"dose": ["NA", *["1", "2", "3"] * 66, "1"]}, "'NA' in dose is taken for a missing value"),
    "mixed": ({"dose": ["high", *["1", "2", "3"] * 66, "1"]}, "dose holds mostly numbers, but not in row 1:"),
    "text": ({"town": [f"t{place % 60}" for place in range(200)]}, "town has no value that 5 rows share"),
    "rare": (
        {"town": ["Bern", *["Chur"] * 199]},
        "town: 1 of its 2 values are those of fewer than 5 rows, and not named",
    ),
    "tells": ({"result": ["neg", "pos"] * 100}, "result alone tells 100.0% of the labels"),
    "limit": (
        {"score": [str(place % 2 * 50 + (place * 37 % 71) / 2) for place in range(200)]},
        "score alone tells 100.0% of the labels",
    ),
    "gap": (
        {"score": ["", *(str(place % 2 * 50 + (place * 37 % 71) / 2) for place in range(1, 200))]},
        "score alone tells 99.5% of the labels",
    ),
    "rare class": ({"label": [*["no", "yes"] * 99, "maybe", "no"]}, "label: maybe is of fewer than 5 rows"),
    "no label": ({"label": [*["no", "yes"] * 99, "NA", "no"]}, "1 rows have no label: they will be refused"),
    "continuous": ({"label": [str(place / 7) for place in range(200)]}, "label holds 200 different numbers"),
}


@pytest.mark.parametrize("kind", WARNED)
def test_a_proposal_warns_of_what_it_sees(tmp_path: Path, kind: str) -> None:
    changes, said = WARNED[kind]
    found = propose(file_of(tmp_path, columns_of() | changes), "label")
    assert any(said in warning for warning in found.warnings), found.warnings
    assert "Bern" not in found.to_toml(), "a schema is public"
    assert "maybe" not in found.to_toml()
    if found.schema.ignore:
        assert found.schema.ignore == tuple(changes)
        assert found.schema.features == 4


def test_what_is_ignored_is_what_was_warned_of(tmp_path: Path) -> None:
    kinds = ("identifier", "number", "person", "date", "month", "day", "compact", "seconds", "constant", "text")
    for kind in WARNED:
        ignored = propose(file_of(tmp_path, columns_of() | WARNED[kind][0]), "label").schema.ignore
        assert bool(ignored) == (kind in kinds), kind


@pytest.mark.parametrize("kind", ["tells", "limit", "rare class", "no label", "continuous"])
def test_the_file_for_everyone_is_the_same_whatever_labels_the_rows_have(tmp_path: Path, kind: str) -> None:
    columns = columns_of() | WARNED[kind][0]
    found = propose(file_of(tmp_path, columns), "label")
    other = propose(file_of(tmp_path, columns | {"label": ["yes"] * 5 + ["no"] * 195}), "label")
    assert found.labelled
    assert not other.labelled
    lines = [line for line in found.to_toml().splitlines() if not line.startswith("classes = ")]
    assert lines == [line for line in other.to_toml().splitlines() if not line.startswith("classes = ")]
    assert found.schema.classes == (() if kind == "continuous" else ("no", "yes"))


def test_the_file_is_named_as_it_is_found_from_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "north").mkdir()
    file = file_of(tmp_path / "north", columns_of())
    assert main(["schema", str(file), "--out", str(tmp_path / "study.toml")]) == 0
    assert len(load(load_scenario(tmp_path / "study.toml").data, 0).labels) == 160


def test_of_very_many_values_the_commonest_are_proposed(tmp_path: Path) -> None:
    columns = columns_of(600) | {"town": [f"t{place % 60}" for place in range(600)]}
    found = propose(file_of(tmp_path, columns), "label")
    assert "town has 60 values: the 50 commonest are kept, others share one" in found.warnings
    assert found.schema.columns[-1].other  # type: ignore[union-attr]


def test_ranges_are_wider_than_the_rows_and_nothing_that_is_never_negative_becomes_so(tmp_path: Path) -> None:
    columns = columns_of() | {"age": ["20", "90"] * 100, "visits": ["0", "7"] * 100}
    found = {column.name: column for column in propose(file_of(tmp_path, columns), "label").schema.columns}
    assert found["age"].range == (10, 100)  # type: ignore[union-attr]
    assert found["visits"].range == (0, 8)  # type: ignore[union-attr]


def test_separators_encodings_and_copies_are_noticed(tmp_path: Path) -> None:
    columns = columns_of() | {"sex": ["männlich", "weiblich"] * 100}
    found = propose(file_of(tmp_path, columns, ";", "cp1252"), "label")
    assert found.schema.separator == ";"
    assert any("separated by ';'" in warning for warning in found.warnings)
    assert any("not UTF-8 but seems to be cp1252" in warning for warning in found.warnings)
    twice = {name: values[:50] * 4 for name, values in columns_of().items()}
    assert any("150 rows are copies of others" in warning for warning in propose(file_of(tmp_path, twice)).warnings)
    commas = columns_of() | {"pressure": [f"{place % 9},{place % 7}" for place in range(200)]}
    found = propose(file_of(tmp_path, commas, ";"), "label")
    assert any("decimal comma" in warning for warning in found.warnings)


def test_a_file_with_another_separator_is_read_by_its_schema(tmp_path: Path) -> None:
    found = propose(file_of(tmp_path, columns_of(), ";"))
    assert load(parse_scenario(found.to_toml()).data, 0, tmp_path).schema.separator == ";"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"visit;sex;age;weight;town;state\n1;f;60;80;Bern;ill\n", "its columns seem to be separated by ';', and ','"),
        (f"{HEADER}\n1,f,60,80,K\xf6ln,ill\n".encode("cp1252"), "is not UTF-8: convert it"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_rows_that_cannot_be_read_are_named_with_what_to_do(tmp_path: Path, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / "mine.csv").write_bytes(content)
    with pytest.raises(RequestError, match=f"mine.csv.* {said}"):
        read_rows(tmp_path / "mine.csv", study(tmp_path).data.schema, Named("state"))


def test_a_continuous_label_is_refused_where_nobody_listed_its_classes(tmp_path: Path) -> None:
    file = file_of(tmp_path, columns_of() | {"label": [str(place / 7) for place in range(200)]})
    with pytest.raises(RequestError, match="label holds 200 different numbers, so that it is continuous"):
        load(parse_scenario(f'[data]\nname = "csv"\npath = "{file}"').data, 0)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "needs a header"), (b"1,2\n3,4\n", "needs a header"), (b"a,b\n1\n", "line 2"), (b"\0\1\2", "is no text")],
)
def test_what_is_no_table_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(RequestError, match=said):
        propose(tmp_path / "x.csv")
