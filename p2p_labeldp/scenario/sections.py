"""The sections of a scenario: every key with its default, what it accepts and what it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from p2p_labeldp.scenario.exchanges import EXCHANGES
from p2p_labeldp.scenario.rules import MAX_SEED, Address, Named, Number, OneOf, Switch, Text, Whole, key
from p2p_labeldp.scenario.schema import NO_SCHEMA, Schema, SchemaTable


@dataclass(frozen=True)
class Examples:
    """What is known of a data set before it is loaded."""

    ships: bool = False
    """Whether it comes with the package or is made up: nobody's labels are told by showing them."""
    keys: tuple[str, ...] = ()
    """Keys of ``[data]`` that are for it and a few others alone."""
    own_test: bool = False
    """Whether its test set is fixed, so that none is held out."""


_MADE = ("groups", "dimensions", "labels", "separation", "sharpness", "rate")
DATA_SETS = {
    "digits": Examples(ships=True),
    "breast_cancer": Examples(ships=True),
    "synthetic": Examples(ships=True, keys=(*_MADE, "spread")),
    "crowd": Examples(ships=True, keys=_MADE),
    "mnist": Examples(own_test=True),
    "fashion_mnist": Examples(own_test=True),
    "cifar10": Examples(own_test=True),
    "adult": Examples(own_test=True),
    "diabetes130": Examples(keys=("person_column", "person_rows")),
    "csv": Examples(keys=("path", "label_column", "cluster_column", "person_column", "person_rows")),
}
TARGETS = ("class", "parity", "early", "any")


@dataclass(frozen=True)
class Data:
    """Which labelled examples the users hold."""

    name: str = key("digits", OneOf(DATA_SETS), "the data set")
    users: int = key(0, Whole(0), "how many users, each with one training example; 0 takes all there are")
    test_fraction: float = key(0.2, Number(0.01, 0.9), "share held out where no test set is fixed")
    target: str = key("class", OneOf(TARGETS), "which label: every class, or a two-label question")
    path: str = key("", Text(), "the file, for csv; where it is relative, beside the scenario file or in a data folder")
    label_column: str = key("label", Text(), "the label's column, for csv")
    cluster_column: str = key("", Text(), "the column of given clusters, for csv")
    person_column: str = key(
        "", Text(), "the column that tells whose row it is, where a person has several (csv; diabetes130: patient_nbr)"
    )
    person_rows: str = key(
        "all",
        OneOf(("all", "one")),
        "with person_column: all her rows take part, with a guarantee for them together; or her first one alone",
    )
    groups: int = key(8, Whole(1, 1_000_000), "how many Gaussian clusters, for synthetic; how many groups, for crowd")
    dimensions: int = key(2, Whole(1, 10_000), "how many features, for synthetic and crowd")
    labels: int = key(2, Whole(2, 1_000), "how many labels, for synthetic and crowd")
    spread: float = key(0.3, Number(0), "standard deviation inside a group, for synthetic")
    separation: float = key(1.0, Number(0), "standard deviation of the groups' centres, for synthetic and crowd")
    sharpness: float = key(1.0, Number(0), "how strongly features decide the label, for synthetic and crowd")
    rate: float = key(0.5, Number(0.0001, 0.9999), "share of label 1, for synthetic and crowd with two labels")
    seed: int = key(
        -1,
        Whole(-1, MAX_SEED),
        "seed of the public part alone: users, test examples and where k-means starts; -1: coins.seed",
    )
    schema: Schema = key(  # noqa: RUF009 - it cannot be changed
        NO_SCHEMA, SchemaTable(), "what every column of a table may hold; features are made from it"
    )


@dataclass(frozen=True)
class Clusters:
    """How the coordinator groups users by their public features."""

    method: str = key("kmeans", OneOf(("kmeans", "given")), "k-means, or the clusters the data set names")
    count: int = key(10, Whole(1), "how many clusters k-means looks for")
    minimum_size: int = key(
        10, Whole(1), "smaller k-means clusters are merged; users abstain in smaller ones that remain"
    )


@dataclass(frozen=True)
class Reads:
    """What a mechanism reads of ``[mechanism]`` besides its kind and epsilon."""

    keys: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    """Keys that may stand in place of epsilon."""
    epsilon: bool = True
    """Whether it knows an epsilon at all."""
    exchanged: bool = False
    """Whether users exchange labels with each other: it can then be repeated, attacked and disturbed."""
    flips: bool = False
    """Whether users flip their own labels, which a learner may correct."""
    pure: bool = False
    """Whether its epsilon holds at delta 0, so that no delta is read."""
    clusters: bool = True
    """Whether what is released and learned depends on the clusters."""

    @property
    def by_cluster(self) -> bool:
        """Whether the flips for an epsilon follow from the sizes of clusters, so that they wait for these."""
        return self.flips and not self.pure


