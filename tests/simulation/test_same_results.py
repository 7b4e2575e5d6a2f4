"""Simulation results from before their code was made faster: the same seed still gives the same.

Sizes and times are whole numbers, so that no digest of the queue depends on a mathematics library;
those of load balancing have nine digits.
"""

from collections.abc import Iterator
from hashlib import sha256
from random import Random

import pytest

from lbd.config.dispatch import MODES
from lbd.config.schema import ALGORITHMS
from lbd.dispatch.core.discipline import HostSlots, QueuedJob, Start
from lbd.dispatch.core.disciplines.registry import TIERED, make
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.shares import Rules
from lbd.model import HostId, JobId, Needs
from lbd.sim.balance.runs import run_once
from lbd.sim.balance.setup import BOUNDS, Setup, with_settings
from lbd.sim.balance.workload import WORKLOADS
from lbd.sim.queueing.dispatcher import Arrival, simulate, single_hosts

CUTOFFS_S = (40.0, 400.0)
# Arrivals a second that keep about this many hosts busy.
TRACES = {"a few hosts": (3, 1500), "a hundred hosts": (114, 3000), "overloaded": (7, 1200)}
RULES = {
    "plain": Rules(),
    "shares": Rules(priorities=True, fair_share_s=50.0, user_slots=9, name_jobs=(("fit*", 2),)),
    "backfill": Rules(backfill="limit"),
}


def digest(found: object) -> str:
    return sha256(repr(found).encode()).hexdigest()[:12]


