"""A run folder of data that do not ship may be passed on without its private part: nothing else tells of one person.

Shown in two ways. Whoever changes one user's label, where by chance nobody reports it, must find every byte outside
``private/`` unchanged: all that is there follows from what the learner received. And what single people said, whom they
asked and the seed are looked for, in files that are unpacked first.
"""

from __future__ import annotations

import io
import json
import shutil
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest

from p2p_labeldp import write_report
from p2p_labeldp.audit import audit_runs
from p2p_labeldp.audit.folder import PRIVATE
from p2p_labeldp.cli import main
from p2p_labeldp.data.splits import split
from p2p_labeldp.experiments.epsilon import setting_of_runs
from p2p_labeldp.experiments.run import run
from p2p_labeldp.mechanisms.coins import SeededCoins
from p2p_labeldp.reporting.report import BANNER
from p2p_labeldp.runs.summary import read_summary
from p2p_labeldp.scenario import Scenario, parse_scenario

SEED = 918_273_645
ROWS, FRACTION = 150, 0.2
NAMES = ("kestrel", "ouzel")
TOML = """
[data]
name = "csv"
path = "{path}"
label_column = "bird"
cluster_column = "where"
[clusters]
method = "given"
minimum_size = 5
[mechanism]
alpha = 0.3
theta = 0.6
[network]
latency = 0.1
[[adversaries]]
kind = "collusion"
users = [1, 2]
"""
PEOPLE = {"population.npz", "scenario.toml", "seed.json", "summary.json", "trace.msgpack"}


def table() -> list[tuple[float, str, str]]:
    generator = np.random.default_rng(5)
    return [
        (float(x), NAMES[int(generator.random() < 0.3 + 0.4 * (x > 0))], f"place {place % 3}")
        for place, x in enumerate(generator.normal(size=ROWS))
    ]


def scenario_of(folder: Path, rows: list[tuple[float, str, str]], seeded: bool = True) -> Scenario:
    """The same file name every time, so that paths in files are equal."""
    file = folder / "birds.csv"
    file.write_text("x,bird,where\n" + "".join(f"{x!r},{label},{where}\n" for x, label, where in rows))
    settings = [f"coins.seed={SEED}", 'coins.source="seeded"'] if seeded else []
    return parse_scenario(TOML.format(path=file), "", settings)


def outside(folder: Path) -> dict[str, bytes]:
    """Every file outside the private folder; archives as what they hold."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or PRIVATE in path.relative_to(folder).parts:
            continue
        name, content = str(path.relative_to(folder)), path.read_bytes()
        if path.suffix == ".npz":
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                found |= {f"{name}/{each}": archive.read(each) for each in archive.namelist()}
        else:
            found[name] = content
    return found


def but_for_the_time(files: dict[str, bytes]) -> dict[str, bytes]:
    summary = json.loads(files["summary.json"])
    del summary["seconds"], summary["out"]
    return files | {"summary.json": json.dumps(summary).encode()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A seeded run of a file of one's own, with its report."""
    folder = tmp_path_factory.mktemp("birds")
    run(scenario_of(folder, table()), out=folder / "run")
    write_report(folder / "run")
    return folder / "run"


def unasked(labels: int) -> int:
    """The first user whom nobody asks: her label reaches no report."""
    train, _ = split(ROWS, SEED, FRACTION)
    places = np.array([place % 3 for place in range(ROWS)])[train]
    drawn = SeededCoins(SEED).block(0, 0, len(train))
    asked = set()
    for cluster in range(3):
        members = np.flatnonzero(places == cluster)
        asked |= {int(members[int(drawn[user, 1] * len(members))]) for user in members}
    assert labels == 2
    return int(train[next(user for user in range(3, len(train)) if user not in asked)])


def test_a_label_that_nobody_reported_changes_no_byte_outside_the_private_folder(made: Path, tmp_path: Path) -> None:
    rows = table()
    row = unasked(2)
    x, label, where = rows[row]
    rows[row] = (x, NAMES[label == NAMES[0]], where)
    place = made.parent / "again"
    try:
        run(scenario_of(made.parent, rows), out=place)
        write_report(place)
        ours, theirs = (but_for_the_time(outside(folder)) for folder in (made, place))
        assert ours.keys() == theirs.keys()
        for name in ours:
            assert ours[name] == theirs[name], name
        inside = [(folder / PRIVATE / "population.npz").read_bytes() for folder in (made, place)]
        assert inside[0] != inside[1], "the label did change"
        exact = [read_summary(folder / PRIVATE / "summary.json").purity for folder in (made, place)]
        assert exact[0] != exact[1], "and the exact quality of clusters tells it"
    finally:
        shutil.rmtree(place, ignore_errors=True)
        scenario_of(made.parent, table())


