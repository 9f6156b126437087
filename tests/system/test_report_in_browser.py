"""Reports as a browser shows them: no complaint, no request, everything has size and fits, the choosers work.

Looked at with a headless Chromium, as wide as a telephone and as a desk. Each kind of fault is planted once, to see
that it would be noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser, faults_of, require_order

from p2p_labeldp import load_scenario, run, write_report
from p2p_labeldp.cli import main
from p2p_labeldp.experiments.sweeps import make_plan, sweep

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")

SHIPPED = Path(__file__).parents[2] / "scenarios"
WIDTHS = (360, 1280)
PAGES = {
    "quickstart": ("quickstart", "actors", []),
    "collusion": ("collusion", "actors", ["data.users=180", "data.groups=3", "clusters.minimum_size=20"]),
    "churn": ("churn", "actors", ["data.users=120", "clusters.minimum_size=10"]),
    "vectorized": ("quickstart", "vectorized", []),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A report by name, made when it is first asked for."""
    folder = tmp_path_factory.mktemp("pages")

    @cache
    def page(name: str) -> Path:
        if name == "sweep":
            settings = ["data.users=120", "data.groups=3", "clusters.minimum_size=10"]
            scenario = load_scenario(SHIPPED / "hospital.toml", settings)
            plan = make_plan(scenario, ["mechanism.alpha=0.02,0.3", "learner.correct_flips=true,false"], seeds=2)
            sweep(plan, folder / name, workers=1)
        elif name == "comparison":
            words = ["compare", "hospital", "--epsilons", "1", "--mechanisms", "peer_to_peer shuffle uniform_rr"]
            words += ["--set", "data.users=200", "--set", "clusters.method=kmeans", "--counts", "2,4"]
            words += ["--trials", "2", "--workers", "1", "--out", str(folder / name)]
            assert main(words) == 0
            return folder / name / "report.html"
        else:
            shipped, engine, settings = PAGES[name]
            run(load_scenario(SHIPPED / f"{shipped}.toml", settings), engine=engine, out=folder / name)
        return write_report(folder / name)

    return page


@pytest.mark.parametrize("name", [*PAGES, "sweep", "comparison"])
def test_a_report_is_in_order_on_a_telephone_and_on_a_desk(browser: Browser, pages: object, name: str) -> None:
    path = pages(name)  # type: ignore[operator]
    with closing(browser.open(path, width=WIDTHS[0], dark=True)) as tab:
        assert faults_of(tab) == []
        assert tab.evaluate("document.querySelectorAll('figure svg').length") > (name != "comparison") * 2
        tab.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        assert faults_of(tab) == [], "with its tables open"
        require_order(tab)


PANELS = "[...document.querySelectorAll('[data-key]')]"
VISIBLE = f"{PANELS}.filter((each) => each.checkVisibility()).map((each) => each.dataset.key)"


def test_the_cluster_is_chosen_with_the_list_the_buttons_or_the_keyboard(browser: Browser, pages: object) -> None:
    with closing(browser.open(pages("quickstart"), width=360)) as tab:  # type: ignore[operator]
        options = tab.evaluate("[...document.querySelectorAll('#exchange-0 option')].map((each) => each.value)")
        assert len(options) == 12
        assert tab.evaluate(VISIBLE) == options[:1]
        tab.evaluate(
            "{ const list = document.querySelector('#exchange-0'); list.selectedIndex = 4;"
            " list.dispatchEvent(new Event('change')); }"
        )
        assert tab.evaluate(VISIBLE) == options[4:5]
        assert faults_of(tab) == []
        tab.evaluate("document.querySelector('[data-step=\"1\"]').click()")
        assert tab.evaluate(VISIBLE) == options[5:6]
        tab.evaluate("document.querySelector('#exchange-0').focus()")
        tab.press("ArrowDown")
        assert tab.evaluate(VISIBLE) == options[6:7]
        for _ in range(2):
            tab.evaluate("document.querySelector('[data-step=\"-1\"]').click()")
        assert tab.evaluate(VISIBLE) == options[4:5]


