"""What docs/deployment.md and docker-compose.yml say is what the code has."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from p2p_labeldp.scenario import Deployment

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
COMPOSE = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
VARIABLE = re.compile(r"P2P_LABELDP_([A-Z_]+)")
BESIDE_KEYS = {"out", "rows", "test", "data", "scenario"}  # of a command, of a data set, of docker-compose.yml


def test_every_setting_is_documented_with_its_flag_variable_and_key() -> None:
    for item in dataclasses.fields(Deployment):
        flag, variable = item.name.replace("_", "-"), item.name.upper()
        assert f"| `--{flag}` | `P2P_LABELDP_{variable}` | `deployment.{item.name}` |" in PAGE


def test_every_variable_that_is_named_exists() -> None:
    known = {item.name for item in dataclasses.fields(Deployment)} | BESIDE_KEYS
    named = {name.lower() for name in VARIABLE.findall(PAGE + COMPOSE)}
    assert named <= known


def test_every_event_of_a_log_is_documented() -> None:
    logged: set[str] = set()
    for file in (*(ROOT / "p2p_labeldp" / "deployment").glob("*.py"), ROOT / "p2p_labeldp" / "network" / "tls.py"):
        text = file.read_text(encoding="utf-8")
        for call in re.findall(r"(?:\blog|_log|logger)\(([^,)]*)", text) + re.findall(r"_note\([^,]*,([^,]*)", text):
            logged |= set(re.findall(r'"([a-z]+)"', call))
    assert {"listening", "refused", "enrolled", "bye", "broken"} <= logged
    table = PAGE.partition("## Logs")[2].partition("## Health")[0]
    assert logged <= set(re.findall(r"`([a-z]+)`", table))


def test_containers_have_no_way_to_keep_a_secret_in_their_environment() -> None:
    assert not re.search(r"(?i)(token|key|password|secret)\w*:", COMPOSE)
