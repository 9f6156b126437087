"""The documentation builds as a site without a warning, searches itself, and loads nothing from a network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from browser import CHROMIUM, FAULTS, Browser

ROOT = Path(__file__).parents[2]
BROKEN = """(() => {
  const found = [];
  const range = document.createRange();
  for (const cell of document.querySelectorAll("th, td")) {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      for (const { 0: word, index } of texts.currentNode.data.matchAll(/\\w+/g)) {
        range.setStart(texts.currentNode, index);
        range.setEnd(texts.currentNode, index + word.length);
        if (new Set([...range.getClientRects()].map((box) => box.top)).size > 1) found.push(word);
      }
    }
  }
  return found;
})()"""
"""Words of tables that go on in another line."""
LOADED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"([^\"]*)\"|<link\b[^>]*\bhref=\"([^\"]*)\"")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="the site needs MkDocs: pip install '.[docs]'")
    place = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(place)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}, timeout=300, capture_output=True,
        text=True, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return place


def test_every_page_of_the_folder_is_on_the_site_and_in_its_search(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    for page in (ROOT / "docs").glob("*.md"):
        assert (site / f"{page.stem}.html").exists(), f"{page.name} is not in mkdocs.yml"
        assert f"{page.stem}.html" in found


def test_the_reference_is_what_the_program_says(site: Path) -> None:
    from p2p_labeldp.cli import app
    from p2p_labeldp.scenario import documentation

    commands = (site / "command-line.html").read_text(encoding="utf-8")
    for command in app.registered_commands:
        assert f"Usage: p2p-labeldp {command.name} " in commands
    assert "Usage: p2p-labeldp certs init " in commands
    keys = (site / "scenario-keys.html").read_text(encoding="utf-8")
    for name, *_ in documentation():
        assert f"<code>{name.rpartition('.')[2]}</code>" in keys


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    for page in site.glob("*.html"):
        loaded = [one or other for one, other in LOADED.findall(page.read_text(encoding="utf-8"))]
        assert loaded
        assert [place for place in loaded if "//" in place] == [], page.name
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")), style


def test_the_home_page_is_the_readme(site: Path) -> None:
    home = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="tutorial.html"' in home
    assert 'src="figure.png"' in home
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 600, "README keeps to a screen"


def test_no_block_of_code_becomes_a_paragraph(site: Path) -> None:
    named = [
        page.stem for page in (ROOT / "docs").glob("*.md") if re.search(r"^```\w+ \S", page.read_text(), re.MULTILINE)
    ]
    assert len(named) > 3
    for page in site.glob("*.html"):
        assert not re.search(r"<p><code>[^<]*\n[^<]*\n", page.read_text(encoding="utf-8")), page.name
    for name in named:
        assert "<pre><code" in (site / f"{name}.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_every_page_fits_a_telephone_and_a_desk(site: Path, tmp_path: Path) -> None:
    with Browser(tmp_path) as browser:
        for page in sorted(site.glob("*.html")):
            tab = browser.open(page, width=390, dark=True)
            for width in (390, 1280):
                tab.resize(width)
                assert [*tab.evaluate(FAULTS), *tab.evaluate(BROKEN)] == [], f"{page.name}, {width} pixels wide"
            tab.close()
