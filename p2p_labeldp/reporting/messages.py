"""The report's sections on messages: how many of each kind, when, and one cluster's exchange."""

from __future__ import annotations

from collections.abc import Iterator

from p2p_labeldp.privacy.numbers import plural
from p2p_labeldp.protocol.messages import BY_KIND, KINDS
from p2p_labeldp.reporting.blocks import Block, Choice, Chooser, Figure, Note, Row, Section, Table, Text
from p2p_labeldp.reporting.charts import Bars, bars, strips
from p2p_labeldp.reporting.exchanges import MOST_CLUSTERS, MOST_USERS, Exchange, Known, exchanges
from p2p_labeldp.reporting.fates import Fates
from p2p_labeldp.reporting.recorded import Recorded
from p2p_labeldp.reporting.spacetime import spacetime
from p2p_labeldp.reporting.traffic import Traffic, timeline

ASKED = "the one who was asked most, and the users connected to her by questions"
"""Which users of a large cluster are drawn, when all of its messages are known."""


def message_section(recorded: Recorded, traffic: Traffic | None) -> Section:
    summary = recorded.summary
    if not summary.messages:
        why = f"There are no messages: the {summary.engine} engine works on arrays. The actors engine sends them."
        return Section("messages", "Messages", [Text(why)])
    figures = [_by_kind(recorded)]
    blocks: list[Block] = []
    if traffic is None:
        why = "The folder has no trace" if recorded.shown else "The trace is private and left out here"
        blocks.append(Text(f"{why}, so it is not known when messages were sent."))
    elif len(traffic):
        figures.append(_over_time(recorded, traffic))
    blocks.insert(0, Row(figures))
    if traffic is not None and traffic.left_out:
        blocks.append(Note(f"{plural(traffic.left_out, 'record')} of the trace are no valid messages: left out."))
    return Section("messages", "Messages", blocks)


def _by_kind(recorded: Recorded) -> Figure:
    kinds = recorded.summary.messages_by_kind
    ordered = [kind for kind in KINDS if kind in kinds]
    rows = [Bars(f"{kind}: {BY_KIND[kind].record.purpose}", [(kinds[kind], f"{kinds[kind]:,}")]) for kind in ordered]
    told = "; ".join(f"{kind} {kinds[kind]:,}" for kind in ordered)
    chart = bars("kind-chart", "Messages by kind", told, rows)
    caption = f"{recorded.summary.messages:,} messages in all, in the order in which a run sends them."
    cells = [(kind, BY_KIND[kind].record.purpose, f"{kinds[kind]:,}") for kind in ordered]
    data = Table("Messages by kind", ("kind", "what it is for", "messages"), cells, frozenset({2}))
    return Figure("Messages by kind (number)", chart, caption, data)


def _over_time(recorded: Recorded, traffic: Traffic) -> Figure:
    found = timeline(traffic)
    rows = list(found.counts.items())
    if found.by_number:
        across = "messages sent before, in the order of the trace"
        caption = "Messages take no virtual time in this run, so that the axis counts messages instead of seconds."
    elif traffic.wall_clock:
        across = "seconds since the first message (wall clock)"
        caption = "When messages were sent, by the clocks of the hosts, which may differ a little."
    else:
        across = "virtual seconds"
        caption = "When messages were sent, in virtual time, each kind on a scale of its own."
    if not traffic.complete:
        caption += f" The first {len(traffic):,} of {recorded.summary.messages:,} messages."
    told = "; ".join(f"{kind}: {sum(counts):,}, at most {max(counts):,} at once" for kind, counts in rows)
    chart = strips("time-chart", "Messages over time", told, found.edges, rows, across, whole=found.by_number)
    wide = found.edges[1] - found.edges[0]
    cells = []
    for kind, counts in rows:
        busy = max(range(len(counts)), key=counts.__getitem__)
        places = [place for place, count in enumerate(counts) if count]
        cells.append(
            (kind, f"{found.edges[places[0]]:.4g}", f"{found.edges[busy]:.4g}", f"{found.edges[places[-1] + 1]:.4g}")
        )
    head = ("kind", "first from", "most from", "last before")
    data = Table(f"Messages over time, in stretches of {wide:.3g}", head, cells, frozenset({1, 2, 3}))
    return Figure("Messages over time (number)", chart, caption, data)


