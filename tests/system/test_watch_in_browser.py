"""The live page as a browser shows it: played, paused and stepped through, on a telephone and on a desk."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser, Left, Tab, require_order
from processes import PATIENCE, program
from small import PEOPLE, SECRETS, study

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
SMALL = ("--set", "data.users=120", "--set", "clusters.minimum_size=10", "--json")
ARROWS = "document.querySelectorAll('#diagram .message title').length"
SENT = "Number(document.querySelector('#tiles b').textContent.replaceAll(',', ''))"


@contextmanager
def watched(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A command with ``--watch``, and where its page is."""
    with program(*words, "--watch") as process:
        assert process.stderr is not None
        found = re.search(r"http://\S+", process.stderr.readline())
        assert found is not None
        yield process, found[0]


def click(tab: Tab, name: str) -> None:
    tab.until(f"!document.querySelector('#{name}').disabled")
    with suppress(Left):  # of a link
        tab.evaluate(f"document.querySelector('#{name}').click()")


def text(tab: Tab, selector: str) -> str:
    found: str = tab.evaluate(f"document.querySelector('{selector}').textContent")
    return found


def test_a_simulation_is_stepped_through_and_played_to_its_end(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with watched("run", "churn", *SMALL, "--paused", "--out", str(folder)) as (process, address):
        tab = browser.open(address)
        tab.until("document.querySelector('#play').textContent === 'Play' && !document.querySelector('#play').disabled")
        tab.until(f"{SENT} === 1")
        assert text(tab, "#last").startswith("1: hello: user ")
        assert tab.evaluate("document.querySelector('[aria-current]').textContent") == "users join"
        for sent in (2, 3):
            click(tab, "step")
            tab.until(f"{SENT} === {sent}")
        assert tab.evaluate(ARROWS) <= 3
        click(tab, "step-stage")
        tab.until("document.querySelector('[aria-current]').textContent === 'exchange'")
        assert "roster" in text(tab, "#last")
        assert tab.until("document.querySelectorAll('.fills li').length") == 4
        before = tab.until(ARROWS)
        for _ in range(3):
            said = text(tab, "#last")
            click(tab, "step-cluster")
            tab.until(f"document.querySelector('#last').textContent !== {json.dumps(said)}")
        tab.until(f"{ARROWS} > {before}")
        require_order(tab)
        tab.evaluate("document.querySelector('#play').focus()")
        tab.press("Enter")
        tab.until("!document.querySelector('#ended').hidden")
        assert text(tab, "#ended-title") == "Finished"
        assert tab.evaluate("[...document.querySelectorAll('.stages li')].every((each) => each.className === 'past')")
        assert "Of this run" in text(tab, "#guarantees-title")
        tab.until("!document.querySelector('#report').hidden")
        out, _ = process.communicate(timeout=PATIENCE)
        summary = json.loads(out)
        assert process.returncode == 0
        assert tab.evaluate(SENT) == summary["messages"]
        assert tab.evaluate(ARROWS) > 50
        assert [int(count) for count in re.findall(r"\d+", text(tab, "#faults tbody td"))] == [
            summary["faults"][0]["fired"]
        ]
        assert tab.evaluate("document.querySelector('#guarantees tbody td').textContent")
        require_order(tab)
        tab.evaluate("document.querySelector('#report').target = ''")
        click(tab, "report")  # from the page's memory: the program has ended
        assert tab.until("document.querySelectorAll('section figure svg').length > 2 && document.title")
        tab.until("document.querySelector('.controls')?.hidden === false")  # its script has run
        assert tab.complaints == []
        tab.close()


@pytest.mark.slow
def test_of_data_that_do_not_ship_the_page_shows_no_user(browser: Browser, tmp_path: Path) -> None:
    scenario = study(tmp_path, ["x,label", *SECRETS])
    with watched("run", str(scenario), "--paused", "--json", "--out", str(tmp_path / "run")) as (process, address):
        tab = browser.open(address, width=390)
        click(tab, "step")
        tab.until(f"{SENT} === 2")
        assert text(tab, "#last") == "2: hello: a user joins, with her public features"
        click(tab, "play")
        tab.until("!document.querySelector('#ended').hidden")
        process.communicate(timeout=PATIENCE)
        assert "real people" in text(tab, "#exchange")
        page = tab.evaluate("document.documentElement.outerHTML")
        assert "secretly" not in page
        assert "<svg" not in page
        require_order(tab)
        tab.close()


KILLED_AND_CUT_OFF = """
[coins]
source = "seeded"
seed = 3
[mechanism]
rounds = 3
[[faults]]
rule = "crash"
users = [0]
at = 0.0
restart = 1.0
[[faults]]
rule = "partition"
users = [59]
start = 0.0
end = 3.0
"""


@pytest.mark.slow
def test_a_deployment_of_real_people_is_watched_through_a_kill_and_a_partition(
    browser: Browser, tmp_path: Path
) -> None:
    scenario = study(tmp_path, ["x,label", *SECRETS, *SECRETS[:15]], PEOPLE + KILLED_AND_CUT_OFF)
    folder = tmp_path / "run"
    words = ("deploy", str(scenario), "--hosts", "3", "--json", "--out", str(folder))
    with watched(*words) as (process, address):
        tab = browser.open(address)
        tab.until("document.querySelectorAll('#nodes tbody tr').length === 6")
        tab.until("document.querySelectorAll('.state.down').length")
        tab.until("document.querySelectorAll('.state.mute').length")
        require_order(tab)
        tab.until("document.querySelector('.events').textContent.includes('users-1 was started again')")
        tab.until("!document.querySelector('#ended').hidden")
        summary = json.loads(process.communicate(timeout=PATIENCE)[0])
        assert process.returncode == 0
        said = text(tab, ".events")
        for what in ("users-1 was killed", "users-3 was cut off", "users-3 goes on", "users-2 has left"):
            assert what in said
        tiles = tab.evaluate("[...document.querySelectorAll('#tiles b')].map((each) => each.textContent)")
        assert tiles[:4] == ["0", "1", "60", "2"], "nodes up, restarts, users done, clusters full"
        assert int(tiles[4].replace(",", "")) == summary["messages"]
        assert tab.evaluate("[...document.querySelectorAll('.fills li')].map((each) => each.textContent)")
        assert "Of this run" in text(tab, "#guarantees-title")
        require_order(tab)
        assert "secretly" not in tab.evaluate("document.documentElement.outerHTML")
        tab.close()
    logs = "".join(path.read_text() for path in (folder / "logs").iterdir())
    assert '"counted"' not in logs, "what is for whoever watches is not kept"
    assert '"filled"' not in logs
    with program("run", str(scenario), "--json", "--no-report", "--out", str(tmp_path / "alone")) as process:
        alone = json.loads(process.communicate(timeout=PATIENCE)[0])
    assert summary["noisy_sha256"] == alone["noisy_sha256"]
