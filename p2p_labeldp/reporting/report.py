"""The report of one run: its sections, made from the run folder alone, so that a folder has one report.

Nothing here depends on the clock, on the machine or on where the folder is.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from p2p_labeldp.privacy.numbers import plural, rounded_up, shown_epsilon
from p2p_labeldp.reporting import words
from p2p_labeldp.reporting.attacks import attack_section
from p2p_labeldp.reporting.blocks import Block, Code, Figure, Note, Page, Section, Table, Terms, Text
from p2p_labeldp.reporting.charts import Bars, bars
from p2p_labeldp.reporting.labels import cluster_section
from p2p_labeldp.reporting.messages import exchange_section, message_section
from p2p_labeldp.reporting.privacy import privacy_section, target, verdict
from p2p_labeldp.reporting.recorded import Recorded, read_run
from p2p_labeldp.reporting.traffic import Traffic, read_traffic
from p2p_labeldp.runs.stated import who
from p2p_labeldp.runs.summary import Counted, Summary
from p2p_labeldp.scenario import FAULTS

MOST_MISSING = 20


BANNER = (
    "This page shows true labels of real people, their flips and whom they asked: keep it as you keep the labels "
    "themselves."
)


def run_page(path: Path, *, show_true_labels: bool = False) -> Page:
    """The page of a run folder; one line says what is wrong with a folder that has none."""
    recorded = read_run(path, show_true_labels=show_true_labels)
    traffic = None if recorded.trace is None else read_traffic(recorded.trace, recorded.summary.users)
    return page_of(recorded, traffic)


def page_of(recorded: Recorded, traffic: Traffic | None) -> Page:
    summary = recorded.summary
    sections = [
        privacy_section(recorded),
        _accuracy(summary),
        cluster_section(recorded, traffic),
        message_section(recorded, traffic),
        exchange_section(recorded, traffic),
        attack_section(recorded),
        _troubles(recorded),
        _again(recorded),
        Section("glossary", "Glossary", [Terms(words.GLOSSARY)]),
    ]
    footer = "Made by p2p-labeldp from the files of the run folder alone."
    if recorded.deployed and recorded.shown:
        footer += (
            " It shows labels that single users answered with, as the auditor saw them: keep it as you keep the trace."
        )
    elif recorded.true_labels is not None:
        footer += " It shows true labels, which only a simulation knows."
    elif not recorded.shown:
        footer += " It leaves out true labels, flips and who asked whom, which are real people's."
    return Page(
        title=words.title_of(recorded),
        banner=BANNER if recorded.shown and not recorded.scenario.ships else "",
        verdict=verdict(recorded),
        lead=[*words.what_was_run(recorded), *filter(None, [target(summary)])],
        tiles=_tiles(summary),
        warnings=summary.warnings,
        sections=[section for section in sections if section is not None],
        footer=footer,
    )


def _tiles(summary: Summary) -> list[tuple[str, str, str]]:
    guarantee = summary.privacy[summary.headline]
    whose = who(summary.headline, guarantee)
    tiles = [(shown_epsilon(guarantee.epsilon), f"epsilon: {whose}", f"at delta {rounded_up(guarantee.delta)}")]
    if summary.accuracy is not None:
        beside = summary.nonprivate_accuracy
        more = "" if beside is None else f"{beside:.3f} without privacy"
        tiles.append((f"{summary.accuracy:.3f}", "test accuracy", more))
    tiles.append((f"{summary.users:,}", "users", f"in {plural(summary.clusters, 'cluster')}"))
    abstained = sum(counts.get("abstained", 0) for counts in summary.outcomes_by_round)
    tiles.append((f"{summary.reports:,}", "reports", f"{abstained:,} abstained" if abstained else ""))
    if summary.messages:
        again = summary.delivery.get("sent_again", 0)
        tiles.append((f"{summary.messages:,}", "messages", f"{again:,} sent again" if again else ""))
    if summary.missing:
        tiles.append((f"{len(summary.missing):,}", "users missing", "see faults below"))
    return tiles


def _accuracy(summary: Summary) -> Section:
    title = "Accuracy"
    if summary.accuracy is None:
        reason = summary.accuracy_reason or "the summary gives none"
        return Section("accuracy", title, [Text(f"There is no accuracy: {reason}.")])
    rows = [("on the noisy labels of this run", summary.accuracy)]
    if summary.nonprivate_accuracy is not None:
        rows.append(("without privacy, on everyone's true label", summary.nonprivate_accuracy))
    if summary.majority_accuracy is not None:
        rows.append(("always guessing the commonest label", summary.majority_accuracy))
    told = "; ".join(f"{name}: {value:.4f}" for name, value in rows)
    chart = bars(
        "accuracy-chart", "Test accuracy beside its baselines", told,
        [Bars(name, [(value, f"{value:.4f}")], place) for place, (name, value) in enumerate(rows)], most=1.0,
    )  # fmt: skip
    if len(rows) > 1:
        caption = "Share of the test examples that the model gets right. The run should lie well above guessing"
        caption += " and not far below the model that saw every true label."
    else:
        caption = "Share of the test examples that are predicted right. What a model without privacy would reach takes"
        caption += " everyone's true label, which nobody has in a deployment and no page of real people's labels shows."
    data = Table(
        "Test accuracy", ("model", "accuracy"), [(name, f"{value:.6g}") for name, value in rows], frozenset({1})
    )
    return Section(
        "accuracy", title, [Figure("Test accuracy (share of examples)", chart, caption, data), *_metrics(summary)]
    )


def _metrics(summary: Summary) -> list[Block]:
    """What accuracy hides, of the run's model and its baselines."""
    models = (
        ("this run", summary.metrics),
        ("without privacy", summary.nonprivate_metrics),
        ("guessing", summary.majority_metrics),
    )
    known = [(name, each) for name, each in models if each is not None]
    if not known:
        return []
    head = ("metric", *(name for name, _ in known))
    right = frozenset(range(1, len(head)))
    rows = [
        (words, *("none" if value is None else f"{value:.4f}" for value in (getattr(each, name) for _, each in known)))
        for words, name in _METRICS
    ]
    recalls = [
        (f"label {label}", *("no test example" if share is None else f"{share:.4f}" for share in shares))
        for label, shares in enumerate(zip(*(each.recall for _, each in known), strict=True))
    ]
    note = (
        "Balanced accuracy is the mean recall over labels, so that guessing gets 1/K however common a label is; AUC is "
        "the chance that an example of a label is ranked above another's. Guessing tells everyone's shares of labels."
    )
    return [
        Text(note),
        Table("Beyond accuracy", head, rows, right),
        Table("Recall: share of a label's test examples that are found", ("label", *head[1:]), recalls[:100], right),
    ]


