"""Containers: three with a file of their own each, which no other can open, and the whole of docker-compose.yml.

They need a Docker engine, which CI has not; the image is built from this tree (``helpers/compose.py``).
"""

from __future__ import annotations

import io
import json
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from compose import NODES, PATIENCE, docker, pause, project_of
from processes import until
from sentinels import FEATURES, PLACES, STUDY, found_in, memory_of, own, planted

from p2p_labeldp.cli import main
from p2p_labeldp.deployment.certificates import init_certificates

pytestmark = pytest.mark.containers
HARD = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges:true")


def test_the_image_is_under_450_megabytes_and_has_no_installer(image: str) -> None:
    assert int(docker("image", "inspect", "--format", "{{.Size}}", image).stdout) < 450_000_000
    tried = docker("run", "--rm", "--network", "none", "--entrypoint", "python3", image, "-m", "pip", check=False)
    assert (tried.returncode, b"No module named pip" in tried.stderr) == (1, True)


# Three containers with three files


class Containers:
    """The nodes of one study, each a container with volumes of its own, on a network that leads nowhere."""

    def __init__(self, image: str) -> None:
        self.image, self.name = image, f"labeldp-{uuid.uuid4().hex[:8]}"
        docker("network", "create", "--internal", self.name)

    def container(self, node: str) -> str:
        return f"{self.name}-{node}"

    def hand_out(self, node: str, files: dict[str, bytes]) -> None:
        """Put files into a node's volume, as its owner has them."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name, content in files.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode, entry.uid, entry.gid = len(content), 0o600, 10001, 10001
                archive.addfile(entry, io.BytesIO(content))
        volume = f"{self.container(node)}:/certs"
        words = ("run", "--rm", "--interactive", "--network", "none", "--volume", volume, "--entrypoint", "tar")
        docker(*words, self.image, "-C", "/certs", "-xf", "-", stdin=packed.getvalue())

    def start(self, node: str, *words: str) -> None:
        """A node with its own volume, which holds its certificate, its rows and nobody else's, and its journal's."""
        name, role = self.container(node), node.partition("-")[0]
        where = [("COORDINATOR", "coordinator:7400"), ("LEARNER", "learner:7410"), ("AUDITOR", "auditor:7420")]
        listen = dict(where).get(role.upper(), "any:0").rpartition(":")[2]
        settings = [*where, ("LISTEN", f"0.0.0.0:{listen}"), ("HOSTS", "3"), ("CERTS", "/certs"), ("STATE", "/state")]
        docker(
            *("run", "--detach", "--name", name, "--network", self.name, "--network-alias", node, "--hostname", node),
            *(*HARD, "--volume", f"{name}:/certs:ro", "--volume", f"{name}-state:/state"),
            *("--volume", f"{name}-results:/results"),
            *(word for key, value in settings for word in ("--env", f"P2P_LABELDP_{key}={value}")),
            *(self.image, "node", role, "/certs/study.toml", *words),
        )

    def log(self, node: str) -> bytes:
        done = docker("logs", self.container(node))
        return done.stdout + done.stderr

    def inspect(self, node: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(docker("inspect", self.container(node)).stdout)[0]
        return found

    def status(self, node: str) -> int | None:
        state = self.inspect(node)["State"]
        assert isinstance(state, dict)
        return None if state["Running"] else int(state["ExitCode"])

    def pid(self, node: str) -> int:
        state = self.inspect(node)["State"]
        assert isinstance(state, dict)
        return int(state["Pid"])

    def volume(self, node: str, kind: str) -> Iterator[bytes]:
        """What is in a node's volume."""
        words = ("run", "--rm", "--network", "none", "--volume", f"{self.container(node)}{kind}:/v:ro")
        yield from _contents(docker(*words, "--entrypoint", "tar", self.image, "-C", "/v", "-cf", "-", ".").stdout)

    def everything_else(self, node: str) -> Iterator[bytes]:
        """Its file system without volumes, its log, and what the engine knows of it, environment and command too."""
        yield from _contents(docker("export", self.container(node)).stdout)
        yield self.log(node)
        yield json.dumps(self.inspect(node)).encode()

    def remove(self) -> None:
        for node in NODES:
            docker("rm", "--force", "--volumes", self.container(node), check=False)
            for kind in ("", "-state", "-results"):
                docker("volume", "rm", "--force", self.container(node) + kind, check=False)
        docker("network", "rm", self.name, check=False)


