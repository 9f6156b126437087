"""The report's section on clusters: their sizes, and label shares before and after."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.privacy.numbers import plural
from p2p_labeldp.reporting.blocks import Block, Figure, Row, Section, Table, Text
from p2p_labeldp.reporting.charts import Bars, Dots, bars, columns, dot_rows
from p2p_labeldp.reporting.exchanges import chosen_clusters
from p2p_labeldp.reporting.plots import Axis
from p2p_labeldp.reporting.recorded import Recorded
from p2p_labeldp.reporting.traffic import Traffic

MOST_LABELS, MOST_CLUSTERS = 12, 12
EACH = 40
"""Up to so many clusters have a column of their own; more make a histogram."""

Floats = NDArray[np.float64]


def cluster_section(recorded: Recorded, traffic: Traffic | None) -> Section:
    summary = recorded.summary
    blocks: list[Block] = []
    sizes = _sizes(recorded, traffic)
    figures = []
    if sizes is not None and len(sizes):
        figures.append(_size_figure(recorded, sizes))
    elif summary.cluster_sizes is not None:
        known = summary.cluster_sizes
        blocks.append(Text(f"Clusters have {known.smallest:,} to {known.largest:,} users."))
    if summary.reports == 0:
        blocks.append(Text("Nothing was reported, so that there are no label shares to compare."))
    elif recorded.reports is None:
        blocks.append(Text("Label shares are not counted here: there are too many reports, or the folder has none."))
    else:
        figures.append(_overall(recorded, recorded.reports["label"]))
        if recorded.clusters is not None and recorded.true_labels is not None:
            figures.append(_by_cluster(recorded, recorded.clusters, recorded.true_labels, recorded.reports))
    if figures:
        blocks.append(Row(figures))
    if summary.psi is not None:
        blocks.append(
            Text(
                f"psi = {summary.psi:.4f}: in the worst cluster, reported label shares are so far from the true ones, "
                "summed over labels (0: equal, 2: nothing in common). Flips pull shares towards each other, and who "
                "asks whom adds chance."
            )
        )
    if summary.phi is not None:
        blocks.append(
            Text(
                f"phi = {summary.phi:.4f}: the mean distance between users' own label probabilities and their "
                "cluster's (0: all users of a cluster are alike). The smaller it is, the less is lost by the exchange."
            )
        )
    elif summary.purity is not None:
        blocks.append(
            Text(
                f"Purity {summary.purity:.4f}: the share of users who hold their cluster's commonest label. phi, the "
                "distance of users' own label probabilities from their cluster's, needs p(y|x), which real data lack."
            )
        )
    return Section("clusters", "Clusters and labels", blocks)


def _sizes(recorded: Recorded, traffic: Traffic | None) -> dict[int, int] | None:
    if recorded.clusters is not None:
        return _counted(recorded.clusters)
    if traffic is not None and traffic.rosters:
        return {cluster: len(members) for cluster, members in traffic.rosters.items()}
    return None


def _counted(clusters: NDArray[np.int64]) -> dict[int, int]:
    return {cluster: count for cluster, count in enumerate(np.bincount(clusters[clusters >= 0]).tolist()) if count}


def _size_figure(recorded: Recorded, sizes: dict[int, int]) -> Figure:
    scenario = recorded.scenario
    least = scenario.clusters.minimum_size if scenario.defences.abstain else 0
    ordered = sorted((size, cluster) for cluster, size in sizes.items())
    small = sum(size < least for size, _ in ordered)
    span = f"{ordered[0][0]:,}" if ordered[0][0] == ordered[-1][0] else f"{ordered[0][0]:,} to {ordered[-1][0]:,}"
    said = f"{plural(len(sizes), 'cluster')} of {span} users"
    if len(sizes) <= EACH:
        edges = [place + 0.5 for place in range(len(sizes) + 1)]
        across = "clusters, smallest first"
        chart = columns(
            "size-chart", "Cluster sizes", said, edges, [size for size, _ in ordered], across, "users",
            level=float(least) if least > 1 else None,
        )  # fmt: skip
        caption = f"{said}. As a rule the smallest ones protect least."
        caption += f" The line is the minimum, {least:,}: users abstain below it." if least > 1 else ""
        rows = [(f"{cluster}", f"{size:,}") for size, cluster in ordered]
        data = Table("Cluster sizes", ("cluster", "users"), rows, frozenset({0, 1}))
    else:
        counts, edges_ = np.histogram([size for size, _ in ordered], bins=min(24, 1 + ordered[-1][0] - ordered[0][0]))
        chart = columns(
            "size-chart", "Cluster sizes", said, edges_.tolist(), counts.tolist(), "users in a cluster", "clusters"
        )
        caption = f"{said}. As a rule the smallest ones protect least."
        rows = [
            (f"{low:,.0f} to {high:,.0f}", f"{count:,}")
            for low, high, count in zip(edges_[:-1].tolist(), edges_[1:].tolist(), counts.tolist(), strict=True)
        ]
        data = Table("Cluster sizes", ("users in a cluster", "clusters"), rows, frozenset({1}))
    if small:
        caption += f" {plural(small, 'cluster')} fell short of {least:,} users and abstained."
    return Figure("Cluster sizes (users)", chart, caption, data)


def _shares(labels: NDArray[np.int64], count: int) -> Floats:
    return np.bincount(labels, minlength=count) / max(1, len(labels))


def _overall(recorded: Recorded, reported: NDArray[np.int64]) -> Figure:
    count = recorded.summary.labels
    after = _shares(reported, count)
    before = None if recorded.true_labels is None else _shares(recorded.true_labels, count)
    order = np.argsort(-(after if before is None else before), kind="stable")[:MOST_LABELS].tolist()
    more = f" The {MOST_LABELS} commonest of {count:,} labels." if count > MOST_LABELS else ""
    title = "Label shares (per cent)"
    shares = {"reported": after} if before is None else {"true": before, "reported": after}
    rows = [
        Bars(
            recorded.classes[label],
            [(float(each[label]), f"{100 * each[label]:.1f} %") for each in shares.values()],
            style=2 - len(shares),
        )
        for label in order
    ]
    told = "; ".join(
        f"{row.label}: " + ", ".join(f"{words} {name}" for name, (_, words) in zip(shares, row.values, strict=True))
        for row in rows
    )
    legend = [] if before is None else [f"{name} labels" for name in shares]
    chart = bars("share-chart", "Label shares", told, rows, legend=legend)
    if before is None:
        known = "known here: only a simulation knows them" if recorded.shown else "shown: they are real people's"
        caption = f"What was reported, flips and all. True labels are not {known}."
    else:
        caption = "Everyone's true label, which only a simulation knows, beside what the learner received."
    cells = [(recorded.classes[label], *(f"{100 * each[label]:.2f} %" for each in shares.values())) for label in order]
    data = Table(title, ("label", *shares), cells, frozenset(range(1, len(shares) + 1)))
    return Figure(title, chart, caption + more, data)


def _by_cluster(
    recorded: Recorded,
    clusters: NDArray[np.int64],
    true_labels: NDArray[np.int64],
    reports: dict[str, NDArray[np.int64]],
) -> Figure:
    """The commonest label of each cluster, before and after."""
    sizes = _counted(clusters)
    chosen = sorted(chosen_clusters(sizes, MOST_CLUSTERS))
    home = clusters[reports["user"]]
    rows, cells = [], []
    for cluster in chosen:
        before = _shares(true_labels[clusters == cluster], recorded.summary.labels)
        here = reports["label"][home == cluster]
        label = int(before.argmax())
        after = float(np.mean(here == label)) if len(here) else None
        name = f"cluster {cluster}: {recorded.classes[label]}"
        said = "nothing reported" if after is None else f"{before[label]:.2f} → {after:.2f}"
        rows.append(Dots(name, before=float(before[label]), after=after, words=said))
        cells.append(
            (
                f"{cluster}",
                f"{sizes[cluster]:,}",
                recorded.classes[label],
                f"{before[label]:.4f}",
                "none" if after is None else f"{after:.4f}",
            )
        )
    legend = (("before", "true share"), ("after", "reported share"))
    told = "; ".join(f"{row.label}, {row.words}" for row in rows)
    chart = dot_rows(
        "cluster-share-chart", "Share of each cluster's commonest label", told, rows,
        Axis("share of the cluster's commonest label", 0.0, 1.0), legend,
    )  # fmt: skip
    caption = (
        "How well each cluster's own mix of labels survives: the commonest true label's share, and the same label's"
    )
    caption += " share among its reports."
    if len(sizes) > MOST_CLUSTERS:
        caption += f" {MOST_CLUSTERS} of {len(sizes):,} clusters: the smallest, the largest and others between."
    head = ("cluster", "users", "commonest label", "true share", "reported share")
    data = Table("Label shares by cluster", head, cells, frozenset({0, 1, 3, 4}))
    return Figure("Each cluster's commonest label (share)", chart, caption, data)
