"""Users who wait for their commands, in virtual time: the scripts of `lbd lab experiment`, on its
hosts or on one-core workstations like the thesis's (chapter 4).

Unlike arrivals that wait for nothing, users of a crowded host submit less. So a host that is behind
does not fall further behind, and the gain over NOLB is what people would see.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lbd.sim.balance.engine import Engine
from lbd.sim.balance.runs import Outcome, outcome, placement_of
from lbd.sim.balance.setup import Setup
from lbd.sim.balance.workload import Job
from lbd.sim.scripts import USERS, ScriptLine, Work, scripts

LATE = 3.0  # × the duration: how long the LIMs run; all users are done by then
LEAVING, STAYING = "leaves", "stays"


@dataclass(frozen=True, slots=True)
class Scripted:
    """One run of an algorithm."""

    setup: Setup
    work: Work
    algorithm: str
    replication: int
    draw: int = 0  # selects the algorithm's random numbers; scripts depend on the replication


def as_in_thesis(setup: Setup, load: str) -> Work:
    """`load` is one of `scripts.LOADS`."""
    return Work(
        load, setup.hosts, 1.0, USERS, setup.workload.cpu_mean_s, setup.duration_s,
        (LEAVING,), (STAYING,),
    )  # fmt: skip


class ScriptedUsers:
    def __init__(
        self,
        engine: Engine,
        drawn: Sequence[Sequence[Sequence[ScriptLine]]],
        leaving: Sequence[str],
    ) -> None:
        self.jobs: list[Job] = []
        self._engine = engine
        self._leaving = leaving
        self._scripts = [(host, lines) for host, some in enumerate(drawn) for lines in some]
        self._next = [0] * len(self._scripts)
        self._waits: dict[int, int] = {}  # job -> user
        engine.on_end = self._ended
        for user in range(len(self._scripts)):
            self._think(user, 0.0)

    def _think(self, user: int, now_s: float) -> None:
        lines = self._scripts[user][1]
        if self._next[user] < len(lines):
            think_s = lines[self._next[user]].think_s
            self._engine.at(now_s + think_s, self._submit, user)

    def _submit(self, user: int, now_s: float) -> None:
        host, lines = self._scripts[user]
        line = lines[self._next[user]]
        self._next[user] += 1
        job = Job(len(self.jobs), host, now_s, line.demand_s, 0, line.kind in self._leaving)
        self.jobs.append(job)
        self._waits[job.number] = user
        self._engine.arrive(job, now_s)

    def _ended(self, job: Job, now_s: float) -> None:
        self._think(self._waits.pop(job.number), now_s)


def played(what: Scripted) -> tuple[Engine, list[Job]]:
    setup, work = what.setup, what.work
    seed = f"{setup.seed} {what.replication}"
    engine = Engine(replace(setup, duration_s=work.duration_s * LATE))
    its_own = f"{seed} {what.draw}" if what.draw else seed
    engine.placement = placement_of(engine, what.algorithm, its_own)
    users = ScriptedUsers(engine, scripts(work, seed), work.leaving)
    engine.run(())
    return engine, users.jobs


def run_scripted(what: Scripted) -> Outcome:
    engine, jobs = played(what)
    return outcome(engine, what.algorithm, jobs)


def classes_of(what: Scripted) -> dict[tuple[bool, bool], tuple[int, float]]:
    """Returns (may leave, is big) -> jobs, total response time. Big: more CPU time than the
    mean."""
    _, jobs = played(what)
    limit_s = what.setup.workload.cpu_mean_s
    found: dict[tuple[bool, bool], tuple[int, float]] = {
        (leaves, big): (0, 0.0) for leaves in (True, False) for big in (True, False)
    }
    for job in jobs:
        key = job.mobile, job.cpu_s > limit_s
        count, total_s = found[key]
        found[key] = count + 1, total_s + job.response_s
    return found
