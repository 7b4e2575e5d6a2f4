"""A queued job's life: what is promised of it, whatever happens to hosts and messages.

    pending ──▶ leased ──▶ running ──▶ done | failed | cancelled | lost
       ▲           │           │
       ├─ refused ─┘           ├─ cut off, or stopped at a checkpoint ──▶ pending, in the next tier
       └───────────────────────┴─ lost ─────▶ pending, unless it may not restart

1. An acknowledged job is in `jobs` until it has ended. Every change is an action to be recorded,
   and what follows from it (a start, a host's leave to forget) waits until it is on disk.
2. **No two attempts of one job are ever alive.** A job has at most one lease, and its attempt is
   over only if its host says so or if the lease has run out. Both ends hold it: each beat of a
   host's renews what it holds, and counts for `lease_s` from when the host *sent* it, but here from
   when it came and `margin_s` more. So the host, which kills what it cannot renew, is always first.
3. Attempts are numbered, and what a host says carries the number: of an attempt that is over for
   us, whatever still comes is dropped.
4. Lost is not failed: a job that may restart goes back to its old place, after `crash_limit` times
   it is held; one that may not ends as lost.
5. A host that loses or refuses attempts again and again gets none for a while, twice as long each
   time, so that it does not swallow the queue.

Times are monotonic seconds; who is connected, and by what, is the daemon's business.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from random import Random

from lbd.dispatch.discipline import Discipline, HostSlots, QueuedJob, Start
from lbd.dispatch.hosts import HostBook, Terms
from lbd.dispatch.jobs import (
    CANCEL,
    REQUEUE,
    Action,
    Cause,
    Ending,
    Fate,
    Jobs,
    Lease,
    Live,
    Settle,
    Signal,
    changed,
    next_attempt,
    wished,
)
from lbd.dispatch.pauses import AWAY, HELD, Pauses
from lbd.dispatch.queues import Queues
from lbd.dispatch.refusals import NO_KEEPER, NOT_THERE, PASSING, exit_status
from lbd.dispatch.restore import Leased
from lbd.dispatch.shares import Rules
from lbd.errors import LbdError
from lbd.model import HostId, JobId, JobState

KILL, TERM = 9, 15


@dataclass(slots=True)
class Lifecycle:
    """Feed it events; carry out what it returns, in order."""

    discipline: Discipline
    terms: Terms
    rules: Rules = field(default_factory=Rules)
    jobs: Jobs = field(init=False)
    queues: Queues = field(init=False)
    hosts: HostBook = field(init=False)
    pauses: Pauses = field(default_factory=Pauses)
    leased: dict[JobId, Live] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.queues = Queues(self.discipline, self.rules)
        self.jobs = Jobs(self.queues.books.backlog)
        self.hosts = HostBook(self.terms)

    # Jobs

    def submitted(self, jobs: Iterable[QueuedJob], now_s: float, dice: Random) -> list[Action]:
        """They are on disk already."""
        actions: list[Action] = []
        for job in jobs:
            starts = self.queues.arrived(job, now_s, dice)
            self.jobs.came(job)
            actions += self._begin(starts, now_s)
        return actions

    def restored(
        self, live: Live, leased: Leased | None, now_s: float, dice: Random
    ) -> list[Action]:
        """A job of the last dispatcher's. The lease of its open attempt may have been renewed just
        before that dispatcher ended."""
        if leased is None and live.is_new:
            return self.submitted((live.job,), now_s, dice)
        self.jobs.keep(live)
        if leased is not None:
            number, host, tier, begun, slots, cutoff_s = leased
            until_s = now_s + self.terms.waited_s
            live.lease = Lease(number, host, tier, until_s, begun, slots, cutoff_s)
            live.ran_tier = tier
            self.leased[live.job.id] = live
            self.queues.found_running(live.job, host, now_s, slots)
            return []
        if live.held:
            return []
        return self._begin(self.queues.returned(live.job, now_s, dice), now_s)

    def kill(self, job: JobId, number: int, now_s: float, dice: Random) -> list[Action]:
        """`number`: of the signal, 0 = end it. Only pending jobs are over by that at once."""
        live = self._live(job)
        if live.lease is None:
            if number not in (0, KILL, TERM):
                raise LbdError(f"job {job} does not run: there is nothing to signal")
            return self._final(live, JobState.CANCELLED, "cancelled before it ran", now_s, dice)
        if number in (0, KILL, TERM):
            return wished(live, CANCEL, number)
        return [Signal(job, live.lease.attempt, live.lease.host, number, live.wish)]

    def hold(self, job: JobId, why: str, now_s: float, dice: Random) -> list[Action]:
        live = self._live(job)
        if live.lease is not None:
            raise LbdError(f"job {job} runs already; only a pending one can be held")
        if live.held and not live.held.startswith(HELD):
            return []
        live.held = why
        starts = self.queues.ended(job, now_s, dice)
        self.jobs.keep(live)
        return [changed(live, JobState.PENDING), *self._begin(starts, now_s)]

    def release(self, job: JobId, now_s: float, dice: Random) -> list[Action]:
        live = self._live(job)
        if not live.held:
            raise LbdError(f"job {job} is not held")
        live.held, live.crashes, live.reason = "", 0, ""
        return self._arrives(live, now_s, dice)

    def requeue(self, job: JobId, now_s: float) -> list[Action]:
        """One that runs: it is ended and begins from scratch."""
        live = self._live(job)
        if live.lease is None:
            raise LbdError(f"job {job} is pending already")
        if not live.job.may_restart:
            raise LbdError(f"job {job} was submitted with --no-restart")
        return wished(live, REQUEUE, 0)

    def revived(self, live: Live, now_s: float, dice: Random) -> list[Action]:
        """An ended job is queued anew; its attempts are numbered on."""
        self.jobs.keep(live)
        return self._arrives(live, now_s, dice)

    # Hosts

    def host_is(self, host: HostSlots, now_s: float, dice: Random) -> list[Action]:
        if not self.hosts.heard(host, now_s):
            return []
        return self._begin(self.queues.host_is(host, now_s, dice), now_s)

    def host_gone(self, name: HostId, now_s: float, dice: Random) -> list[Action]:
        """Drained or out of contact: it gets nothing new. What it has runs on, on its leases."""
        self.hosts.gone(name)
        return self._begin(self.queues.host_gone(name, now_s, dice), now_s)

    def beat(
        self, name: HostId, holds: Iterable[tuple[JobId, int]], now_s: float
    ) -> tuple[list[tuple[JobId, int]], list[Action]]:
        """The attempts of `holds` that are renewed, and orders to end those that are not ours."""
        renewed, actions = [], list[Action]()
        for job, attempt in holds:
            live = self._holder(name, job, attempt)
            if live is not None and live.lease is not None:
                live.lease.until_s = now_s + self.terms.waited_s
                renewed.append((job, attempt))
            else:
                actions.append(Signal(job, attempt, name, KILL))
        return renewed, actions

    def told(self, name: HostId, wishes: Iterable[tuple[JobId, int, str]]) -> list[Action]:
        """What its attempts were told to end for, as a host says that is back: what it was told
        meanwhile, or just before, has got lost and is told again."""
        actions = list[Action]()
        for job, attempt, wish in wishes:
            live = self._holder(name, job, attempt)
            if live is not None and live.wish not in ("", wish):
                actions.append(Signal(job, attempt, name, live.signal, live.wish))
        return actions

    def sending(self, job: JobId, attempt: int, now_s: float) -> bool:
        """Its record is on disk and it is about to be sent: from now on its host may hold it.
        False if it is not wanted any more."""
        live = self.leased.get(job)
        if live is None or live.lease is None or live.lease.attempt != attempt or live.wish:
            return False
        live.lease.until_s = now_s + self.terms.waited_s
        return True

    def begun(self, name: HostId, job: JobId, attempt: int) -> list[Action]:
        live = self._holder(name, job, attempt)
        if live is None or live.lease is None or live.lease.begun:
            return []
        live.lease.begun, live.reason = True, ""
        return [changed(live, JobState.RUNNING, Fate.RUNNING)]

    def stopped(self, name: HostId, job: JobId, attempt: int, stopped: bool) -> list[Action]:
        """By SIGSTOP, or goes on."""
        live = self._holder(name, job, attempt)
        if live is None:
            return []
        if stopped:
            return [changed(live, JobState.SUSPENDED, Fate.SUSPENDED)]
        return [changed(live, JobState.RUNNING, Fate.RUNNING)]

    def ended(
        self, name: HostId, job: JobId, attempt: int, ending: Ending, now_s: float, dice: Random
    ) -> list[Action]:
        """The host says how it ended; of an attempt that is over for us, nothing follows."""
        live = self._holder(name, job, attempt)
        actions = self._over(live, ending, now_s, dice) if live is not None else []
        return [*actions, Settle(job, attempt, name)]

    def refused(
        self, name: HostId, job: JobId, attempt: int, stage: str, ending: Ending, now_s: float,
        dice: Random,
    ) -> list[Action]:  # fmt: skip
        """Nothing ran. `ending` has the reason, and as exit status the errno behind it."""
        live = self._holder(name, job, attempt)
        if live is None:
            return [Settle(job, attempt, name)]
        self._let_go(live)
        live.reason = f"{name}: {ending.reason}"
        wish, live.wish = live.wish or ending.wish, ""
        actions: list[Action] = []
        if stage not in (*PASSING, *NOT_THERE, AWAY):
            actions += self._host_failed(name, now_s, dice)
        if wish == CANCEL:
            actions += self._final(
                live, JobState.CANCELLED, "cancelled before it ran", now_s, dice, Fate.REFUSED
            )
        elif stage in PASSING or stage == NO_KEEPER:
            actions += self._close(name, now_s, dice)
            actions += self._again(live, Fate.REFUSED, None, now_s, dice)
        elif stage == AWAY:
            why = self.pauses.begin(live, self.terms, now_s)
            actions += self._hold(live, why, Fate.REFUSED, None, now_s, dice)
        else:
            actions += self._cannot_begin(live, name, stage, ending, now_s, dice)
        return [*actions, Settle(job, attempt, name)]

    def tick(self, now_s: float, dice: Random) -> list[Action]:
        """Leases that have run out, hosts whose time aside is over."""
        actions: list[Action] = []
        for live in [live for live in self.leased.values() if live.lease]:
            assert live.lease is not None
            if now_s >= live.lease.until_s:
                what = f"contact with {live.lease.host} was lost"
                actions += self._over(live, Ending(Cause.LOST, reason=what), now_s, dice)
        for job in self.pauses.over(self.jobs, now_s):
            actions += self.release(job, now_s, dice)
        for host in self.hosts.returning(now_s):
            actions += self._begin(self.queues.host_is(host, now_s, dice), now_s)
        return actions

    def rules_changed(
        self, tiers: Callable[[HostId], tuple[int, ...]], now_s: float, dice: Random
    ) -> list[Action]:
        """New cutoffs, and `tiers` of each host with them."""
        self.hosts.tiers_are(tiers)
        return self._begin(self.queues.rules_changed(tiers, now_s, dice), now_s)

    # Inside

    def _live(self, job: JobId) -> Live:
        live = self.jobs.get(job)
        if live is None:
            raise LbdError(f"job {job} has ended")
        return live

    def _holder(self, name: HostId, job: JobId, attempt: int) -> Live | None:
        """The job, if this is the attempt that may be alive."""
        live = self.leased.get(job)
        if live is None or live.lease is None:
            return None
        return live if (live.lease.host, live.lease.attempt) == (name, attempt) else None

    def _begin(self, starts: Iterable[Start], now_s: float) -> list[Action]:
        actions: list[Action] = []
        for start in starts:
            live = self.leased[start.job.id] = self.jobs.out_of_backlog(start.job)
            actions.append(next_attempt(live, start, now_s + self.terms.waited_s))
        return actions

    def _let_go(self, live: Live) -> None:
        live.lease = None
        self.leased.pop(live.job.id, None)

    def _over(self, live: Live, ending: Ending, now_s: float, dice: Random) -> list[Action]:
        """Its attempt is, for certain."""
        assert live.lease is not None
        host = live.lease.host
        self._let_go(live)
        actions: list[Action] = []
        lost = ending.cause is Cause.LOST
        if lost:
            actions += self._host_failed(host, now_s, dice)
        elif ending.exit_status == 0:
            self.hosts.worked(host)
        wish, live.wish, live.reason = live.wish or ending.wish, "", ending.reason
        succeeded = ending.cause is Cause.EXITED and ending.exit_status == 0
        if wish == CANCEL and not succeeded:
            why = ending.reason or "cancelled"
            return actions + self._final(
                live, JobState.CANCELLED, why, now_s, dice, Fate.CANCELLED, ending
            )
        if wish == REQUEUE and live.job.may_restart and not succeeded:
            live.job = replace(self.queues.books[live.job.id].job, tier=1)
            actions += self._begin(self.queues.ended(live.job.id, now_s, dice), now_s)
            ending = replace(ending, reason=ending.reason or "requeued")
            return actions + self._arrives(live, now_s, dice, Fate.CANCELLED, ending)
        if ending.cause in (Cause.CUT, Cause.CHECKPOINT):
            return actions + self._next_tier(live, ending, now_s, dice)
        if lost:
            return actions + self._lost(live, ending, now_s, dice)
        state, fate = (JobState.DONE, Fate.DONE) if succeeded else (JobState.FAILED, Fate.FAILED)
        return actions + self._final(live, state, ending.reason, now_s, dice, fate, ending)

    def _lost(self, live: Live, ending: Ending, now_s: float, dice: Random) -> list[Action]:
        if not live.job.may_restart:
            why = f"{ending.reason}; it may have run in part, and it may not restart"
            return self._final(live, JobState.LOST, why, now_s, dice, Fate.LOST, ending)
        live.crashes += 1
        if live.crashes < self.terms.crash_limit:
            return self._again(live, Fate.LOST, ending, now_s, dice)
        why = f"held: its attempts were lost {live.crashes} times ({ending.reason})"
        return self._hold(live, why, Fate.LOST, ending, now_s, dice)

    def _cannot_begin(
        self, live: Live, name: HostId, stage: str, ending: Ending, now_s: float, dice: Random
    ) -> list[Action]:
        """On that host. Who can on none that is known fails; but while a dispatcher that has just
        begun cannot know all of them it is asked again a moment later."""
        job = self.queues.books[live.job.id].job
        if any(job.may_go_to(host) for host in self.hosts.known if host != name):
            self.queues.bar(job.id, name)
            return self._again(live, Fate.REFUSED, None, now_s, dice)
        if now_s < self.hosts.more_until_s:
            why = self.pauses.until(live, self.hosts.more_until_s)
            return self._hold(live, why, Fate.REFUSED, None, now_s, dice)
        status = exit_status(stage, ending.exit_status)
        told = Ending(Cause.REFUSED, status, reason=live.reason)
        return self._final(live, JobState.FAILED, live.reason, now_s, dice, Fate.REFUSED, told)

    def _next_tier(self, live: Live, ending: Ending, now_s: float, dice: Random) -> list[Action]:
        """From scratch, or from where it stopped itself."""
        fate = Fate(ending.cause.value)
        if fate is Fate.CUT or live.attempt < self.terms.attempts_max:
            return self._again(live, fate, ending, now_s, dice)
        why = f"held: it has stopped at a checkpoint in its attempt {live.attempt}, too"
        return self._hold(live, why, fate, ending, now_s, dice)

    def _hold(
        self, live: Live, why: str, fate: Fate, ending: Ending | None, now_s: float, dice: Random
    ) -> list[Action]:
        live.held = why
        starts = self.queues.ended(live.job.id, now_s, dice)
        recorded = changed(live, JobState.PENDING, fate, ending)
        return [recorded, *self._begin(starts, now_s)]

    def _again(
        self, live: Live, fate: Fate, ending: Ending | None, now_s: float, dice: Random
    ) -> list[Action]:
        job = live.job.id
        onward = fate in (Fate.CUT, Fate.CHECKPOINT)
        starts = (self.queues.cut_off if onward else self.queues.lost)(job, now_s, dice)
        live.job = self.queues.books[job].job
        return [changed(live, JobState.PENDING, fate, ending), *self._begin(starts, now_s)]

    def _arrives(
        self, live: Live, now_s: float, dice: Random, fate: Fate | None = None,
        ending: Ending | None = None,
    ) -> list[Action]:  # fmt: skip
        recorded = changed(live, JobState.PENDING, fate, ending)
        return [recorded, *self._begin(self.queues.returned(live.job, now_s, dice), now_s)]

    def _final(
        self, live: Live, state: JobState, reason: str, now_s: float, dice: Random,
        fate: Fate | None = None, ending: Ending | None = None,
    ) -> list[Action]:  # fmt: skip
        self.jobs.drop(live.job.id)
        live.held, live.reason = "", reason
        starts = self.queues.ended(live.job.id, now_s, dice)
        return [changed(live, state, fate, ending), *self._begin(starts, now_s)]

    def _close(self, name: HostId, now_s: float, dice: Random) -> list[Action]:
        """It takes no more than it has until it beats again."""
        host = self.hosts.full(name, len(self.queues.seats[name].running) - 1)
        return self._begin(self.queues.host_is(host, now_s, dice), now_s) if host else []

    def _host_failed(self, name: HostId, now_s: float, dice: Random) -> list[Action]:
        if not self.hosts.failed(name, now_s):
            return []
        return self._begin(self.queues.host_gone(name, now_s, dice), now_s)
