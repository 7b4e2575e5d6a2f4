"""Jobs that run on one to four slots: what they gain by waiting for more.

Sixty jobs with the same arrivals go through a live queue under pred and avg at the same time, each
in a lab of its own. A job sleeps for its work over Downey's S(n), with n the slots that it got, so
that two cores can play the slots of all. Few of sixty jobs ever wait for more, and what they gain
depends on the jobs that come next: so there are 16 replications with other jobs, two at a time, and
the interval is that of the mean difference of a replication. `free`, which is several times as
slow, runs once. Beside them the same jobs go through the same deciding code in virtual time, there
under heur as well.

Jobs take seconds: no job waits to save less than half a second (`malleable_heads.WORTH_S`), so
shorter ones would not show much. Takes some ten minutes.
"""

import math
import statistics
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from heapq import heappop, heappush
from random import Random
from typing import NamedTuple

from lbd.config.dispatch import Strategy
from lbd.console.reply import Json, tables
from lbd.dispatch.core.discipline import HostSlots, QueuedJob, Start
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.malleable.decision import Rule
from lbd.dispatch.core.queues import Queues
from lbd.local.json_socket import ask
from lbd.model import HostId, JobId
from lbd.theory.speedup import Speedup
from tests.bench.measure import say, summarise, wait_for
from tests.bench.row import Bound, Row
from tests.bench.stage import Lab, Stage

HOSTS, SLOTS = 4, 4
JOBS, REPLICATIONS, AT_ONCE = 60, 16, 2
QUICK_JOBS, QUICK_REPLICATIONS = 12, 2
STUDENT = {REPLICATIONS: 2.131, QUICK_REPLICATIONS: 12.706}  # 97.5 % of its t
SHAPES = Speedup(1.0, 0.0), Speedup(3.0, 0.0), Speedup(4.0, 0.0)
WORK_S = 1.5, 18.0  # on one slot: uniform in the logarithm
LOAD = 0.7  # of all slots
SEED = 7
TICK_S = 0.2  # of the dispatcher
ANSWER_S, END_S = 20.0, 240.0
EARLIER = 8  # jobs from which a dispatcher learns how long such jobs take
STRATEGIES: tuple[Strategy, ...] = ("avg", "pred")
SLOW: Strategy = "free"
UP_TO_ASKED, TURNAROUND_ASKED = Bound(0.0, of_ratio=False), Bound(1.0)
SETTINGS = (
    "dispatch.host=h1", f"lbm.slots={SLOTS}", "dispatch.load_ceiling=10000", "lim.hold_above=10000",
)  # fmt: skip


class Job(NamedTuple):
    at_s: float
    work_s: float
    shape: Speedup


def workload(count: int, seed: int) -> list[Job]:
    rng, jobs, at_s = Random(seed), list[Job](), 0.0
    low, high = map(math.log, WORK_S)
    mean_s = (WORK_S[1] - WORK_S[0]) / (high - low)
    for _ in range(count):
        at_s += rng.expovariate(LOAD * HOSTS * SLOTS / mean_s)
        jobs.append(Job(at_s, math.exp(rng.uniform(low, high)), rng.choice(SHAPES)))
    return jobs


def simulated(strategy: Strategy, jobs: Sequence[Job], past_s: Sequence[float]) -> list[float]:
    """Turnarounds through the dispatcher's own code in virtual time."""
    queues, rng = Queues(make("fcfs", ()), malleable=Rule(strategy)), Random(1)
    for life_s in past_s:
        queues.slot_times.ended(life_s)
    queues.hosts_are([HostSlots(HostId(f"h{n}"), SLOTS) for n in range(1, HOSTS + 1)], 0.0, rng)
    ends: list[tuple[float, JobId]] = []
    found = [0.0] * len(jobs)

    def begin(starts: Sequence[Start], now_s: float) -> None:
        for start in starts:
            job = jobs[int(start.job.id) - 1]
            end_s = now_s + job.shape.run_s(job.work_s, start.slots)
            heappush(ends, (end_s, start.job.id))
            found[int(start.job.id) - 1] = end_s - job.at_s

    events = [(job.at_s, n) for n, job in enumerate(jobs, 1)]
    tick_s = 0.0
    while events or ends or queues.registry:
        now_s = min(tick_s, events[0][0] if events else math.inf, ends[0][0] if ends else math.inf)
        if ends and ends[0][0] == now_s:
            begin(queues.ended(heappop(ends)[1], now_s, rng), now_s)
        elif events and events[0][0] == now_s:
            _, n = events.pop(0)
            own = jobs[n - 1].shape
            job = QueuedJob(
                JobId(str(n)), 1, slots_most=SLOTS, work_s=jobs[n - 1].work_s,
                speedup=(own.parallelism, own.sigma),
            )  # fmt: skip
            begin(queues.arrived(job, now_s, rng), now_s)
        else:
            tick_s += TICK_S
            begin(queues.asked_again(now_s, rng), now_s)
    return found


# Live


