"""Adult: incomes from the census of 1994."""

from p2p_labeldp.data.record import DataSet, files_in
from p2p_labeldp.data.tables import ADULT_FILES, load_adult

DATA_SET = DataSet(
    "census records (adult)",
    lambda data, seed, data_dir: load_adult(data_dir),
    places=files_in("adult", tuple(ADULT_FILES)),
)
