"""A space-time diagram: a vertical lifeline for each party, time downwards, every message an arrow.

The time axis is stretched where much happens and broken where nothing does: messages sent at one moment stand below
each other in the order of the trace, and between two moments time is linear. Users who are cut off stand in the shade,
the lines of those who are down are dotted, and those who misbehave have a sign. Attempts that were lost are stubs. An
arrow ends where its receiver sent what followed from it, or when it arrived; where neither is known it ends after the
network's latency, the least a message takes.
"""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections.abc import Iterable, Iterator

from markupsafe import Markup

from p2p_labeldp.protocol.messages import BY_KIND, COORDINATOR, LEARNER, PARTIES, USER, Message
from p2p_labeldp.reporting.exchanges import OTHERS, Arrow, Exchange
from p2p_labeldp.reporting.fates import Absence
from p2p_labeldp.reporting.svg import GLYPH, WIDTH, drawing, element, line, short, text

HEAD = 74.0
NAMES = {address: name for name, address in PARTIES.items()} | {OTHERS: "others"}
KEY = (("ask", "question"), ("answer", "answer"), ("report", "report"), ("rest", "everything else"))
HANDED = (("answer", "handed over"), ("report", "passed on"), ("rest", "everything else"))
ROW, BLOCK, BREAK = 9.0, 12.0, 40.0  # units between two messages, more between two moments, and where time is broken
LONG = 5.0  # times the usual pause is one in which nothing happens
AFTER = 16.0  # units that belong to the axis after the last message


def spacetime(name: str, title: str, description: str, exchange: Exchange, latency: float, *, timed: bool) -> Markup:
    """Draw it; where it is not ``timed`` no time passes and the order alone is shown."""
    lanes = _lanes(exchange)
    moments = Moments((arrow.sent for arrow in exchange.arrows), HEAD + 14)
    left = 60.0 if timed else 26.0
    step = (WIDTH - left - 26) / max(1, len(lanes) - 1)
    xs = {lane: left + step * place for place, lane in enumerate(lanes)}
    bottom = moments.bottom + 10
    handed = any(arrow.kind == "submit" for arrow in exchange.arrows)
    parts = [_key(HANDED if handed else KEY)]
    away = exchange.absences if timed else ()
    parts += [_absence(each, xs[each.user], step, moments) for each in away if each.cut_off]
    parts += _heads(lanes, xs, bottom)
    if timed:
        parts += [_absence(each, xs[each.user], step, moments) for each in away if not each.cut_off]
        parts += moments.marks(left, WIDTH)
    signs = [_sign(xs[user], HEAD + 8, "wrong", f"user {user}: {words}") for user, words in exchange.wrong.items()]
    for place, arrow in enumerate(exchange.arrows):
        x, y, to = xs[arrow.sender], moments.rows[place], xs[arrow.receiver]
        if arrow.kind == "refusal":
            signs.append(_sign(x, y, "refused", arrow.words))
            continue
        if arrow.never:
            to, end = (x + to) / 2, y + 6
            signs.append(_sign(to, end, "refused", arrow.words))
        else:
            end = _end(arrow, place, moments, latency)
        parts.append(_arrow(x, y, to, end, step, arrow))
        signs += _attempts(arrow, x, xs[arrow.receiver], y, moments)
        if arrow.flipped:
            signs.append(_sign(x, y, "flipped", ""))
        if arrow.dropped:
            signs.append(_sign(x, y, "dropped", ""))
    return drawing(name, title, description, bottom + 8, *parts, *signs)


def _lanes(exchange: Exchange) -> list[int]:
    """The coordinator on the left, then users, then others, and who receives labels on the right."""
    parties = exchange.parties
    return [*(p for p in parties if p == COORDINATOR), *exchange.users, *(p for p in parties if p != COORDINATOR)]


def _end(arrow: Arrow, place: int, moments: Moments, latency: float) -> float:
    rows = moments.rows
    if arrow.then is not None:
        return max(rows[place] + 3, rows[arrow.then] - 1)
    arrives = arrow.sent + latency if arrow.arrives is None else arrow.arrives
    return max(rows[place] + 6, moments.height(arrives))


def _key(signs: tuple[tuple[str, str], ...]) -> Markup:
    parts = []
    x = 4.0
    for style, words in signs:
        parts += [line(x, 9, x + 20, 9, f"message {style}"), text(x + 25, 13.5, words)]
        x += 42 + len(words) * GLYPH
    return Markup("").join(parts)