def turnarounds(stage: Stage, _: set[str]) -> list[Row]:
    count = QUICK_JOBS if stage.quick else JOBS
    seeds = range(SEED, SEED + (QUICK_REPLICATIONS if stage.quick else REPLICATIONS))
    mark, live = stage.others.mark(), dict[Strategy, list[float]]()
    with ExitStack() as stack, ThreadPoolExecutor(AT_ONCE * len(STRATEGIES) + 1) as threads:
        played = [
            (strategy, place, stack.enter_context(lab_of(stage, strategy, place)))
            for strategy, places in (*((one, AT_ONCE) for one in STRATEGIES), (SLOW, 1))
            for place in range(places)
        ]
        for _, _, lab in played:
            for job in workload(EARLIER, SEED - 1):
                submit(stage, lab, job)
        for _, _, lab in played:
            until_all_ended(lab, EARLIER)
        for turn in range(len(seeds) // AT_ONCE):
            say(f"malleable jobs: {AT_ONCE * turn} of {len(seeds)} replications done")
            now = [
                (
                    strategy,
                    threads.submit(
                        mean_turnaround, stage, lab,
                        workload(count, seeds[AT_ONCE * turn + place]), EARLIER + turn * count,
                    ),
                )
                for strategy, place, lab in played
                if strategy != SLOW or turn == 0
            ]  # fmt: skip
            for strategy, mean in now:
                live.setdefault(strategy, []).append(mean.result())
    others, virtual = stage.others.share_since(mark), in_virtual_time(count, seeds)
    return rows(live, virtual, others)


def lab_of(stage: Stage, strategy: Strategy, place: int) -> AbstractContextManager[Lab]:
    own = f"dispatch.malleable={strategy}"
    return stage.new_lab(f"malleable-{strategy}-{place}", HOSTS, *SETTINGS, own)


Means = Mapping[Strategy, Sequence[float]]  # of each replication


def rows(live: Means, virtual: Means, others: float | None) -> list[Row]:
    """Compares with avg by the mean difference of a replication, and with free by the first one."""
    figure = f"mean turnaround of {JOBS} malleable jobs, pred"
    middle_s, half_s = difference(live["pred"], live["avg"])
    in_virtual = ", ".join(
        f"{name} {middle_s:+.2f} ± {half_s:.2f} s"
        for name in ("pred", "heur")
        for middle_s, half_s in (difference(virtual[name], virtual["avg"]),)
    )
    note = (
        f"less avg: {middle_s:+.2f} ± {half_s:.2f} s a job; in virtual time {in_virtual},"
        f" avg {statistics.fmean(virtual['avg']):.2f} s"
    )
    ours, theirs = (summarise([statistics.fmean(live[one])]) for one in ("pred", "avg"))
    up_to, first = summarise([middle_s + half_s]), summarise([live["pred"][0]])
    slow = summarise(list(live[SLOW]))
    in_virtual = f"in virtual time {virtual['pred'][0]:.2f} s to {virtual[SLOW][0]:.2f} s"
    return [
        Row(figure, "s", ours, "avg", theirs, TURNAROUND_ASKED, others, note),
        Row(f"{figure}, less avg's: up to (95 %)", "s", up_to, asked=UP_TO_ASKED, others=others),
        Row(f"{figure}, once", "s", first, SLOW, slow, TURNAROUND_ASKED, others, in_virtual),
    ]


def in_virtual_time(count: int, seeds: Iterable[int]) -> Means:
    past_s = [job.work_s for job in workload(JOBS, SEED - 1)]
    return {
        strategy: [
            statistics.fmean(simulated(strategy, workload(count, seed), past_s)) for seed in seeds
        ]
        for strategy in (*STRATEGIES, "heur", SLOW)
    }


def difference(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """The mean of the paired differences, and half of its 95 % interval."""
    each = [one - other for one, other in zip(ours, theirs, strict=True)]
    half = STUDENT[len(each)] * statistics.stdev(each) / math.sqrt(len(each))
    return statistics.fmean(each), half


def mean_turnaround(stage: Stage, lab: Lab, jobs: Sequence[Job], before: int) -> float:
    """`before`: the number of jobs that have already ended in this lab."""
    began_s = time.monotonic()
    names = []
    for job in jobs:
        time.sleep(max(0.0, began_s + job.at_s - time.monotonic()))
        names.append(submit(stage, lab, job))
    until_all_ended(lab, before + len(jobs))
    found = {row["id"]: row for row in all_jobs(lab)}
    return statistics.fmean(found[name]["finished"] - found[name]["submitted"] for name in names)


def submit(stage: Stage, lab: Lab, job: Job) -> str:
    """The job sleeps as long as a command of this speedup would work."""
    times = [f"{job.shape.run_s(job.work_s, n):.3f}" for n in range(1, SLOTS + 1)]
    script = f"set -- {' '.join(times)}; shift $((LBD_SLOTS - 1)); exec sleep $1"
    shape = f"{job.shape.parallelism},{job.shape.sigma}"
    argv = [
        str(stage.installation.lbrun), "-d", "--no-stdin", "-n", f"1-{SLOTS}", "--speedup", shape,
        "--work", f"{job.work_s:.3f}", "sh", "-c", script,
    ]  # fmt: skip
    done = subprocess.run(argv, env=lab.environment("h1"), check=True, capture_output=True)
    return done.stdout.decode().strip()


def all_jobs(lab: Lab) -> list[Json]:
    reply = ask(lab.socket("h1", "lbm"), {"op": "jobs", "all": True, "cluster": True}, ANSWER_S)
    return tables(reply, "jobs")


def until_all_ended(lab: Lab, count: int) -> None:
    def ended() -> bool:
        return sum(row["finished"] is not None for row in all_jobs(lab)) >= count

    wait_for(ended, END_S, "the end of all malleable jobs")
