"""One thread of the linear algebra libraries, where results or speed would depend on how many there are.

How many threads share a sum decides in which order it is taken, and so its last digits; and of many small products a
second thread would spin more than it computes. To find the libraries takes milliseconds, so it is done again only when
modules have been imported since, which may have brought libraries of their own.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[Any]:
    limit: AbstractContextManager[Any] = _libraries(len(sys.modules)).limit(limits=1)
    return limit


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    return ThreadpoolController()
