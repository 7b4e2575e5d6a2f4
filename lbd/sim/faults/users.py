"""Simulated users: the commands they wait for, the jobs they submit, and changes of mind."""

import signal
from dataclasses import replace
from random import Random
from typing import Protocol

from lbd.dispatch.core.dependencies.conditions import TASK, written
from lbd.dispatch.core.ledger_rows import LedgerTrouble, Submission
from lbd.lbm.core import journey_events as e
from lbd.lbm.core.next_host_after_refusal import Demands
from lbd.model import HostId, JobId, Needs

COMMAND_GAP_S, JOB_GAP_S, SECOND_THOUGHT_S = 0.7, 1.2, 4.0  # on average
GANGS = 0.4  # share of submissions, if there are gangs
NAMES = ("ann", "bob")
UID = 1000  # of all of them: names count here
VERBS = ("kill", "requeue", "hold", "release")


class UsersWorld(Protocol):
    @property
    def now_s(self) -> float: ...

    def at(self, delay_s: float, body: "Body") -> None: ...

    def call(self, host: HostId, job: JobId, demands: Demands, user: str) -> None: ...

    def say(self, job: JobId, event: e.Event) -> None:
        """Passes an event to a command's journey, if its host's LBM listens."""
        ...

    def leave(self, job: JobId) -> None:
        """The command's caller is gone."""
        ...

    def submit(self, host: HostId, sent: Submission) -> int:
        """Returns the number of the first job, 0 if nobody accepted it. Raises LedgerTrouble."""
        ...

    def act(self, verb: str, job: JobId) -> None: ...


class Body(Protocol):
    def __call__(self) -> None: ...


class Users:
    """Users stop after `runs_s`. With `targets` most arrays have a target time."""

    def __init__(
        self,
        world: UsersWorld,
        rng: Random,
        names: list[HostId],
        runs_s: float,
        *,
        targets: bool = False,
        gangs: bool = False,
        dependencies: bool = False,
        needs: bool = False,
    ) -> None:
        self._world, self._rng, self._names, self._targets = world, rng, names, targets
        self._runs_s, self._made, self._gangs = runs_s, 0, gangs
        self._dependencies, self._needs = dependencies, needs
        # first and last number of each accepted submission
        self._queued: list[tuple[int, int]] = []
        self.refused = 0  # submissions refused with a message
        self._next(COMMAND_GAP_S, self._call, 0.0)
        self._next(JOB_GAP_S, self._submit, 0.0)
        self._next(SECOND_THOUGHT_S, self._change_mind, 0.0)

    def _next(self, gap_s: float, body: Body, spent_s: float) -> None:
        delay_s = self._rng.expovariate(1.0 / gap_s)
        if spent_s + delay_s < self._runs_s:
            self._world.at(delay_s, lambda: self._again(gap_s, body, spent_s + delay_s))

    def _again(self, gap_s: float, body: Body, spent_s: float) -> None:
        self._next(gap_s, body, spent_s)
        body()

    def _call(self) -> None:
        """Starts an attached command."""
        rng, host = self._rng, self._rng.choice(self._names)
        self._made += 1
        job = JobId(f"c{self._made}")
        mode = rng.choice(("auto", "auto", "auto", "remote", "host"))
        named = rng.choice(self._names) if mode == "host" else None
        demands = Demands(
            "cc", mode, named, slots=rng.choice(((1, 1), (1, 1), (1, 2), (2, 2))),
            timeout_s=rng.choice((0.0, 0.0, 2.0)), may_restart=rng.random() < 0.8,
            may_fall_back=rng.random() < 0.9, is_staged=rng.random() < 0.2,
        )  # fmt: skip
        # otherwise the LIM is asked, which knows of no GPU
        if self._needs and named not in (None, host):
            demands = replace(demands, needs=Needs((("gpu", rng.choice((1, 1, 2))),)))
        self._world.call(host, job, demands, rng.choice(NAMES))
        thought = rng.random()
        delay_s = rng.uniform(0.0, 6.0)
        if thought < 0.1:
            self._world.at(delay_s, lambda: self._world.leave(job))
        elif thought < 0.2:
            number = int(rng.choice((signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)))
            self._world.at(delay_s, lambda: self._world.say(job, e.UserSignal(number)))

    def _submit(self) -> None:
        """Submits a job or an array."""
        rng = self._rng
        count = rng.choice((1, 1, 1, 3))
        slots = rng.choice((1, 1, 1, 2))
        sent = Submission(
            rng.choice(NAMES), UID, "h1", "", b"true", b"", slots, rng.random() < 0.8,
            slots_most=2, first_index=1 if count > 1 else None, count=count,
            at_once=self._made % 3 if count > 1 else 0,
        )  # fmt: skip
        if self._targets and self._gangs:
            sent = rng.choice((self._with_target, self._gang, lambda one: one))(sent)
        elif self._targets:
            sent = self._with_target(sent)
        elif self._gangs and rng.random() < GANGS:
            sent = self._gang(sent)
        if self._dependencies:
            sent = self._dependent(sent)
        if self._needs:
            sent = replace(sent, needs=rng.choice(("", "gpu=1", "gpu=1", "gpu=2")))
        try:
            first = self._world.submit(rng.choice(self._names), sent)
        except LedgerTrouble:
            self.refused += 1
        else:
            if first:
                self._queued.append((first, first + sent.count - 1))

    def _dependent(self, sent: Submission) -> Submission:
        """Makes jobs wait for recent ones, some of which have ended or may be killed or held."""
        rng, recent = self._rng, self._queued[-8:]
        found: list[tuple[str, int, int, str]] = []
        for first, last in rng.sample(recent, min(len(recent), rng.choice((0, 1, 1, 2, 3)))):
            if last > first and sent.count == last - first + 1 and rng.random() < 0.6:
                found.append((TASK, first, last, f"1-{sent.count}"))
            else:
                number = rng.randint(first, last)
                first, last = (first, last) if rng.random() < 0.5 else (number, number)
                found.append((rng.choice(("ok", "ok", "failed", "any")), first, last, str(first)))
        late = self._world.now_s + rng.uniform(0.0, 10.0) if rng.random() < 0.2 else 0.0
        return replace(sent, after=written(found), not_before=late)

    def _with_target(self, sent: Submission) -> Submission:
        """Makes an array with a target; it is accepted even if it cannot be met."""
        rng = self._rng
        at = self._world.now_s + rng.uniform(1.0, 30.0)
        kind = rng.choice(("target", "target", "deadline", "none"))
        return replace(
            sent, first_index=1, count=rng.randint(2, 8), slots_most=0,
            target=at if kind == "target" else None, deadline=at if kind == "deadline" else None,
        )  # fmt: skip

    def _gang(self, sent: Submission) -> Submission:
        """Makes a gang; some of them fill the cluster."""
        count, limit_s = self._rng.choice((2, 2, 3, 4)), self._rng.choice((0.0, 2.0))
        return replace(
            sent, count=count, gang=count, first_index=1, slots_most=0, limit_s=limit_s, at_once=0
        )

    def _change_mind(self) -> None:
        job = JobId(str(self._rng.randint(1, 1 + self._made)))
        self._world.act(self._rng.choice(VERBS), job)
