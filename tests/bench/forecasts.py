"""How far forecasts are from what happens, with and without the run times of earlier runs.

Recorded jobs (a trace of the Parallel Workloads Archive that `LBD_TRACE` names, else jobs drawn
from the seed) go through the production queue in virtual time, strictly first come, first served,
without time limits. For a job that has to wait, the queue forecasts its start; compared are the
factor between forecast and actual wait, and whether the job started within the interval that should
hold for nine in ten. Takes a minute.
"""

import gzip
import heapq
import math
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import fmean, median, stdev
from typing import NamedTuple

from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.fcfs import Fcfs
from lbd.dispatch.core.outlook.forecast import Forecast, Prediction
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.run_times import RunTimes, line_of, name_hash
from lbd.model import HostId, JobId
from lbd.sim.queueing.backfill import BatchJob, batch_jobs
from tests.bench.measure import summarise
from tests.bench.row import Bound, Row
from tests.bench.stage import Stage

TRACE, TRACE_SLOTS = "LBD_TRACE", 128
JOBS, QUICK_JOBS = 4000, 1000
ASKED_EVERY = 3  # of those that wait
USERS, PROGRAMS, SLOTS, LOAD = 20, 4, 16, 0.9  # of the jobs drawn
LEAST_S = 60.0  # nobody minds the factor of a shorter wait
KNOWN_ASKED = Bound(1.0)
ENDED_JOBS, BETWEEN_S, NEW_JOBS, NEW_SLOTS, LEAST_NEW_S = 36, 1e5, 40, 4, 5.0
LABS, QUICK_LABS = 200, 30
NEW_ASKED = Bound(1.35, of_ratio=False)  # 1.1 in the median; it was 1.5
SEEN_KINDS, LEAST_SEEN_S = (
    8,
    1.0,
)  # commands of which each has run once or twice before all of them run again
# known command lines of a program that runs with another argument: of one, only a guess can be made
FEW_LINES, MANY_LINES = 1, 6
GUESSES_ASKED = Bound(0.9, at_least=True, of_ratio=False)
WITHIN_ASKED = Bound(0.8, at_least=True, of_ratio=False)  # the bar for "nine in ten"


class Truth(NamedTuple):
    """A forecast wait beside the actual one."""

    factor: float  # by how many times it was longer or shorter
    times_as_long: float
    is_within: bool | None  # the interval; None: too few jobs had ended for one
    is_rough: bool = False


def measure(stage: Stage, _wanted: set[str]) -> list[Row]:
    mark = stage.others.mark()
    count = QUICK_JOBS if stage.quick else JOBS
    if given := os.environ.get(TRACE):
        with gzip.open(Path(given)) as lines:
            jobs, slots, least_s = batch_jobs(lines, count), TRACE_SLOTS, LEAST_S
        name = Path(given).name.split("-")[0]
    else:
        jobs, slots, least_s = drawn(Random(stage.rng.random()), count), SLOTS, 1.0
        name = "drawn"
    known, general = (truths(jobs, slots, least_s, learns=learns) for learns in (True, False))
    share, without = within(known), within(general)
    factors = [[one.factor for one in found] for found in (known, general)]
    others = stage.others.share_since(mark)
    return [
        Row(
            f"forecast and truth, median factor, {name} jobs", "times",
            summarise([median(factors[0])]), "without run times by command",
            summarise([median(factors[1])]), KNOWN_ASKED, others, note=f"{len(known)} waits",
        ),
        Row(
            f"waits within their interval of nine in ten, {name} jobs", "share",
            summarise([share]), "without run times by command", summarise([without]), WITHIN_ASKED,
            others,
        ),
        *new_commands(stage),
        *new_arguments(stage),
        *seen_once_or_twice(stage),
    ]  # fmt: skip