def _contents(archive: bytes) -> Iterator[bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for entry in files:
            if entry.isfile():
                content = files.extractfile(entry)
                assert content is not None
                yield content.read()


@pytest.fixture
def containers(image: str) -> Iterator[Containers]:
    made = Containers(image)
    try:
        yield made
    finally:
        made.remove()


def files_of(place: int) -> str:
    chance = np.random.default_rng(place)
    rows = [f"{chance.integers(900)},{chance.integers(40, 180)},{('healthy', 'ill')[each % 2]},-" for each in range(20)]
    return "\n".join(["dose,pulse,state,note", *rows, planted(place)[0]]) + "\n"


def test_no_container_can_open_anothers_file_and_what_is_in_it_is_found_nowhere_else(
    containers: Containers, tmp_path: Path
) -> None:
    init_certificates(tmp_path / "certs", 3)
    study = STUDY.replace("[mechanism]", '[mechanism]\nrounds = 40\nnoise = "sticky"').replace("seed = 7", "")
    for node in NODES:
        files = {path.name: path.read_bytes() for path in (tmp_path / "certs" / node).iterdir()}
        files["study.toml"] = study.encode()
        if node.startswith("users"):
            files["rows.csv"] = files_of(int(node[-1]) - 1).encode()
        containers.hand_out(node, files)
    for node in NODES:
        more = ["--rows", "/certs/rows.csv"] if node.startswith("users") else []
        containers.start(node, *more, *(["--out", "/results/out"] if node != "coordinator" else []))
    until(lambda: b'"clustered"' in containers.log("coordinator") or containers.status("coordinator"), PATIENCE)
    for node in NODES:
        pause(containers.container(node))
    memory = {}
    try:
        for node in NODES:
            pid = containers.pid(node)
            if not Path(f"/proc/{pid}/mem").exists():
                pytest.skip("the engine's processes are on another machine")
            memory[node] = found_in(memory_of(pid))
    except PermissionError:
        pytest.skip("this machine does not let its tests look at the memory of containers")
    finally:
        for node in NODES:
            docker("unpause", containers.container(node))
    for place in range(3):  # what its own user finds who looks into every file that there is
        notes = " ".join(f"-e {planted(each)[1]['note'].decode()}" for each in range(3))
        look = f"grep -rslaF {notes} / --exclude-dir=proc --exclude-dir=sys; cat /proc/[0-9]*/comm"
        inside = docker("exec", containers.container(f"users-{place + 1}"), "sh", "-c", look).stdout.split()
        assert [line for line in inside if line not in (b"sh", b"cat")] == [b"/certs/rows.csv", b"p2p-labeldp"]
    until(lambda: all(containers.status(node) is not None for node in NODES), PATIENCE)
    assert {node: containers.status(node) for node in NODES} == dict.fromkeys(NODES, 0)

    rows = {(name, "row") for name in PLACES}
    features = {(name, kind) for name in PLACES for kind in FEATURES}
    assert memory["learner"] <= features
    assert memory["coordinator"] <= features
    assert memory["auditor"] == set()
    models = set()
    for node in NODES:
        kept = found_in(containers.volume(node, "-state"))
        assert kept <= (rows if node in ("learner", "coordinator") else set()), f"the journal of {node}"
        assert found_in(containers.everything_else(node)) == set(), f"files, log or environment of {node}"
        assert found_in(containers.volume(node, "-results")) == set(), f"results of {node}"
        place = PLACES[int(node[-1]) - 1] if node.startswith("users") else ""
        assert {name for name, _ in found_in(containers.volume(node, ""))} == ({place} if place else set())
        if place:
            assert memory[node] <= own(PLACES.index(place)), f"memory of {node}"
            assert (place, "row") in memory[node], "the scan sees what is there"
            models |= {content for content in containers.volume(node, "-results") if content.startswith(b"PK")}
    assert len(models) == 1


# docker-compose.yml


def test_compose_ends_with_0_leaves_results_and_a_model_and_forgets_everything(image: str, tmp_path: Path) -> None:
    with project_of(tmp_path) as project:
        assert project("up", "--no-build", check=False).returncode == 0
        run = project.run_folder()
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    assert (summary["hosts"], summary["missing"]) == (3, [])
    assert {"model.npz", "model-card.md", "reports.npz"} <= {path.name for path in run.iterdir()}
    assert main(["audit", str(run)]) == 0


def test_compose_passes_on_that_a_node_has_failed(image: str, tmp_path: Path) -> None:
    wrong = {"entrypoint": ["p2p-labeldp", "node", "users", "/study/study.toml", "--rows", "/nothing.csv"]}
    hasty = {"environment": {"P2P_LABELDP_AWAY_LIMIT": "5"}}
    with project_of(tmp_path, override={"users-2": wrong, "coordinator": hasty}) as project:
        assert project("up", "--no-build", check=False).returncode == 1
        assert project.status("users-2") == 2
        assert b"/nothing.csv" in project("logs", "users-2").stdout
        assert project.status("learner") == 0, "the others have done without it"


def test_a_container_that_comes_late_is_told_at_once_how_far_the_study_is(image: str, tmp_path: Path) -> None:
    two = {"environment": {"P2P_LABELDP_HOSTS": "2"}}
    others = ("coordinator", "learner", "auditor", "users-1", "users-2")
    with project_of(tmp_path, override={"coordinator": two}) as project:
        project("up", "--no-build", "--detach", *others)
        project.await_event("coordinator", "begun")
        project.pause("learner")
        project("up", "--no-build", "--no-deps", "--detach", "users-3")
        assert project.await_end("users-3") == {"users-3": 2}
        assert b"the study has begun, and" in project("logs", "users-3").stdout
        project("unpause", "learner")
        assert project.await_end(*others) == dict.fromkeys(others, 0)
