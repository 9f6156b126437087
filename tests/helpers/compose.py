"""docker-compose.yml under a name of its own, for tests with a Docker engine."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from processes import until

ROOT = Path(__file__).parents[2]
PATIENCE = 600.0
NODES = ("coordinator", "learner", "auditor", "users-1", "users-2", "users-3")
SEEDED = '\n[coins]\nsource = "seeded"\nseed = 0\n'
"""Put under a scenario: the noisy data set is that of ``run`` with this seed."""


def docker(*words: str, check: bool = True, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(["docker", *words], input=stdin, capture_output=True, timeout=PATIENCE, check=False)
    assert not check or done.returncode == 0, f"docker {' '.join(words)}: {done.stderr.decode()[-2000:]}"
    return done


def pause(container: str) -> None:
    """Freeze a container; the engine gives up where its processes are too busy, and must be asked again."""
    until(lambda: docker("pause", container, check=False).returncode == 0, PATIENCE)


def built_image() -> str:
    """The image, built from this tree.

    What a build needs to reach a package index goes into P2P_LABELDP_DOCKER_BUILD, say "--secret id=pip.conf,src=FILE
    --secret id=ca.pem,src=FILE".
    """
    if shutil.which("docker") is None:
        pytest.skip("no Docker here: the program docker is missing")
    for words in (("version",), ("compose", "version")):
        if (tried := docker(*words, check=False)).returncode:
            pytest.skip(f"no Docker engine here: docker {' '.join(words)}: {tried.stderr.decode().strip()[-200:]}")
    how = shlex.split(os.environ.get("P2P_LABELDP_DOCKER_BUILD", ""))
    built = docker("build", *how, "--tag", "p2p-labeldp", str(ROOT), check=False)
    if built.returncode:
        pytest.skip(f"no image could be built here: {built.stderr.decode().strip()[-300:]}")
    return "p2p-labeldp"


class Project:
    """docker-compose.yml, and what a test has otherwise."""

    def __init__(self, folder: Path, override: dict[str, Any] | None = None) -> None:
        self.name = f"labeldp-{uuid.uuid4().hex[:8]}"
        self._folder = folder
        self._files = ["--file", str(ROOT / "docker-compose.yml")]
        if override:
            (folder / "override.json").write_text(json.dumps(override), encoding="utf-8")
            self._files += ["--file", str(folder / "override.json")]

    def __call__(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        return docker("compose", "--project-name", self.name, *self._files, *words, check=check)

    def left(self) -> list[str]:
        """Containers, volumes and networks of this project."""
        mine = ("--filter", f"label=com.docker.compose.project={self.name}", "--quiet")
        kinds = (("ps", "--all"), ("volume", "ls"), ("network", "ls"))
        return [line for words in kinds for line in docker(*words, *mine).stdout.decode().split()]

    def status(self, service: str) -> int:
        (line,) = self("ps", "--all", "--format", "json", service).stdout.splitlines()
        return int(json.loads(line)["ExitCode"])

    def container(self, service: str) -> str:
        return f"{self.name}-{service}-1"

    def said(self, service: str, event: str) -> list[dict[str, Any]]:
        """What a node has logged of an event, one line after another."""
        done = docker("logs", self.container(service), check=False)
        lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith(b"{")]
        return [line for line in lines if line["event"] == event]

    def await_event(self, service: str, event: str) -> None:
        until(lambda: self.said(service, event), PATIENCE)

    def await_end(self, *services: str) -> dict[str, int]:
        """How these have ended, once they all have and none of them is about to be started again."""

        def ended() -> bool:
            lines = self("ps", "--all", "--format", "json", *services).stdout.splitlines()
            return all(json.loads(line)["State"] == "exited" for line in lines)

        until(ended, PATIENCE)
        return {service: self.status(service) for service in services}

    def pause(self, service: str) -> None:
        pause(self.container(service))

    @contextmanager
    def cut_off(self, service: str) -> Iterator[None]:
        """Take a container's network away for a while; what runs in it goes on."""
        network, container = f"{self.name}_nodes", self.container(service)
        docker("network", "disconnect", network, container)
        yield
        docker("network", "connect", "--alias", service, network, container)

    def resume(self, service: str) -> None:
        """Start a container that was killed: it, and nothing that it depends on."""
        docker("start", self.container(service))

    def run_folder(self) -> Path:
        """The learner's results and the auditor's trace, together."""
        self("cp", "learner:/results/.", str(self._folder / "runs"))
        self("cp", "auditor:/trace/.", str(self._folder / "runs"))
        (run,) = (self._folder / "runs").iterdir()
        return run

    def pooled(self) -> list[Path]:
        """What the colluders of each host wrote down, of hosts that have some."""
        found = [self._folder / f"pooled-{place}.json" for place in (1, 2, 3)]
        for place, path in enumerate(found, 1):
            self("cp", f"users-{place}:/state/pooled.json", str(path), check=False)
        return [path for path in found if path.exists()]


@contextmanager
def project_of(
    folder: Path, scenario: Path | None = None, override: dict[str, dict[str, Any]] | None = None
) -> Iterator[Project]:
    """A project that runs the file's own scenario, or one of a folder of its own; nothing of it is left afterwards.

    With a scenario of theirs nodes wait long for each other: on a busy machine one that was killed is not back at once.
    """
    services = override or {}
    if scenario is not None:
        scenario.parent.chmod(0o755)
        patient = {"environment": {"P2P_LABELDP_AWAY_LIMIT": f"{PATIENCE:g}"}}
        services = {node: patient | services.get(node, {}) for node in NODES} | {
            "certs": {
                "environment": {"SCENARIO": scenario.name},
                "volumes": [f"{scenario.parent}:/scenarios:ro", f"{scenario.parent}:/data:ro"],
            }
        }
    made = Project(folder, {"services": services} if services else None)
    try:
        yield made
    finally:
        made("down", "--volumes", "--timeout", "2", check=False)
    assert made.left() == []
