"""Diabetes 130-US hospitals: stays in hospital, and whether the patient came back."""

from p2p_labeldp.data.record import DataSet, Target, files_in
from p2p_labeldp.data.tables import DIABETES_ARCHIVE, load_diabetes130

DATA_SET = DataSet(
    "hospital records (diabetes130)",
    load_diabetes130,
    {
        "early": Target(("not within 30 days", "within 30 days"), (0, 0, 1)),
        "any": Target(("not readmitted", "readmitted"), (0, 1, 1)),
    },
    files_in("diabetes-130", (DIABETES_ARCHIVE,)),
)
