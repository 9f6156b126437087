"""A process that has imported everything and forks a node whenever it is asked to.

Python takes two seconds of processor time to import what a node needs; tests that start dozens of nodes would spend
all their time on it. A forked node is a process like any other, with its own memory, files and sockets: it can be
killed, frozen and put into a network namespace. Only its command line is not its own (``/proc/PID/cmdline``).

Requests are JSON on standard input, one per line, answers JSON on standard output. When its standard input ends
this process does too, and the system kills every node with it, frozen ones included.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from typing import Any

PR_SET_PDEATHSIG, CLONE_NEWNET = 1, 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def _call(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Spawner:
    def __init__(self) -> None:
        self._running: set[int] = set()
        self._ended: dict[int, int] = {}

    def start(
        self,
        words: list[str],
        log: str,
        namespace: str = "",
        file_size: int = 0,
        patches: dict[str, Any] | None = None,
    ) -> int:
        """Fork a node; ``words`` follow ``p2p-labeldp`` and what it says goes to the end of ``log``.

        ``file_size`` is the largest file it may write: what a full disk is to a program. ``patches`` give other
        values to names of modules, so that a node can be of another version.
        """
        sys.stdout.flush()
        spawner = os.getpid()
        pid = os.fork()
        if pid == 0:
            status = 70
            try:
                self._become(spawner, log, namespace, file_size)
                for name, value in (patches or {}).items():
                    module, _, name = name.rpartition(".")
                    setattr(importlib.import_module(module), name, value)
                status = _play(words)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        self._running.add(pid)
        return pid

    @staticmethod
    def _become(spawner: int, log: str, namespace: str, file_size: int) -> None:
        _call(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        if os.getppid() != spawner:
            os._exit(70)
        os.setsid()
        if namespace:
            fd = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
            _call(_libc.setns(fd, CLONE_NEWNET))
            os.close(fd)
        nothing = os.open(os.devnull, os.O_RDWR)
        said = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        os.dup2(said, 2)
        os.close(nothing)
        os.close(said)
        if file_size:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))

    def signal(self, pid: int, number: int) -> bool:
        """Whether the node was there to get it. Its number is nobody else's until it was reaped, here."""
        if pid not in self._running:
            return False
        os.kill(pid, number)
        if number == signal.SIGKILL:  # its sockets and locks are free only when it is gone
            self._reap(pid, 0)
        return True

    def status(self, pid: int) -> int | None:
        """How it ended, minus the signal's number where one ended it; None while it runs."""
        if pid in self._running:
            self._reap(pid, os.WNOHANG)
        return self._ended.get(pid)

    def _reap(self, pid: int, options: int) -> None:
        found, status = os.waitpid(pid, options)
        if found:
            self._running.discard(pid)
            self._ended[pid] = os.waitstatus_to_exitcode(status)

    def run(self, words: list[str]) -> str:
        """A program of the system, in this process's namespaces."""
        done = subprocess.run(words, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise OSError(f"{' '.join(words)}: {' '.join(done.stderr.split()) or done.returncode}")
        return done.stdout


def _play(words: list[str]) -> int:
    from p2p_labeldp.cli import script

    sys.argv = ["p2p-labeldp", *words]
    try:
        script()
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else 0
    return 0


def main() -> None:
    # What nodes import on first use.
    import sklearn.cluster
    import sklearn.datasets  # noqa: F401

    import p2p_labeldp.deployment.program  # noqa: F401
    from p2p_labeldp.cli import main as command_line

    with contextlib.redirect_stderr(io.StringIO()):
        assert command_line(["node", "users", "quickstart"]) == 2  # what the command line imports on first use
    gc.freeze()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
    spawner = Spawner()
    print(json.dumps({"answer": time.time()}), flush=True)
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        try:
            answer = {"answer": getattr(spawner, request.pop("do"))(**request)}
        except (OSError, subprocess.SubprocessError) as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
