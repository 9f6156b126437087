"""A summary is written and read by the same code; what was damaged on the way is refused in one line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small import sixty

from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments import run
from p2p_labeldp.privacy import View
from p2p_labeldp.runs import Summary, read_summary
from p2p_labeldp.runs.folder import RunFolder
from p2p_labeldp.scenario import MECHANISMS, make_entry, replace


def test_a_summary_of_everything_there_is_reads_back_equal(tmp_path: Path) -> None:
    """Faults, adversaries of every way of being measured, curves."""
    kinds: list[dict[str, Any]] = [{"kind": "liars", "count": 3}, {"kind": "observer"}, {"kind": "silent", "count": 1}]
    scenario = replace(
        sixty(),
        adversaries=[make_entry("adversaries", table) for table in kinds],
        faults=[make_entry("faults", {"rule": "loss", "probability": 0.1})],
        network__round_limit=5.0,
    )
    finished = run(scenario, out=tmp_path / "run").summary
    assert all((finished.attacks, finished.faults, finished.adversaries, finished.curves, finished.delivery))
    assert read_summary(tmp_path / "run" / "summary.json") == finished


@pytest.mark.parametrize("kind", MECHANISMS)
def test_infinite_numbers_are_words_in_json_and_numbers_again_when_read(kind: str, tmp_path: Path) -> None:
    epsilon = ["mechanism.epsilon=2.0"] if MECHANISMS[kind].epsilon else []
    finished = run(sixty(f"mechanism.kind={kind}", *epsilon, "mechanism.rounds=1"), engine="vectorized").summary
    path = tmp_path / "summary.json"
    path.write_text(json.dumps(finished.as_json()))
    assert read_summary(path) == finished
    written = json.loads(path.read_text())["privacy"]
    for view, guarantee in finished.privacy.items():
        assert (written[view]["epsilon"] == "inf") == math.isinf(guarantee.epsilon)


def test_what_may_be_shared_tells_nothing_that_was_computed_from_true_labels() -> None:
    shared = run(sixty(), engine="vectorized").summary.shareable()
    assert shared.seed is None
    assert {shared.nonprivate_accuracy, shared.majority_accuracy, shared.phi, shared.psi, shared.purity} == {None}
    assert shared.nonprivate_metrics is shared.majority_metrics is None
    assert shared.accuracy is not None  # of the model that the mechanism's labels gave


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "summary.json"
    path.write_text(json.dumps(run(sixty(), engine="vectorized").summary.as_json()))
    return path


def change(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    found = json.loads(path.read_text())
    edit(found)
    path.write_text(json.dumps(found))


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda found: found.pop("version"), "a summary of version 1; this program reads version"),
        (lambda found: found.update(version=99), "a summary of version 99; this program reads version"),
        (lambda found: found.pop("users"), "users"),
        (lambda found: found.update(users=-1), "users"),
        (lambda found: found.update(users="sixty"), "users"),
        (lambda found: found.update(users=2**60), "users"),
        (lambda found: found.update(accuracy=1.5), "accuracy"),
        (lambda found: found.update(accuracy="high"), "accuracy"),
        (lambda found: found.update(engine="steam"), "engine"),
        (lambda found: found.update(engine="actors; rm"), "engine"),
        (lambda found: found.update(hosting="user --out ."), "hosting"),
        (lambda found: found.update(delivery={"by pigeon": 1}), "delivery"),
        (lambda found: found.update(outcomes_by_round=[{"bored": 1}]), "outcomes_by_round"),
        (lambda found: found.update(missing=[-4]), "missing"),
        (lambda found: found.update(cluster_sizes={}), "cluster_sizes"),
        (lambda found: found.update(messages_by_kind=[1]), "messages_by_kind"),
        (lambda found: found.update(messages_by_kind={"gossip": 1}), "messages_by_kind"),
        (lambda found: found.update(faults=[{"rule": "earthquake", "fired": 1}]), "faults"),
        (lambda found: found.update(headline="network_of_spies"), "headline"),
        (lambda found: found.update(headline="curator"), "headline is curator, of which privacy says nothing"),
        (lambda found: found.pop("privacy"), "privacy is missing"),
        (lambda found: found.update(privacy=[]), "privacy is missing or no object"),
        (lambda found: found["privacy"].update(spy=found["privacy"]["peer"]), "spy"),
        (lambda found: found["privacy"].update(peer=3), "Expected `object`"),
        (lambda found: found["privacy"]["peer"].update(epsilon=-1), "epsilon -1"),
        (lambda found: found["privacy"]["peer"].update(epsilon="lots"), "epsilon"),
        (lambda found: found["privacy"]["peer"].update(delta=2), "delta 2"),
        (lambda found: found["privacy"]["peer"].update(method="guessed"), "method"),
        (lambda found: found["privacy"]["peer"].pop("delta"), "delta"),
    ],
)
def test_a_damaged_summary_is_refused_in_one_line(
    written: Path, edit: Callable[[dict[str, Any]], object], words: str
) -> None:
    change(written, edit)
    with pytest.raises(RequestError) as refused:
        read_summary(written)
    said = str(refused.value)
    assert said.startswith(f"{written}: ")
    assert words in said
    assert "\n" not in said


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"\xff\xfe", b'{"version": 2}', b"[" * 100_000, b"NaN"])
def test_what_is_no_summary_at_all_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    path.write_bytes(content)
    with pytest.raises(RequestError, match="summary") as refused:
        read_summary(path)
    assert "\n" not in str(refused.value)


def test_a_summary_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"summary\.json: cannot be read: No such file"):
        read_summary(tmp_path / "summary.json")


def test_nan_stands_in_no_summary(written: Path, tmp_path: Path) -> None:
    """JSON has no word for it: neither written nor, where someone wrote it all the same, read."""
    with pytest.raises(ValueError, match="not JSON compliant"), RunFolder(tmp_path / "nan") as folder:
        folder.write_json("summary.json", {"accuracy": math.nan})
    change(written, lambda found: found["privacy"]["peer"].update(epsilon=math.nan))
    with pytest.raises(RequestError, match="no guarantee"):
        read_summary(written)


def test_every_view_of_a_table_reads_back(written: Path) -> None:
    found: Summary = read_summary(written)
    assert View.LEARNER in found.privacy
    assert all(guarantee.view == view for view, guarantee in found.privacy.items())
