"""Batch jobs of several slots on one host with many: the production queue with each rule of
`dispatch.backfill`, and an independent EASY beside it."""

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean

from lbd.dispatch.core.discipline import HostSlots, QueuedJob, Start
from lbd.dispatch.core.disciplines.fcfs import Fcfs
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.run_times import name_hash
from lbd.dispatch.core.shares import Rules
from lbd.model import HostId, JobId
from lbd.sim.queueing.trace import FIELDS

HOST = HostId("h1")
SUBMIT, RUN, PROCESSORS, REQUESTED, USER, PROGRAM = 1, 3, 4, 8, 11, 13
SHORT_S = 10.0  # threshold of bounded slowdown


@dataclass(frozen=True, slots=True)
class BatchJob:
    submitted_s: float
    run_s: float
    slots: int
    limit_s: float  # 0: none
    user: str = ""
    command: str = ""


def batch_jobs(lines: Iterable[bytes], limit: int) -> list[BatchJob]:
    """Returns the first `limit` jobs that ran in a trace in the Standard Workload Format. Jobs that
    ran longer than requested were allowed to, so they count as having requested that time."""
    jobs: list[BatchJob] = []
    for line in lines:
        words = line.split()
        if len(words) != FIELDS or line.startswith(b";"):
            continue
        values = [float(word) for word in words]
        if values[RUN] <= 0 or values[PROCESSORS] <= 0:
            continue
        limit_s = max(values[REQUESTED], values[RUN]) if values[REQUESTED] > 0 else 0.0
        user, program = f"{values[USER]:g}", f"{values[PROGRAM]:g}"
        slots = int(values[PROCESSORS])
        jobs.append(BatchJob(values[SUBMIT], values[RUN], slots, limit_s, user, program))
        if len(jobs) == limit:
            break
    return sorted(jobs, key=lambda job: job.submitted_s)


def waits_s(jobs: Sequence[BatchJob], slots: int, rule: str, risk: float = 0.1) -> list[float]:
    """Returns each job's wait on one host."""
    queues, rng = Queues(Fcfs(), Rules(backfill=rule, backfill_risk=risk)), Random(1)
    began_s: dict[int, float] = {}
    ends: list[tuple[float, int]] = []
    queues.host_is(HostSlots(HOST, slots), jobs[0].submitted_s, rng)

    def begin(starts: Iterable[Start], now_s: float) -> None:
        for start in starts:
            number = int(start.job.id)
            began_s[number] = now_s
            heapq.heappush(ends, (now_s + jobs[number - 1].run_s, number))

    def end_until(moment_s: float) -> None:
        while ends and ends[0][0] <= moment_s:
            now_s, number = heapq.heappop(ends)
            begin(queues.ended(JobId(str(number)), now_s, rng), now_s)

    for number, job in enumerate(jobs, 1):
        end_until(job.submitted_s)
        queued = QueuedJob(
            JobId(str(number)), job.slots, user=job.user, command=name_hash(job.command),
            limit_s=job.limit_s,
        )  # fmt: skip
        begin(queues.arrived(queued, job.submitted_s, rng), job.submitted_s)
    end_until(math.inf)
    return [began_s[number] - job.submitted_s for number, job in enumerate(jobs, 1)]


def easy_waits_s(jobs: Sequence[BatchJob], slots: int) -> list[float]:
    """EASY as published, for comparison; shares no code with ours."""
    began: dict[int, float] = {}
    running: list[tuple[float, int]] = []  # real end, job
    waiting: list[int] = []
    free = slots

    def begin(number: int, now_s: float) -> None:
        nonlocal free
        free -= jobs[number].slots
        began[number] = now_s
        waiting.remove(number)
        heapq.heappush(running, (now_s + jobs[number].run_s, number))

    def schedule(now_s: float) -> None:
        while waiting and jobs[waiting[0]].slots <= free:
            begin(waiting[0], now_s)
        if not waiting:
            return
        limits = sorted((began[n] + jobs[n].limit_s, jobs[n].slots) for _, n in running)
        room, shadow_s, need = free, now_s, jobs[waiting[0]].slots
        for ends_s, count in limits:
            if room >= need and ends_s > shadow_s:
                break
            room, shadow_s = room + count, max(shadow_s, ends_s)
        spare = room - need
        for number in waiting[1:]:
            job = jobs[number]
            if job.slots > free:
                continue
            if now_s + job.limit_s <= shadow_s:
                begin(number, now_s)
            elif job.slots <= spare:
                spare -= job.slots
                begin(number, now_s)

    def end_until(moment_s: float) -> None:
        nonlocal free
        while running and running[0][0] <= moment_s:
            now_s, number = heapq.heappop(running)
            free += jobs[number].slots
            schedule(now_s)

    for number, job in enumerate(jobs):
        end_until(job.submitted_s)
        waiting.append(number)
        schedule(job.submitted_s)
    end_until(math.inf)
    return [began[number] - job.submitted_s for number, job in enumerate(jobs)]


@dataclass(frozen=True, slots=True)
class Effect:
    """A rule's results, compared with the strict order."""

    mean_wait_s: float
    mean_slowdown: float  # bounded: (wait + run) / max(run, 10 s), at least 1
    longest_wait_s: float
    later: float  # share of the jobs that started later than in the strict order
    later_by_s: float  # mean delay of these


def effect(jobs: Sequence[BatchJob], waits: Sequence[float], strict: Sequence[float]) -> Effect:
    late = [one - was for one, was in zip(waits, strict, strict=True) if one > was + 1.0]
    slowdowns = [
        max(1.0, (wait + job.run_s) / max(job.run_s, SHORT_S))
        for wait, job in zip(waits, jobs, strict=True)
    ]
    return Effect(
        fmean(waits), fmean(slowdowns), max(waits), len(late) / len(jobs), fmean(late or [0.0])
    )
