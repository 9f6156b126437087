"""An adversary, an attack, a mechanism, a data set and a model, each in a few lines: what a plugin can add."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from p2p_labeldp.plugins import (
    Adversary,
    Answer,
    Attack,
    DataSet,
    Entry,
    Examples,
    Holder,
    LearnerModel,
    Measured,
    Mechanism,
    Message,
    NewAdversary,
    NewDataSet,
    NewMechanism,
    NewModel,
    Number,
    Outgoing,
    Plan,
    Plugin,
    Probabilities,
    Reads,
    Request,
    SomeUsers,
    Source,
    Storage,
    User,
    View,
    Whole,
    account,
    key,
    spends,
)

# A role: users who push a label now and then.


@dataclasses.dataclass(frozen=True)
class Hesitant(SomeUsers):
    """Users who push a label in some of their answers, which is harder to notice."""

    name: ClassVar[str] = "hesitant"
    every: int = key(2, Whole(1, 1000), "they lie to each asker whose id this divides")
    label: int = key(1, Whole(0, 2**15 - 1), "the label they push")


class HesitantUser(User):
    entry: Hesitant

    def receive(self, sender: int, message: Message) -> Sequence[Outgoing]:
        return [(to, self.twisted(to, out)) for to, out in super().receive(sender, message)]

    def twisted(self, asker: int, message: Message) -> Message:
        lies = type(message) is Answer and asker % self.entry.every == 0
        return Answer(message.round, self.entry.label) if lies else message


def hesitant(setup: object, scenario: object, entry: Hesitant, honest: User, moved: object) -> User:
    user = HesitantUser(honest.id, honest.label, honest.host)
    user.entry = entry
    return user


# An attack: someone who reads the network and believes whatever the victim said first.


@dataclasses.dataclass(frozen=True)
class Gullible(Entry):
    """Someone who reads every answer and takes each for the truth."""

    name: ClassVar[str] = "gullible"


BELIEVES = Attack(
    "believes",
    lambda evidence, candidates: np.sign(
        evidence.seen[..., candidates[1]].sum(axis=1) - evidence.seen[..., candidates[0]].sum(axis=1)
    ).astype(np.float64),
)

# A mechanism: randomized response whose noise is given as the chance of a truthful answer.

TRUST = "Nobody need be trusted: each user flips her own label before it leaves her."


def plan(request: Request) -> Plan:
    parameters = dataclasses.replace(
        request.parameters, alpha=1 - request.options["truth"], theta=1.0, labels=request.labels, rounds=1
    )
    spent = account(View.AUDITOR, parameters, cluster_size=1).get_epsilon(0.0).epsilon
    stated = {View.LEARNER: spends(View.LEARNER, spent, 0.0, exact=True)}
    return Plan(request.kind, TRUST, Holder.LEARNER, parameters, {"alpha": parameters.alpha}, stated)


TRUTHFUL = Mechanism(
    TRUST,
    plan,
    trusts="nobody",
    story="told the truth with a given chance",
    learner_sees="every noisy label, with its owner",
    colour="#17becf",
    marker="P",
    options=("truth",),
)

# A data set: two moons.


def moons(data: object, seed: int, data_dir: object) -> Source:
    from sklearn.datasets import make_moons

    points, labels = make_moons(600, noise=0.1, random_state=seed % 2**32)
    labels = labels.astype(np.int64)
    return Source(points[:500], labels[:500], points[500:], labels[500:], ("upper", "lower"), scale=1.0)


# A model: the nearest of the labels' centres, where a soft target is a share of its row.


class Nearest(Probabilities):
    def __init__(self, centres: np.ndarray, sharpness: np.ndarray) -> None:
        self.centres, self.sharpness = centres, sharpness

    def predict_proba(self, features: np.ndarray) -> np.ndarray:
        apart = ((features[:, None, :].astype(np.float64) - self.centres) ** 2).sum(axis=2)
        chances = np.exp(-self.sharpness * (apart - apart.min(axis=1, keepdims=True)))
        return chances / chances.sum(axis=1, keepdims=True)


def fit_nearest(settings, features, targets, weights, randomness) -> Nearest:
    shares = np.maximum(targets, 0) * (1 if weights is None else weights[:, None])
    centres = shares.T @ features / np.maximum(shares.sum(axis=0), 1e-9)[:, None]
    return Nearest(centres, np.array(settings.sharpness))


NEAREST = LearnerModel(
    "the nearest of the labels' centres",
    fit_nearest,
    Storage(Nearest, vars, lambda arrays, labels, features: Nearest(arrays["centres"], arrays["sharpness"])),
)

PLUGIN = Plugin(
    adversaries=[
        NewAdversary(Hesitant, Adversary(lambda entry: Measured.PUSHED, replaces=hesitant, flips_hold=True)),
        NewAdversary(
            Gullible,
            Adversary(
                lambda entry: Measured.WATCHED, lambda entry: View.NETWORK, misbehaves=False, attacks=(BELIEVES,)
            ),
        ),
    ],
    mechanisms=[
        NewMechanism(
            "truthful_rr",
            Reads(("truth",), ("truth",), epsilon=False, flips=True, pure=True),
            TRUTHFUL,
            {"truth": key(0.75, Number(0, 1), "chance of a truthful answer (truthful_rr)")},
        )
    ],
    data_sets=[NewDataSet("moons", Examples(ships=True), DataSet("two moons", moons))],
    models=[
        NewModel(
            "nearest",
            NEAREST,
            {"sharpness": key(1.0, Number(0, 1000), "how fast probability falls with distance (nearest)")},
        )
    ],
)
