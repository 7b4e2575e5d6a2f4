"""How many bytes of load a host sends and receives, by algorithm and number of hosts.

Counted in a memory cluster (see there): payload as encoded, both ways, replies included; HTTP/2 and
TCP put about a hundred bytes on top of each message. Idle, and under a load that changes all the
time: jobs of two seconds, `ARRIVALS_PER_S` on each host of two cores.
"""

from dataclasses import dataclass

from lbd.lim import events as e
from tests.bench.measure import say
from tests.bench.memory_cluster import MemoryCluster
from tests.bench.row import table
from tests.bench.stage import Stage

SIZES = (4, 40, 400)
QUICK_SIZES = (4, 40)
ALGORITHMS = ("GLOBAL", "CENTRAL", "LOWEST")
SETTLE_S = 10.0
MEASURED_S = 20.0
ARRIVALS_PER_S = 0.8
JOB_S = 2.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """Of one host, a second: sent and received."""

    algorithm: str
    hosts: int
    load: str  # idle | changing
    mean_bytes: float
    mean_messages: float
    centre_bytes: float
    moved: float  # share of the commands that went to another host


def measure(stage: Stage) -> list[Traffic]:
    found = []
    for count in QUICK_SIZES if stage.quick else SIZES:
        say(f"measuring load traffic among {count} hosts")
        cluster = MemoryCluster(count, seed=1)
        cluster.run(SETTLE_S)  # everybody says hello to everybody
        found += [observed(cluster, algorithm, "idle") for algorithm in ALGORITHMS]
        cluster.begin_arrivals(ARRIVALS_PER_S, JOB_S)
        found += [observed(cluster, algorithm, "changing") for algorithm in ALGORITHMS]
    return sorted(found, key=lambda t: (ALGORITHMS.index(t.algorithm), t.load != "idle", t.hosts))


def observed(cluster: MemoryCluster, algorithm: str, load: str) -> Traffic:
    first = next(iter(cluster.hosts.values()))
    change = e.ChangeSettings(algorithm, {})
    cluster.perform(first, first.state.handle(change, cluster.now_s))
    cluster.run(SETTLE_S)
    before = {host: (host.bytes, host.messages) for host in cluster.hosts.values()}
    placed, moved = cluster.placed, cluster.moved
    cluster.run(MEASURED_S)
    grown = {host: host.bytes - old for host, (old, _) in before.items()}
    messages = sum(host.messages - old for host, (_, old) in before.items())
    centre = first.state.centre
    others = [size for host, size in grown.items() if host.state.me != centre]
    assert all(host.state.in_force.lim.algorithm == algorithm for host in cluster.hosts.values())
    assert centre is not None
    return Traffic(
        algorithm=algorithm,
        hosts=len(cluster.hosts),
        load=load,
        mean_bytes=sum(others) / len(others) / MEASURED_S,
        mean_messages=messages / len(grown) / MEASURED_S,
        centre_bytes=grown[cluster.hosts[centre]] / MEASURED_S,
        moved=(cluster.moved - moved) / max(1, cluster.placed - placed),
    )


HEADINGS = (
    "load bytes", "load", "hosts", "B/s of a host", "B/s of the centre", "messages/s, mean", "moved"
)  # fmt: skip


def shown(found: list[Traffic]) -> str:
    lines = [
        [
            one.algorithm, one.load, str(one.hosts), f"{one.mean_bytes:,.0f}",
            f"{one.centre_bytes:,.0f}", f"{one.mean_messages:.2f}", f"{one.moved:.0%}",
        ]
        for one in found
    ]  # fmt: skip
    return table(HEADINGS, lines)
