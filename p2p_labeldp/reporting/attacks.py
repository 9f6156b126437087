"""The report's section on attacks: what each adversary achieved, beside what is proved to be the most."""

from __future__ import annotations

from p2p_labeldp.privacy.numbers import plural, rounded_up
from p2p_labeldp.reporting import words
from p2p_labeldp.reporting.blocks import Block, Figure, Section, Table, Text
from p2p_labeldp.reporting.charts import Dots, dot_rows
from p2p_labeldp.reporting.plots import Axis
from p2p_labeldp.reporting.recorded import Recorded
from p2p_labeldp.runs.summary import Attack, Rate

FEWEST_POSITIVES = 5
RATES_NOTE = (
    "A threshold comes near the false positive rate it aims at: each bound is that of the upper confidence limit of "
    "the rate it was measured to have."
)


def told(attack: Attack, rate: Rate) -> bool:
    """Whether a true positive rate rests on enough trials.

    Half of them are negative, and half of those are left to measure on: a handful must be decided positive.
    """
    return attack.trials / 4 * rate.false_rate >= FEWEST_POSITIVES


def attack_section(recorded: Recorded) -> Section:
    attacks = recorded.summary.attacks
    if not attacks:
        quiet = "The scenario has no adversaries."
        if recorded.scenario.adversaries:
            quiet = "What the adversaries achieved was measured on true labels, and is left out here."
        return Section("attacks", "Attacks", [Text(quiet)])
    blocks: list[Block] = []
    measured = [attack for attack in attacks if attack.advantage is not None]
    if measured:
        blocks += [_advantages(measured), _table(measured), Text(RATES_NOTE)]
    for attack in attacks:
        name = attack.kind.replace("_", " ")
        if attack.share is not None or attack.honest_share is not None:
            blocks.append(Text(f"{name.capitalize()}: {words.pushed(attack, recorded.classes)}"))
        if attack.note:
            blocks.append(Text(f"{name.capitalize()}: {attack.note}."))
    return Section("attacks", "Attacks", blocks)


def _advantages(measured: list[Attack]) -> Figure:
    rows = []
    for attack in measured:
        assert attack.advantage is not None
        value, low, high = attack.advantage
        label = f"{attack.kind.replace('_', ' ')} ({attack.view})"
        bound = "no bound" if attack.bound is None else f"bound {rounded_up(attack.bound)}"
        rows.append(Dots(label, after=value, interval=(low, high), limit=attack.bound, words=f"{value:.3f}, {bound}"))
    every = [each for row in rows for each in (*(row.interval or ()), row.limit) if each is not None]
    axis = Axis("advantage over guessing (0: none, 1: certainty)", min(0.0, *every), max(0.05, *every) * 1.05)
    legend = (("after", "measured, with interval"), ("limit", "proved bound"))
    said = "; ".join(f"{row.label}: {row.words}" for row in rows)
    chart = dot_rows("attack-chart", "Advantage of each attack beside its bound", said, rows, axis, legend)
    caption = "An honest bound lies to the right of every measured advantage, but for chance: the interval is where"
    caption += f" the true advantage lies with {measured[0].confidence or 0.0:.1%} confidence."
    return Figure("Advantage of the attacks", chart, caption)


def _table(measured: list[Attack]) -> Table:
    head = ["adversary", "view", "attack", "advantage", "interval", "bound"]
    rates = measured[0].true_rates
    head += [f"true positive rate at {rate.false_rate:.1%} (bound)" for rate in rates]
    head += ["trials"]
    rows = []
    for attack in measured:
        assert attack.advantage is not None
        value, low, high = attack.advantage
        row = [
            attack.kind.replace("_", " "),
            f"{attack.view}, cluster of {attack.cluster_size}"
            + ("" if attack.colluders is None else f" with {plural(attack.colluders, 'colluder')}"),
            f"{attack.attack.replace('_', ' ')}"
            + "".join(
                f"; {name.replace('_', ' ')} {round(found, 3) + 0.0:.3f}" for name, found in attack.others.items()
            ),
            f"{value:.3f}",
            f"{low:.3f} to {high:.3f}",
            "none" if attack.bound is None else rounded_up(attack.bound),
        ]
        for rate in attack.true_rates:
            bound = "none" if rate.bound is None else rounded_up(rate.bound)
            row.append(f"{rate.value:.3f} ({bound})" if told(attack, rate) else f"too few trials ({bound})")
        row += [""] * (len(rates) - len(attack.true_rates))
        rows.append([*row[: 6 + len(rates)], f"{attack.trials:,}"])
    numeric = frozenset(range(3, len(head)))
    return Table("What the adversaries achieved, and what is proved to be the most", head, rows, numeric, stacked=True)
