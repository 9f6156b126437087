"""What a run's page claims about privacy, in sentences; each must be true of every run that it stands on.

(epsilon, delta) says of every event that it is at most e^epsilon times as likely with one label as with another, plus
delta. It does not say that odds change by e^epsilon at most but with probability delta: they may change more, and more
often than that. Without a delta, which the flips alone give, both are the same.
"""

from __future__ import annotations

import math

from p2p_labeldp.reporting.promises import Promises, epsilon_of, headline
from p2p_labeldp.reporting.recorded import Promise, Recorded
from p2p_labeldp.reporting.words import factor, plural, rounded_up, who
from p2p_labeldp.runs.guarantees import FRESH

INTRO = (
    "What could someone learn about one user's label, knowing everyone else's? Neighbouring data sets differ in one "
    "label; features are public. Each row holds in every cluster that took part, for someone who sees what the row "
    "says and nothing beyond it, whatever it knows of the others' labels. Whoever sees more is another row. Epsilon, "
    "delta and the factor e^epsilon are rounded up."
)


def verdict(recorded: Recorded, promises: Promises) -> str:
    """The run in one sentence."""
    summary = recorded.summary
    parts = []
    judged = headline(recorded, promises)
    if judged is not None:
        user = "an honest user" if recorded.scenario.adversaries else "a user"
        parts.append(_promised(*judged, promises, user))
    if summary.accuracy is not None:
        beside = ""
        if summary.nonprivate_accuracy is not None:
            gap = summary.nonprivate_accuracy - summary.accuracy
            far = f"{abs(gap):.3f} {'below' if gap > 0 else 'above'}" if abs(gap) >= 0.0005 else "equal to"
            beside = f", {far} that of a model without privacy"
        parts.append(f"the model's test accuracy is {summary.accuracy:.3f}{beside}")
    elif summary.accuracy_reason:
        parts.append(f"there is no accuracy: {summary.accuracy_reason}")
    sentence = "; ".join(parts)
    return sentence[:1].upper() + sentence[1:] + "." if sentence else ""


def _promised(view: str, promise: Promise, promises: Promises, user: str) -> str:
    epsilon, onlooker = epsilon_of(promise), who(view, promise)
    if epsilon == math.inf:
        return f"Nothing is promised against {onlooker}"
    if promises.silent:
        return "Everyone abstained, so that there is nothing to see"
    most = "" if promise.method == "exact" else "at most "
    at = f"Against {onlooker}, epsilon is {most}{rounded_up(epsilon)} at delta {rounded_up(promise.delta)}"
    if epsilon > 0:
        plus = "" if promise.delta == 0 else ", plus delta"
        likely = f"at most {factor(epsilon)} times as likely with one label of {user} as with another{plus}"
        return f"{at}: whatever it sees is {likely}"
    if promise.delta == 0 or promises.says_nothing(view):
        return f"{at}: what it sees says nothing about any label"
    more = f"up to {rounded_up(promise.delta)} (delta) more probable with one label of {user} than with another"
    return f"{at}: what it sees may be {more}"


def target(recorded: Recorded, promises: Promises) -> str:
    """What became of the epsilon that the scenario asked for; empty if it asked for none."""
    summary = recorded.summary
    asked = summary.target_epsilon
    view = "model" if "model" in summary.privacy else "learner"
    if asked is None or view not in summary.privacy:
        return ""
    wanted = f"The scenario asked for epsilon {rounded_up(asked, 6)} against {who(view)}"
    if promises.silent:
        return f"{wanted}, but everyone abstained."
    got = epsilon_of(summary.privacy[view])
    if got <= asked * (1 + 1e-9):
        return f"{wanted}, and the noise was chosen to meet it."
    shown = "nothing is promised" if got == math.inf else f"epsilon {rounded_up(got, 4)} is promised"
    why = [name for found, name in ((summary.missing, "users went missing"),
                                    (summary.missing_hosts, "hosts stayed away")) if found]  # fmt: skip
    because = f": {' and '.join(why)}" if why else ", as the run went"
    return f"{wanted}. The noise was chosen for that, but it was not met{because}; {shown}."


def trust(recorded: Recorded, promises: Promises) -> str:
    """Who is trusted with what, and what is left if they do not deserve it."""
    summary, scenario = recorded.summary, recorded.scenario
    if summary.mechanism != "peer_to_peer":
        return summary.trust
    rounds = scenario.mechanism.rounds
    told = "one noisy label" if rounds == 1 else f"one noisy label in each of {rounds:,} rounds"
    said = f"Peers are trusted not to pool what they saw with the learner. An honest user is told {told}"
    if any(entry.name == FRESH for entry in scenario.adversaries):
        return f"{said}. Some users make new noise for every asker: from those who pool nothing protects their labels."
    if promises.local_epsilon == math.inf:
        return f"{said}. From those who do pool nothing protects a label at this alpha."
    return f"{said}. From those who do pool, an honest user's flips alone protect her label."


def hard_limit(recorded: Recorded, promises: Promises) -> str:
    """What holds without any delta; empty where nothing does."""
    local = promises.local_epsilon
    if promises.silent or not 0 < local < math.inf:
        return ""
    mechanism = recorded.scenario.mechanism
    over = f" over the {mechanism.rounds:,} rounds together" if mechanism.rounds > 1 else ""
    return (
        f"A limit without any delta: an honest user’s label leaves her flipped, so that whatever anyone sees{over} is "
        f"at most {factor(local)} times as likely with one label of hers as with another (epsilon "
        f"{rounded_up(local, 4)} at delta 0), the others' labels being the same."
    )


def colluders(promises: Promises) -> str:
    """A word on those who pool with the learner in this run."""
    found = promises.colluding
    if found is None or found.colluders is None:
        return ""
    pool = "pools" if found.colluders == 1 else "pool"
    return (
        f"{plural(found.colluders, 'user')} of this run {pool} with the learner: against them "
        "together the table's last row holds, not the learner's, and not that of another number of colluders. "
        "It protects those who do not pool."
    )