_METRICS = (("balanced accuracy", "balanced_accuracy"), ("AUC", "auc"), ("log loss", "log_loss"))


def _troubles(recorded: Recorded) -> Section:
    summary = recorded.summary
    blocks: list[Block] = []
    if summary.outcomes_by_round:
        there = {kind for counts in summary.outcomes_by_round for kind in counts}
        kinds = [kind for kind in get_args(Counted) if kind in there]
        shown = summary.outcomes_by_round[:50]
        rows = [(f"{place + 1}", *(f"{counts.get(kind, 0):,}" for kind in kinds)) for place, counts in enumerate(shown)]
        more = (
            f" (the first 50 of {len(summary.outcomes_by_round):,} rounds)"
            if len(summary.outcomes_by_round) > 50
            else ""
        )
        head = ("round", *(f"users who {kind}" for kind in kinds))
        blocks.append(Table(f"What users did with their answers{more}", head, rows, frozenset(range(len(head)))))
    if summary.faults:
        rows = [
            (fault.rule, words.entry_words(FAULTS[fault.rule]), f"{fault.fired:,}" if fault.fired else "never fired")
            for fault in summary.faults
        ]
        head = ("rule", "what it does", "times it fired")
        cells = [(rule, said.removeprefix(f"{rule} (").removesuffix(")"), fired) for rule, said, fired in rows]
        blocks.append(Table("Faults that fired", head, cells, frozenset({2})))
        never = [fault.rule for fault in summary.faults if not fault.fired]
        if never:
            blocks.append(Note(f"Never fired, so that nothing was tested by it: {', '.join(never)}."))
        told = [f"{count:,} {words.DELIVERY[kind]}" for kind, count in summary.delivery.items()]
        if told:
            over = summary.virtual_seconds
            ended = "" if over is None else f"; the run was over after {over:.4g} virtual seconds"
            blocks.append(Text(f"Delivery: {', '.join(told)}{ended}."))
    elif recorded.scenario.faults:
        blocks.append(Text("The scenario's faults were left out: without messages there is nothing to disturb."))
    else:
        blocks.append(Text("No faults were asked for."))
    if summary.missing:
        shown_users = ", ".join(map(str, summary.missing[:MOST_MISSING]))
        more = ", …" if len(summary.missing) > MOST_MISSING else ""
        blocks.append(
            Note(
                f"{plural(len(summary.missing), 'user')} went missing on the way ({shown_users}{more}). The "
                "others have a smaller crowd to hide in, which the privacy table accounts for."
            )
        )
    if summary.missing_hosts:
        blocks.append(Note(f"Missing hosts: {', '.join(summary.missing_hosts)}."))
    if summary.unreached:
        pairs = ", ".join(f"{host} to {other}" for host, other in summary.unreached)
        blocks.append(Note(f"Connections that were needed and could not be made: {pairs}."))
    return Section("faults", "Outcomes, faults and missing users", blocks)