def exchange_section(recorded: Recorded, traffic: Traffic | None) -> Section | None:
    """The space-time diagrams; nothing where there were no messages."""
    if traffic is None or not len(traffic):
        return None
    found = exchanges(recorded.known, traffic)
    if not found:
        return None
    panels = [(str(exchange.cluster), diagram(recorded.known, traffic, exchange)) for exchange in found]
    options = [
        (str(exchange.cluster), f"cluster {exchange.cluster}: {plural(exchange.size, 'user')}") for exchange in found
    ]
    blocks: list[Block] = []
    intro = (
        "Time runs downwards, one line for each party, one arrow for each message. Point at an arrow, or move to the"
    )
    intro += " diagram and use the arrow keys, to read what it says."
    if len(traffic.rosters) > len(found):
        intro += f" {MOST_CLUSTERS} of {len(traffic.rosters):,} clusters: the smallest, the largest and others between."
    blocks.append(Text(intro))
    readout = "Point at a message to read it."
    blocks.append(Chooser("exchange", [Choice("Cluster", options)], panels, readout))
    return Section("exchange", "One cluster's exchange", blocks)


def diagram(known: Known, traffic: Traffic, exchange: Exchange, which: str = ASKED) -> Figure:
    """One cluster's exchange as a space-time diagram; ``which`` says how its users were chosen."""
    seconds = any(arrow.sent > 0 or (arrow.arrives or 0) > 0 for arrow in exchange.arrows)
    latency = 0.0 if traffic.wall_clock else known.scenario.network.latency
    title = f"Space-time diagram of cluster {exchange.cluster}"
    kinds: dict[str, int] = {}
    for arrow in exchange.arrows:
        kinds[arrow.kind] = kinds.get(arrow.kind, 0) + 1
    told = f"{plural(len(exchange.users), 'user')} and {plural(len(exchange.arrows), 'message')}: "
    told += ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    drawn = spacetime(f"exchange-{exchange.cluster}", title, told, exchange, latency, timed=seconds)
    data = Table("Messages drawn", ("kind", "what it says"), [(arrow.kind, arrow.words) for arrow in exchange.arrows])
    return Figure(title, drawn, _caption(known, traffic, exchange, seconds, which), data)


def _caption(known: Known, traffic: Traffic, exchange: Exchange, seconds: bool, how: str) -> str:
    parts = []
    if exchange.size > len(exchange.users):
        which = f"{len(exchange.users)} of the cluster's {exchange.size:,} users (at most {MOST_USERS})"
        if any(arrow.kind == "ask" for arrow in exchange.arrows):
            which += f": {how}; the rest are “others”"
        parts.append(f"{which}.")
    if exchange.messages > len(exchange.arrows):
        parts.append(f"The first {len(exchange.arrows)} of their {exchange.messages:,} messages.")
    if not traffic.complete:
        parts.append(f"Messages beyond the first {len(traffic):,} of the run were not read.")
    if any(arrow.flipped for arrow in exchange.arrows):
        parts.append("A diamond marks an answer that is not the true label, which only a simulation knows.")
    if any(arrow.dropped for arrow in exchange.arrows):
        parts.append("A circle marks a user who dropped what she was told.")
    if any(arrow.kind == "refusal" for arrow in exchange.arrows):
        parts.append("A cross marks a message that was refused.")
    if exchange.wrong:
        named = ", ".join(f"{user} ({kind})" for user, kind in exchange.wrong.items())
        parts.append(f"A triangle marks who misbehaves: {named}.")
    parts += _disturbed(exchange)
    if seconds:
        parts.append("Time is stretched where many messages are sent, and broken (a double stroke) where none are.")
        if (known.scenario.faults or known.scenario.network.jitter) and not Fates.known(known.scenario):
            parts.append("Where the arrival time is unknown, the arrow shows the minimum latency.")
    else:
        parts.append("Messages take no time here: the order is that of the trace.")
    return " ".join(parts)


def _disturbed(exchange: Exchange) -> Iterator[str]:
    """What faults look like, of those that are drawn."""
    if any(absence.cut_off for absence in exchange.absences):
        yield "Users in the shade are cut off."
    if any(not absence.cut_off for absence in exchange.absences):
        yield "The line of a user who is down is dotted, and begins with a cross."
    if any(arrow.lost for arrow in exchange.arrows):
        yield "A stub is an attempt that was lost: the message is sent again until one gets through."
    if any(arrow.never for arrow in exchange.arrows):
        yield "An arrow that ends half-way in a cross never arrived."
