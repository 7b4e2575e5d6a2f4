"""The bytes of load that a host sends and receives, by algorithm and number of hosts, idle and
under changing load, and its messages beside the most that the thesis allows: `load_bytes` as part
of run.py. Run by itself, it goes up to 1000 hosts, which takes half an hour."""

from dataclasses import dataclass

from lbd.config.schema import ALGORITHMS
from tests.bench.load_bytes import bound, keep_alives
from tests.bench.load_bytes import measure as measure_bytes
from tests.bench.measure import say
from tests.bench.row import table
from tests.bench.stage import Stage

SIZES = (10, 100)
LARGEST = 1000  # under GLOBAL only: it takes minutes
ASKED_BYTES = {10: 300, 100: 600, 1000: 4000}  # a host, under GLOBAL while loads change
QUICK_SIZES = (10,)
SECONDS = 10  # of virtual time: two keep-alives
SEED = 1


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one host sends and receives a second."""

    algorithm: str
    load: str  # idle | changing
    hosts: int
    mean_bytes: float
    centre_bytes: float
    messages_sent: float
    messages_max: float  # by the thesis, without messages that only show who is alive
    keep_alives_max: float

    @property
    def asked_bytes(self) -> int | None:
        is_asked = self.algorithm == "GLOBAL" and self.load == "changing"
        return ASKED_BYTES.get(self.hosts) if is_asked else None

    @property
    def verdict(self) -> str:
        if self.asked_bytes is None:
            return ""
        return "ok" if self.mean_bytes <= self.asked_bytes else "SHORT"


def measure(stage: Stage) -> list[Traffic]:
    found = []
    for hosts in QUICK_SIZES if stage.quick else (*SIZES, LARGEST):
        say(f"measuring load traffic among {hosts} hosts")
        for algorithm in ALGORITHMS if hosts < LARGEST else ("GLOBAL",):
            for load in ("idle", "changing") if hosts < LARGEST else ("changing",):
                figures = measure_bytes(hosts, algorithm, SECONDS, SEED, load == "changing")
                most = bound(algorithm, hosts), keep_alives(hosts)
                found.append(Traffic(algorithm, load, hosts, *figures, *most))
    return sorted(found, key=lambda t: (ALGORITHMS.index(t.algorithm), t.load != "idle", t.hosts))


HEADINGS = (
    "load bytes", "load", "hosts", "B/s a host", "B/s centre", "messages/s a host",
    "thesis", "alive", "B/s asked", "verdict",
)  # fmt: skip


def shown(found: list[Traffic]) -> str:
    lines = [
        [
            one.algorithm, one.load, str(one.hosts), f"{one.mean_bytes:,.0f}",
            f"{one.centre_bytes:,.0f}", f"{one.messages_sent:.2f}",
            f"{one.messages_max:.2f}", f"{one.keep_alives_max:.2f}",
            f"<= {one.asked_bytes}" if one.asked_bytes else "", one.verdict,
        ]
        for one in found
    ]  # fmt: skip
    return table(HEADINGS, lines)
