"""A run in words: what was done, by whom, and who observed it. Plain texts, escaped by the page."""

from __future__ import annotations

from p2p_labeldp.data import data_set_of
from p2p_labeldp.learning import model_of
from p2p_labeldp.mechanisms import mechanism_of
from p2p_labeldp.network.faults import Delivered
from p2p_labeldp.privacy.numbers import plural
from p2p_labeldp.reporting.recorded import Recorded
from p2p_labeldp.runs.summary import Attack
from p2p_labeldp.scenario import ENGINES, MECHANISMS, Engine, Entry, Scenario

_QUESTIONS = {
    "class": "",
    "parity": ", odd against even",
    "early": ", a two-label question",
    "any": ", a two-label question",
}
"""What ``data.target`` adds to the examples."""
DELIVERY: dict[Delivered, str] = {
    "sent_again": "messages sent again",
    "duplicates_dropped": "copies dropped",
    "lost_for_good": "messages lost for good",
}
"""What a run with faults counts of its messages."""


def data_words(scenario: Scenario) -> str:
    return data_set_of(scenario.data.name).words


def title_of(recorded: Recorded) -> str:
    data = data_words(recorded.scenario)
    return f"{data[:1].upper()}{data[1:]}: {plural(recorded.summary.users, 'user')}"


def what_was_run(recorded: Recorded) -> list[str]:
    """Paragraphs for someone who has not seen the scenario."""
    summary = recorded.summary
    paragraphs = [f"{_gathered(recorded)} {_did(recorded)}", f"{_learned(recorded)} {_how(recorded)}"]
    abstained = sum(counts.get("abstained", 0) for counts in summary.outcomes_by_round)
    if abstained:
        rounds = " in all rounds together" if len(summary.outcomes_by_round) > 1 else ""
        paragraphs.append(f"{plural(abstained, 'user')} abstained{rounds}: they asked, answered and reported nothing.")
    troubles = _troubles(recorded)
    if troubles:
        paragraphs.append(troubles)
    return paragraphs


def _gathered(recorded: Recorded) -> str:
    summary, scenario = recorded.summary, recorded.scenario
    data = scenario.data
    names = ", ".join(recorded.classes[:10]) + (", …" if summary.labels > 10 else "")
    way = "by k-means on their public features" if scenario.clusters.method == "kmeans" else "as the data set says"
    sizes = summary.cluster_sizes
    span = ""
    if summary.clusters:
        same = sizes.smallest == sizes.largest
        span = f" of {sizes.smallest:,} users" if same else f" of {sizes.smallest:,} to {sizes.largest:,} users"
    merged = f" ({summary.merged_clusters} that were too small were merged)" if summary.merged_clusters else ""
    examples = f"{data_words(scenario)}{_QUESTIONS[data.target]}"
    return (
        f"{plural(summary.users, 'user')} each hold one example ({examples}) with one of {summary.labels} labels "
        f"({names}). They were grouped {way} into {plural(summary.clusters, 'cluster')}{span}{merged}."
    )


def _did(recorded: Recorded) -> str:
    summary, mechanism = recorded.summary, recorded.scenario.mechanism
    if not MECHANISMS[summary.mechanism].exchanged:
        return f"Each user {mechanism_of(summary.mechanism).story}."
    if mechanism.rounds == 1:
        rounds = "Each"
    elif mechanism.noise == "sticky":
        rounds = f"In each of {mechanism.rounds} rounds, with one flip for all of them, each"
    else:
        rounds = f"In each of {mechanism.rounds} rounds, with a new flip each time, each"
    forwards = "forwarded" if mechanism.theta == 1 else f"with probability {mechanism.theta:g} (theta) forwarded"
    return (
        f"{rounds} user flipped her label with probability {summary.alpha:.4g} (alpha), asked one user of her own "
        f"cluster for that user's noisy label, and {forwards} that to the learner, who is not told whose it is."
    )


def _learned(recorded: Recorded) -> str:
    learner, mechanism = recorded.scenario.learner, recorded.summary.mechanism
    if mechanism_of(mechanism).learns:
        return "The model is a softmax regression."
    undone = ", with the flips' bias undone" if learner.correct_flips and MECHANISMS[mechanism].flips else ""
    robust = f", {learner.robust:.0%} of the clusters trimmed as outliers" if learner.robust else ""
    return f"The learner fitted {model_of(learner.model).words} to what arrived{undone}{robust}."