def trace(hosts: int, jobs: int, load_percent: int) -> list[Arrival]:
    rng = Random(f"trace {hosts}")
    at_s, found = 0, []
    sizes_s = [min(2 ** rng.randrange(13), 1 + rng.randrange(10_000)) for _ in range(jobs)]
    gap_s = max(1, sum(sizes_s) * 100 // (jobs * hosts * load_percent))
    for size_s in sizes_s:
        at_s += rng.randrange(2 * gap_s + 1)
        estimate_s = float(size_s * rng.randrange(1, 5)) if rng.randrange(9) else None
        found.append(Arrival(float(at_s), float(size_s), estimate_s))
    return found


DISPATCHED: dict[tuple[str, str], str] = {
    ("a few hosts", "fcfs"): "483cb30528d9",
    ("a few hosts", "tags"): "1f0f37eaa0e0",
    ("a few hosts", "random"): "19608f17ff24",
    ("a few hosts", "round-robin"): "dc83127bdc24",
    ("a few hosts", "shortest-queue"): "bfd47fd0ff9f",
    ("a few hosts", "least-work"): "b60a11c4958d",
    ("a few hosts", "sita-e"): "008b3e86a47f",
    ("a hundred hosts", "fcfs"): "39c72795389d",
    ("a hundred hosts", "tags"): "6dbcba625bdf",
    ("a hundred hosts", "random"): "00caaaa97052",
    ("a hundred hosts", "round-robin"): "f88e65acceb8",
    ("a hundred hosts", "shortest-queue"): "2919ffc2f3dc",
    ("a hundred hosts", "least-work"): "8cb043d5d0ec",
    ("a hundred hosts", "sita-e"): "04b5b6d18910",
    ("overloaded", "fcfs"): "31eafaf056da",
    ("overloaded", "tags"): "7b3a6306b22e",
    ("overloaded", "random"): "d6da5c6f55c4",
    ("overloaded", "round-robin"): "5f77fc17896c",
    ("overloaded", "shortest-queue"): "0eab4e462284",
    ("overloaded", "least-work"): "6a5a9448f8db",
    ("overloaded", "sita-e"): "ff4431b42f1b",
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", TRACES)
def test_a_trace_gives_the_same_waits(name, mode):
    hosts, jobs = TRACES[name]
    tiered = mode in TIERED
    discipline = make(mode, CUTOFFS_S if tiered else ())
    arrivals = trace(hosts, jobs, 130 if name == "overloaded" else 85)
    run = simulate(arrivals, discipline, single_hosts(hosts, tiered), Random(f"{name} {mode}"))
    assert digest((run.waited_s, run.killed_s, run.busy_s, run.ended_s)) == DISPATCHED[name, mode]


def drawn_job(number: int, rng: Random) -> QueuedJob:
    """A job of any kind; most are plain ones."""
    kind = rng.randrange(12)
    array = 1 + number // 40 if kind in (1, 2) else 0
    return QueuedJob(
        JobId(str(number)),
        slots=1 + rng.randrange(3) if kind in (3, 4) else 1,
        may_restart=kind != 5,
        estimate_s=float(1 + rng.randrange(300)) if kind != 6 else None,
        only=HostId(f"h{1 + rng.randrange(6)}") if kind == 7 else None,
        barred=frozenset({HostId(f"h{1 + rng.randrange(6)}")}) if kind == 8 else frozenset(),
        user=f"u{rng.randrange(4)}",
        name=f"fit{rng.randrange(3)}" if kind == 9 else "",
        priority=rng.randrange(3),
        array=array,
        array_index=number if array else None,
        limit_s=float(1 + rng.randrange(400)) if kind == 10 else 0.0,
        needs=Needs(memory_bytes=1 << 20) if kind == 11 else Needs(),
        at_once=2 if kind == 2 else 0,
    )


def drawn_host(number: int, rng: Random) -> HostSlots:
    slots = 1 + number % 4
    return HostSlots(
        HostId(f"h{number}"), slots,
        open_slots=None if rng.randrange(3) else rng.randrange(slots + 1),
        load=rng.randrange(8) / 4.0, tiers=(1 + number % 3,),
    )  # fmt: skip


def history(mode: str, rules: Rules, keeps_backlog: bool, steps: int = 500) -> Iterator[object]:
    """Applies random events to jobs and hosts; yields what was started each time."""
    rng, drawn = Random(f"queues {mode}"), Random(f"history {mode}")
    queues = Queues(
        make(mode, CUTOFFS_S if mode in TIERED else ()), rules, keeps_backlog=keeps_backlog
    )
    hosts = [drawn_host(number, drawn) for number in range(1, 7)]
    running: list[JobId] = []
    came = 0

    def begun(starts: list[Start]) -> list[tuple[str, str, int, float | None, int]]:
        running.extend(start.job.id for start in starts)
        return [(one.job.id, one.host, one.tier, one.cutoff_s, one.slots) for one in starts]

    yield begun(queues.hosts_are(hosts, 0.0, rng))
    for step in range(steps):
        now_s, what = float(step), drawn.randrange(20)
        if what < 9:
            came += 1
            yield begun(queues.arrived(drawn_job(came, drawn), now_s, rng))
        elif what < 16 and running:
            job = running.pop(drawn.randrange(len(running)))
            if what == 15:
                ask = queues.cut_off if mode == "tags" else queues.lost
                yield begun(ask(job, now_s, rng))
            else:
                yield begun(queues.ended(job, now_s, rng, whole=bool(drawn.randrange(5))))
        elif what == 16 and came:
            job = JobId(str(1 + drawn.randrange(came)))
            if job not in running:
                yield begun(queues.ended(job, now_s, rng))
        elif what == 17:
            yield begun(queues.host_gone(HostId(f"h{1 + drawn.randrange(6)}"), now_s, rng))
        else:
            yield begun(queues.host_is(drawn_host(1 + drawn.randrange(6), drawn), now_s, rng))


HISTORIES: dict[tuple[str, str], str] = {
    ("plain", "fcfs"): "dd55d34513e8",
    ("plain", "tags"): "91268fdfe19c",
    ("plain", "random"): "ce652b0bea4a",
    ("plain", "round-robin"): "d18c9889bc31",
    ("plain", "shortest-queue"): "a4e1ffb4a8d5",
    ("plain", "least-work"): "a1ceae67cc48",
    ("plain", "sita-e"): "d9392211d933",
    ("shares", "fcfs"): "0c31f3d6ee00",
    ("shares", "tags"): "8ee004c40e88",
    ("shares", "random"): "fbb7534f19c2",
    ("shares", "round-robin"): "2513a69a0370",
    ("shares", "shortest-queue"): "a721fb1a377c",
    ("shares", "least-work"): "cc2e7b43d9fd",
    ("shares", "sita-e"): "27cd1fbd74ed",
    ("backfill", "fcfs"): "c2f26e596116",
    ("backfill", "tags"): "455bca135a6c",
    ("backfill", "random"): "ce652b0bea4a",
    ("backfill", "round-robin"): "d18c9889bc31",
    ("backfill", "shortest-queue"): "bcc9986891de",
    ("backfill", "least-work"): "a1ceae67cc48",
    ("backfill", "sita-e"): "7c8ea7cbd215",
}


@pytest.mark.parametrize("keeps_backlog", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rules", RULES)
def test_jobs_of_every_kind_start_where_they_did(rules, mode, keeps_backlog):
    found = list(history(mode, RULES[rules], keeps_backlog))
    assert digest(found) == HISTORIES[rules, mode]


SETTINGS = {
    "thesis": (),
    "smoothed": ("smoothing_s=4", "window_s=1", "disks=2", "index=sum", "cores=1,2", "speeds=1,3"),
    "noticed": ("keepalive_s=20", "stale_after_s=30", "down_after_s=90", "quantum_s=0.1"),
}
BALANCED: dict[tuple[str, str], str] = {
    ("thesis", "GLOBAL"): "27372da3791e",
    ("thesis", "DISTED"): "610b348ab3ad",
    ("thesis", "CENTRAL"): "c7bca445a7e5",
    ("thesis", "RANDOM"): "d5380a8d6c89",
    ("thesis", "THRHLD"): "52a1ec9d56ff",
    ("thesis", "LOWEST"): "4c435ceaa6a2",
    ("thesis", "RESERVE"): "148bd335ea28",
    ("thesis", "NOLB"): "513779332dc2",
    ("thesis", "P2C"): "7f8b89d563ef",
    ("thesis", "PREDICT"): "28cd94295ee8",
    ("thesis", "PartCOST"): "3181aa83031b",
    ("thesis", "NoCOST"): "803858482cd6",
    ("smoothed", "GLOBAL"): "362dc3badb66",
    ("smoothed", "DISTED"): "ae45eb2e8921",
    ("smoothed", "CENTRAL"): "7b70d66e6b08",
    ("smoothed", "RANDOM"): "a4c339d84634",
    ("smoothed", "THRHLD"): "833eb7075eee",
    ("smoothed", "LOWEST"): "e60807c40993",
    ("smoothed", "RESERVE"): "ebaa429aa903",
    ("smoothed", "NOLB"): "b41c06c9fdaf",
    ("smoothed", "P2C"): "687716844e71",
    ("smoothed", "PREDICT"): "9ea04ecc2d5e",
    ("smoothed", "PartCOST"): "d0b4ba7eb23e",
    ("smoothed", "NoCOST"): "f9b5010b8427",
    ("noticed", "GLOBAL"): "5f02d4322f56",
    ("noticed", "DISTED"): "89215749be61",
    ("noticed", "CENTRAL"): "db955ef0649c",
    ("noticed", "RANDOM"): "30a24254b731",
    ("noticed", "THRHLD"): "9c6d72a65ff7",
    ("noticed", "LOWEST"): "df26d48eca8e",
    ("noticed", "RESERVE"): "e4ae6951aa0d",
    ("noticed", "NOLB"): "6410fb24f47b",
    ("noticed", "P2C"): "1e2e185e5b91",
    ("noticed", "PREDICT"): "3963ab4dd15c",
    ("noticed", "PartCOST"): "51ecf4de3945",
    ("noticed", "NoCOST"): "4f48811dc3cf",
}


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, *BOUNDS])
@pytest.mark.parametrize("settings", SETTINGS)
def test_load_balancing_gives_the_same_responses(settings, algorithm):
    assert responses(9, SETTINGS[settings], algorithm) == BALANCED[settings, algorithm]


def test_reserve_gives_the_same_responses_among_many_hosts():
    """RESERVE asks some of the loaded hosts: from more than 21, `Random.sample` draws another
    way."""
    assert responses(40, (), "RESERVE") == "8572f347dbe3"


def responses(hosts: int, words: tuple[str, ...], algorithm: str) -> str:
    """The digest of one run."""
    workload = WORKLOADS["berkeley"]
    setup = Setup(workload, hosts=hosts, duration_s=90.0, costs=workload.costs)
    run = run_once(with_settings(setup, list(words)), algorithm, 0)
    found = (
        run.jobs, run.moved, run.wrong, run.events, sorted(run.seen.items()),
        *(f"{value:.9g}" for value in (
            run.mean_response_s, run.sd_response_s, run.messages_per_host_s, run.overhead_share
        )),
    )  # fmt: skip
    return digest(found)