def test_the_arrow_keys_read_one_message_after_the_other(browser: Browser, pages: object) -> None:
    said = "document.querySelector('.readout').textContent"
    with closing(browser.open(pages("churn"))) as tab:  # type: ignore[operator]
        assert tab.evaluate(said) == "Point at a message to read it."
        tab.evaluate("document.querySelector('[data-key]:not([hidden]) svg').focus()")
        tab.press("ArrowDown")
        first = tab.evaluate(said)
        tab.press("ArrowDown")
        second = tab.evaluate(said)
        assert "hello: user" in first
        assert second != first
        tab.press("ArrowUp")
        assert tab.evaluate(said) == first
        tab.evaluate(
            "document.querySelector('[data-key]:not([hidden]) .answer title').parentNode"
            ".dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))"
        )
        assert tab.evaluate(said).startswith("answer “")
        assert tab.complaints == []


def test_a_sweep_shows_the_chosen_metric_against_the_chosen_key(browser: Browser, pages: object) -> None:
    title = "[...document.querySelectorAll('.panel h3')].find((each) => each.checkVisibility()).textContent"
    with closing(browser.open(pages("sweep"))) as tab:  # type: ignore[operator]
        assert tab.evaluate(title) == "test accuracy (share of examples) against mechanism.alpha"
        tab.evaluate(
            "{ const list = document.querySelector('#metric-1'); list.selectedIndex = 1;"
            " list.dispatchEvent(new Event('change')); }"
        )
        assert tab.evaluate(title) == "test accuracy (share of examples) against learner.correct_flips"
        tab.evaluate("document.querySelector('[data-step=\"1\"]').click()")
        assert tab.evaluate(title) == "epsilon.learner against learner.correct_flips"
        assert faults_of(tab) == []


def test_without_a_script_the_first_diagram_is_there_and_nothing_to_choose(browser: Browser, pages: object) -> None:
    with closing(browser.open(pages("churn"), script=False)) as tab:  # type: ignore[operator]
        shown = tab.call("DOM.getDocument", depth=1)["root"]["nodeId"]
        panels = tab.call("DOM.querySelectorAll", nodeId=shown, selector=".panel:not([hidden]) svg")["nodeIds"]
        controls = tab.call("DOM.querySelectorAll", nodeId=shown, selector=".controls:not([hidden])")["nodeIds"]
        assert (len(panels), controls) == (1, [])
        box = tab.call("DOM.getBoxModel", nodeId=panels[0])["model"]
        assert box["width"] > 300
        assert box["height"] > 300


def test_light_dark_and_paper_differ_and_paper_is_always_light(browser: Browser, pages: object) -> None:
    grounds = {}
    for dark in (False, True):
        ground = "getComputedStyle(document.body).backgroundColor"
        with closing(browser.open(pages("vectorized"), dark=dark)) as tab:  # type: ignore[operator]
            grounds[dark] = tab.evaluate(ground)
            assert tab.pdf().startswith(b"%PDF")
            tab.call("Emulation.setEmulatedMedia", media="print")
            assert tab.evaluate(ground) == "rgb(255, 255, 255)"
            assert not tab.evaluate("document.querySelector('nav').checkVisibility()")
    assert grounds[False] != grounds[True]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('<img src="http://127.0.0.1:9/picture.png">', "asked for http://127.0.0.1:9/picture.png"),
        ("<script>console.error('no')</script>", "console: ['no']"),
        ("<script>throw new Error('no')</script>", "exception: Uncaught"),
        ("<figure><svg width=0 height=0 viewBox='0 0 9 9'></svg></figure>", "svg without size"),
        ("<p style='width: 2000px'>wide</p>", "the page is 20"),
        ("<svg width=100 viewBox='0 0 440 90'><text y=40 font-size=13>small</text></svg>", "text of 3.0 pixels: small"),
        ("<svg width=330 viewBox='0 0 330 90'><text x=325 y=40 font-size=13>far</text></svg>", "text sticks out by"),
        (
            "<svg width=330 viewBox='0 0 330 90'><text y=40>one</text><text x=9 y=44>two</text></svg>",
            "overlap: one and two",
        ),
        ("<button style='width: 20px; overflow: hidden'>Nevertheless</button>", "cut: Nevertheless"),
    ],
)
@pytest.mark.parametrize("width", [WIDTHS[0], pytest.param(WIDTHS[1], marks=pytest.mark.slow)])
def test_a_fault_would_be_noticed(browser: Browser, tmp_path: Path, body: str, words: str, width: int) -> None:
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html><meta name=viewport content='width=device-width'><p>Page</p>{body}")
    with closing(browser.open(path, width=width)) as tab:
        assert any(words in fault for fault in faults_of(tab)), faults_of(tab)
