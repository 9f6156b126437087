"""The time axis of a space-time diagram: stretched where much happens, broken where nothing does.

Messages sent at one moment stand below each other in the order of the trace; between two moments time is linear.
"""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections.abc import Iterable

from markupsafe import Markup

from p2p_labeldp.reporting.svg import element, short, text

ROW, BLOCK, BREAK = 9.0, 12.0, 40.0  # units between two messages, more between two moments, and where time is broken
LONG = 5.0  # times the usual pause is one in which nothing happens
AFTER = 16.0  # units that belong to the axis after the last message


class Moments:
    """``rows`` is the height of each message, in the order of their times."""

    def __init__(self, times: Iterable[float], top: float) -> None:
        self.rows: list[float] = []
        self._at: list[tuple[float, float, float]] = []  # time, first height, last height
        self.breaks: list[tuple[float, float]] = []
        """(height, seconds) of each pause that is not drawn to its length."""
        times = list(times)
        distinct = sorted(set(times))
        pauses = [later - earlier for earlier, later in itertools.pairwise(distinct)]
        longest = LONG * statistics.median(pauses) if pauses else math.inf
        y = top
        for time in times:
            if self._at and self._at[-1][0] == time:
                y += ROW
                self._at[-1] = (*self._at[-1][:2], y)
            else:
                pause = time - self._at[-1][0] if self._at else 0.0
                broken = pause > longest
                if broken:
                    self.breaks.append((y + BREAK / 2, pause))
                y += BREAK if broken else BLOCK if self._at else 0.0
                self._at.append((time, y, y))
            self.rows.append(y)
        self.bottom = y + AFTER

    def height(self, time: float) -> float:
        """Where a time stands: above the first message of its moment, or between two moments."""
        times = [moment[0] for moment in self._at]
        after = bisect.bisect_left(times, time)
        if after == len(times):
            return self.bottom
        if times[after] == time or after == 0:
            return self._at[after][1] - 2
        (begin, _, low), (finish, high, _) = self._at[after - 1], self._at[after]
        return low + (high - low) * (time - begin) / (finish - begin)

    def marks(self, left: float, right: float) -> list[Markup]:
        """Times at the side, and a double stroke through everything where the axis is broken."""
        parts: list[Markup] = []
        last = -math.inf
        for time, y, _ in self._at:
            if y - last >= 20:
                parts.append(text(2, y + 4, seconds(time), class_="moment"))
                last = y
        for y, pause in self.breaks:
            across = f"M{short(left - 12)} {short(y)}H{short(right)}"
            parts.append(element("path", d=across, class_="break"))
            edges = "".join(f"M{short(left - 12)} {short(y + shift)}H{short(right)}" for shift in (-3, 3))
            parts.append(
                element("path", element("title", f"{seconds(pause)} in which nothing is sent"), d=edges, class_="edge")
            )
        return parts


def seconds(time: float) -> str:
    return f"{time:.2g} s" if 0 < time < 0.1 else f"{time:.2f} s" if time < 1000 else f"{time:,.0f} s"
