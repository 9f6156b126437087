"""A node from its settings to its exit status."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import trio

from p2p_labeldp.collector import quiet_collector
from p2p_labeldp.data.rows import Named, Rows, read_rows
from p2p_labeldp.deployment import studies
from p2p_labeldp.deployment.enrolment import enrol
from p2p_labeldp.deployment.journal import FILE
from p2p_labeldp.deployment.logs import Logger
from p2p_labeldp.deployment.node import Node
from p2p_labeldp.deployment.roles import require_role, require_schema
from p2p_labeldp.deployment.signing import life_left
from p2p_labeldp.deployment.world import World
from p2p_labeldp.errors import RequestError, RunError, first_of, leaves
from p2p_labeldp.network.credentials import is_private
from p2p_labeldp.network.cuttable import CuttableSockets
from p2p_labeldp.network.sockets import TcpSockets
from p2p_labeldp.network.words import whence
from p2p_labeldp.scenario import Scenario

RENEW_BELOW = 1 / 3  # of a certificate's life left
INTERRUPTED = "interrupted; started again with the same --state it resumes where it left off"


def run_node(
    role: str,
    scenario: Scenario,
    *,
    place: Path | None = None,
    rows: Path | None = None,
    test: Path | None = None,
    cuttable: bool = False,
) -> list[int]:
    """Play a role to its end; RequestError or RunError says in one line why that was not possible.

    Returns, of a learner, the clusters that were withheld. ``cuttable``: signals cut its links (``network.cuttable``).
    """
    settings = scenario.deployment
    logger = Logger(role)
    require_role(role, scenario)
    sockets = CuttableSockets() if cuttable else TcpSockets()
    if isinstance(sockets, CuttableSockets):
        sockets.obey_signals()
    world = World(sockets)

    def play(state: Path, place: Path | None, patient: bool = False) -> list[int]:
        node = Node(
            role,
            scenario,
            certificates=Path(settings.certs),
            state=state,
            place=place,
            rows=mine,
            enrolment=Path(settings.authority) if settings.authority else None,
            logger=logger,
            world=world,
            patient=patient,
        )
        if rows is not None and not is_private(rows):
            why = "others may read it, and the labels in it; chmod 600 makes it yours alone"
            logger("warning", warning=f"{rows}: {why}")
        with quiet_collector():
            trio.run(node.run)
        node.journal.close()  # not after an error: a thread may still be writing to it
        return node.withheld

    try:
        mine = _own_rows(role, scenario, rows, test)  # before anyone hears of this node
        if role == "users" and settings.join:
            _get_certificate(Path(settings.certs), scenario, logger)
        if settings.studies == 1:
            return play(Path(settings.state), place)
        withheld: list[int] = []
        for number, state in studies.to_come(Path(settings.state), settings.studies):
            if role == "coordinator" and number > 1:
                logger("waiting", **{"for": f"p2p-labeldp next {settings.state}, to begin study {number}"})
                studies.wait_for_start(Path(settings.state), number)
            if role == "users" and number > 1:
                logger("warning", warning=f"study {number} of the same users: what each of them costs adds up")
            withheld += play(state, studies.place_of(place, number), patient=role != "coordinator")
            studies.note_over(state)
        return withheld
    except (Exception, BaseExceptionGroup, KeyboardInterrupt) as error:
        raise _said(error, logger) from None
    finally:
        logger.drain()


def _own_rows(role: str, scenario: Scenario, rows: Path | None, test: Path | None) -> Rows | None:
    """A user host's rows, or the learner's test examples; nobody else has any."""
    for option, path, whose in (("--rows", rows, "users"), ("--test", test, "learner")):
        if path is not None and role != whose:
            raise RequestError(f"{option} is for a node of role {whose}; a {role} has no rows")
    require_schema(scenario)
    data = scenario.data
    if rows is not None:
        return read_rows(rows, data.schema, Named.of(data)).taking_part(data.person_rows)
    return None if test is None else read_rows(test, data.schema, Named.of(data), use="test")


def _get_certificate(folder: Path, scenario: Scenario, logger: Logger) -> None:
    """Enrol where there is no certificate or its time is over; renew one that is old, between studies.

    A journal is of one certificate, so that one is kept while there is a journal.
    """
    settings = scenario.deployment
    left = life_left(folder)
    renewal = 0 < left < RENEW_BELOW and not (Path(settings.state) / FILE).exists()
    if left > 0 and not renewal:
        return
    request = partial(enrol, renewal=renewal)
    try:
        trio.run(request, folder, Path(settings.join), settings.enrolment, settings.away_limit, logger)
    except (RequestError, RunError) as error:
        if not renewal:
            raise
        logger("warning", warning=f"the certificate is old and could not be renewed: {error}")  # but good for now


def _said(error: BaseException, logger: Logger) -> BaseException:
    """What to tell: an error of ours as it is; of anything else where it happened, since its text may quote a label."""
    if found := first_of(error, KeyboardInterrupt, RequestError, RunError):
        return RunError(INTERRUPTED) if isinstance(found, KeyboardInterrupt) else found
    leaf = leaves(error)[0]
    if isinstance(leaf, OSError):
        return RunError(f"{leaf.filename or 'a file or socket'}: {leaf.strerror or type(leaf).__name__}")
    logger("broken", reason=whence(leaf))
    return RunError(f"internal error, please report it: {whence(leaf)}")