def _heads(lanes: list[int], xs: dict[int, float], bottom: float) -> list[Markup]:
    """Lifelines and their names; neighbours' names stand at different heights, so that long ones fit."""
    parts = []
    for place, lane in enumerate(lanes):
        x = xs[lane]
        low = HEAD - (34 if lane in (COORDINATOR, LEARNER) else 0 if place % 2 else 16)
        words = NAMES[lane] if lane < 0 else str(lane)
        half = len(words) * GLYPH / 2
        anchor = "start" if x - half < 2 else "end" if x + half > WIDTH - 2 else "middle"
        spot = 2.0 if anchor == "start" else WIDTH - 2.0 if anchor == "end" else x
        parts.append(line(x, low + 4, x, bottom, "life" if lane >= 0 else "life party"))
        parts.append(text(spot, low, words, anchor=anchor, class_="lane" if lane >= 0 else "lane party"))
    return parts


def _absence(absence: Absence, x: float, step: float, moments: Moments) -> Markup:
    """A user who is cut off stands in the shade; the line of one who is down is dotted, and begins with a cross."""
    begin, end = (max(HEAD + 4, moments.height(time)) for time in (absence.since, absence.until))
    until = "the end" if absence.until == math.inf else seconds(absence.until)
    how = "cut off" if absence.cut_off else "down"
    words = element("title", f"user {absence.user} is {how} from {seconds(absence.since)} to {until}")
    if absence.cut_off:
        wide = min(26.0, 0.8 * step)
        return element("rect", words, x=x - wide / 2, y=begin, width=wide, height=end - begin, class_="cut")
    dots = element("line", words, x1=x, y1=begin, x2=x, y2=end, class_="down")
    return Markup("").join((dots, _sign(x, begin, "refused", "") if begin < end else Markup("")))


def _attempts(arrow: Arrow, x: float, to: float, y: float, moments: Moments) -> Iterator[Markup]:
    """A stub that ends in a cross for every attempt that was lost, but for those on top of each other."""
    out = math.copysign(10.0, to - x)
    last = -math.inf
    for time in arrow.lost:
        at = max(y, moments.height(time)) if time > arrow.sent else y
        if at - last >= 5:
            last = at
            shape = f"M{short(x)} {short(at)}l{short(out)} 2m-2.5 -2.5l5 5m0 -5l-5 5"
            yield element("path", d=shape, class_="attempt")


def _arrow(x: float, y: float, to: float, end: float, step: float, arrow: Arrow) -> Markup:
    style = f"message {_style(BY_KIND[arrow.kind])}"
    if arrow.sender == arrow.receiver:
        out = x + min(16.0, step * 0.6)
        path = f"M{short(x)} {short(y)}C{short(out)} {short(y)} {short(out)} {short(end)} {short(x + 1)} {short(end)}"
        angle = math.pi
    else:
        path = f"M{short(x)} {short(y)}L{short(to)} {short(end)}"
        angle = math.atan2(end - y, to - x)
    for turn in (2.7, -2.7):
        path += f"M{short(to)} {short(end)}l{short(6 * math.cos(angle + turn))} {short(6 * math.sin(angle + turn))}"
    return element("path", element("title", arrow.words), d=path, class_=style)


def _style(message: type[Message]) -> str:
    """A label on its way to the learner, a label elsewhere, other messages between users, and the rest."""
    if "label" in message.__struct_fields__:
        return "report" if LEARNER in message.record.receivers else "answer"
    return "ask" if USER in message.record.senders and USER in message.record.receivers else "rest"


def _sign(x: float, y: float, kind: str, words: str) -> Markup:
    children = [element("title", words)] if words else []
    if kind == "flipped":
        shape = f"M{short(x)} {short(y - 4.5)}l4.5 4.5l-4.5 4.5l-4.5 -4.5z"
    elif kind == "wrong":
        shape = f"M{short(x)} {short(y - 5)}l5 9h-10z"
    elif kind == "dropped":
        shape = f"M{short(x - 3.5)} {short(y)}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0"
    else:
        shape = f"M{short(x - 4)} {short(y - 4)}l8 8m0 -8l-8 8"
    return element("path", *children, d=shape, class_=f"sign {kind}" + (" message" if words else ""))


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
