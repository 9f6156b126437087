"""Whose randomness: the operating system's wherever labels may be real, unless a seed is asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small import SECRETS, study

from p2p_labeldp import LabelPrivateClassifier
from p2p_labeldp.cli import main
from p2p_labeldp.experiments import run
from p2p_labeldp.mechanisms import coins as room
from p2p_labeldp.scenario import MECHANISMS, Scenario, load_scenario, parse_scenario


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return study(tmp_path, ["a,label", *SECRETS])


def settled(text: str, *, deployed: bool = False, seed: int | None = None) -> str:
    return parse_scenario(text, "here", (), seed).settled(deployed=deployed).coins.source


def test_data_that_do_not_ship_and_deployments_get_the_systems_coins_unless_a_seed_is_asked_for() -> None:
    assert settled("") == "seeded"
    assert settled("", deployed=True) == "system"
    assert settled('[data]\nname = "mnist"') == "system"
    assert settled('[data]\nname = "mnist"', seed=0) == "seeded"
    assert settled('[data]\nname = "mnist"\n[coins]\nseed = 3', deployed=True) == "seeded"
    assert settled('[coins]\nseed = 3\nsource = "system"') == "system"
    assert Scenario().settled(deployed=True).coins.source == "system"


def test_two_runs_on_ones_own_data_differ_and_a_seed_repeats_them(own: Path) -> None:
    first, second = (run(load_scenario(own), engine="vectorized").summary for _ in range(2))
    # 48 users draw a peer each: two runs agree with a chance far below 2^-48.
    assert first.noisy_sha256 != second.noisy_sha256
    assert (first.coins, first.seed) == ("system", None)
    asked = [run(load_scenario(own, seed=5), engine="vectorized").summary for _ in range(2)]
    assert asked[0].noisy_sha256 == asked[1].noisy_sha256
    assert any("whoever knows the seed can undo every flip" in line for line in asked[0].warnings)
    assert not any("seed" in line for line in first.warnings)


@pytest.mark.parametrize("kind", [kind for kind in MECHANISMS if kind != "none"])
def test_with_the_systems_coins_no_role_draws_from_a_generator(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What curators, shufflers and users draw comes from os.urandom alone."""
    drawn: list[int] = []
    urandom = room.os.urandom

    def counted(size: int) -> bytes:
        drawn.append(size)
        return urandom(size)

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("a seeded generator was used")

    monkeypatch.setattr(room.os, "urandom", counted)
    monkeypatch.setattr(room, "SeededCoins", forbidden)
    monkeypatch.setattr(room, "SeededRandomness", forbidden)
    epsilon = "" if kind in ("peer_to_peer", "shuffle") else "epsilon = 1.0"
    text = f'[data]\nname = "breast_cancer"\n[mechanism]\nkind = "{kind}"\n{epsilon}\n[coins]\nsource = "system"\n'
    for engine in ("vectorized", "actors"):
        drawn.clear()
        assert run(parse_scenario(text), engine=engine).summary.coins == "system"
        assert drawn


def test_the_estimator_draws_from_the_system_unless_given_a_random_state(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    features, labels = generator.normal(size=(120, 3)), np.arange(120) % 2
    seeded = [LabelPrivateClassifier("cluster_rr", random_state=1).fit(features, labels) for _ in range(2)]
    assert np.array_equal(seeded[0].estimator_.weights, seeded[1].estimator_.weights)
    monkeypatch.setattr(room, "SeededRandomness", None)
    LabelPrivateClassifier("cluster_rr").fit(features, labels)
    with pytest.raises(TypeError):
        LabelPrivateClassifier("cluster_rr", random_state=1).fit(features, labels)


def test_a_seeded_run_says_so_on_the_terminal(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(own), "--engine", "vectorized", "--seed", "1", "--out", str(tmp_path / "a")]) == 0
    assert "whoever knows the seed can undo every flip" in " ".join(capsys.readouterr().out.split())
