"""The report of a run: what it says, what it is made from, and what it refuses."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small import SIXTY, sixty

from p2p_labeldp import write_report
from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments.run import run
from p2p_labeldp.privacy.numbers import rounded_up
from p2p_labeldp.reporting.exchanges import MOST_MESSAGES, MOST_USERS, chosen_clusters, exchanges
from p2p_labeldp.reporting.messages import message_section
from p2p_labeldp.reporting.recorded import read_run
from p2p_labeldp.reporting.report import page_of, run_page
from p2p_labeldp.reporting.traffic import Traffic, read_traffic, timeline

ONE_ROUND = ("mechanism.rounds=1", "network.latency=0.1")
FAULTS = """
[[faults]]
rule = "loss"
probability = 0.05
[[faults]]
rule = "delay"
probability = 0.0
"""
HOSTILE = '</script></style></title><img src=x onerror="alert(1)">'
SECTIONS = ["run", "privacy", "accuracy", "clusters", "messages", "exchange", "attacks", "faults", "repeat", "glossary"]


class Elements(HTMLParser):
    """Every element of a page as a browser would read it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with messages that take time, and faults of which one never fires."""
    out = tmp_path_factory.mktemp("runs") / "run"
    run(sixty(*ONE_ROUND, text=SIXTY + FAULTS), out=out)
    return out


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy to be changed."""
    return Path(shutil.copytree(made, tmp_path / "run"))


@pytest.fixture(scope="module")
def html(made: Path) -> str:
    return write_report(made).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def traffic(made: Path) -> Traffic:
    return read_traffic(made / "trace.msgpack", 60)


def changed(folder: Path, **changes: Any) -> None:
    path = folder / "summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_folder_has_one_report_wherever_it_is_and_whenever_it_is_made(made: Path, folder: Path, html: str) -> None:
    assert write_report(folder).read_text(encoding="utf-8") == html
    assert str(made.parent) not in html, "a page that is passed on says nothing of the machine"


def test_the_sections_stand_in_their_order(html: str) -> None:
    assert [section["id"] for section in Elements(html).named("section")] == SECTIONS


def test_a_page_needs_nothing_else(html: str) -> None:
    page = Elements(html)
    addresses = [
        value for _, attributes in page.found for name, value in attributes.items() if name in ("src", "href", "action")
    ]
    assert all(address is not None and address.startswith(("#", "data:,")) for address in addresses)
    assert not {"img", "iframe", "object", "embed", "form", "audio", "video"} & {tag for tag, _ in page.found}
    assert "url(" not in html
    assert "@import" not in html


