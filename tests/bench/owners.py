"""Hosts whose owners come and go as measured: is it better to wait, to move, or to decide?

`.venv/bin/python tests/bench/run.py --only owners` (70 minutes; `--quick`: one day)

Half a day of four PlanetLab series, with two seconds for five minutes: an owner is present while
the load is above 15 %. Four labs of four real hosts each run the same jobs at the same time, each
under its own rule: commands are suspended until the owner has left, are moved at once, after three
values, or when `admission.owner_is_back = "decide"` finds that right. Jobs burn CPU at a fiftieth
of a core, so that the labs fit on a machine of two cores; a suspended job continues at its own
pace.

Days are drawn by their numbers alone, and the number of live days was fixed beforehand. The verdict
is the difference of delays on these days, with its interval: if that includes zero the row says
"undecided". Beside it are the same days, and many others, in virtual time by the same book. Which
of the free hosts a job gets is chance, and moves the mean delay of a day by seconds; the rules
differ by two. So a live day is simulated with the hosts that its jobs got live.

The archive is looked for in $LBD_TRACES, or ../shared/traces beside the repository. The bench needs
root: owners are known by terminals of accounts of this system.
"""

import math
import os
import pwd
import shutil
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import fmean, stdev

from lbd.config.access import AdmissionConfig
from lbd.lbm.core.owner_book import OwnerBook, Standing
from lbd.lbm.owner.watch import WATCH_S
from lbd.model import HostId, JobId
from tests.bench.dispatching import TRACES
from tests.bench.measure import CannotMeasureError, say, summarise
from tests.bench.row import Bound, Row
from tests.bench.stage import Stage
from tests.live.cluster import FAST, Lab

ARCHIVE = "planetlab-cloudsim-10days.tar.xz"
VALUES, STEP_S, BUSY = 144, 2.0, 15.0
LIVELY = 20  # the fewest arrivals and departures of an owner in that time
OWNERS = ("games", "man", "lp", "news")  # accounts, one a host
HOSTS = tuple(HostId(f"h{number}") for number in range(1, len(OWNERS) + 1))
JOBS, GAP_S, WORK_S, PACE = 20, 14.0, 20.0, 0.02
# A job that is later than this was suspended; a shorter delay is the machine's and is made up for.
STOPPED_S = 0.5
SEEN_S = 3.0  # until all hosts know of an owner
LIVE_DAYS, VIRTUAL_DAYS = 12, 400
NORMAL, STUDENT = 1.96, 2.201  # 97.5 % of the t of so many days
RULES: dict[str, dict[str, object]] = {
    "wait": {"owner_is_back": "suspend"},
    "move": {"owner_is_back": "decide", "decide_by": "timer", "decide_after_s": 0.0},
    "timer": {"owner_is_back": "decide", "decide_by": "timer", "decide_after_s": 3 * STEP_S},
    "decide": {"owner_is_back": "decide", "decide_by": "trials"},
}


@dataclass(frozen=True, slots=True)
class Found:
    """One rule's result for a job on average."""

    delay_s: float  # beyond its work
    lost_s: float  # of work, done again

    def __str__(self) -> str:
        return f"delay {self.delay_s:.1f} s, lost {self.lost_s:.2f} s"


Days = list[dict[str, Found]]  # by rule, day by day
Attempts = Sequence[Sequence[HostId]]  # of each job: the hosts on which it started


def measure(stage: Stage, _wanted: set[str]) -> list[Row]:
    lively = series(TRACES / ARCHIVE)
    if os.geteuid() != 0:
        raise CannotMeasureError("it needs root, to give terminals to owners")
    mark, live, same = stage.others.mark(), Days(), Days()
    for number in range(1 if stage.quick else LIVE_DAYS):
        say(f"owners: day {number + 1}, {VALUES} values of {STEP_S:g} s each")
        here = day(lively, number)
        with tempfile.TemporaryDirectory(prefix="lbd-owners-") as where:
            jobs = replayed(Path(where), here)
        live.append({rule: judged(jobs[rule]) for rule in RULES})
        same.append(
            {rule: simulated(rule, here, Random(1), hosts_of(jobs[rule])) for rule in RULES}
        )
        say("; ".join(f"{rule}: {live[-1][rule]} (simulated {same[-1][rule]})" for rule in RULES))
    others = stage.others.share_since(mark)
    virtual = [
        {rule: simulated(rule, day(lively, number), Random(number)) for rule in RULES}
        for number in range(VIRTUAL_DAYS)
    ]
    compared = [rule for rule in RULES if rule != "decide"]
    return [one for rule in compared for one in rows(live, same, virtual, rule, others)]


