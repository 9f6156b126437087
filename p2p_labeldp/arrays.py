"""Arrays that rooms hand each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int64]
"""A whole number for each of some users: her label, her cluster, or her id."""
Doubles = NDArray[np.float64]
Matrix = NDArray[np.floating]
"""A row of features for each of some users, in either precision."""
