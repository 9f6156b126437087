"""Diabetes 130-US hospitals: stays in hospital, and whether the patient came back.

A row is an encounter and a patient may have several. No patient is in both the training and
the test set, yet she may be several users: the guarantee is for one encounter's label, unless data.person_column
says that all of a patient's are to be accounted for together.
"""

import csv
import io
import zipfile
import zlib
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.data.dataset import Source, codes
from p2p_labeldp.data.files import Files, strings_of_openml
from p2p_labeldp.data.record import DataSet, Target
from p2p_labeldp.data.splits import split_by_owner
from p2p_labeldp.data.tabular import Column, without_schema
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Data
from p2p_labeldp.scenario.schema import MISSING

FILES = Files("diabetes-130", ("dataset_diabetes.zip",), openml=4541)
DIABETES_MEMBER = "dataset_diabetes/diabetic_data.csv"
DIABETES_CLASSES = ("NO", ">30", "<30")
DIABETES_NUMBERS = (
    "time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications", "number_outpatient",
    "number_emergency", "number_inpatient", "number_diagnoses",
)  # fmt: skip
DIABETES_DIAGNOSES = ("diag_1", "diag_2", "diag_3")
DIABETES_DRUGS = (
    "metformin", "repaglinide", "nateglinide", "chlorpropamide", "glimepiride", "acetohexamide", "glipizide",
    "glyburide", "tolbutamide", "pioglitazone", "rosiglitazone", "acarbose", "miglitol", "troglitazone",
    "tolazamide", "insulin", "glyburide-metformin", "glipizide-metformin",
)  # fmt: skip
# Not here: encounter_id and patient_nbr (identifiers), weight (97 % missing), drugs that at most two got.
DIABETES_CATEGORIES = (
    "race", "gender", "admission_type_id", "discharge_disposition_id", "admission_source_id", "payer_code",
    "medical_specialty", "max_glu_serum", "A1Cresult", *DIABETES_DRUGS, "change", "diabetesMed",
)  # fmt: skip
DIABETES_NEEDED = ("patient_nbr", "age", *DIABETES_NUMBERS, *DIABETES_DIAGNOSES, *DIABETES_CATEGORIES)
DIABETES_FEWEST = 200

# ICD-9 chapters by their last three-digit code; diabetes itself, 250, stands on its own.
_CHAPTERS = (
    (139, "infections"), (239, "neoplasms"), (279, "endocrine"), (289, "blood"), (319, "mental"),
    (389, "nervous"), (459, "circulatory"), (519, "respiratory"), (579, "digestive"), (629, "genitourinary"),
    (679, "pregnancy"), (709, "skin"), (739, "musculoskeletal"), (759, "congenital"), (779, "perinatal"),
    (799, "symptoms"), (999, "injury"),
)  # fmt: skip


def load(data: Data, seed: int, data_dir: Path | None) -> Source:
    if data.person_column not in ("", "patient_nbr"):
        raise RequestError(f"data.person_column is {data.person_column!r}; diabetes130 knows patient_nbr")
    found = _load(data_dir, seed, data.test_fraction)
    return found if data.person_column else replace(found, persons=None)


def _load(data_dir: Path | None, seed: int, test_fraction: float) -> Source:
    files = FILES.find(data_dir)
    if files is None:
        bunch = FILES.fetch(data_dir)
        columns = strings_of_openml(bunch, DIABETES_NEEDED)
        columns["readmitted"] = [str(label) for label in bunch.target]
        return _diabetes_source(columns, "OpenML data set 4541", seed, test_fraction)
    (path,) = files
    return _diabetes_source(_read_diabetes(path), str(path), seed, test_fraction)


@cache
def icd9_chapter(code: str) -> str:
    """The chapter of an ICD-9 code such as 250.83, V45 or E885; ``?`` where it is missing or no code."""
    if code[:1] in ("E", "V"):
        return "external causes" if code[0] == "E" else "supplementary"
    whole = code.partition(".")[0]
    if not (whole.isascii() and whole.isdigit()):
        return MISSING
    number = int(whole)
    if number == 250:
        return "diabetes"
    return next((name for last, name in _CHAPTERS if 1 <= number <= last), MISSING)


def _read_diabetes(path: Path) -> dict[str, list[str]]:
    try:
        with zipfile.ZipFile(path) as archive:
            text = archive.read(DIABETES_MEMBER).decode("utf-8")
    except KeyError as error:
        raise RequestError(f"{path} lacks {DIABETES_MEMBER}") from error
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, UnicodeDecodeError, NotImplementedError) as error:
        raise RequestError(f"{path} is cut short or damaged: {' '.join(str(error).split())}") from error
    reader = csv.reader(io.StringIO(text, newline=""))
    header = next(reader, [])
    missing = [name for name in (*DIABETES_NEEDED, "readmitted") if name not in header]
    if missing:
        raise RequestError(f"{path}: {DIABETES_MEMBER} lacks the column {missing[0]}")
    rows = [row for row in reader if row]
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise RequestError(f"{path}: {DIABETES_MEMBER} row {number} has {len(row)} fields, not {len(header)}")
    if not rows:
        raise RequestError(f"{path}: {DIABETES_MEMBER} has no rows")
    columns = [list(column) for column in zip(*rows, strict=True)]
    return dict(zip(header, columns, strict=True))


def _diabetes_source(columns: dict[str, list[str]], origin: str, seed: int, test_fraction: float) -> Source:
    try:
        labels = codes(columns["readmitted"], DIABETES_CLASSES)
    except KeyError:
        # Not quoted: a label has no place in a log, where this may end.
        raise RequestError(f"{origin}: readmitted has another value than {', '.join(DIABETES_CLASSES)}") from None
    table: dict[str, Column] = {"age": _decades(columns["age"], origin)}
    table |= {name: _numbers(columns[name], name, origin) for name in DIABETES_NUMBERS}
    table |= {name: [icd9_chapter(code) for code in columns[name]] for name in DIABETES_DIAGNOSES}
    table |= {name: columns[name] for name in DIABETES_CATEGORIES}
    patients = np.array(columns["patient_nbr"])
    if (patients == patients[0]).all():
        raise RequestError(f"{origin}: one patient only; one to learn from and one to test on are needed")
    train, test = split_by_owner(patients, seed, test_fraction)
    return without_schema(table, labels, DIABETES_CLASSES, train, test, DIABETES_FEWEST, persons=patients[train])


def _decades(values: list[str], origin: str) -> NDArray[np.float64]:
    middle = {f"[{decade}-{decade + 10})": decade + 5.0 for decade in range(0, 100, 10)}
    try:
        return np.array([middle[value] for value in values])
    except KeyError as error:
        raise RequestError(f"{origin}: age is {error}, not a decade such as [70-80)") from error


def _numbers(values: list[str], name: str, origin: str) -> NDArray[np.float64]:
    for value in values:
        if not (value.isascii() and value.isdigit()):
            raise RequestError(f"{origin}: {name} is {value!r}, not a number")
    return np.array(values, dtype=np.float64)


DATA_SET = DataSet(
    "hospital records (diabetes130)",
    load,
    {
        "early": Target(("not within 30 days", "within 30 days"), (0, 0, 1)),
        "any": Target(("not readmitted", "readmitted"), (0, 1, 1)),
    },
    FILES.places,
)