_WAYS = [record.words for record in EXCHANGES.values()]
MAX_RELAYS = 32  # a packet grows by two layers for each relay, and every relay handles every packet

MECHANISMS = {
    "peer_to_peer": Reads(
        ("alpha", "theta", "noise", "rounds", "exchange", "relays", "withstand"), ("alpha",), exchanged=True, flips=True
    ),
    "shuffle": Reads(("alpha",), ("alpha",), flips=True),
    "uniform_rr": Reads(flips=True, pure=True, clusters=False),
    "subsampled_rr": Reads(("alpha", "theta"), ("alpha",), flips=True, pure=True, clusters=False),
    "cluster_rr": Reads(("tau", "share"), pure=True),
    "centralized": Reads(("tau", "share", "sigma", "lambda", "beta"), ("sigma", "lambda"), pure=True),
    "rr_with_prior": Reads(("share",), pure=True),
    "lp_2st": Reads(flips=True, pure=True, clusters=False),
    "dp_sgd": Reads(clusters=False),
    "none": Reads(epsilon=False, clusters=False),
}


@dataclass(frozen=True)
class Mechanism:
    """How labels are made noisy: Algorithm 2 of the paper, or something to compare it with."""

    kind: str = key("peer_to_peer", OneOf(MECHANISMS), "the mechanism")
    alpha: float = key(
        0.1, Number(0, 1), "probability that a user flips her label (peer_to_peer, shuffle, subsampled_rr)"
    )
    theta: float = key(1.0, Number(0, 1), "probability that a user forwards what she got (peer_to_peer, subsampled_rr)")
    epsilon: float = key(0.0, Number(0), "total epsilon of the learner, which calibrates the noise; 0: no target")
    tau: float = key(0.01, Number(0, 1), "least share of a label in a noisy distribution (cluster_rr, centralized)")
    sigma: float = key(0.0, Number(0), "scale of the noise on counts (centralized); 0: from epsilon")
    lambda_: float = key(0.0, Number(0, 1), "probability that a label is drawn anew (centralized); 0: from epsilon")
    beta: float = key(0.0, Number(0, 0.999999), "how much of the drawing the loss undoes (centralized)")
    share: float = key(
        0.5, Number(0, 1), "share of epsilon for the clusters' histogram (cluster_rr, centralized, rr_with_prior)"
    )
    noise: str = key("sticky", OneOf(("sticky", "fresh")), "one flip for all rounds, or one per round")
    rounds: int = key(1, Whole(1, 10_000), "how often the exchange is repeated")
    exchange: str = key(
        "pull",
        OneOf(EXCHANGES),
        f"{'; '.join(_WAYS[:-1])}; or {_WAYS[-1]} (peer_to_peer)",
    )
    relays: int = key(
        0, Whole(0, MAX_RELAYS), "how many members of a cluster mix its labels (mixed); 0: follows from withstand"
    )
    withstand: int = key(
        0, Whole(0), "how many colluding members of a cluster the relays must withstand (mixed); 0: no target"
    )


MODELS: dict[str, tuple[str, ...]] = {"softmax": (), "mlp": (), "boosted_trees": ()}
"""By name: keys of ``[learner]`` that it alone reads."""


@dataclass(frozen=True)
class Learner:
    """Empirical risk minimisation on what arrived."""

    model: str = key(
        "softmax",
        Named(MODELS, "the class name of a classifier of scikit-learn"),
        "what is fitted; of the models that ship only softmax learns negative targets, the others their positive part",
    )
    l2: float = key(1e-4, Number(0), "weight of the squared norm in the loss (softmax, mlp, boosted_trees)")
    correct_flips: bool = key(True, Switch(), "undo the flips' bias with soft targets (no privacy cost)")
    max_iterations: int = key(100, Whole(1, 100_000), "limit on iterations of softmax, passes of mlp, trees per label")
    robust: float = key(
        0.0,
        Number(0, 0.49),
        "share of clusters whose reports are moved towards what the others suggest: those that stand out most",
    )


@dataclass(frozen=True)
class Privacy:
    """How guarantees are stated."""

    delta: float = key(0.0, Number(0, 1), "the delta of every epsilon; 0: 1/(smallest cluster)^2, at most 1/users")