def test_the_policy_lets_only_the_pages_own_script_and_style_run(html: str) -> None:
    (policy,) = (
        meta["content"] for meta in Elements(html).named("meta") if meta.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert "default-src 'none'" in policy
    for tag in ("script", "style"):
        text = html.split(f"<{tag}>")[1].split(f"</{tag}>")[0]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    page = Elements(html)
    assert not [attributes for _, attributes in page.found if "style" in attributes]


def test_every_figure_has_a_title_a_caption_words_and_its_data(html: str) -> None:
    figures = html.split("<figure>")[1:]
    assert len(figures) > 8
    for figure in (each.split("</figure>")[0] for each in figures):
        for part in ("<h3>", "<title ", "<desc ", 'role="img"', "<figcaption>", "<table"):
            assert part in figure, figure[:200]


def test_ids_are_unique(html: str) -> None:
    ids = [attributes["id"] for _, attributes in Elements(html).found if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_it_says_what_the_summary_says(made: Path, html: str) -> None:
    summary = json.loads((made / "summary.json").read_text())
    learner = summary["privacy"]["learner"]
    for said in (
        rounded_up(learner["epsilon"], 4), rounded_up(learner["delta"]), f"{summary['accuracy']:.4f}",
        f"{summary['nonprivate_accuracy']:.4f}", f"{summary['messages']:,}", summary["noisy_sha256"],
        "probability 0.3 (alpha)", "probability 0.7 (theta)", "3 clusters",
        "p2p-labeldp run scenario.toml --engine actors --hosting user",
    ):  # fmt: skip
        assert said in html, said


def test_a_run_that_was_split_is_repeated_with_workers(folder: Path, html: str) -> None:
    assert "--dask" not in html
    changed(
        folder,
        engine="vectorized",
        hosting=None,
        workers=[{"worker": "one", "shares": 1, "users": 60, "cpu_seconds": 0.1, "peak_bytes": 9}],
    )
    said = write_report(folder).read_text(encoding="utf-8")
    assert "p2p-labeldp run scenario.toml --engine vectorized --dask ADDRESS" in said


def test_a_fault_that_never_fired_is_marked(html: str) -> None:
    assert "Never fired, so that nothing was tested by it: delay." in html


def test_whatever_a_folder_says_stays_text(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["classes"] = [HOSTILE, HOSTILE + "1", HOSTILE + "2"]
    manifest[HOSTILE] = {HOSTILE: [HOSTILE, "\ud800"]}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    summary = json.loads((folder / "summary.json").read_text())
    summary["privacy"]["learner"]["reason"] = HOSTILE
    changed(
        folder, warnings=[HOSTILE], trust=HOSTILE, accuracy_reason=HOSTILE, privacy=summary["privacy"],
        missing_hosts=[HOSTILE], noisy_sha256=HOSTILE,
        attacks=[{"number": 1, "kind": HOSTILE, "view": HOSTILE, "attack": HOSTILE, "advantage": [0.1, 0, 0.2],
                  "note": HOSTILE, "others": {HOSTILE: 0.1}, "trials": 100, "confidence": 0.9}],
    )  # fmt: skip
    with (folder / "scenario.toml").open("a", encoding="utf-8") as file:
        file.write(f"# {HOSTILE}\n")
    page = Elements(write_report(folder).read_text(encoding="utf-8"))
    assert not page.named("img")
    assert (len(page.named("script")), len(page.named("style"))) == (1, 1)
    assert not [name for _, attributes in page.found for name in attributes if name.startswith("on")]


@pytest.mark.parametrize("names", [["population.npz"], ["trace.msgpack"], ["reports.npz", "population.npz"]])
def test_what_is_missing_is_left_out(folder: Path, names: list[str]) -> None:
    for name in names:
        (folder / name).unlink()
    page = Elements(write_report(folder).read_text(encoding="utf-8"))
    sections = [section["id"] for section in page.named("section")]
    assert sections == [name for name in SECTIONS if name != "exchange" or "trace.msgpack" not in names]


def test_a_run_without_accuracy_says_why(folder: Path) -> None:
    changed(folder, accuracy=None, accuracy_reason="nobody held everyone", nonprivate_accuracy=None)
    assert "There is no accuracy: nobody held everyone." in write_report(folder).read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["cluster_rr", "dp_sgd"])
def test_every_mechanism_has_a_page(kind: str, tmp_path: Path) -> None:
    settings = [f"mechanism.kind={kind}", "mechanism.epsilon=1", "data.labels=2"]
    run(sixty(*ONE_ROUND, *settings), engine="vectorized", out=tmp_path / "run")
    page = run_page(tmp_path / "run")
    assert [section.name for section in page.sections] == [name for name in SECTIONS[1:] if name != "exchange"]


def damage(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(text) and None


def shortened(folder: Path) -> None:
    path = folder / "trace.msgpack"
    path.write_bytes(path.read_bytes()[:-3])


def with_arrays(name: str, **arrays: list[int]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        np.savez(folder / name, **{key: np.array(value) for key, value in arrays.items()})

    return write


def without(*names: str) -> Callable[[Path], None]:
    return lambda folder: [(folder / name).unlink() for name in names] and None


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (without("summary.json"), "interrupted"),
        (without("summary.json", "trace.msgpack"), "not a run folder: summary.json is missing"),
        (without("scenario.toml"), "scenario.toml"),
        (without("manifest.json"), "manifest.json: is missing"),
        (damage("summary.json", "{"), "summary.json: not the summary of a run"),
        (damage("manifest.json", '{"classes": [[]]}'), "manifest.json: classes"),
        (damage("scenario.toml", "[data]\nnam = 3\n"), "scenario.toml"),
        (damage("reports.npz", "no"), "reports.npz: is damaged"),
        (with_arrays("reports.npz", round=[0], user=[0], label=[0]), "reports.npz: must hold"),
        (with_arrays("population.npz", cluster=[0], true_label=[0]), "population.npz: must have one row"),
        (with_arrays("population.npz", cluster=[2**40] * 60, true_label=[0] * 60), "population.npz: cluster must lie"),
        (damage("trace.msgpack", "no"), "trace.msgpack: not a trace"),
        (shortened, "trace.msgpack: cut off"),
        (lambda folder: changed(folder, users=61), "population.npz: must have one row for each of 61"),
    ],
)
def test_a_folder_that_is_no_finished_run_is_refused_and_left_as_it_was(
    folder: Path, harm: Callable[[Path], None], words: str
) -> None:
    (folder / "report.html").write_text("an earlier report")
    harm(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(RequestError) as caught:
        write_report(folder)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_run_that_was_interrupted_has_no_report(tmp_path: Path) -> None:
    (tmp_path / "run.interrupted").mkdir()
    with pytest.raises(RequestError, match="interrupted"):
        write_report(tmp_path / "run.interrupted")


def test_whoever_may_read_the_trace_may_read_the_report(folder: Path) -> None:
    (folder / "trace.msgpack").chmod(0o600)
    assert write_report(folder).stat().st_mode & 0o777 == 0o600


def test_traffic_is_the_whole_trace(made: Path, traffic: Traffic) -> None:
    summary = json.loads((made / "summary.json").read_text())
    assert traffic.complete
    assert (len(traffic), traffic.left_out) == (summary["messages"], 0)
    counts = {kind: sum(found) for kind, found in timeline(traffic).counts.items()}
    assert counts == summary["messages_by_kind"]
    with np.load(made / "population.npz") as population:
        for cluster, members in traffic.rosters.items():
            assert members.tolist() == np.flatnonzero(population["cluster"] == cluster).tolist()


def test_a_long_trace_is_cut_and_the_page_says_so(made: Path) -> None:
    recorded = read_run(made)
    part = read_traffic(made / "trace.msgpack", 60, most=100)
    assert (len(part), part.complete) == (100, False)
    row = message_section(recorded, part).blocks[0]
    assert f"The first 100 of {recorded.summary.messages:,} messages" in row.figures[1].caption  # type: ignore[attr-defined]
    assert page_of(recorded, part).sections


def test_an_exchange_is_capped_and_hangs_together(made: Path, traffic: Traffic) -> None:
    recorded = read_run(made)
    assert recorded.true_labels is not None
    for exchange in exchanges(recorded.known, traffic):
        assert len(exchange.users) <= MOST_USERS
        assert len(exchange.arrows) <= MOST_MESSAGES
        asks = [arrow for arrow in exchange.arrows if arrow.kind == "ask"]
        assert asks
        for arrow in exchange.arrows:
            assert arrow.sender in (*exchange.users, *exchange.parties)
            assert arrow.receiver in (*exchange.users, *exchange.parties)
            if arrow.then is not None:
                caused = exchange.arrows[arrow.then]
                assert caused.sender == arrow.receiver
                assert arrow.arrives == caused.sent >= arrow.sent + 0.1 - 1e-9, "no message is faster than the network"
            if arrow.kind == "answer" and arrow.sender in exchange.users:
                told = recorded.classes.index(arrow.words.split("“")[1].split("”")[0])
                assert arrow.flipped == (told != recorded.true_labels[arrow.sender])
        answered = [arrow for arrow in asks if arrow.then is not None]
        assert all(exchange.arrows[arrow.then or 0].kind == "answer" for arrow in answered)
        assert answered


def test_clusters_to_choose_from_are_the_smallest_the_largest_and_others_between() -> None:
    sizes = {cluster: 1000 - cluster for cluster in range(500)}
    chosen = chosen_clusters(sizes, 16)
    assert (len(chosen), chosen[0], chosen[-1]) == (16, 499, 0)
    steps = np.diff([sizes[cluster] for cluster in chosen])
    assert steps.max() - steps.min() <= 1
