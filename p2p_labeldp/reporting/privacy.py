"""What a run's page says about privacy: a verdict, the table of guarantees, sentences that are true of every run that
they stand on, and the delta(epsilon) curves that the run computed.

(epsilon, delta) says of every event that it is at most e^epsilon times as likely with one label as with another, plus
delta. It does not say that odds change by e^epsilon at most but with probability delta: they may change more, and more
often than that. Without a delta, which the flips alone give, both are the same.
"""

from __future__ import annotations

import math

from p2p_labeldp.privacy import View
from p2p_labeldp.privacy.numbers import factor, rounded_up, shown_epsilon
from p2p_labeldp.reporting.blocks import Block, Note, Section, Table, Text
from p2p_labeldp.reporting.charts import figure_of
from p2p_labeldp.reporting.curves import curves_plot
from p2p_labeldp.reporting.recorded import Recorded
from p2p_labeldp.runs.guarantees import FRESH
from p2p_labeldp.runs.stated import epsilon_of, rows, who
from p2p_labeldp.runs.summary import Summary
from p2p_labeldp.scenario import MECHANISMS

_INTRO = (
    "What could someone learn about one user's label, knowing everyone else's? Neighbouring data sets differ in one "
    "label; features are public. Each row holds in every cluster that took part, for someone who sees what the row "
    "says and nothing beyond it, whatever it knows of the others' labels. An adversary that sees more has a row of "
    "its own. Epsilon, delta and the factor e^epsilon are rounded up."
)


def privacy_section(recorded: Recorded) -> Section:
    summary = recorded.summary
    blocks: list[Block] = [Text(_INTRO), _table(summary)]
    if summary.person_privacy:
        blocks.append(_persons(summary))
    if limit := _hard_limit(recorded):
        blocks.append(Text(limit))
    if trust := _trust(recorded):
        blocks.append(Text(f"Trust: {trust}"))
    for reason in dict.fromkeys(found.reason for found in summary.privacy.values() if found.reason):
        named = [who(view, found) for view, found in summary.privacy.items() if found.reason == reason]
        whose = "every view" if len(named) == len(summary.privacy) else ", ".join(named)
        note = f"{whose[:1].upper()}{whose[1:]}: {reason}."
        blocks.append(Text(note) if reason.startswith("the guarantee has fallen") else Note(note))
    plot = curves_plot(summary.privacy, summary.curves, "delta(epsilon) of every view")
    if plot.lines:
        blocks.append(figure_of("privacy-chart", plot))
    elif any(found.epsilon < math.inf for found in summary.privacy.values()):
        blocks.append(Text("The run folder holds no delta(epsilon) curves."))
    return Section("privacy", "Privacy", blocks)


def _table(summary: Summary) -> Table:
    cells = [
        (
            row.who, row.sees, row.epsilon, row.delta, factor(summary.privacy[row.view].epsilon), row.method,
            row.cluster_size or "–",
        )
        for row in rows(summary.privacy, summary.mechanism)
    ]  # fmt: skip
    head = (
        "view", "sees", "epsilon", "delta", "times as likely, at most, plus delta", "method", "worst cluster, users",
    )  # fmt: skip
    return Table("What each view could learn", head, cells, frozenset({2, 3, 4, 6}), stacked=True)


def _persons(summary: Summary) -> Table:
    cells = [(row.who, row.epsilon, row.delta) for row in rows(summary.person_privacy, summary.mechanism)]
    title = f"What protects all labels of a person with {summary.person_rows} rows together"
    return Table(title, ("view", "epsilon", "delta"), cells, frozenset({1, 2}))


def verdict(recorded: Recorded) -> str:
    """The run in one sentence."""
    summary = recorded.summary
    user = "an honest user" if recorded.scenario.adversaries else "a user"
    parts = [_guaranteed(summary, user)]
    if summary.accuracy is not None:
        beside = ""
        if summary.nonprivate_accuracy is not None:
            gap = summary.nonprivate_accuracy - summary.accuracy
            far = f"{abs(gap):.3f} {'below' if gap > 0 else 'above'}" if abs(gap) >= 0.0005 else "equal to"
            beside = f", {far} that of a model without privacy"
        parts.append(f"the model's test accuracy is {summary.accuracy:.3f}{beside}")
    elif summary.accuracy_reason:
        parts.append(f"there is no accuracy: {summary.accuracy_reason}")
    return "; ".join(parts) + "."


