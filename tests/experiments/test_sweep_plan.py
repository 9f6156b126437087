"""What a sweep is made of: settings, seeds, the engine; and what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from small import TWENTY_FOUR as SMALL

from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments.run import run
from p2p_labeldp.experiments.sweeps import Plan, make_plan
from p2p_labeldp.experiments.sweeps.replicate import metrics_of
from p2p_labeldp.scenario import MAX_SEED, Scenario, parse_scenario


def plan_of(*vary: str, text: str = "", listed: Path | None = None, **options: object) -> Plan:
    return make_plan(parse_scenario(text), vary, listed, **({"seeds": 2} | options))  # type: ignore[arg-type]


def scenarios(plan: Plan) -> list[Scenario]:
    return [job.scenario for job in plan.jobs(())[0]]


def test_keys_make_a_grid_the_last_one_running_fastest() -> None:
    plan = plan_of("mechanism.alpha=.01, 5e-2", "learner.correct_flips=true,false")
    assert plan.keys == ("mechanism.alpha", "learner.correct_flips")
    assert plan.settings == ((0.01, True), (0.01, False), (0.05, True), (0.05, False))


def test_nothing_varied_is_one_setting_many_times() -> None:
    jobs, failures = plan_of(seeds=3).jobs(())
    assert [(job.setting, job.replicate) for job in jobs] == [(0, 0), (0, 1), (0, 2)]
    assert failures == []


def test_every_setting_comes_once_before_any_comes_again() -> None:
    jobs, _ = plan_of("mechanism.alpha=.1,.2").jobs({(1, 0)})
    assert [(job.setting, job.replicate) for job in jobs] == [(0, 0), (0, 1), (1, 1)]


def test_a_job_is_the_scenario_with_its_setting_and_its_seed() -> None:
    plan = plan_of("mechanism.theta=0.5,1", text="[mechanism]\nalpha = 0.3")
    job = plan.jobs(())[0][1]
    assert (job.scenario.mechanism.alpha, job.scenario.mechanism.theta) == (0.3, 1.0)
    assert job.scenario.coins.seed == job.seed == plan.seed(1, 0)


def test_seeds_are_distinct_and_fit_a_scenario() -> None:
    plan = plan_of("mechanism.alpha=" + ",".join(f"{i / 100}" for i in range(50)), seeds=40)
    seeds = [job.seed for job in plan.jobs(())[0]]
    assert len(set(seeds)) == 2000
    assert all(0 <= seed <= MAX_SEED for seed in seeds)


def test_seeds_are_what_they_were_when_results_were_published() -> None:
    plan = plan_of("mechanism.alpha=.1,.2", text="[coins]\nseed = 7")
    assert [plan.seed(0, 0), plan.seed(0, 1), plan.seed(1, 0)] == [
        6436060106617376784,
        1780317965511414216,
        7218003245799464353,
    ]
    assert plan_of(text="[coins]\nseed = 7").seed(0, 0) == 9024116155495898980


def test_a_seed_depends_on_what_its_setting_says_not_on_where_it_stands() -> None:
    few = plan_of("mechanism.alpha=.2", "mechanism.theta=.5")
    many = plan_of("mechanism.theta=.1,.5", "mechanism.alpha=.1,.2,.3")
    assert few.seed(0, 1) == many.seed(many.settings.index((0.5, 0.2)), 1)
    other = make_plan(parse_scenario("", seed=1), ["mechanism.alpha=.2", "mechanism.theta=.5"], seeds=2)
    assert few.seed(0, 1) != other.seed(0, 1)


@pytest.mark.parametrize(
    ("text", "vary", "noise"),
    [
        ("[mechanism]\nalpha = 0.3", "mechanism.epsilon=2", (0.1, 2.0)),
        ("[mechanism]\nepsilon = 3.0", "mechanism.alpha=0.4", (0.4, 0.0)),
    ],
)
def test_alpha_and_epsilon_stand_in_place_of_each_other(text: str, vary: str, noise: tuple[float, float]) -> None:
    mechanism = scenarios(plan_of(vary, text=text))[0].mechanism
    assert (mechanism.alpha, mechanism.epsilon) == noise


def test_a_file_lists_settings_and_may_leave_one_kind_of_noise_empty(tmp_path: Path) -> None:
    path = tmp_path / "settings.csv"
    path.write_text("mechanism.alpha,mechanism.epsilon\n.2,\n\n, 4\n")
    plan = plan_of("data.users=100,200", listed=path, seeds=1)
    assert plan.keys == ("mechanism.alpha", "mechanism.epsilon", "data.users")
    assert plan.settings == ((0.2, None, 100), (0.2, None, 200), (None, 4.0, 100), (None, 4.0, 200))
    found = [(each.mechanism.alpha, each.mechanism.epsilon) for each in scenarios(plan)]
    assert found == [(0.2, 0.0), (0.2, 0.0), (0.1, 4.0), (0.1, 4.0)]


def test_texts_may_hold_commas_in_quotes() -> None:
    text = '[data]\nname = "csv"\npath = "x.csv"'
    assert plan_of('data.label_column="a,b",c', text=text).settings == (("a,b",), ("c",))


def test_values_that_do_not_go_together_are_failures_and_not_jobs() -> None:
    plan = plan_of("clusters.count=5,500", "data.users=50,1000", seeds=1)
    jobs, failures = plan.jobs(())
    assert [job.setting for job in jobs] == [0, 1, 3]
    (failure,) = failures
    assert (failure.setting, failure.reason.partition(" ")[0]) == (2, "clusters.count")


@pytest.mark.parametrize(
    ("text", "vary", "engine"),
    [
        ("", "mechanism.alpha=.1,.2", "vectorized"),
        ("", "network.latency=0,1", "actors"),
        ("", "defences.one_answer=true,false", "actors"),
        ('[[faults]]\nrule = "loss"\nprobability = 0.1', "mechanism.alpha=.1", "actors"),
        ('[[adversaries]]\nkind = "liars"\ncount = 2', "mechanism.alpha=.1", "actors"),
        ('[[adversaries]]\nkind = "collusion"\ncount = 2', "mechanism.alpha=.1", "vectorized"),
    ],
)
def test_messages_are_sent_where_something_depends_on_them(text: str, vary: str, engine: str) -> None:
    assert plan_of(vary, text=text).engine == engine
    assert plan_of(vary, text=text, engine="actors").engine == "actors"
    if engine == "actors":
        with pytest.raises(RequestError, match="--engine vectorized: "):
            plan_of(vary, text=text, engine="vectorized")


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        (["mechanism.alfa=.1"], r"--vary mechanism.alfa=.1: unknown key .* did you mean mechanism.alpha"),
        (["mechanism.alpha=.1,2"], r"mechanism.alpha = 2 is not allowed; it must be a number from 0 to 1"),
        (["mechanism.alpha=.1,0.10"], r"names 0.10 twice"),
        (["mechanism.alpha=.1,,.2"], r"a value of mechanism.alpha is empty"),
        (["mechanism.alpha"], r"write it as key=value,value"),
        (["alpha=.1"], r"write it as section.key=value"),
        (["coins.seed=1,2"], r"coins.seed cannot be varied: --seeds"),
        (["deployment.hosts=1,2"], r"deployment.hosts cannot be varied: it changes no result"),
        (["faults.rule=loss"], r"faults are entries: write faults\[delay\]"),
        (["mechanism.alpha=.1", "mechanism.alpha=.2"], r"mechanism.alpha: is varied twice"),
        (["mechanism.alpha=.1", "mechanism.epsilon=2"], r"mechanism.alpha and mechanism.epsilon exclude each other"),
        (["mechanism.epsilon=0,.5"], r"epsilon = 0 is not allowed here: it means that no epsilon is asked for"),
        (["privacy.delta=0,1e-5"], r"privacy.delta = 0 is not allowed here: it means a delta that follows"),
    ],
)
def test_what_cannot_be_varied_is_refused_in_a_line(vary: list[str], message: str) -> None:
    with pytest.raises(RequestError, match=message) as refused:
        plan_of(*vary)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"needs a header"),
        ("mechanism.alpha\n", r"needs a header"),
        ("mechanism.alpha,mechanism.alpha\n1,1\n", r"names a key twice"),
        ("mechanism.alpha\n.1,.2\n", r":2: has 2 values, but the header names 1 keys"),
        ("mechanism.alpha\n.1\n0.1\n", r":3: is the setting of line 2 again"),
        ("mechanism.alpha,mechanism.epsilon\n,\n", r":2: a value of mechanism.alpha is empty"),
        ("mechanism.theta,mechanism.alpha\n,.1\n", r":2: a value of mechanism.theta is empty"),
        ("mechanism.thetta\n.1\n", r":2: unknown key mechanism.thetta"),
        ("mechanism.alpha,mechanism.epsilon\n.1,\n,0\n", r":3: mechanism.epsilon = 0 .*; leave the cell empty"),
        ("mechanism.noise\nsticky\nfresh\n", r"--settings .*: mechanism.noise: changes nothing here"),
    ],
)
def test_a_file_of_settings_is_refused_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "settings.csv"
    path.write_text(content)
    with pytest.raises(RequestError, match=message):
        plan_of(listed=path)


def test_a_sweep_needs_seeds() -> None:
    with pytest.raises(RequestError, match="--seeds 0 is not allowed"):
        plan_of(seeds=0)
    with pytest.raises(RequestError, match=r"coins\.source"):
        plan_of(text='[coins]\nsource = "system"')


def kind(name: str) -> str:
    return f'{SMALL}\n[mechanism]\nkind = "{name}"\n' + ("epsilon = 2.0\n" if name != "none" else "")


IDLE = [
    (SMALL, "mechanism.noise=sticky,fresh", "one round, and so one flip"),
    (SMALL, "clusters.count=2,3", "clusters.method = given looks for none"),
    (SMALL, "data.path=a,b", "for data.name = csv, not synthetic"),
    (SMALL, "data.label_column=a,b", "for data.name = csv, not synthetic"),
    (SMALL, "mechanism.tau=.1,.2", "for mechanism.kind = cluster_rr or centralized, not peer_to_peer"),
    (SMALL + "[defences]\nabstain = false", "clusters.minimum_size=3,20", "defences.abstain = false"),
    (SMALL.replace("= 3", "= 1"), "defences.abstain=true,false", "no cluster is below"),
    (SMALL.replace("groups = 2", "labels = 3"), "data.rate=.2,.5", "two labels, and data.labels = 3"),
    ('[data]\nname = "breast_cancer"\n[clusters]\ncount = 3', "data.groups=2,3", "for data.name = synthetic or crowd"),
    ('[data]\nname = "crowd"\nusers = 30\ngroups = 2', "data.spread=.1,2", "for data.name = synthetic, not crowd"),
    (kind("uniform_rr"), "mechanism.theta=.5,1", "for mechanism.kind = peer_to_peer or subsampled_rr, not uniform_rr"),
    (kind("uniform_rr"), "privacy.delta=.1,.01", "uniform_rr has its epsilon at delta 0"),
    (kind("rr_with_prior"), "privacy.delta=.1,.01", "rr_with_prior has its epsilon at delta 0"),
    (kind("cluster_rr"), "mechanism.sigma=1,2", "for mechanism.kind = centralized, not cluster_rr"),
    (kind("cluster_rr"), "learner.correct_flips=true,false", "subsampled_rr or lp_2st, not cluster_rr"),
    (kind("dp_sgd"), "learner.robust=0,.4", "dp_sgd fits by itself"),
    (kind("none"), "mechanism.epsilon=1,2", "mechanism.kind = none adds no noise"),
    (kind("none"), "mechanism.alpha=.1,.3", "for mechanism.kind = peer_to_peer, shuffle or subsampled_rr, not none"),
]


@pytest.mark.parametrize(("text", "vary", "why"), IDLE, ids=[vary for _, vary, _ in IDLE])
def test_a_key_that_changes_nothing_is_refused_and_really_changes_nothing(text: str, vary: str, why: str) -> None:
    key, _, values = vary.partition("=")
    with pytest.raises(RequestError) as refused:
        plan_of(vary, text=text)
    assert str(refused.value).startswith(f"--vary {key}: changes nothing here: ")
    assert why in str(refused.value)
    runs = [parse_scenario(text, overrides=[f"{key}={value}"]) for value in values.split(",")]
    one, other = (metrics_of(run(each, engine="vectorized").summary) for each in runs)
    assert one == other


@pytest.mark.parametrize(
    ("text", "vary"),
    [
        (SMALL, ("mechanism.noise=sticky,fresh", "mechanism.rounds=1,2")),
        (SMALL, ("clusters.count=2,3", "clusters.method=given,kmeans")),
        (kind("uniform_rr"), ("mechanism.theta=.5,1", "mechanism.kind=uniform_rr,peer_to_peer")),
        ('[data]\nname = "digits"', ("data.path=a.csv,b.csv", "data.name=digits,csv")),
        (SMALL, ("data.rate=.2,.5", "data.labels=2,3")),
    ],
)
def test_a_key_that_counts_in_some_settings_may_be_varied(text: str, vary: tuple[str, ...]) -> None:
    assert len(plan_of(*vary, text=text).settings) == 4


def test_noise_that_a_mechanism_does_not_know_is_refused_though_no_setting_can_be_read() -> None:
    with pytest.raises(RequestError, match=r"mechanism.alpha: changes nothing here: .* not uniform_rr"):
        plan_of("mechanism.alpha=.1,.2", text=kind("uniform_rr"))
    with pytest.raises(RequestError, match=r"mechanism.rounds: changes nothing here: .* not dp_sgd"):
        plan_of("mechanism.rounds=1,2", text=kind("dp_sgd"))
