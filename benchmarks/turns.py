"""How benchmarks compare: each thing in a process of its own, all of them in turn, and of each the quickest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

Figures = dict[str, Any]


def apart(file: str, *words: object, environment: Mapping[str, str] | None = None) -> Any:
    """What a benchmark prints as JSON when it is started anew with ``--measure`` and these words."""
    command = [sys.executable, file, "--measure", *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment or os.environ)
    return json.loads(done.stdout)


def quickest(times: int, measure: Mapping[str, Callable[[], Figures]]) -> dict[str, Figures]:
    """Of each the figures with the least ``seconds``; digests, where there are any, must agree."""
    best: dict[str, Figures] = {}
    digests = set()
    for _ in range(times):
        for name, once in measure.items():
            found = once()
            digests.add(found.get("digest"))
            if name not in best or found["seconds"] < best[name]["seconds"]:
                best[name] = found
    assert len(digests) == 1, "not the same noisy data set from everyone"
    return best