def new_commands(stage: Stage) -> list[Row]:
    """What is forecast behind a burst of a command that never ran, where few others have."""
    mark, of_labs, shares = stage.others.mark(), list[float](), list[float]()
    for _ in range(QUICK_LABS if stage.quick else LABS):
        rng = Random(stage.rng.random())
        jobs = few_known_and_a_new_one(rng, rng.choice((2, 5)))
        new = truths(jobs, NEW_SLOTS, LEAST_NEW_S, learns=True)[-NEW_JOBS // ASKED_EVERY :]
        of_labs.append(median(one.times_as_long for one in new))
        shares.append(within(new))
    others, count = stage.others.share_since(mark), len(of_labs)
    of_labs.sort()
    off = math.ceil(0.98 * math.sqrt(count))  # 95 % for the median of so many
    surely = of_labs[count // 2 - off], of_labs[min(count - 1, count // 2 + off)]
    share, half = fmean(shares), 1.96 * stdev(shares) / math.sqrt(count)
    return [
        Row(
            "forecast behind a new command, as a multiple of the truth, median", "times",
            summarise([median(of_labs)]), asked=NEW_ASKED, others=others,
            note=f"{count} commands, 95 %: {surely[0]:.2f} to {surely[1]:.2f}", interval=surely,
        ),
        Row(
            "waits behind a new command within their interval of nine in ten", "share",
            summarise([share]), asked=WITHIN_ASKED, others=others,
            interval=(share - half, share + half),
        ),
    ]  # fmt: skip


def new_arguments(stage: Stage) -> list[Row]:
    """What is forecast behind a burst of a known program with an argument that never ran."""
    mark, count = stage.others.mark(), QUICK_LABS if stage.quick else LABS
    found = dict[int, list[list[Truth]]]()
    for lines in (FEW_LINES, MANY_LINES):
        for _ in range(count):
            jobs = few_known_and_a_new_one(Random(stage.rng.random()), lines, is_program=True)
            new = truths(jobs, NEW_SLOTS, LEAST_NEW_S, learns=True)[-NEW_JOBS // ASKED_EVERY :]
            found.setdefault(lines, []).append(new)
    few, many = found[FEW_LINES], found[MANY_LINES]
    guesses = fmean(one.is_rough for new in few for one in new)
    share, others = fmean(within(new) for new in many), stage.others.share_since(mark)
    off = median(median(one.factor for one in new) for new in many)
    return [
        Row(
            "forecasts behind another argument called rough guesses, of one known", "share",
            summarise([guesses]), asked=GUESSES_ASKED, others=others,
        ),
        Row(
            f"waits behind another argument within their interval, of {MANY_LINES} known", "share",
            summarise([share]), asked=WITHIN_ASKED, others=others, note=f"off by {off:.2f}",
        ),
    ]  # fmt: skip


def seen_once_or_twice(stage: Stage) -> list[Row]:
    """What is forecast of the first in line while commands run that have run once or twice."""
    mark, count = stage.others.mark(), QUICK_LABS if stage.quick else LABS
    found = list[list[Truth]]()
    for _ in range(count):
        rng = Random(stage.rng.random())
        jobs = all_again(rng, rng.choice((1, 2)), rng.choice((0.02, 0.3)))
        made = truths(jobs, NEW_SLOTS, LEAST_SEEN_S, learns=True, every=1)
        found.append(made[NEW_SLOTS - SEEN_KINDS :])
    share, others = fmean(within(one) for one in found), stage.others.share_since(mark)
    first = sorted(one[0].times_as_long for one in found if one)
    early, late = first[len(first) // 10], first[-len(first) // 10]
    return [
        Row(
            "waits behind commands that have run once or twice within their interval", "share",
            summarise([share]), asked=WITHIN_ASKED, others=others,
            note=f"of the first, eight in ten {early:.2f} to {late:.2f} of the truth",
        ),
    ]  # fmt: skip


def all_again(rng: Random, runs: int, varies: float) -> list[BatchJob]:
    """Jobs of a few commands, each run so many times; much later each is submitted again."""
    mean_s, kinds_vary = rng.lognormvariate(2.5, 1.0), rng.choice((0.1, 1.0))
    means_s = [mean_s * rng.lognormvariate(0.0, kinds_vary) for _ in range(SEEN_KINDS)]
    others_s = [rng.lognormvariate(2.5, 1.0) for _ in range(SEEN_KINDS)]
    jobs, now_s = list[BatchJob](), 0.0
    for turn in range(max(3, runs) + 1):
        now_s += BETWEEN_S
        for kind in rng.sample(range(SEEN_KINDS), SEEN_KINDS):
            now_s += 0.03
            # The first turns are of other commands, so that enough jobs have ended.
            known = turn >= max(3, runs) - runs
            run_s = (means_s if known else others_s)[kind] * rng.lognormvariate(0.0, varies)
            jobs.append(BatchJob(now_s, run_s, 1, 0.0, "ann", f"{kind if known else kind + 100}"))
    return jobs


def few_known_and_a_new_one(rng: Random, kinds: int, *, is_program: bool = False) -> list[BatchJob]:
    """Jobs of a few commands, and when all have ended a burst of another. `is_program`: they differ
    by their argument only."""
    jobs, now_s = list[BatchJob](), 0.0
    for kind in range(kinds + 1):
        mean_s = rng.lognormvariate(2.5, 1.0)
        if is_new := kind == kinds:
            now_s += BETWEEN_S
        for _ in range(NEW_JOBS if is_new else ENDED_JOBS // kinds):
            now_s += 0.03
            run_s = mean_s * rng.lognormvariate(0.0, 0.3)
            user = "bob" if is_new and not is_program else "ann"
            command = f"fit {kind}" if is_program else f"{kind}"
            jobs.append(BatchJob(now_s, run_s, 1, 0.0, user, command))
    return jobs


def within(found: Sequence[Truth]) -> float:
    given = [one.is_within for one in found if one.is_within is not None]
    return sum(given) / max(1, len(given))


def drawn(rng: Random, count: int) -> list[BatchJob]:
    """Each user has a few programs, and each run of a program takes about as long."""
    means_s = {
        (user, program): rng.lognormvariate(3.0, 1.5)
        for user in range(USERS) for program in range(PROGRAMS)
    }  # fmt: skip
    mean_s, now_s, jobs = sum(means_s.values()) / len(means_s), 0.0, list[BatchJob]()
    for _ in range(count):
        now_s += rng.expovariate(SLOTS * LOAD / mean_s)
        user, program = rng.choice(list(means_s))
        run_s = means_s[user, program] * rng.lognormvariate(0.0, 0.3)
        jobs.append(BatchJob(now_s, run_s, 1, 0.0, f"{user}", f"{program}"))
    return jobs


def truths(
    jobs: Sequence[BatchJob], slots: int, least_s: float, *, learns: bool, every: int = ASKED_EVERY
) -> list[Truth]:
    """The outcome of each wait that was forecast."""
    queues, rng, found = Queues(Fcfs()), Random(1), list[Truth]()
    asked = dict[int, Prediction]()
    if not learns:
        queues.run_times = RunTimes(most=0)
    forecast, ends, waited = Forecast(queues), list[tuple[float, int]](), 0
    queues.host_is(HostSlots(HostId("h1"), slots), jobs[0].submitted_s, rng)

    def begin(starts, now_s: float) -> None:
        for start in starts:
            number = int(start.job.id)
            heapq.heappush(ends, (now_s + jobs[number - 1].run_s, number))
            wait_s = now_s - jobs[number - 1].submitted_s
            if number in asked:
                foretold_s, _, is_rough, likely = asked.pop(number)
                factor = max(foretold_s or 0.0, least_s) / max(wait_s, least_s)
                is_within = likely[0] <= wait_s <= likely[1] if likely is not None else None
                found.append(Truth(max(factor, 1 / factor), factor, is_within, is_rough))

    for number, job in enumerate(jobs, 1):
        while ends and ends[0][0] <= job.submitted_s:
            now_s, ended = heapq.heappop(ends)
            begin(queues.ended(JobId(str(ended)), now_s, rng), now_s)
        program, _, argument = job.command.partition(" ")
        queued = QueuedJob(
            JobId(str(number)), job.slots, user=job.user, command=name_hash(program),
            command_line=line_of(job.command.encode()) if argument else 0,
        )  # fmt: skip
        foretold = None
        waits = bool(queues.lines and queues.head(1)) or slots_free(queues) < job.slots
        waited += waits
        if waits and not waited % every:
            foretold = forecast.of_new(queued, job.submitted_s)
        starts = queues.arrived(queued, job.submitted_s, rng)
        if foretold is not None and foretold.wait_s is not None and not starts:
            asked[number] = foretold
        begin(starts, job.submitted_s)
    while ends:
        now_s, ended = heapq.heappop(ends)
        begin(queues.ended(JobId(str(ended)), now_s, rng), now_s)
    return found


def slots_free(queues: Queues) -> int:
    return sum(server.free for server in queues.hosts.values())