def _how(recorded: Recorded) -> str:
    summary, network = recorded.summary, recorded.scenario.network
    coins = "the operating system’s randomness" if summary.coins == "system" else "a seed that is kept private"
    if summary.seed is not None:
        coins = f"seed {summary.seed}"
    if recorded.deployed:
        return f"It ran as real processes over TLS, with {plural(summary.hosts or 0, 'user host')}; coins are {coins}."
    if ENGINES[Engine(summary.engine)].sends_messages:
        tasks = "one task per cluster" if summary.hosting == "cluster" else "one task per user"
        slow = network.latency or network.jitter
        takes = f"takes {network.latency:g} s" + (f" and up to {network.jitter:g} s more" if network.jitter else "")
        time = f"every message {takes} of virtual time" if slow else "messages take no time"
        return f"Actors exchanged the messages in memory ({tasks}; {time}); coins are those of {coins}."
    return f"The mechanism was computed on arrays, without messages ({summary.engine}); coins are those of {coins}."


def _troubles(recorded: Recorded) -> str:
    scenario = recorded.scenario
    parts = []
    if scenario.faults:
        parts.append("Faults: " + "; ".join(entry_words(type(each)) for each in scenario.faults) + ".")
    if scenario.adversaries:
        parts.append("Adversaries: " + "; ".join(entry_words(type(each)) for each in scenario.adversaries) + ".")
    return " ".join(parts)


def entry_words(entry: type[Entry]) -> str:
    """A fault or an adversary, and what it does."""
    meaning = entry.meaning()
    return f"{entry.name.replace('_', ' ')} ({meaning[:1].lower()}{meaning[1:]})"


def pushed(attack: Attack, classes: tuple[str, ...]) -> str:
    """What liars did to the shares."""
    shares = " to ".join(
        "nothing" if share is None else f"{share:.3f}" for share in (attack.honest_share, attack.share)
    )
    label = attack.pushed_label
    named = classes[label] if label is not None and 0 <= label < len(classes) else str(label)
    what = "the share of their labels" if label is None else f"the share of “{named}”"
    moved = f"{plural(attack.members, 'user')} moved {what} in their clusters from {shares}"
    accuracy = attack.honest_accuracy
    return moved + ("." if accuracy is None else f"; without them the accuracy is {accuracy:.4f}.")


GLOSSARY = (
    ("alpha", "the probability that a user flips her label before anyone sees it; with more than two labels a flip "
     "moves to one of the others at random."),
    ("theta", "the probability that a user forwards the label she was told; otherwise she drops it."),
    ("epsilon", "how much an adversary who knows all other labels can learn about one label: whatever is observed is "
     "at most e^epsilon times as likely with one label as with another, plus delta. At 0 nothing but delta is left, at "
     "0.7 the factor is about 2, and above 3, where it is more than 20, there is little protection."),
    ("delta", "what is added to that. It is not the probability that the guarantee fails: some of what may be seen can "
     "tell more than e^epsilon, and that more often than delta. It should be much smaller than one over the number of "
     "users; where none was chosen it is at most that, and may be equal to it."),
    ("delta(epsilon) curve", "a view has many (epsilon, delta) pairs; a curve shows pairs that hold, for the clusters "
     "that its caption names, and lower is better."),
    ("view", "everything that one party observes: the learner sees reports, a network observer every answer and "
     "report on the wire."),
    ("exact, proved bound", "an exact epsilon is attained by some data, but for rounding up; a proved bound may be "
     "larger than the truth, never smaller. Both hold whatever the adversary knows of the others’ labels, and for one "
     "label replaced by another."),
    ("noisy label", "a user’s label after her flip; an honest user’s one flip serves everyone who asks her in a "
     "round."),
    ("phi", "how mixed clusters are: the mean distance between a user’s own label probabilities and her cluster’s; "
     "known for synthetic data only."),
    ("psi", "how far reported label shares are from the true ones in the worst cluster (0: equal, 2: nothing "
     "in common)."),
    ("advantage", "how much better than guessing an attack tells two labels apart: 0 is a coin toss, 1 is certainty."),
)  # fmt: skip
