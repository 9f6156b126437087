"""The card beside a model: what it was learned from, by which mechanism, what that guarantees, and what it is not for.

Everything in it follows from the summary and the schema, so that it may go wherever the model goes.
"""

from __future__ import annotations

from collections.abc import Iterator

from p2p_labeldp.runs.stated import rows
from p2p_labeldp.runs.summary import Summary
from p2p_labeldp.scenario import MECHANISMS, Scenario, Schema
from p2p_labeldp.scenario.schema import Category

MOST_COLUMNS = 60  # listed one by one
MOST_NAMES = 12  # of classes, values or missing users


def model_card(scenario: Scenario, schema: Schema, summary: Summary, sha256: str) -> str:
    """The card as Markdown."""
    parts = (
        _opening(scenario, summary, sha256),
        _schema(schema),
        _mechanism(scenario, summary),
        _guarantees(summary),
        _metrics(summary, schema.classes),
        _missing(summary),
        _uses(summary),
    )
    return "\n".join(line for part in parts for line in (*part, "")).rstrip() + "\n"


def _opening(scenario: Scenario, summary: Summary, sha256: str) -> Iterator[str]:
    yield "# Model card"
    yield ""
    yield f"`model.npz`, SHA-256 `{sha256}`."
    yield f"Learned from {summary.reports:,} reports of {summary.users:,} users in {summary.clusters:,} clusters:"
    kind = "a deployment" if summary.engine == "deployment" else "a simulation"
    yield f"{kind} of the data set `{scenario.data.name}`."
    yield "`p2p-labeldp predict` and `p2p_labeldp.load_model` read it; nothing in it is executed."


def _schema(schema: Schema) -> Iterator[str]:
    yield "## Data schema"
    yield ""
    yield f"{schema.features} features from {len(schema.names)} columns; classes: {_few(schema.classes)}."
    yield ""
    yield "| column | holds |"
    yield "|---|---|"
    for column in schema.columns[:MOST_COLUMNS]:
        if isinstance(column, Category):
            holds = _few(column.values) + (" or any other value" if column.other else "")
        else:
            limits = "numbers" if column.range is None else f"numbers from {column.range[0]:g} to {column.range[1]:g}"
            holds = limits + (f" {column.unit}" if column.unit else "")
            holds += f"; centre {column.centre:.6g}, scale {column.scale:.6g}"
            holds += "; may be missing" if column.missing == "centre" else ""
        name = column.name if len(column.names) == 1 else f"{column.names[0]} to {column.names[-1]}"
        yield f"| {_cell(name)} | {_cell(holds)} |"
    if len(schema.columns) > MOST_COLUMNS:
        yield f"| {len(schema.columns) - MOST_COLUMNS} more | in the file |"


def _mechanism(scenario: Scenario, summary: Summary) -> Iterator[str]:
    yield "## Mechanism"
    yield ""
    mechanism = scenario.mechanism
    yield f"`{summary.mechanism}`: {summary.trust}"
    if MECHANISMS[summary.mechanism].exchanged:
        yield (
            f"alpha {summary.alpha:.6g}, theta {mechanism.theta:g}, {mechanism.noise} noise, "
            f"{mechanism.rounds} round{'s' if mechanism.rounds > 1 else ''}."
        )
    if summary.target_epsilon:
        yield f"Asked for: epsilon {summary.target_epsilon:g}."


def _guarantees(summary: Summary) -> Iterator[str]:
    yield "## Guarantees by view"
    yield ""
    yield "Two data sets that differ in one user's label can hardly be told apart by what these see. The model is made"
    yield "from what the learner sees, and so tells no more than that; whoever has it and took part herself sees what a"
    yield "learner with one colluding user does."
    yield ""
    yield "| view | sees | epsilon | delta | method |"
    yield "|---|---|---|---|---|"
    for row in rows(summary.privacy, summary.mechanism):
        how = row.method + (f": {row.reason}" if row.reason else "")
        yield f"| {row.who} | {_cell(row.sees)} | {row.epsilon} | {row.delta} | {_cell(how)} |"
    if summary.person_privacy:
        yield ""
        yield f"A person may have up to {summary.person_rows} rows. What protects all her labels together:"
        yield ""
        yield "| view | epsilon | delta |"
        yield "|---|---|---|"
        for row in rows(summary.person_privacy, summary.mechanism):
            yield f"| {row.who} | {row.epsilon} | {row.delta} |"
    for warning in summary.warnings:
        yield ""
        yield f"Warning: {warning}."


def _metrics(summary: Summary, classes: tuple[str, ...]) -> Iterator[str]:
    yield "## Metrics"
    yield ""
    if summary.accuracy is None:
        yield f"None: {summary.accuracy_reason or 'there were no test examples'}."
        return
    yield "Labels of test examples are not protected: these figures are exact."
    yield f"Accuracy on test examples: {summary.accuracy:.4f}."
    if summary.majority_accuracy is not None:
        yield f"The commonest class would reach {summary.majority_accuracy:.4f}."
    found = summary.metrics
    if found is not None:
        auc = "" if found.auc is None else f"AUC {found.auc:.4f}, "
        yield f"Balanced accuracy {found.balanced_accuracy:.4f}, {auc}log loss {found.log_loss:.4f}."
        recall = [f"{name} {share:.4f}" for name, share in zip(classes, found.recall, strict=True) if share is not None]
        yield f"Recall: {_few(tuple(recall))}."


def _missing(summary: Summary) -> Iterator[str]:
    yield "## Who was missing"
    yield ""
    if not (summary.missing or summary.missing_hosts or summary.withheld):
        yield "Nobody."
        return
    if summary.missing:
        yield f"{len(summary.missing):,} of {summary.users:,} users: {_few(tuple(map(str, summary.missing)))}."
    if summary.missing_hosts:
        yield f"Hosts: {_few(summary.missing_hosts)}."
    if summary.withheld:
        yield f"Clusters that released nothing: {_few(tuple(map(str, summary.withheld)))}."


def _uses(summary: Summary) -> Iterator[str]:
    yield "## What it must not be used for"
    yield ""
    yield "- Rows outside the schema, or people other than those that it was learned from: they are not accounted for."
    yield "- Decisions about a single person without somebody who answers for them: labels were noisy on purpose."
    yield "- As a statement that features are private: the mechanism protects labels, and features are public in it."
    if summary.engine != "deployment":
        yield "- As evidence that real people were protected: in a simulation one process held every label."
    if summary.coins == "seeded":
        yield "- Labels of real people: its coins were seeded, and whoever knows the seed can undo every flip."


def _few(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
