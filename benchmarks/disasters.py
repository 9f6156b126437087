"""How many seeds a simulated world needs to find each of the planted bugs, and which it does not find in 1,000."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "helpers"))

from planted_disasters import BUGS

from p2p_labeldp.deployment.simulated.run import simulate

MOST = 1000


def main(names: list[str]) -> int:
    unfound = []
    for name in names or BUGS:
        begun = time.process_time()
        with pytest.MonkeyPatch.context() as patch:
            BUGS[name](patch)
            found = next(((seed, what) for seed in range(MOST) if (what := simulate(seed).failures)), None)
        spent = time.process_time() - begun
        if found is None:
            unfound.append(name)
        what = f"seed {found[0]:4}: {found[1][0]}" if found else f"NOT FOUND in {MOST} seeds"
        print(f"{name:<45} {spent:6.1f} s  {what}", flush=True)
    tried = len(names or BUGS)
    print(f"{tried - len(unfound)} of {tried} found; not found: {', '.join(unfound) or 'none'}")
    return 1 if unfound else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
