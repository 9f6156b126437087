"""A space-time diagram: a vertical lifeline for each party, time downwards, every message an arrow.

The time axis is stretched where much happens: messages sent at one moment stand below each other in the order of the
trace, and the moments are written at the side. An arrow ends where its receiver sent what followed from it; where that
is not known it ends after the network's latency, the least a message takes.
"""

from __future__ import annotations

import bisect
import math

from markupsafe import Markup

from p2p_labeldp.protocol.messages import BY_KIND, COORDINATOR, LEARNER, PARTIES, USER, Message
from p2p_labeldp.reporting.exchanges import OTHERS, Arrow, Exchange
from p2p_labeldp.reporting.svg import GLYPH, WIDTH, drawing, element, line, short, text

ROW, BLOCK = 9.0, 12.0  # units between two messages, and more between two moments
HEAD = 74.0
NAMES = {address: name for name, address in PARTIES.items()} | {OTHERS: "others"}
KEY = (("ask", "question"), ("answer", "answer"), ("report", "report"), ("rest", "everything else"))
HANDED = (("answer", "handed over"), ("report", "passed on"), ("rest", "everything else"))


def spacetime(name: str, title: str, description: str, exchange: Exchange, latency: float, *, seconds: bool) -> Markup:
    """Draw it; without ``seconds`` no time passes and the order alone is shown."""
    lanes = _lanes(exchange)
    rows, moments = _rows(exchange.arrows)
    left = 60.0 if seconds else 26.0
    step = (WIDTH - left - 26) / max(1, len(lanes) - 1)
    xs = {lane: left + step * place for place, lane in enumerate(lanes)}
    bottom = max(rows, default=HEAD) + 26
    handed = any(arrow.kind == "submit" for arrow in exchange.arrows)
    parts = [_key(HANDED if handed else KEY), *_heads(lanes, xs, bottom), *(_moments(moments) if seconds else [])]
    signs = []
    for place, arrow in enumerate(exchange.arrows):
        x, y = xs[arrow.sender], rows[place]
        if arrow.kind == "refusal":
            signs.append(_sign(x, y, "refused", arrow.words))
            continue
        end = _end(arrow, rows, place, moments, latency)
        parts.append(_arrow(x, y, xs[arrow.receiver], end, step, arrow))
        if arrow.flipped:
            signs.append(_sign(x, y, "flipped", ""))
        if arrow.dropped:
            signs.append(_sign(x, y, "dropped", ""))
    return drawing(name, title, description, bottom + 8, *parts, *signs)


def _lanes(exchange: Exchange) -> list[int]:
    """The coordinator on the left, then users, then others, and who receives labels on the right."""
    parties = exchange.parties
    return [*(p for p in parties if p == COORDINATOR), *exchange.users, *(p for p in parties if p != COORDINATOR)]


def _rows(arrows: tuple[Arrow, ...]) -> tuple[list[float], list[tuple[float, float, float]]]:
    """The height of every arrow's start, and (time, first height, last height) of every moment."""
    rows: list[float] = []
    moments: list[tuple[float, float, float]] = []
    y = HEAD + 14
    for arrow in arrows:
        if moments and moments[-1][0] == arrow.sent:
            y += ROW
            moments[-1] = (*moments[-1][:2], y)
        else:
            y += BLOCK if moments else 0
            moments.append((arrow.sent, y, y))
        rows.append(y)
    return rows, moments


def _end(
    arrow: Arrow, rows: list[float], place: int, moments: list[tuple[float, float, float]], latency: float
) -> float:
    if arrow.then is not None:
        return max(rows[place] + 3, rows[arrow.then] - 1)
    arrives = arrow.sent + latency
    times = [moment[0] for moment in moments]
    after = bisect.bisect_left(times, arrives)
    if after == len(moments):
        end = moments[-1][2] + 16
    elif times[after] == arrives or after == 0:
        end = moments[after][1] - 2
    else:
        (begin, _, low), (finish, high, _) = moments[after - 1], moments[after]
        end = low + (high - low) * (arrives - begin) / (finish - begin)
    return max(rows[place] + 6, end)


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


def _moments(moments: list[tuple[float, float, float]]) -> list[Markup]:
    parts: list[Markup] = []
    last = -math.inf
    for time, y, _ in moments:
        if y - last >= 20:
            parts.append(text(2, y + 4, _seconds(time), class_="moment"))
            last = y
    return parts


def _seconds(time: float) -> str:
    return f"{time:.2g} s" if 0 < time < 0.1 else f"{time:.2f} s" if time < 1000 else f"{time:,.0f} s"


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
        return "report" if LEARNER in message.receivers else "answer"
    return "ask" if USER in message.senders and USER in message.receivers else "rest"


def _sign(x: float, y: float, kind: str, words: str) -> Markup:
    children = [element("title", words)] if words else []
    if kind == "flipped":
        shape = f"M{short(x)} {short(y - 4.5)}l4.5 4.5l-4.5 4.5l-4.5 -4.5z"
    elif kind == "dropped":
        shape = f"M{short(x - 3.5)} {short(y)}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0"
    else:
        shape = f"M{short(x - 4)} {short(y - 4)}l8 8m0 -8l-8 8"
    return element("path", *children, d=shape, class_=f"sign {kind}" + (" message" if words else ""))