def _guaranteed(summary: Summary, user: str) -> str:
    guarantee = summary.privacy[summary.headline]
    whose = who(summary.headline, guarantee)
    if guarantee.epsilon == math.inf:
        return f"Nothing is guaranteed against {whose}"
    at = f"Epsilon is {epsilon_of(guarantee)} at delta {rounded_up(guarantee.delta)} for {whose}"
    if guarantee.epsilon > 0:
        plus = "" if guarantee.delta == 0 else ", plus delta"
        likely = f"at most {factor(guarantee.epsilon)} times as likely with one label of {user} as with another{plus}"
        return f"{at}: whatever it sees is {likely}"
    if _silent(summary):
        return f"{at}: {guarantee.reason}"
    if guarantee.delta == 0 or _says_nothing(summary):
        return f"{at}: what it sees says nothing about any label"
    more = f"up to {rounded_up(guarantee.delta)} more probable with one label of {user} than with another"
    return f"{at}: what it sees may be {more}"


def _silent(summary: Summary) -> bool:
    """Whether everyone abstained, so that there is nothing to see."""
    guarantee = summary.privacy[summary.headline]
    return guarantee.epsilon == 0 and guarantee.cluster_size is None and bool(guarantee.reason)


def _says_nothing(summary: Summary) -> bool:
    """Whether it is proved that what the headline's view shows does not depend on any label."""
    curve = summary.curves.get(summary.headline)
    return curve is not None and curve.how != "implied" and not curve.sizes and curve.deltas[0] == 0


def target(summary: Summary) -> str:
    """What became of the epsilon that the scenario asked for; empty if it asked for none."""
    asked = summary.target_epsilon
    view = View.MODEL if View.MODEL in summary.privacy else View.LEARNER
    if asked is None:
        return ""
    wanted = f"The scenario asked for epsilon {rounded_up(asked, 6)} ({who(view)})"
    if _silent(summary):
        return f"{wanted}, but everyone abstained."
    got = summary.privacy[view].epsilon
    if got <= asked * (1 + 1e-9):
        return f"{wanted}, and the noise was chosen to meet it."
    shown = "nothing is guaranteed" if got == math.inf else f"epsilon is {shown_epsilon(got)}"
    why = [name for found, name in ((summary.missing, "users went missing"),
                                    (summary.missing_hosts, "hosts were missing")) if found]  # fmt: skip
    because = f": {' and '.join(why)}" if why else ", as the run went"
    return f"{wanted}. The noise was chosen for that, but it was not met{because}; {shown}."


def _trust(recorded: Recorded) -> str:
    """Who is trusted with what, and what is left where that trust fails."""
    summary, scenario = recorded.summary, recorded.scenario
    if not MECHANISMS[summary.mechanism].exchanged:
        return summary.trust
    rounds = scenario.mechanism.rounds
    told = "one noisy label" if rounds == 1 else f"one noisy label in each of {rounds:,} rounds"
    said = f"Peers are trusted not to collude with the learner. An honest user is told {told}"
    if any(entry.name == FRESH for entry in scenario.adversaries):
        return f"{said}. Some users make new noise for every asker: nothing protects their labels from colluders."
    local = _local_epsilon(summary)
    if local is None or local == math.inf:
        return f"{said}. Nothing protects a label from colluders at this alpha."
    return f"{said}. An honest user's flips alone protect her label from peers who do collude."


def _local_epsilon(summary: Summary) -> float | None:
    """What an honest user's flips guarantee by themselves, over all rounds, without any delta; None: not known."""
    return summary.privacy[summary.headline].local_epsilon


def _hard_limit(recorded: Recorded) -> str:
    """What holds without any delta; empty where nothing does."""
    local = _local_epsilon(recorded.summary)
    if local is None or not 0 < local < math.inf:
        return ""
    mechanism = recorded.scenario.mechanism
    over = f" over the {mechanism.rounds:,} rounds together" if mechanism.rounds > 1 else ""
    return (
        "A limit without any delta: labels are randomized before they leave an honest user, so that whatever anyone "
        f"sees{over} is at most {factor(local)} times as likely with one label of hers as with another (epsilon "
        f"{shown_epsilon(local)} at delta 0), the others' labels being the same."
    )
