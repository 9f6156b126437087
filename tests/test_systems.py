"""What only some operating systems have is used in one place; without it, commands work or are refused in one line."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import p2p_labeldp
from p2p_labeldp.systems import lock, make_last

PACKAGE = Path(p2p_labeldp.__file__).parent
POSIX_ONLY = {
    "os": {"fork", "fdatasync", "getuid", "geteuid", "getgid", "killpg", "setsid", "fchmod", "fchown", "chown",
           "mkfifo", "statvfs", "sched_getaffinity", "sched_setaffinity", "wait3", "wait4", "openpty", "getloadavg"},
    "signal": {"pthread_sigmask", "SIGKILL", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "alarm", "setitimer",
               "sigwait"},
    "socket": {"AF_UNIX", "SO_REUSEPORT"},
}  # fmt: skip
MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "msvcrt"}
GUARDED = {"systems.py", "experiments/sweeps/running.py", "network/sockets.py", "engines/split.py"}
"""Where a use is guarded by ``hasattr`` or ``except ImportError``."""
WITHOUT = """
import os, signal, sys
for name in ("fcntl", "resource"):
    sys.modules[name] = None
for module, names in ((os, ("fdatasync", "pread", "sched_getaffinity", "getuid")), (signal, ("pthread_sigmask",))):
    for name in names:
        delattr(module, name)
from p2p_labeldp.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_no_module_counts_on_what_only_some_systems_have() -> None:
    found = []
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        if name not in GUARDED:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found += [f"{name}:{node.lineno}" for node in ast.walk(tree) if counts_on_posix(node)]
    assert found == []


def counts_on_posix(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name in MODULES for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return node.module in MODULES
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.attr in POSIX_ONLY.get(node.value.id, ())
    )


def without_posix(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *arguments],
        cwd=place, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def test_a_run_needs_nothing_of_it(tmp_path: Path) -> None:
    done = without_posix(tmp_path, "run", "quickstart", "--no-report", "--out", "here", "--json")
    assert done.returncode == 0, done.stderr
    assert '"noisy_sha256": "6653380a' in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("deploy", "quickstart"), "a deployment: needs Linux or macOS"),
        (("certs", "init", "certs"), "certs: needs Linux or macOS"),
        # Windows has locks of another kind, which are not here either.
        (("sweep", "quickstart", "--vary", "mechanism.alpha=.1", "--seeds", "1", "--workers", "1"), "no locks"),
    ],
)  # fmt: skip
def test_what_needs_it_is_refused_in_one_line(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = without_posix(tmp_path, *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_lock_is_one_process_s_until_the_file_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    attempt = "import os, sys; from p2p_labeldp.systems import lock; lock(os.open(sys.argv[1], os.O_RDWR))"

    def other() -> int:
        return subprocess.run([sys.executable, "-c", attempt, str(path)], capture_output=True, check=False).returncode

    with path.open("r+b") as file:
        lock(file.fileno())
        assert other() != 0
        assert file.read() == b"content"
        make_last(file.fileno())
    assert other() == 0
    assert path.stat().st_size == 7
