"""The mixed exchange beside the pull exchange: CPU per user in simulation and in a deployment's parts, and that of
cryptography.

    python benchmarks/mixed.py [--large] [--tls]
    python benchmarks/mixed.py --ratio [--repeats 9] [--users 10000] [--hosting cluster]

Ratios are of runs in the same minutes, the best of three each. With ``--ratio`` pull and mixed are measured in turn,
every time in a fresh process, and the median of the ratios is told: the figure to hold against others, since what a
process has done before changes the pull exchange more than the mixed one.

A deployment is measured by its parts, which are all that a node does but the sockets and the signatures: what it costs
to take, check, encode and say everything, with real packets. With ``--tls`` it is also measured as processes over TLS,
signatures and journals included: the CPU of all of them, of which starting up is left out by comparing two numbers of
users.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import trio
from cryptography import x509
from turns import apart

from p2p_labeldp.deployment.certificates import fingerprint, init_certificates
from p2p_labeldp.deployment.certified import CertifiedKey
from p2p_labeldp.engines.actors import Simulation
from p2p_labeldp.engines.outcome import Population
from p2p_labeldp.engines.vectorized import run_vectorized
from p2p_labeldp.mechanisms.coins import SeededCoins
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol.onions import Onions
from p2p_labeldp.scenario import Network

CLUSTER = 100
PULL = Parameters(0.1, minimum_size=10)


def mixed(relays: int) -> Parameters:
    return Parameters(0.1, minimum_size=10, exchange="mixed", relays=relays)


def population(users: int) -> Population:
    labels = np.arange(users) % 2
    clusters = max(1, users // CLUSTER)
    return Population(np.zeros((users, 1), dtype=np.float32), labels, lambda ids, _: ids % clusters)


def cpu(job: Callable[[], object], repeats: int = 3) -> float:
    """Seconds of CPU, the best of several."""
    found = []
    for _ in range(repeats):
        began = time.process_time()
        job()
        found.append(time.process_time() - began)
    return min(found)


def simulated(users: int, parameters: Parameters, hosting: str, real: bool = False) -> float:
    people, plan = population(users), exchange_of(parameters)

    def job() -> None:
        cipher = Onions() if real else None
        outcome = Simulation(people, plan, SeededCoins(1), Network(), hosting=hosting, cipher=cipher).run()
        assert outcome.reports == users

    return cpu(job, 1 if real else 3) / users * 1e6


def vectorized(users: int, parameters: Parameters) -> float:
    people, plan = population(users), exchange_of(parameters)
    return cpu(lambda: run_vectorized(people, plan, SeededCoins(1))) / users * 1e6


def in_fresh_process(exchange: str, users: int, hosting: str) -> float:
    """``simulated`` in a process of its own; ``exchange`` is pull, or mixed with three relays."""
    return float(apart(__file__, exchange, users, hosting))


def print_ratio(repeats: int, users: int, hosting: str) -> None:
    """Pull and mixed in turn, so that whatever else the machine does disturbs both alike."""
    pairs = []
    for _ in range(repeats):
        pull, found = (in_fresh_process(exchange, users, hosting) for exchange in ("pull", "mixed"))
        pairs.append((pull, found))
        print(f"  pull {pull:.1f}; L=3: {found:.1f} ({found / pull:.2f})", flush=True)
    ratios = sorted(found / pull for pull, found in pairs)
    pull, found = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(
        f"a task per {hosting}, {users} users, {repeats} times: pull {pull:.1f}, L=3 {found:.1f} in the median;"
        f" ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    )


def deployed(users: int, parameters: str) -> float:
    """Microseconds of CPU per user of all parts of a deployment with two hosts."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
    from deployment_model import Model

    from p2p_labeldp.scenario import parse_scenario

    scenario = parse_scenario(
        f'[data]\nname = "synthetic"\nusers = {users}\ngroups = {max(1, users // CLUSTER)}\n'
        f'[clusters]\nmethod = "given"\nminimum_size = 10\n[mechanism]\n{parameters}\n[coins]\nsource = "seeded"\n'
    )

    def job() -> None:
        model = Model(scenario, 2)
        for name in model.names[3:]:
            model.deliver(name, "coordinator")
        while model.step():
            pass

    return cpu(job, 1) / users * 1e6


def over_tls(few: int, many: int, mechanism: str) -> float:
    """Microseconds of CPU for each user more, of all processes of a deployment with two hosts but the learner's, which
    learns and accounts."""
    from deployment import Watch

    from p2p_labeldp.deployment.local import LocalDeployment
    from p2p_labeldp.scenario import parse_scenario

    found = []
    for users in (few, many):
        text = (
            f'[data]\nname = "synthetic"\nusers = {users}\ngroups = {users // CLUSTER}\n'
            f'[clusters]\nmethod = "given"\nminimum_size = 10\n[mechanism]\n{mechanism}\n'
        )
        with tempfile.TemporaryDirectory() as folder:
            deployment = LocalDeployment(parse_scenario(text, "mixed"), 2, Path(folder))
            deployment.prepare()
            watch = Watch(deployment.children)
            watch.start()
            trio.run(deployment.run)
            watch.end()
        found.append(sum(seconds for name, (seconds, _) in watch.taken.items() if name != "learner"))
    return (found[1] - found[0]) / (many - few) * 1e6


