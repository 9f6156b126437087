"""A Dask cluster that others run: how to reach it, and what is asked of it before any work is sent there.

Results must not depend on who computed them, so a cluster is refused whose workers run another version of this
package or of what it computes with. distributed's own words about the connection stay off standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.metadata
import logging
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from p2p_labeldp.errors import RequestError

CONNECT_LIMIT = 10.0  # seconds until a scheduler must have answered
WORKERS_LIMIT = 30.0  # seconds until it must have a worker, which may be starting
PACKAGES = ("p2p-labeldp", "numpy", "scipy", "scikit-learn")
"""What results depend on; the same versions everywhere."""


@contextlib.contextmanager
def connect(address: str) -> Iterator[Any]:
    """A ``distributed.Client`` of the scheduler at ``address`` ("host:port" or "tcp://host:port"), closed at the end.

    RequestError where distributed is not installed, the address is none, no scheduler answers there within
    ``CONNECT_LIMIT`` seconds, it has no worker within ``WORKERS_LIMIT``, or a worker's versions differ from ours.
    """
    try:
        distributed = importlib.import_module("distributed")
        addressing = importlib.import_module("distributed.comm.addressing")
    except ImportError:
        raise RequestError("--dask needs an extra that is not installed: pip install 'p2p-labeldp[dask]'") from None
    shown = f"--dask {address}"
    try:
        scheme, _, place = address.rpartition("://")
        if scheme not in ("", "tcp", "tls") or not 0 < int(addressing.parse_host_port(place)[1]) < 1 << 16:
            raise ValueError
    except (ValueError, TypeError):
        raise RequestError(f"{shown}: not an address; write it as host:port, for example 127.0.0.1:8786") from None
    with quiet():
        try:
            # Asked first without a client: one that could not connect complains again when it is collected.
            with ThreadPoolExecutor(1) as pool:
                pool.submit(lambda: asyncio.run(_check_scheduler(addressing.resolve_address(address)))).result()
            client = distributed.Client(address, timeout=CONNECT_LIMIT, set_as_default=False)
        except TimeoutError:
            raise RequestError(f"{shown}: no Dask scheduler answers there within {CONNECT_LIMIT:g} seconds") from None
        except OSError as error:
            raise RequestError(f"{shown}: no Dask scheduler answers there: {error.strerror or error}") from None
        except TypeError as error:  # how distributed says that it has no certificates
            raise RequestError(f"{shown}: cannot be connected to: {error}") from None
        except Exception as error:  # whatever a stranger's words make of it
            raise RequestError(f"{shown}: what answers there is no Dask scheduler ({type(error).__name__})") from None
        try:
            _check_workers(client, shown)
            yield client
        finally:
            with contextlib.suppress(Exception):  # the scheduler may be gone
                client.close(timeout=CONNECT_LIMIT)


async def _check_scheduler(address: str) -> None:
    """Ask whoever listens there who it is."""
    rpc = importlib.import_module("distributed.core").rpc
    arguments = importlib.import_module("distributed.security").Security().get_connection_args("client")
    async with asyncio.timeout(CONNECT_LIMIT), rpc(address, timeout=CONNECT_LIMIT, connection_args=arguments) as asked:
        found = await asked.identity()
    if found["type"] != "Scheduler":
        raise ConnectionError(f"it is a {found['type'].lower()}")


def _check_workers(client: Any, shown: str) -> None:
    try:
        client.wait_for_workers(1, timeout=WORKERS_LIMIT)
    except TimeoutError:
        raise RequestError(f"{shown}: the scheduler has no workers after {WORKERS_LIMIT:g} seconds") from None
    mine = versions()
    # importlib's function rather than ours: a worker may not have this package at all.
    for package in PACKAGES:
        found = client.run(importlib.metadata.version, package, on_error="return")
        for worker, theirs in sorted(found.items()):
            if theirs != mine[package]:
                has = f"{package} {theirs}" if isinstance(theirs, str) else f"no {package}"
                raise RequestError(
                    f"{shown}: worker {worker} has {has}, but {mine[package]} is used here; results might differ"
                )


def versions() -> dict[str, str]:
    """This process's version of every package that results depend on."""
    return {package: importlib.metadata.version(package) for package in PACKAGES}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the logs and warnings of distributed and tornado to themselves; what matters is raised."""
    loggers = [
        logging.getLogger(name)
        for name in ("distributed", "distributed.client", "distributed.comm.core", "distributed.core", "tornado",
                     "tornado.application", "asyncio")
    ]  # fmt: skip
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            for module in ("distributed", "tornado", "asyncio"):
                warnings.filterwarnings("ignore", module=module)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