def test_what_tells_of_single_people_is_in_the_private_folder_alone(made: Path) -> None:
    assert {path.name for path in made.iterdir()} == {
        "manifest.json", "model-card.md", "model.npz", "private", "report.html", "reports.npz", "scenario.toml",
        "summary.json",
    }  # fmt: skip
    assert {path.name for path in (made / PRIVATE).iterdir()} == PEOPLE
    assert stat.S_IMODE((made / PRIVATE).stat().st_mode) == 0o700
    with np.load(made / PRIVATE / "population.npz") as population:
        truth = population["true_label"]
    for name, content in outside(made).items():
        assert str(SEED).encode() not in content, name
        for words in (
            b"sign flipped",
            b", flipped",
            b"to user",
            "answer “".encode(),
            b"true share",
            b"true labels beside",
        ):
            assert words not in content, (name, words)
        for kind in (np.int8, np.int64, np.float64):
            assert truth.astype(kind).tobytes() not in content, name
        assert "".join(map(str, truth)).encode() not in content, name
        assert json.dumps(truth.tolist()).encode() not in content, name
    assert json.loads((made / PRIVATE / "seed.json").read_text()) == {"seed": SEED, "coins": "seeded"}


def test_a_seeded_run_says_that_its_seed_undoes_the_noise_and_does_not_tell_it(made: Path) -> None:
    summary = read_summary(made / "summary.json")
    assert summary.seed is None
    assert any("whoever knows the seed can undo every flip" in warning for warning in summary.warnings)
    assert "whoever knows the seed can undo every flip" in (made / "report.html").read_text(encoding="utf-8")
    assert read_summary(made / PRIVATE / "summary.json").seed == SEED


def test_its_owner_reads_it_as_before(made: Path) -> None:
    assert audit_runs([made]).passed
    assert audit_runs([made]).runs[0].coins_recomputed, "with the seed that is kept apart"
    assert setting_of_runs([made], "learner", None, None).parameters.alpha == 0.3


def test_a_page_shows_true_labels_when_asked_to_with_a_banner_and_in_the_private_folder(made: Path) -> None:
    page = made / "report.html"
    before = page.read_text(encoding="utf-8")
    assert BANNER not in before
    assert main(["report", str(made), "--show-true-labels"]) == 0
    kept = made / PRIVATE / "report.html"
    try:
        shown = kept.read_text(encoding="utf-8")
        assert page.read_text(encoding="utf-8") == before
        assert shown.index(BANNER) < shown.index("<h1>")
        assert "sign flipped" in shown
        assert "true share" in shown
    finally:
        kept.unlink()


def test_without_its_private_folder_it_still_has_its_report(made: Path, tmp_path: Path) -> None:
    alone = tmp_path / "run"
    shutil.copytree(made, alone, ignore=shutil.ignore_patterns(PRIVATE))
    assert write_report(alone).read_bytes() == (made / "report.html").read_bytes()


def test_without_a_seed_the_coins_are_the_operating_systems(tmp_path: Path) -> None:
    finished = run(scenario_of(tmp_path, table(), seeded=False), engine="vectorized", out=tmp_path / "run")
    assert (finished.summary.coins, finished.summary.seed) == ("system", None)
    assert not any("seed" in warning for warning in finished.summary.warnings)


def test_data_that_ship_are_shown_and_say_in_one_short_line_that_the_run_is_seeded(tmp_path: Path) -> None:
    finished = run(parse_scenario("[data]\nusers = 60\n[clusters]\ncount = 2", ""), out=tmp_path / "run")
    assert not (tmp_path / "run" / PRIVATE).exists()
    (warning,) = finished.summary.warnings
    assert "whoever knows the seed can undo every flip" in warning
    assert len(warning) < 100
    assert BANNER not in write_report(tmp_path / "run").read_text(encoding="utf-8")