def signatures() -> tuple[float, float]:
    """Microseconds: to sign, and to check a signature."""
    with tempfile.TemporaryDirectory() as folder:
        init_certificates(Path(folder) / "certs", 1)
        key = CertifiedKey.load(Path(folder) / "certs" / "users-1")
    check = key.check_of(fingerprint(x509.load_pem_x509_certificate(key.chain)), key.chain)
    statement, count = bytes(100), 500
    signature = key.sign(statement)
    assert check(statement, signature)
    return (
        cpu(lambda: [key.sign(statement) for _ in range(count)]) / count * 1e6,
        cpu(lambda: [check(statement, signature) for _ in range(count)]) / count * 1e6,
    )


def onions(relays: int) -> dict[str, float]:
    """Microseconds: to make a member's keys, to seal a packet, to strip a layer, to open all inner ones."""
    cipher, count = Onions(), 200
    batch = {"strip": CLUSTER, "open": CLUSTER}  # a relay takes a whole batch at once
    keys = [cipher.secret_key(bytes([place]) * 32, b"outer") for place in range(2 * relays)]
    public = [cipher.public_key(key) for key in keys]
    outer, inner, context = public[:relays], public[relays:], bytes(32)
    packet = cipher.seal(1, outer, inner, context, bytes(32)).layers
    jobs: dict[str, Callable[[], object]] = {
        "keys": lambda: [cipher.public_key(cipher.secret_key(bytes(32), which)) for which in (b"outer", b"inner")],
        "seal": lambda: cipher.seal(1, outer, inner, context, bytes(32)),
        "strip": lambda: cipher.peel(keys[0], [packet[0]] * CLUSTER, context, 0),
        "open": lambda: cipher.labels(keys[relays:], [packet[-1]] * CLUSTER, context),
    }
    found = {}
    for name, job in jobs.items():
        each = batch.get(name, 1)
        times = count // each
        found[name] = cpu(lambda job=job, times=times: [job() for _ in range(times)]) / (times * each) * 1e6  # type: ignore[misc]
    return found


def option(name: str, default: str) -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def main() -> None:
    if "--measure" in sys.argv:
        exchange, count, hosting = sys.argv[2:5]
        print(simulated(int(count), PULL if exchange == "pull" else mixed(3), hosting))
        return
    if "--ratio" in sys.argv:
        print_ratio(int(option("--repeats", "9")), int(option("--users", "10000")), option("--hosting", "cluster"))
        return
    sizes = (1_000, 10_000, 100_000) if "--large" in sys.argv else (1_000, 10_000)
    print("microseconds of CPU per user, clusters of 100, one round; in brackets the ratio to pull")
    for hosting in ("user", "cluster"):
        for users in sizes:
            pull = simulated(users, PULL, hosting)
            ratios = []
            for relays in (1, 3, 6):
                found = simulated(users, mixed(relays), hosting)
                ratios.append(f"L={relays}: {found:.1f} ({found / pull:.2f})")
            print(f"  actors, a task per {hosting:8}{users:>8} users: pull {pull:.1f}; {'; '.join(ratios)}")
    pull = vectorized(100_000, PULL)
    found = vectorized(100_000, mixed(3))
    print(f"  vectorized, 100000 users: pull {pull:.3f}; L=3: {found:.3f} ({found / pull:.2f})")
    real = simulated(1_000, mixed(3), "cluster", real=True)
    print(f"  actors with real packets, 1000 users, L=3: {real:.0f}")
    deployed(50, "alpha = 0.1")  # so that imports are not counted
    for users in (500, 1_000):
        pull = deployed(users, "alpha = 0.1")
        row = []
        for relays in (1, 3):
            found = deployed(users, f'alpha = 0.1\nexchange = "mixed"\nrelays = {relays}')
            row.append(f"L={relays}: {found:.0f} ({found / pull:.1f})")
        print(f"  a deployment's parts, two hosts, {users} users: pull {pull:.0f}; {'; '.join(row)}")
    if "--tls" in sys.argv:
        few, many = 500, 3_000
        pull = over_tls(few, 10 * many, "alpha = 0.1")  # so many that it is more than starting up differs
        row = []
        for relays in (1, 3, 6):
            found = over_tls(few, many, f'alpha = 0.1\nexchange = "mixed"\nrelays = {relays}')
            row.append(f"L={relays}: {found:.0f} ({found / pull:.1f})")
        print(f"  processes over TLS, two hosts, a user more: pull {pull:.0f}; {'; '.join(row)}")
    signed, checked = signatures()
    print(
        f"  signatures: {signed:.0f} each, {checked:.0f} to check; everyone makes two, a relay's host checks every go"
    )
    for relays in (1, 3, 6):
        times = onions(relays)
        print(f"  cryptography, L={relays}: " + ", ".join(f"{name} {each:.0f}" for name, each in times.items()))


if __name__ == "__main__":
    main()
