"""How many bytes of load a host sends and receives, by algorithm and number of hosts, idle and
under changing load: `load_bytes`, as part of the one run.
"""

from dataclasses import dataclass

from tests.bench.load_bytes import measure as measure_bytes
from tests.bench.measure import say
from tests.bench.row import table
from tests.bench.stage import Stage

SIZES = (4, 40, 400)
QUICK_SIZES = (4, 40)
ALGORITHMS = ("GLOBAL", "CENTRAL", "LOWEST")
SECONDS = 10  # of virtual time: two keep-alives
SEED = 1


@dataclass(frozen=True, slots=True)
class Traffic:
    """Of one host, a second: sent and received."""

    algorithm: str
    load: str  # idle | changing
    hosts: int
    mean_bytes: float
    centre_bytes: float
    messages_sent: float


def measure(stage: Stage) -> list[Traffic]:
    found = []
    for hosts in QUICK_SIZES if stage.quick else SIZES:
        say(f"measuring load traffic among {hosts} hosts")
        for algorithm in ALGORITHMS:
            for load in ("idle", "changing"):
                figures = measure_bytes(hosts, algorithm, SECONDS, SEED, load == "changing")
                found.append(Traffic(algorithm, load, hosts, *figures))
    return sorted(found, key=lambda t: (ALGORITHMS.index(t.algorithm), t.load != "idle", t.hosts))


HEADINGS = ("load bytes", "load", "hosts", "B/s a host", "B/s centre", "messages/s a host")


def shown(found: list[Traffic]) -> str:
    lines = [
        [
            one.algorithm, one.load, str(one.hosts), f"{one.mean_bytes:,.0f}",
            f"{one.centre_bytes:,.0f}", f"{one.messages_sent:.2f}",
        ]
        for one in found
    ]  # fmt: skip
    return table(HEADINGS, lines)