def rows(live: Days, same: Days, virtual: Days, rule: str, others: float | None) -> list[Row]:
    """The live results, which decide nothing, and by how much less `decide` delays."""
    mine, theirs = mean(live, "decide").delay_s, mean(live, rule).delay_s
    (middle_s, half_s), by_many = difference(live, rule), difference(virtual, rule)
    many = f"{len(virtual)} virtual days"
    note = "; ".join(
        f"{name}: {mean(live, name)} (the same days simulated {mean(same, name)},"
        f" {many} {mean(virtual, name)})"
        for name in ("decide", rule)
    )
    figure = f"owners: delay a job, {len(live)} live days"
    return [
        Row(figure, "s", summarise([mine]), rule, summarise([theirs]), others=others, note=note),
        Row(
            f"owners: delay a job less that of {rule}", "s", summarise([middle_s]),
            asked=Bound(0.0, of_ratio=False), others=others,
            note=f"{middle_s:+.2f} ± {half_s:.2f} s (95 %); "
            f"{many}: {by_many[0]:+.2f} ± {by_many[1]:.2f} s",
            interval=(middle_s - half_s, middle_s + half_s),
        ),
    ]  # fmt: skip


def mean(days: Days, rule: str) -> Found:
    return Found(
        fmean(found[rule].delay_s for found in days), fmean(found[rule].lost_s for found in days)
    )


def difference(days: Days, rule: str) -> tuple[float, float]:
    """The difference of delays, ours less theirs, and half of its 95 % interval; infinite for one
    day."""
    less = [found["decide"].delay_s - found[rule].delay_s for found in days]
    if len(less) < LIVE_DAYS:
        return fmean(less), math.inf
    wide = NORMAL if len(less) > LIVE_DAYS else STUDENT
    return fmean(less), wide * stdev(less) / math.sqrt(len(less))


# -- owners ----------------------------------------------------------------------------------------


def series(archive: Path) -> list[list[bool]]:
    """Whether each lively owner is present, over time. Raises CannotMeasureError."""
    if not archive.exists():
        raise CannotMeasureError(f"{ARCHIVE} is not in {archive.parent} (LBD_TRACES)")
    found = []
    with tarfile.open(archive) as files:
        for member in files:
            file = files.extractfile(member) if member.isfile() else None
            if file is None:
                continue
            here = [float(word) > BUSY for word in file.read().split()[:VALUES]]
            if len(here) == VALUES and sum(a != b for a, b in pairwise(here)) >= LIVELY:
                found.append(here)
    return found


def day(lively: list[list[bool]], number: int) -> list[list[bool]]:
    """Whether each host's owner is present on that day, over time."""
    return Random(number).sample(lively, len(HOSTS))


class Desk:
    """A terminal of an account, in use or long unused."""

    def __init__(self, account: str) -> None:
        self._master, self._slave = os.openpty()
        self._name = os.ttyname(self._slave)
        shutil.chown(self._name, account)
        self.use(here=False)

    def use(self, *, here: bool) -> None:
        used_s = time.time() - (0.0 if here else 3600.0)
        os.utime(self._name, (used_s, used_s))

    def close(self) -> None:
        os.close(self._slave)
        os.close(self._master)


def replayed(where: Path, here: list[list[bool]]) -> dict[str, list[dict]]:
    """The jobs under each rule."""
    from tests.bench import tags_batch as batch  # it is a program, too

    for account in OWNERS:
        try:
            pwd.getpwnam(account)
        except KeyError:
            raise CannotMeasureError(f"no account {account} to play an owner") from None
    labs: dict[str, Lab] = {}
    desks: list[Desk] = []
    try:
        burner = batch.compiled(where)
        for rule, values in RULES.items():
            labs[rule] = lab_with(values)
        desks = [Desk(account) for account in OWNERS]
        for desk, there in zip(desks, here, strict=True):
            desk.use(here=there[0])
        time.sleep(SEEN_S)
        began_s, submitted = time.monotonic(), 0
        pids: list[int] = []
        for value in range(VALUES):
            for desk, there in zip(desks, here, strict=True):
                desk.use(here=there[value])
            if submitted < JOBS and value * STEP_S >= submitted * GAP_S:
                name = f"b{submitted}"
                pids += [
                    batch.submit(lab, burner, WORK_S, name, PACE, STOPPED_S)
                    for lab in labs.values()
                ]
                submitted += 1
            time.sleep(max(0.0, began_s + (value + 1) * STEP_S - time.monotonic()))
        for desk in desks:
            desk.use(here=False)
        for pid in pids:
            os.waitpid(pid, 0)
        batch.wait_for_all(list(labs.values()))
        return {rule: batch.told(lab, 1, JOBS) for rule, lab in labs.items()}
    finally:
        for desk in desks:
            desk.close()
        for lab in labs.values():
            lab.down()


