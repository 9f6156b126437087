"""A finished run on a terminal: its summary, its guarantees, what its adversaries achieved."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from p2p_labeldp.cli.output import console, print_json
from p2p_labeldp.cli.tables import print_facts, print_table
from p2p_labeldp.scenario import MECHANISMS

if TYPE_CHECKING:
    from p2p_labeldp.learning import Metrics
    from p2p_labeldp.runs.summary import Attack, Summary


MOST_RECALLS = 12  # labels whose recall is printed one by one


Lines = list[tuple[str, str]]


def finish(summary: Summary, page: Path | None, began: float, *, as_json: bool) -> None:
    """What ``run`` and ``deploy`` print at the end; exit status 1 where some clusters released nothing."""
    if as_json:
        print_json(summary.as_json())
    else:
        print_facts(summary_lines(summary, page, time.perf_counter() - began))
        if summary.attacks:
            _print_attacks(summary.attacks)
    tell_withheld(summary.withheld)


def tell_withheld(clusters: Sequence[int]) -> None:
    """Exit status 1 where some clusters released nothing, since they would not keep the target."""
    if clusters:
        from p2p_labeldp.engines.outcome import withheld_line

        print(f"p2p-labeldp: {withheld_line(clusters)}", file=sys.stderr)
        raise typer.Exit(1)


def summary_lines(summary: Summary, report: Path | None = None, seconds: float | None = None) -> Lines:
    """A run in two dozen lines: with its page, if there is one, and the seconds that the whole command took."""
    return [
        *_users(summary),
        *_exchange(summary),
        *_accuracy(summary),
        *_privacy(summary),
        *_how(summary, report, seconds),
    ]


def _users(summary: Summary) -> Lines:
    sizes = summary.cluster_sizes
    merged = f"; {summary.merged_clusters} too small, merged" if summary.merged_clusters else ""
    span = f"of {sizes.smallest:,} to {sizes.largest:,} users, median {sizes.median or 0:,.0f}{merged}"
    lines = [
        ("users", f"{summary.users:,} with {summary.labels} labels"),
        ("clusters", f"{summary.clusters:,} {span}"),
    ]
    if summary.phi is not None:
        lines.append(("heterogeneity", f"phi = {summary.phi:.4f}"))
    elif summary.purity is not None:  # phi takes p(y|x), which real data do not tell
        lines.append(("purity", f"{summary.purity:.4f} of the users hold their cluster's commonest label"))
    if summary.psi is not None:
        lines.append(("distortion", f"psi = {summary.psi:.4f}"))
    return lines


def _exchange(summary: Summary) -> Lines:
    from p2p_labeldp.reporting.words import DELIVERY

    lines = []
    if summary.messages:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in summary.messages_by_kind.items())
        lines.append(("messages", f"{summary.messages:,}: {kinds}"))
    abstained = sum(outcome["abstained"] for outcome in summary.outcomes_by_round)
    lines.append(("reports", f"{summary.reports:,}" + (f"; {abstained:,} abstained" if abstained else "")))
    if summary.missing:
        shown = ", ".join(map(str, summary.missing[:10]))
        more = ", ..." if len(summary.missing) > 10 else ""
        lines.append(("missing", f"{len(summary.missing):,} users: {shown}{more}"))
    if summary.missing_hosts:
        lines.append(("", "missing hosts: " + ", ".join(summary.missing_hosts)))
    if summary.unreached:
        pairs = [f"{host} to {other}" for host, other in summary.unreached]
        lines.append(("", "connections that were needed and could not be made: " + ", ".join(pairs)))
    if summary.withheld:
        shown = ", ".join(map(str, summary.withheld))
        lines.append(("withheld", f"clusters that released nothing, since the target no longer held: {shown}"))
    if summary.faults:
        lines.append(("faults", ", ".join(f"{fault.rule} {fault.fired:,} times" for fault in summary.faults)))
        told = ", ".join(f"{count:,} {DELIVERY[kind]}" for kind, count in summary.delivery.items())
        lines.append(("", f"{told}; over after {summary.virtual_seconds or 0:.3g} virtual seconds"))
    return lines


def _accuracy(summary: Summary) -> Lines:
    private = f"none: {summary.accuracy_reason}" if summary.accuracy is None else f"{summary.accuracy:.4f}"
    lines = [("accuracy", f"{private} on the noisy labels")]
    if summary.nonprivate_accuracy is not None:
        lines.append(("", f"{summary.nonprivate_accuracy:.4f} without privacy"))
    if summary.majority_accuracy is not None:
        lines.append(("", f"{summary.majority_accuracy:.4f} by always guessing the commonest label"))
    if summary.metrics is not None:
        lines += _beyond_accuracy(summary.metrics, summary.nonprivate_metrics, summary.majority_metrics)
    return lines


def _beyond_accuracy(mine: Metrics, truth: Metrics | None, guess: Metrics | None) -> Lines:
    """Balanced accuracy and the like, each beside what it is without privacy and by guessing, and recall by label."""

    def beside(name: str, digits: int = 4) -> str:
        values = [("", mine), (" without privacy", truth), (" by guessing", guess)]
        told = [(getattr(each, name), words) for words, each in values if each is not None]
        return ", ".join(f"{value:.{digits}f}{words}" for value, words in told if value is not None)

    lines = [("balanced", beside("balanced_accuracy")), ("log loss", beside("log_loss"))]
    if mine.auc is not None:
        lines.append(("AUC", beside("auc")))
    known = [(share, label) for label, share in enumerate(mine.recall) if share is not None]
    if len(known) <= MOST_RECALLS:
        lines.append(("recall", ", ".join(f"{share:.2f}" for share, _ in known) + " by label"))
    else:
        (least, worst), (most, best) = min(known), max(known)
        lines.append(("recall", f"from {least:.2f} (label {worst}) to {most:.2f} (label {best})"))
    return lines


def _privacy(summary: Summary) -> Lines:
    """The headline, then the other views; a reason that several share is told once."""
    from p2p_labeldp.runs.stated import rows

    lines = []
    if not MECHANISMS[summary.mechanism].exchanged:
        lines.append(("trust", f"{summary.mechanism}: {summary.trust}"))
    found = sorted(rows(summary.privacy, summary.mechanism), key=lambda row: row.view != summary.headline)
    one_delta = len({row.delta for row in found}) == 1
    for place, row in enumerate(found):
        at = f", at delta {row.delta}" if not (one_delta and place) else ""
        lines.append(("" if place else "privacy", f"{row.line}{at}"))
    lines += [("", reason) for reason in dict.fromkeys(row.reason for row in found[:1] if row.reason)]
    if summary.person_privacy:
        (whole,) = rows({summary.headline: summary.person_privacy[summary.headline]}, summary.mechanism)
        lines.append(("", f"{whole.line}, at delta {whole.delta}: {whole.reason.partition('; ')[0]}"))
    return lines


def _how(summary: Summary, report: Path | None, seconds: float | None) -> Lines:
    coins = "the operating system's coins" if summary.coins == "system" else "seeded coins"
    if summary.seed is not None:
        coins = f"seed {summary.seed}"
    how = f"the {summary.engine} engine" if summary.hosts is None else f"{summary.hosts} hosts over TLS"
    if summary.workers is not None:
        how += f" over {len(summary.workers)} Dask worker" + ("s" if len(summary.workers) > 1 else "")
    in_all = "" if seconds is None else f"; {seconds:.2f} in all"
    lines = [
        ("noisy data set", summary.noisy_sha256[:16]),
        ("seconds", f"{summary.seconds:.2f} with {how}, {coins}{in_all}"),
        ("run folder", str(summary.out)),
    ]
    if report is not None:
        lines.append(("report", str(report)))
    return lines + [("" if number else "warnings", warning) for number, warning in enumerate(summary.warnings)]


def _print_attacks(attacks: Sequence[Attack]) -> None:
    """What every adversary achieved, beside what is proved to be the most; what a table has no room for, below."""
    from p2p_labeldp.reporting.attacks import RATES_NOTE, told

    head = ("adversary", "view", "advantage", "bound", "TPR at 0.1 %", "bound", "TPR at 1 %", "bound")
    rows = []
    measured = [attack for attack in attacks if attack.advantage is not None]
    for attack in measured:
        assert attack.advantage is not None
        cells = [f"{attack.advantage[0]:.3f}", _bound(attack.bound)]
        for rate in attack.true_rates:
            cells += [f"{rate.value:.3f}" if told(attack, rate) else "-", _bound(rate.bound)]
        rows.append((attack.kind, attack.view, *cells))
    console.print()
    if measured:
        print_table(head, rows, right=range(2, len(head)))
        console.print(RATES_NOTE)
    for attack in attacks:
        console.print(f"{attack.kind}: {_note(attack)}", markup=False)


def _note(attack: Attack) -> str:
    if attack.advantage is not None:
        _, low, high = attack.advantage
        simple = ", ".join(f"{name} {found:.3f}" for name, found in attack.others.items())
        found = f"{low:.3f} to {high:.3f} by {attack.attack} ({simple}), "
        found += f"{attack.trials:,} trials of a cluster of {attack.cluster_size}"
        found += "" if attack.colluders is None else f", {attack.colluders} of them colluders"
        return found + (f"; {attack.note}" if attack.note else "")
    if attack.pushes:
        shares = (attack.honest_share, attack.share)
        said = " to ".join("nothing" if share is None else f"{share:.3f}" for share in shares)
        what = "their labels'" if attack.pushed_label is None else f"label {attack.pushed_label}'s"
        accuracy = attack.honest_accuracy
        learned = "" if accuracy is None else f"; without them accuracy is {accuracy:.4f}"
        return f"{attack.members} users move {what} share of their clusters from {said}{learned}"
    return attack.note


def _bound(value: float | None) -> str:
    from p2p_labeldp.privacy.numbers import rounded_up

    return "none" if value is None else rounded_up(value)