def _again(recorded: Recorded) -> Section:
    """The command, what must come out, and what it ran on."""
    summary, manifest = recorded.summary, recorded.manifest
    where = "scenario.toml" if recorded.scenario.ships else "private/scenario.toml"
    if recorded.deployed:
        command = f"p2p-labeldp deploy {where} --hosts {summary.hosts or 1}"
    else:
        command = f"p2p-labeldp run {where} --engine {summary.engine}"
        command += f" --hosting {summary.hosting}" if summary.hosting else ""
        command += " --dask ADDRESS" if summary.workers is not None else ""
    blocks: list[Block] = [
        Text(f"In the run folder, whose {where} has every key filled in and the seed:"),
        Code("Command", command),
    ]
    if summary.workers is not None:
        blocks.append(Text("ADDRESS is that of a Dask scheduler; how many workers it has makes no difference."))
    if summary.coins == "seeded":
        said = "The same noisy data set must come out"
        said += " if the same users stay to the end" if recorded.deployed and summary.missing else ""
        blocks.append(Text(f"{said}; its SHA-256 is"))
        blocks.append(Code("SHA-256 of the noisy data set", summary.noisy_sha256))
    else:
        blocks.append(
            Text("Coins were the operating system's: another run has other coins, and so another noisy data set.")
        )
    blocks.append(Code("The scenario as it was run", recorded.scenario_text, folded=True))
    rows = [(name, value) for name, value in _flat(manifest)]
    blocks.append(Table("Manifest", ("what", "value"), rows))
    return Section("repeat", "Repeat it", blocks)


def _flat(value: object, name: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [
            row
            for key, inner in value.items()
            for row in _flat(inner, f"{name}, {key}" if name else str(key).replace("_", " "))
        ]
    if isinstance(value, list):
        shown = ", ".join(str(each) for each in value[:50]) + (", …" if len(value) > 50 else "")
        return [(name, shown)]
    return [(name, "none" if value is None else str(value))]