def lab_with(values: dict[str, object]) -> Lab:
    settings = ["lbm.slots=1", "dispatch.load_ceiling=10000", "admission.owner_idle_s=600"]
    settings.append(f"admission.owner_step_s={STEP_S}")
    settings += [f"admission.{name}={value}" for name, value in values.items()]
    lab = Lab.up(len(HOSTS), "none", "--mode", "fcfs", settings=(*FAST, *settings))
    for host, account in zip(HOSTS, OWNERS, strict=True):
        config = lab.paths(host).config
        rules = config.read_text().replace("[admission]", f'[admission]\nowners = ["{account}"]', 1)
        config.write_text(rules)
        lab.run(host, "lbctl", "reload", check=True)
    return lab


def judged(jobs: list[dict]) -> Found:
    bad = [job["id"] for job in jobs if job["state"] != "done"]
    if bad or len(jobs) != JOBS:
        raise CannotMeasureError(f"{len(jobs)} jobs, not done: {bad[:5]}")
    lost = [
        sum(one["cpu_s"] or 0.0 for one in job["attempts"] if one["state"] == "evicted") / PACE
        for job in jobs
    ]
    return Found(
        fmean(max(0.0, job["finished"] - job["submitted"] - WORK_S) for job in jobs), fmean(lost)
    )


def hosts_of(jobs: list[dict]) -> Attempts:
    return [[one["host"] for one in job["attempts"] if one["started"]] for job in jobs]


# -- in virtual time -------------------------------------------------------------------------------


@dataclass(slots=True)
class Job:
    number: int
    came_s: float
    done_s: float = 0.0  # of its work, by this attempt
    lost_s: float = 0.0
    ended_s: float = 0.0
    attempts: int = 0


@dataclass(slots=True)
class VirtualHost:
    book: OwnerBook
    job: Job | None = None


def simulated(rule: str, here: list[list[bool]], rng: Random, attempts: Attempts = ()) -> Found:
    """A job starts on the host of its given attempt if that is free, otherwise on any free host.

    What others know of a host is one look old.
    """
    config = AdmissionConfig(owner_idle_s=600.0, **RULES[rule])  # type: ignore[arg-type]
    hosts = [VirtualHost(OwnerBook(name, STEP_S)) for name in HOSTS]
    coming = [Job(number, number * GAP_S) for number in range(JOBS)]
    queue: list[Job] = []
    ended: list[Job] = []
    now_s, had_room, was_away = 0.0, dict[HostId, bool](), dict[HostId, bool]()
    while len(ended) < JOBS:
        value = int(now_s / STEP_S)
        there = [row[value] if value < VALUES else False for row in here]
        while coming and coming[0].came_s <= now_s:
            queue.append(coming.pop(0))
        away = {name: not at for name, at in zip(HOSTS, there, strict=True)}
        for host, at in zip(hosts, there, strict=True):
            step = host.book.look(at, now_s, 0)
            others_free = any(free for name, free in had_room.items() if name != host.book.host)
            host.book.cluster_is(away, others_free, rng, step=step)
            if host.job is not None and at and config.owner_is_back == "decide":
                standing = Standing(JobId(f"{host.job.number}"), host.job.done_s, True)
                if host.book.verdict(standing, config, now_s, 0, str).goes:
                    host.job.lost_s += host.job.done_s
                    host.job.done_s = 0.0
                    queue.insert(0, host.job)
                    host.job = None
        free = [host for host in hosts if host.job is None and was_away.get(host.book.host)]
        while free and queue:
            job = queue.pop(0)
            host = chosen(free, job, attempts, rng)
            free.remove(host)
            host.job = job
            job.attempts += 1
        had_room, was_away = {host.book.host: host in free for host in hosts}, away
        for host, at in zip(hosts, there, strict=True):
            if not at and (job := host.job) is not None:
                job.done_s += WATCH_S
                if job.done_s >= WORK_S:
                    job.ended_s, host.job = now_s + WATCH_S, None
                    host.book.gone(JobId(f"{job.number}"))
                    ended.append(job)
        now_s += WATCH_S
    return Found(
        fmean(job.ended_s - job.came_s - WORK_S for job in ended),
        fmean(job.lost_s for job in ended),
    )


def chosen(free: list[VirtualHost], job: Job, attempts: Attempts, rng: Random) -> VirtualHost:
    wanted = attempts[job.number][job.attempts :] if attempts else ()
    same = [host for host in free if wanted and host.book.host == wanted[0]]
    return same[0] if same else rng.choice(free)
