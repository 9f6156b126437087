"""Reports in, model out: the one learner behind ``run``, deployments, sweeps, comparisons and the estimator.

What arrived becomes soft targets, and everything after them is public: post-processing of what the mechanism released.

**Pooling.** Whose label a report carries is unknown within the cluster, so where reports are exchangeable all of a
cluster's reports together say what there is to know: every member of a cluster that took part gets the cluster's
shares of labels as her target, and the noise of the assignment is gone. Flips are undone, negative shares cut and the
rest rescaled. Members who kept nothing (theta below 1) are learned from too: their features are public.

**Otherwise** each user's own reports are her target, with the known noise undone: flips, or part of a curator's drawing
from the shares that it published.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from p2p_labeldp.arrays import Doubles, Labels, Matrix
from p2p_labeldp.learning.model import Model
from p2p_labeldp.learning.models import model_of
from p2p_labeldp.learning.robust import trimmed_reports
from p2p_labeldp.learning.softmax import fit_softmax
from p2p_labeldp.learning.targets import one_hot, pooled_reports, positive_part, undrawn, unflip
from p2p_labeldp.mechanisms import Plan, Randomness
from p2p_labeldp.mechanisms.plan import Stages
from p2p_labeldp.scenario import Learner as Settings

PRIOR_VARIANCE = 0.25
"""Of the weights of a model of true labels, on features of a similar scale: of the order of one half each."""
LEAST_KEPT = 1e-6  # less of a label than that is no prior at all


@dataclass(frozen=True, eq=False)
class Reports:
    """What the learner received over all rounds, and the clusters."""

    users: Labels
    labels: Labels
    clusters: Labels
    """By user id; negative for users who did not take part."""
    shares: Doubles | None = None
    """What a curator published: a row for each cluster."""
    prior: Doubles | None = None
    """The priors that users of a second stage got before they answered, by user id; rows of zeros for all others."""

    def __len__(self) -> int:
        return len(self.users)


@dataclass(frozen=True, eq=False)
class Targets:
    """What is fitted: soft targets (m, K) of users, rows that sum to 1, and what each row counts."""

    users: Labels
    targets: Doubles
    weights: Doubles


def targets_of(plan: Plan, settings: Settings, features: Matrix, reports: Reports) -> Targets:
    """What the reports say of whom, with the mechanism's known noise undone."""
    users, targets, weights = pooled_reports(reports.users, reports.labels, plan.parameters.labels)
    clusters = reports.clusters[users]
    if settings.robust and reports.shares is None:  # a curator's shares are its own, not what users say
        targets = trimmed_reports(targets, weights, clusters, features[users], settings.robust)
    if plan.exchangeable:
        users, targets, weights = _pooled(reports.clusters, clusters, targets, weights)
    if plan.stages is not None and reports.prior is not None:
        return _staged(plan, plan.stages, settings, reports.prior[users], Targets(users, targets, weights))
    if plan.parameters.alpha and settings.correct_flips:
        targets = unflip(targets, plan.parameters.alpha)
    if plan.beta and reports.shares is not None:
        targets = undrawn(targets, reports.shares[clusters], plan.beta)
    return Targets(users, positive_part(targets) if plan.exchangeable else targets, weights)


def _staged(plan: Plan, stages: Stages, settings: Settings, prior: Doubles, found: Targets) -> Targets:
    """Both stages together. A first-stage target, its flips undone, is noisier by 1/(1 - beta): it counts the less."""
    targets, second = found.targets, prior.sum(axis=1) > 0
    if settings.correct_flips:
        targets = unflip(targets, plan.parameters.alpha)
        targets[second] = stages.undone(found.targets[second], prior[second])
    weights = np.where(second, found.weights, found.weights * kept_share(plan) ** 2)
    return Targets(found.users, targets, weights)


def kept_share(plan: Plan) -> float:
    """1 - beta: of labels that users flip, the share that is no uniform draw."""
    return 1 - plan.parameters.alpha * plan.parameters.labels / (plan.parameters.labels - 1)


def learned_prior(plan: Plan, settings: Settings, features: Matrix, users: Labels, labels: Labels) -> Doubles:
    """What a model of the first stage's labels expects of everyone: the prior of a mechanism with two stages.

    A prior that is too sure of itself keeps one label and learns nothing. So the model is one of the noisy labels as
    they are, whose shares it can be right about, and the flips are undone in what it predicts. Its l2 follows from
    public numbers: with weights of variance ``PRIOR_VARIANCE`` for true labels, those for noisy ones are smaller
    by 1 - beta, and the penalty that such a Gaussian prior means is 1 / (n variance (1 - beta)^2), on the bias too:
    where the noise leaves nothing, the prior is uniform. It is a softmax regression whatever ``learner.model`` is:
    larger models learn noise by heart.
    """
    kept = kept_share(plan)
    count = plan.parameters.labels
    uniform = np.full((len(features), count), 1 / count)
    if not len(users) or kept < LEAST_KEPT:
        return uniform
    l2 = max(settings.l2, 1 / (len(users) * PRIOR_VARIANCE * kept**2))
    model = fit_softmax(features[users], one_hot(labels, count), l2, settings.max_iterations, free_bias=False)
    prior = positive_part(unflip(model.predict_proba(features), plan.parameters.alpha))
    return np.where(prior.sum(axis=1, keepdims=True) > 0, prior, uniform)


def _pooled(everyone: Labels, clusters: Labels, targets: Doubles, weights: Doubles) -> tuple[Labels, Doubles, Doubles]:
    """Every member of a cluster that reported, with the cluster's shares of labels."""
    count = int(everyone.max(initial=-1)) + 1
    reported = np.bincount(clusters, weights, minlength=count)
    sums = np.stack([np.bincount(clusters, weights * column, minlength=count) for column in targets.T], axis=1)
    members = np.flatnonzero((everyone >= 0) & (reported > 0)[np.maximum(everyone, 0)])
    shares = sums / np.maximum(reported, 1.0)[:, None]
    return members, shares[everyone[members]], np.ones(len(members))


def learn(plan: Plan, settings: Settings, features: Matrix, reports: Reports, randomness: Randomness) -> Model | None:
    """The model of what arrived; None where nothing did. Of the users' examples only features are looked at."""
    if not len(reports):
        return None
    if plan.learner is not None:
        from p2p_labeldp.learning.dp_sgd import fit_dp_sgd

        order = np.argsort(reports.users, kind="stable")
        users, labels = reports.users[order], reports.labels[order]
        return fit_dp_sgd(features[users], labels, plan.parameters.labels, plan.learner, randomness)
    found = targets_of(plan, settings, features, reports)
    rows = features if len(found.users) == len(features) else features[found.users]
    weights = None if (found.weights == 1).all() else found.weights
    return model_of(settings.model).fit(settings, rows, found.targets, weights, randomness)
