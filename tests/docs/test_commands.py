"""Every command that the documentation shows is one that the program takes, and runs wherever a test can run it.

README, CONTRIBUTING, the pages of ``docs/`` and comments of scenarios are searched for commands. All are parsed. Then
each page is followed from top to bottom in an empty folder: files are written, commands run, outputs of sessions
compared. What a test cannot run is in ``NOT_RUN``, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import commands
import pytest
import sessions

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
SCENARIOS = sorted((ROOT / "scenarios").glob("*.toml"))
WRONG = {"p2p-labeldp run clinic.toml --set mechanism.epsilom=0.5"}
"""Shown to show what the program says of it."""

MENTION = "names the command, not what it is to do"
CONTAINERS = "needs a Docker engine: tests/containers"
MACHINES = "needs several machines"
STUDY = "several nodes at the same time: tests/docs/test_walk_through.py"
MINUTES = "takes minutes"
FILES = "needs data sets that do not ship"
DASK = "needs a Dask cluster: tests/experiments, tests/engines"
REWRITES = "writes into the documentation: tests/docs compare what it writes"
NOT_RUN = {
    "docker compose*": CONTAINERS,
    "P2P_LABELDP_* docker compose*": CONTAINERS,
    "p2p-labeldp audit runs/[*]": CONTAINERS,
    "p2p-labeldp attacks runs/* --pooled *": CONTAINERS,
    "p2p-labeldp node coordinator *": STUDY,
    "p2p-labeldp node learner study.toml *": STUDY,
    "p2p-labeldp node auditor *": STUDY,
    "p2p-labeldp node users *": STUDY,
    "p2p-labeldp node curator *": STUDY,
    "p2p-labeldp predict ada/model *": STUDY,
    "p2p-labeldp audit results": MACHINES,
    "p2p-labeldp next state": MACHINES,
    "p2p-labeldp certs approve *": "needs a host that waits to be approved: tests/deployment",
    "p2p-labeldp certs deny *": "needs a host that waits to be approved: tests/deployment",
    "p2p-labeldp sweep hospital *": f"{MINUTES}: tests/docs/test_tutorial.py sweeps less",
    "p2p-labeldp compare people.csv --label readmitted": f"{MINUTES}: it is run with --quick",
    "p2p-labeldp compare figure-*": FILES,
    "p2p-labeldp run figure-*": FILES,
    "*--dask *": DASK,
    "*--watch*": "waits for a person who looks at the page: tests/reporting",
    "python docs/*": REWRITES,
    "python benchmarks/accounting.py": MINUTES,
    "python benchmarks/engines.py": MINUTES,
    "python benchmarks/peers.py": MINUTES,
    "python benchmarks/deployment.py*": MINUTES,
    "python benchmarks/mixed.py *": MINUTES,
    "python benchmarks/watch.py": MINUTES,
    "python benchmarks/poisoning.py": MINUTES,
    "python benchmarks/sweeps.py": MINUTES,
    "python benchmarks/split.py *": MINUTES,
    "python benchmarks/theory.py *": MINUTES,
    "python -m p2p_labeldp.deployment.simulated --seeds 0:1000*": MINUTES,
    "p2p-labeldp account": MENTION,
    "p2p-labeldp account --trade-off": MENTION,
    "p2p-labeldp attacks": MENTION,
    "p2p-labeldp audit": MENTION,
    "p2p-labeldp audit --epsilon": MENTION,
    "p2p-labeldp audit runs/quickstart runs/quickstart ...": MENTION,
    "p2p-labeldp calibrate --view coalition --colluders 1": MENTION,
    "p2p-labeldp certs init": MENTION,
    "p2p-labeldp certs invite": MENTION,
    "p2p-labeldp deploy quickstart": MENTION,
    "p2p-labeldp divide": MENTION,
    "p2p-labeldp node --cuttable": MENTION,
    "p2p-labeldp node learner": MENTION,
    "p2p-labeldp run": MENTION,
    "p2p-labeldp run --plugin hesitant.py": MENTION,
    "p2p-labeldp run --set": MENTION,
}
"""Patterns of commands, with something in place of words in capitals, and why no test here runs them."""

STATUS: dict[str, int] = {}
"""What a page says of a command that does not end with 0."""

BEFORE = {
    "*scenarios/*": f"test -e scenarios || ln -s {ROOT}/scenarios .",
    "python benchmarks/*": f"test -e benchmarks || ln -s {ROOT}/benchmarks .",
    "* people.csv *": "test -e people.csv || python people.py",
    "p2p-labeldp predict runs/people *": "head -n 4 people.csv > new.csv",
    "p2p-labeldp schema north/rows.csv *": "mkdir north south ada && python people.py && cp people.csv north/rows.csv",
    "p2p-labeldp certs init *": "rm -rf certs",
    "p2p-labeldp certs sites enrolment": "test -e enrolment || cp -rp certs/enrolment .",
    "p2p-labeldp audit runs/quickstart": "p2p-labeldp run quickstart --out runs/quickstart",
}
"""What a reader has done, or has, before a command: a clone of the repository, data of her own, another study."""
ALONE = re.compile(r"p2p-labeldp (?:run|threats|deploy|compare|account|scenarios)\b(?!.*--out)")
"""Commands whose results no other command of a page asks for."""
ELSEWHERE = {"tutorial.md", "own-attacker.md"}
"""Pages that tests/docs/test_tutorial.py follows."""


def steps(page: Path) -> Iterator[tuple[sessions.Step, bool]]:
    """What a reader of a page writes and types, with something in place of words in capitals; is the output shown?"""
    for step, shown in commands.session_of(page):
        if step.name:
            yield step, shown
        else:
            text = re.sub(r"^pip install \S+ && ", "", step.text)
            yield sessions.Step("", commands.filled(text), step.printed), shown


def plain(text: str) -> str:
    """A command without comment, with single spaces."""
    return " ".join(re.sub(r"\s#.*|\\\n", " ", text).split())


def matching(text: str, table: dict[str, str]) -> list[str]:
    return [pattern for pattern in table if fnmatchcase(plain(text), pattern)]


def typed_by_hand(text: str) -> bool:
    return plain(text).startswith(("p2p-labeldp ", "python -m p2p_labeldp", "python benchmarks/", "cat ", "cp "))


def runnable(page: Path) -> list[tuple[sessions.Step, bool]]:
    """What is written and run of a page, without what only repeats a command of it, or of an earlier page."""
    earlier = {plain(step.text) for each in PAGES[: PAGES.index(page)] for step, _ in steps(each)}
    found: dict[str, tuple[sessions.Step, bool]] = {}
    for number, (step, shown) in enumerate(steps(page)):
        if step.name or shown:
            found[f"{number}"] = step, shown
        elif ALONE.match(step.text) and plain(step.text) in earlier:
            continue
        elif typed_by_hand(step.text) and not matching(step.text, NOT_RUN):
            found.setdefault(plain(step.text), (step, shown))
    return list(found.values())


@pytest.mark.parametrize("page", [*PAGES, *SCENARIOS], ids=lambda page: page.name)
def test_programs_take_every_command_that_is_shown(page: Path) -> None:
    for command in commands.commands_of(page):
        if command.text in WRONG:
            with pytest.raises(commands.CommandError):
                commands.check(command)
        else:
            commands.check(command)


def test_only_commands_that_a_page_has_are_excused() -> None:
    typed = [plain(step.text) for page in PAGES for step, _ in steps(page) if not step.name]
    for table in (NOT_RUN, BEFORE, dict.fromkeys(STATUS, "")):
        for pattern in table:
            assert any(fnmatchcase(text, pattern) for text in typed), f"no page has {pattern} any more"
    left = [
        text for text in typed if commands.is_ours(text) and not typed_by_hand(text) and not matching(text, NOT_RUN)
    ]
    assert left == [], "neither run nor excused"
    checked = {command.text for page in PAGES for command in commands.commands_of(page)}
    assert checked >= WRONG


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_with_commands_are_marked_as_such(page: Path) -> None:
    for block in sessions.BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block["mark"].strip() not in ("sh", "console"):
            assert not re.search(r"^(?:\$ |p2p-labeldp |docker |python )", block["body"], re.MULTILINE), block[0]


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in ELSEWHERE], ids=lambda page: page.name)
def test_a_reader_who_types_the_commands_of_a_page_gets_what_it_says(page: Path, tmp_path: Path) -> None:
    people = next(step for step, _ in commands.session_of(DOCS / "own-data.md") if step.name == "people.py")
    for step, shown in runnable(page):
        for pattern in matching(step.text, BEFORE):
            sessions.execute(people, tmp_path)
            status, printed = sessions.execute(sessions.Step("", BEFORE[pattern]), tmp_path)
            assert status == 0, printed
        status, printed = sessions.execute(step, tmp_path)
        assert status == STATUS.get(plain(step.text), 0), f"$ {step.text}\n{printed}"
        assert not shown or sessions.agrees(step, printed), (
            f"$ {step.text}\n{printed}\nbut the page says\n{step.printed}"
        )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("p2p-labeldp rum quickstart", "rum"),
        ("p2p-labeldp run quickstart --sead 1", "--sead"),
        ("p2p-labeldp run quickstrat", "quickstrat"),
        ("p2p-labeldp run", "SCENARIO"),
        ("p2p-labeldp run quickstart --set mechanism.alfa=1", "alfa"),
        ("p2p-labeldp sweep quickstart --vary mechanism.alfa=1,2", "alfa"),
        ("p2p-labeldp account --cluster-size 9 --alpha 0.1 --theta 1 --delta 0 --view lerner", "lerner"),
        ("p2p-labeldp certs invent certs", "invent"),
        ("python benchmarks/peers.py --user 10 --acounts", "--acounts"),
        ("python benchmarks/mixed.py --tsl", "--tsl"),
        ("python benchmarks/pears.py", "pears"),
        ("python -m p2p_labeldp.deployment.simulated --sed 5", "--sed"),
        ("docker compose cp lerner:/results/. runs", "lerner"),
        ("docker compose run --rm --no-deps sweep quickstart --vary mechanism.alfa=1", "alfa"),
        ("docker compose --profile swep down", "swep"),
        ("P2P_LABELDP_SZENARIO=mixed docker compose up", "SZENARIO"),
    ],
)
def test_a_wrong_command_is_found(text: str, complaint: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```sh\n{text}\n```\n", encoding="utf-8")
    (command,) = commands.commands_of(page)
    with pytest.raises(commands.CommandError, match=re.escape(complaint)):
        commands.check(command)


def test_commands_are_found_wherever_they_stand(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Try `p2p-labeldp\nscenarios`, or `run churn`.\n\n| do | `X=1 docker compose up` |\n\n"
        "```sh\npip install . && p2p-labeldp run quickstart \\\n  --json   # `trace it`\n```\n"
        "```console\n$ p2p-labeldp trace a | tail\n`p2p-labeldp no command`\n```\n"
        "```python\np2p-labeldp = 1\n```\n",
        encoding="utf-8",
    )
    assert [command.text for command in commands.commands_of(page)] == [
        "p2p-labeldp scenarios",
        "p2p-labeldp run churn",
        "docker compose up",
        "p2p-labeldp run quickstart --json",
        "p2p-labeldp trace a",
    ]
    scenario = tmp_path / "scenario.toml"
    scenario.write_text("# As `p2p-labeldp audit` shows:\n#\n#     p2p-labeldp run churn\n[data]\n", encoding="utf-8")
    assert [command.text for command in commands.commands_of(scenario)] == [
        "p2p-labeldp audit",
        "p2p-labeldp run churn",
    ]