@dataclass(frozen=True)
class Coins:
    """Where randomness comes from."""

    source: str = key(
        "auto",
        OneOf(("auto", "seeded", "system")),
        "repeatable, or the operating system's; auto: repeatable where a seed is given or the data set ships, in "
        "simulations",
    )
    seed: int = key(0, Whole(0, MAX_SEED), "seed of everything random in a simulation")


@dataclass(frozen=True)
class Network:
    """How messages travel. Seconds are virtual in a simulation; a deployment knows the limits alone, in real ones."""

    latency: float = key(0.0, Number(0, 3600), "seconds every message takes")
    jitter: float = key(0.0, Number(0, 3600), "up to so many seconds more, drawn for each message")
    hello_limit: float = key(60.0, Number(0.001), "seconds the coordinator waits for hellos")
    round_limit: float = key(60.0, Number(0.001), "seconds a round may last before it is closed")


@dataclass(frozen=True)
class Defences:
    """What users do for themselves. Switched off, an attack shows what each is good for."""

    abstain: bool = key(True, Switch(), "neither ask, answer nor report in a cluster below clusters.minimum_size")
    one_answer: bool = key(True, Switch(), "answer each asker once in a round")
    check_assignment: bool = key(
        False, Switch(), "abstain where another cluster's centre is nearer, or members were told different rosters"
    )


@dataclass(frozen=True)
class Deployment:
    """Where the programs of a deployment run. Nothing here changes a result; seconds are real.

    Every key is also a flag of ``node`` and ``deploy`` (``--away-limit``) and an environment variable
    (``P2P_LABELDP_AWAY_LIMIT``); the flag counts before the variable, the variable before the scenario.
    """

    hosts: int = key(
        0, Whole(0, 4096), "how many user hosts to wait for; 0: until no other host has joined for `settle` seconds"
    )
    order: str = key(
        "arrival",
        OneOf(("arrival", "name")),
        "the order in which user hosts get their users' ids: as they join, or by name, so that a seed repeats a run",
    )
    minimum_hosts: int = key(0, Whole(0, 4096), "the run stops where fewer user hosts than this take part; status 1")
    minimum_users: int = key(0, Whole(0, 2**53), "the run stops where fewer users than this take part; status 1")
    coordinator: str = key("127.0.0.1:7400", Address(), "where the coordinator is reached")
    enrolment: str = key("127.0.0.1:7401", Address(), "where user hosts without a certificate enrol")
    relay: str = key(
        "", Address(True), "the coordinator's address for user hosts that cannot reach each other; empty: none"
    )
    learner: str = key("127.0.0.1:7410", Address(), "where the learner is reached")
    auditor: str = key("127.0.0.1:7420", Address(), "where the auditor is reached")
    curator: str = key("127.0.0.1:7440", Address(), "where the curator is reached, in mechanisms that have one")
    shuffler: str = key("127.0.0.1:7450", Address(), "where the shuffler is reached, with mechanism.kind = shuffle")
    listen: str = key(
        "", Address(True), "where this node listens; empty: at its own address, a user host at a free port"
    )
    advertise: str = key(
        "",
        Text(),
        "the host name under which other hosts reach this one; empty: as it listens, or its own name for 0.0.0.0",
    )
    health: str = key("", Address(True), "where this node answers GET /healthz; empty: nowhere")
    certs: str = key("", Text(), "the folder with this node's ca.pem, cert.pem and key.pem")
    join: str = key("", Text(), "the folder with ca.pem and the token, for a user host that enrols")
    authority: str = key("", Text(), "the folder of the enrolment authority, for a coordinator that enrols hosts")
    allow: str = key(
        "",
        Text(),
        "a file with the names of the user hosts that may join, one on each line; empty: all with a certificate",
    )
    approve: bool = key(False, Switch(), "a person approves every host that enrols: certs approve")
    state: str = key("", Text(), "the folder of this node's journal")
    studies: int = key(
        1, Whole(1, 10_000), "how many studies this node takes part in, one after another; 1: it ends with the first"
    )
    settle: float = key(
        3.0, Number(0.1, 3600), "seconds without another host after which users are assigned to hosts, where hosts = 0"
    )
    away_limit: float = key(60.0, Number(0.1), "seconds a node may be away before the others continue without it")
    counts: bool = key(
        False,
        Switch(),
        "coordinator and auditor log, twice a second, users done in each cluster and messages of each kind",
    )


SECTIONS: dict[str, type[Any]] = {
    "data": Data,
    "clusters": Clusters,
    "mechanism": Mechanism,
    "learner": Learner,
    "privacy": Privacy,
    "coins": Coins,
    "network": Network,
    "defences": Defences,
    "deployment": Deployment,
}
"""By name; a plugin puts a class with more keys in place of one."""
