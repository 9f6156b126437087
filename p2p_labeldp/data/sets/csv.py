"""A CSV file of the user's own."""

from pathlib import Path

from p2p_labeldp.data.csvfile import load_csv
from p2p_labeldp.data.files import folders
from p2p_labeldp.data.record import DataSet, Places
from p2p_labeldp.scenario import Data


def _places(data: Data, data_dir: Path | None) -> Places:
    candidates = [Path(data.path), *(folder / data.path for folder in folders(data_dir))]
    found = next((candidate for candidate in candidates if candidate.is_file()), None)
    return {data.path: found} if data.path else {}


DATA_SET = DataSet(
    "a CSV file",
    load_csv,
    places=_places,
)
