"""A queued job's life: what is guaranteed whatever happens to hosts and messages.

    pending ──▶ leased ──▶ running ──▶ done | failed | cancelled | lost
       ▲           │           │
       ├─ refused ─┘           ├─ cut off, or stopped at a checkpoint ──▶ pending, in the next tier
       ├───────────────────────┼─ evicted: its host's owner is back, and it may restart
       └───────────────────────┴─ lost ─────▶ pending, unless it may not restart

1. An acknowledged job is in `jobs` until it has ended. Every change is an action to be recorded,
   and its consequences (a start, permission for a host to forget) wait until it is on disk.
2. **No two attempts of one job are ever alive.** A job has at most one lease, and its attempt is
   over only if its host says so or the lease has expired. Both sides track the lease: each
   heartbeat of a host renews what it holds, for `lease_s` from when the host *sent* it, but here
   from its arrival and for a margin more (`Terms.waited_s`). So the host, which kills what it
   cannot renew, is always first. A lease counts as it was granted, also once `lease_s` is shorter:
   a dispatcher that starts waits for the longest one that earlier ones granted (`inherited_s`, from
   the ledger), and then for what each host says is left.
   There is one proof besides: a host named its keeper when an attempt was sent to it, or later when
   it held it, over a connection that has ended, and names the same keeper on a later one without
   holding the attempt. That process alone could run it, and does not (`no_longer_held`).
3. Attempts are numbered, and hosts' reports carry the number: late reports about an attempt that is
   over for us are dropped.
4. Lost is not failed: a job that may restart goes back to its old place, for a while not to that
   host if others may run it, and is held after `crash_limit` losses, which no host causes alone
   while others may run it; a job that may not restart ends as lost. Losses by a host that was shut
   down and said so do not count, nor do other ends that only a host can know to be nobody's fault;
   but no host has a job, or a gang, begin without end by saying so (`_excused`).
5. All jobs of a gang start together or none does; `gangs/gang.py` says how.
6. A job that waits for other jobs or for a time (`dependencies/dependents.py`) is not in the
   queues, so it delays no others; it starts after they have ended as required, or is cancelled.
7. A host that repeatedly loses or refuses attempts gets none for a while, twice as long each time,
   so that it does not swallow the queue. It cannot make up for that by jobs that it, or one user
   who helps it, has submitted (`Complaints` in `hosts.py`).
8. No host keeps a job without beginning it. What it has not begun within `begin_timeout_s`, or not
   called off when told to, is no longer renewed, so that it is lost once its lease has expired, and
   the job does not go there for a while. It is a failure of the host's once that has happened to
   jobs of two users: one may have caused it.

Times are monotonic seconds. The daemon knows which hosts are connected, and how.

One file because it is one state machine, read beside its promises.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from lbd.dispatch.core.dependencies.dependents import Dependents, Span, Waits
from lbd.dispatch.core.discipline import Discipline, HostSlots, QueuedJob, Start
from lbd.dispatch.core.gangs.gang import AGAIN, DISBANDED, Gang, Gangs
from lbd.dispatch.core.hosts import FILES_TIMES, HostTable, Terms
from lbd.dispatch.core.malleable.decision import Rule
from lbd.dispatch.core.malleable.heads import FREE
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.records import (
    REFUSALS_KEPT,
    Action,
    Cause,
    Ending,
    Fate,
    Jobs,
    Lease,
    Live,
    Met,
    Settle,
    Signal,
    asked_to_stop,
    changed,
    check_pending,
    next_attempt,
)
from lbd.dispatch.core.restore import Leased
from lbd.dispatch.core.retry import (
    ASKED_AGAIN_S,
    AWAY,
    BEFORE_READY,
    NO_KEEPER,
    NO_ROOM,
    NOT_MOUNTED,
    NOT_THERE,
    NOT_YET,
    PASSING,
    SHORT_OF,
    Bars,
    Pauses,
    exit_status,
    kept_away_s,
    others_for,
    phase_to_go_by,
    refused_by,
)
from lbd.dispatch.core.shares import Rules
from lbd.errors import Inapplicable, LbdError
from lbd.model import CANCEL, DISBAND, REGROUP, REQUEUE, Closed, HostId, JobId, JobState
from lbd.text.job_phrases import CONTACT_WITH, HELD_FOR_A_WHILE, NO_LONGER_HAS_IT

KILL, TERM = 9, 15
UNASKED = "its host began it before its gang was whole"
# no member of a gang may continue after these
NOT_ALONE = (Cause.CUT, Cause.CHECKPOINT, Cause.EVICTED)
STOPPING = (19, 20, 21, 22)  # SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU
ENDING = (0, KILL, TERM)  # signals of `lbctl kill` that end a job; 0: none given
LOOKS_MAX = 500  # jobs that may join the queue in one turn: 20 ms
FEW_LOOKS = 20  # at one moment, where jobs end: one order may end very many
STILL_S = 1.0  # without a tick: we were stopped, or suspended with our host
NEVER_RAN = "cancelled before it ran"
OVER = {
    Cause.LOST.value: "was lost",
    Cause.CUT.value: "was cut off",
    Cause.CHECKPOINT.value: "stopped at a checkpoint",
    Cause.EVICTED.value: "was evicted",
}
LOST_IT = "lost it"
NO_OTHER = "no other host has what it needs"
TOO_FEW_OTHERS = "the other hosts are too small for its gang"
BEGUN_BEFORE = " had reported it begun, then refused it: "
NO_CHECKPOINTS = "its host says that it stopped at a checkpoint, but it has none"
NO_CUTOFF = "its host says that it was cut off, but it had no cutoff"
NOT_SAID: Mapping[tuple[JobId, int], float] = {}
BRIEF_S = 10.0  # within which no job has reason to stop at checkpoints again and again
KILLED_AT_ONCE = 1000  # attempts of one host that are not ours: 30 ms


def by(user: str, before: str = "") -> str:
    return f"{before} by {user}" if user else ""


def cancelled(live: Live, user: str) -> str:
    """Returns the reason of a job that `user` cancels and no attempt of which may be alive."""
    number, how = live.over
    if not number:
        return f"{NEVER_RAN}{by(user, ',')}"
    while_it = "held" if live.held else "it waited"
    was = f" {OVER[how]}" if how in OVER else ""
    return f"cancelled while {while_it}, after attempt {number}{was}{by(user, ',')}"


def with_sender(live: Live, ending: Ending, stop_reason: str) -> Ending:
    """Adds to an ending without a reason who caused it. That it stopped at a checkpoint is no
    reason for the end of a job that is not to go on."""
    who, live.signal_of = live.signal_of, ""
    says = ending.reason and ending.cause is not Cause.CHECKPOINT
    if not who or says or has_succeeded(live, ending, stop_reason):
        return ending
    if stop_reason == CANCEL:
        return replace(ending, reason=f"cancelled{by(who)}")
    is_it = not stop_reason and 0 < live.signal == ending.signal
    return replace(ending, reason=f"ended by a signal sent{by(who)}") if is_it else ending


def stopped_by_signal(live: Live) -> str:
    who = live.signal_of if live.signal in STOPPING else ""
    return f"stopped by a signal{' of ' if who else ''}{who}"


def has_succeeded(live: Live, ending: Ending, stop_reason: str) -> bool:
    """Whether it ended well by itself. A command may answer the signal by exiting with 0: then it
    was cancelled, unless it had ended before its host was told. TERM alone may mean anything."""
    was_cancelled = stop_reason == ending.stop_reason == CANCEL and live.signal != TERM
    return ending.cause is Cause.EXITED and ending.exit_status == 0 and not was_cancelled


def as_believed(live: Live, lease: Lease, ending: Ending) -> Ending:
    """Returns the ending, as lost if the job cannot have ended so: what a host says must not have
    it begin again."""
    if ending.cause is Cause.CUT and lease.cutoff_s is None:
        return replace(ending, cause=Cause.LOST, reason=NO_CUTOFF)
    if ending.cause is Cause.CHECKPOINT and not live.job.takes_checkpoints:
        return replace(ending, cause=Cause.LOST, reason=NO_CHECKPOINTS)
    return ending


def stop_reason_of(live: Live, gang: Gang | None, ending: Ending) -> str:
    """Returns why its attempt was to end. For a gang the host's claim does not count: otherwise a
    job might wait for others that have ended, or start again beside jobs that may not."""
    return live.stop_reason or ("" if gang is not None else ending.stop_reason)


@dataclass(slots=True)
class Lifecycle:
    """The state machine: feed it events, and carry out the actions it returns, in order.

    One class because it is one state machine: the effect of an event depends on all the others.
    """

    discipline: Discipline
    terms: Terms
    rules: Rules = field(default_factory=Rules)
    malleable: Rule = FREE
    jobs: Jobs = field(init=False)
    queues: Queues = field(init=False)
    hosts: HostTable = field(init=False)
    pauses: Pauses = field(default_factory=Pauses)
    bars: Bars = field(default_factory=Bars)
    gangs: Gangs = field(init=False)
    leased: dict[JobId, Live] = field(default_factory=dict)
    running: int = 0  # those of `leased` that have begun
    dependents: Dependents = field(default_factory=Dependents)

    def __post_init__(self) -> None:
        self.queues = Queues(self.discipline, self.rules, malleable=self.malleable)
        self.jobs = Jobs(self.queues.registry.backlog)
        self.queues.gangs.drain_s = self.terms.gang_drain_s
        self.gangs = Gangs(self.jobs, self.terms.gang_hold_s)
        self.hosts = HostTable(self.terms)

    # Jobs

    def submitted(self, jobs: Iterable[QueuedJob], now_s: float, rng: Random) -> list[Action]:
        """Takes in jobs that are already on disk."""
        came = list(map(self.jobs.lists.came, jobs))
        for job in came:
            self.gangs.came(job)
        starts = self.queues.all_arrived(came, now_s, rng)
        for job in came:
            if job.id in self.queues.registry.entries:
                self.jobs.out_of_backlog(job)
        return self._begin(starts, now_s)

    def submitted_early(
        self, jobs: Iterable[tuple[QueuedJob, Waits]], now_s: float, rng: Random
    ) -> list[Action]:
        """Takes in jobs that join the queue once what they wait for has happened."""
        for one, waits in jobs:
            job = self.jobs.lists.came(one)
            self.gangs.came(job)
            self.jobs.keep(Live(job))
            self.dependents.park(job.id, waits, job.user, job.origin)
        return self._look_at_dependents(now_s, rng)

    def restored(
        self,
        live: Live,
        leased: Leased | None,
        now_s: float,
        rng: Random,
        waits: Waits | None = None,
    ) -> list[Action]:
        """Takes over a job of the previous dispatcher. The lease of its open attempt may have been
        renewed just before that dispatcher ended."""
        if leased is None and live.is_new and waits is None:
            return self.submitted((live.job,), now_s, rng)
        live.job = self.jobs.lists.came(live.job)
        self.jobs.keep(live)
        self.gangs.came(live.job)
        if leased is None and waits is not None:
            self.dependents.park(live.job.id, waits, live.job.user, live.job.origin)
            return []  # its dependencies are counted once all jobs are restored
        if leased is not None:
            number, host, tier, begun, slots, cutoff_s = leased
            longest_s = max(self.terms.lease_s, self.terms.inherited_s)
            until_s = now_s + self.terms.waited_for_s(longest_s)
            live.lease = Lease(number, host, tier, until_s, begun, slots, cutoff_s, None, now_s)
            live.lease.was_sent(now_s, self._begin_timeout_s(live.job) * FILES_TIMES)
            live.ran_tier = tier
            self.leased[live.job.id] = live
            self.running += begun
            self.queues.found_running(live.job, host, now_s, slots)
            self.gangs.found(live, now_s)
            return []
        if live.held:
            return []
        return self._begin(self.queues.returned(live.job, now_s, rng), now_s)

    def kill(
        self,
        job: JobId,
        number: int,
        now_s: float,
        rng: Random,
        *,
        of: str = "",
        ends: bool = False,
    ) -> list[Action]:
        """Ends or signals a job. `number`: of the signal, 0: end it; `of`: the requester. Only
        pending jobs end at once. `ends`: any signal ends the job; if it is leased, only its host
        knows whether it has begun, and calls it off if it has not."""
        live = self._live(job)
        if number not in ENDING and not ends:
            if live.lease is None:
                raise Inapplicable(f"job {job} is not running, so it cannot be signalled")
            if not live.stop_reason:
                live.signal, live.signal_of = number, of
            return [Signal(job, live.lease.attempt, live.lease.host, number, live.stop_reason)]
        actions: list[Action] = []
        for one in self.gangs.together(live):
            if one.lease is not None:
                actions += asked_to_stop(one, CANCEL, number)
                one.signal_of = of
                one.lease.told_s = min(one.lease.told_s, now_s)
            else:
                why = cancelled(one, of)
                actions += self._final(one, JobState.CANCELLED, why, now_s, rng)
        return actions

    def has_begun(self, job: JobId) -> bool:
        """Whether its attempt runs, as far as its host has reported."""
        live = self.leased.get(job)
        return live is not None and live.lease is not None and live.lease.begun

    def hold(self, job: JobId, why: str, now_s: float, rng: Random) -> list[Action]:
        together = self.gangs.together(self._live(job))
        check_pending(together, job, "held")
        actions: list[Action] = []
        for live in together:
            if not live.held or live.held.startswith(HELD_FOR_A_WHILE):
                live.held = why
                starts = self.queues.ended(live.job.id, now_s, rng, whole=False)
                self.jobs.keep(live)
                actions += [changed(live, JobState.PENDING), *self._begin(starts, now_s)]
        return actions

    def release(self, job: JobId, now_s: float, rng: Random) -> list[Action]:
        """One that is not held stays as it is, just as one that is held twice."""
        together = self.gangs.together(self._live(job))
        held = [live for live in together if live.held]
        if not held:
            check_pending(together, job, "released")
        for live in together if held else ():
            live.crashes, live.excused, live.lost_on = 0, 0, ()
        return [action for live in held for action in self._released(live, now_s, rng)]

    def _released(self, live: Live, now_s: float, rng: Random) -> list[Action]:
        live.held = ""
        if refused_by(live.reason) not in live.barred_now:  # that host's answer still holds
            live.reason = ""
        if live.job.id in self.dependents.waits:
            return [changed(live, JobState.PENDING)]
        return self._arrives(live, now_s, rng)

    def update(
        self, job: JobId, priority: int, name: str, limit_s: float, now_s: float, rng: Random
    ) -> list[Action]:
        """Changes a waiting job. The caller records the change, once for all jobs of its
        submission."""
        live = self._live(job)
        if live.lease is not None:
            raise Inapplicable(f"job {job} has started; only waiting jobs can be changed")
        if live.job.gang:
            raise LbdError(f"job {job} belongs to a gang, which cannot be changed; submit it again")
        changed_job = live.job._replace(priority=priority, name=name, limit_s=limit_s)
        if job in self.queues.registry:
            starts = self.queues.changed(changed_job, now_s, rng)
            self.jobs.out_of_backlog(live.job).job = changed_job
            return self._begin(starts, now_s)
        live.job = changed_job  # it is held
        return []

    def begin_at(self, job: JobId, not_before: float, now_s: float, rng: Random) -> list[Action]:
        """Lets a waiting job join the queue at that time (UNIX seconds), not before."""
        live, actions = self._live(job), list[Action]()
        if live.lease is not None:
            return []
        if job in self.dependents.waits:
            self.dependents.begins_at(job, not_before)
        elif not_before > now_s + self.dependents.unix_s:
            starts = self.queues.ended(job, now_s, rng, whole=False)
            self.jobs.keep(live)
            whose = live.job.user, live.job.origin
            self.dependents.park(job, Waits((), not_before), *whose)
            actions += self._begin(starts, now_s)
        return actions + self._look_at_few(now_s, rng)

    def counted(
        self, span: Span, on_record: int, now_s: float, rng: Random, *, bad: bool
    ) -> list[Action]:
        """Takes the ledger's count of awaited jobs: how many are on record, and whether one of them
        did not end successfully."""
        open_jobs = sum(JobId(str(number)) in self.jobs for number in range(span[0], span[1] + 1))
        self.dependents.counted(span, open_jobs, on_record, bad=bad)
        return self._look_at_dependents(now_s, rng)

    def requeue(self, job: JobId) -> list[Action]:
        """Ends the running attempt; the job then starts from scratch."""
        live = self._live(job)
        leased = [one for one in self.gangs.together(live) if one.lease is not None]
        if not leased:
            raise Inapplicable(f"job {job} is already pending")
        if not live.job.may_restart:
            raise LbdError(f"job {job} was submitted with --no-restart: submit it again instead")
        if (gang := self.gangs.of(live.job)) is not None and not gang.is_whole:
            ended = f"{gang.size - len(gang.tasks)} of the {gang.size} jobs of its gang have ended"
            raise LbdError(f"job {job}: {ended}; kill the others, then requeue all of them")
        return [action for one in leased for action in asked_to_stop(one, REQUEUE, 0)]

    def revived(self, live: Live, now_s: float, rng: Random) -> list[Action]:
        """Requeues an ended job; the numbering of its attempts continues."""
        live.job = self.jobs.lists.came(live.job)
        self.jobs.keep(live)
        self.gangs.came(live.job)
        self.dependents.came_again(live.job)
        return self._arrives(live, now_s, rng)

    # Hosts

    def host_is(self, host: HostSlots, now_s: float, rng: Random) -> list[Action]:
        had_no_room = self.hosts.no_room(host.name)
        takes_jobs = self.hosts.heard(host)
        if had_no_room and not host.no_room:
            self.bars.no_later(host.name, now_s + self.terms.aside_s)
        if not takes_jobs:
            return []
        return self._begin(self.queues.host_is(host, now_s, rng), now_s)

    def host_gone(
        self,
        name: HostId,
        now_s: float,
        rng: Random,
        closed: Closed | None = None,
        more: str = "",
    ) -> list[Action]:
        """The host is drained, `closed` or out of contact: it gets no new jobs, but keeps running
        its own on their leases. `more`: as in `closed_words`."""
        self.hosts.gone(name, closed, more)
        return self._begin(self.queues.host_gone(name, now_s, rng), now_s)

    def hosts_removed(self, names: Iterable[HostId], now_s: float, rng: Random) -> list[Action]:
        """These are no longer in the cluster. Jobs that waited for one ask those hosts again that
        refused them before, and end if none is left that may take them."""
        actions = list[Action]()
        if not self.hosts.removed(names):
            return actions
        for live in list(self.jobs.outside_backlog()):
            refused = frozenset(host for host, _ in live.refusals) - live.barred_now
            is_left = any(live.job.may_go_to(host) for host in self.hosts.known)
            if refused and not is_left and live.lease is None:
                actions += self._unbarred(live, refused, now_s, rng)
        return actions

    def heartbeat(
        self,
        name: HostId,
        holds: Iterable[tuple[JobId, int]],
        now_s: float,
        left_s: Mapping[tuple[JobId, int], float] = NOT_SAID,
    ) -> tuple[list[tuple[JobId, int]], list[Action]]:
        """Returns the attempts of `holds` that are renewed, and orders to end those that are not
        ours. `left_s`: how long the host may run each without this renewal, as far as it says.

        It says that on this connection, so it has read all that it will ever read of earlier ones:
        besides what is left, it can only have a lease of ours.
        """
        renewed, actions = [], list[Action]()
        self.hosts.of(name).heard_s = now_s
        for job, attempt in holds:
            live = self.holder(name, job, attempt)
            if live is not None and live.lease is not None:
                if live.lease.is_given_up(self.terms.lease_s, now_s):
                    continue  # it is over once its lease has expired, there and here
                said_s = left_s.get((job, attempt), 0.0) or math.inf
                live.lease.renew(now_s, self.terms.waited_s, self.terms.waited_for_s(said_s))
                renewed.append((job, attempt))
            elif len(actions) < KILLED_AT_ONCE:  # the others at the next heartbeat
                actions.append(Signal(job, attempt, name, KILL))
        return renewed, actions

    def owner_rules(self, name: HostId, number: int, now_s: float) -> None:
        """Has a host asked again about jobs that it does not take yet, if it has other rules now.
        Not at once: a host may change them as often as it likes."""
        if self.hosts.has_other_rules(name, number):
            self.bars.no_later(name, now_s + self.terms.aside_s)

    def no_longer_held(
        self, name: HostId, holds: Iterable[tuple[JobId, int]], keeper: str, said_s: float,
        now_s: float, rng: Random, *, is_first: bool,
    ) -> list[Action]:  # fmt: skip
        """Ends the attempts that are proved not to be alive, for example as their LBM was killed
        and the next one has seen their end. `is_first`: of the heartbeats of this connection.
        `said_s`: when the host made it, by its boot clock.

        What was sent over this very connection may not have arrived when the host said what it
        holds. What was sent over an earlier one never will: its LBM reads one connection at a time.
        """
        contact, held = self.hosts.proves(name, keeper, said_s, is_first=is_first), set(holds)
        if keeper:
            self._are_of_keeper(name, held)
        if contact is None:
            return []
        actions = list[Action]()
        for live in list(self.leased.values()):
            lease = live.lease
            if lease is None or lease.host != name or (live.job.id, lease.attempt) in held:
                continue
            if contact.is_after(lease.sent):
                why = f"{name}{NO_LONGER_HAS_IT}its LBM was killed or lost contact"
                actions += self._over(live, Ending(Cause.LOST, reason=why), now_s, rng)
        return actions

    def _are_of_keeper(self, name: HostId, held: Iterable[tuple[JobId, int]]) -> None:
        """Notes that the keeper that the host has just named runs these attempts, if they were sent
        when it named none, or by another dispatcher: it ends all that its keeper ran before it
        names the next one."""
        for job, attempt in held:
            live = self.holder(name, job, attempt)
            if live is None or live.lease is None:
                continue
            if live.lease.sent is None or not live.lease.sent.keeper:
                live.lease.sent = self.hosts.contact(name)

    def stops_to_repeat(
        self, name: HostId, stop_reasons: Iterable[tuple[JobId, int, str]]
    ) -> list[Action]:
        """Compares why a returning host's attempts were told to end, as it reports, with our own
        records. Orders sent while it was away, or just before, were lost and are repeated."""
        actions = list[Action]()
        for job, attempt, stop_reason in stop_reasons:
            live = self.holder(name, job, attempt)
            if live is not None and live.stop_reason not in ("", stop_reason):
                actions.append(Signal(job, attempt, name, live.signal, live.stop_reason))
        return actions

    def sending(self, job: JobId, attempt: int, now_s: float) -> bool:
        """The attempt is on disk and about to be sent: from now on its host may hold it. Returns
        False if it is no longer wanted."""
        live = self.leased.get(job)
        if live is None or live.lease is None or live.lease.attempt != attempt or live.stop_reason:
            return False
        live.lease.until_s, live.lease.renewed_s = now_s + self.terms.waited_s, now_s
        live.lease.sent = self.hosts.contact(live.lease.host)
        live.lease.was_sent(now_s, self._begin_timeout_s(live.job))
        return True

    def brings_files(self, job: JobId, attempt: int) -> None:
        """The attempt that is being sent brings files along, which take their time."""
        live = self.leased.get(job)
        if live is not None and live.lease is not None and live.lease.attempt == attempt:
            timeout_s = self._begin_timeout_s(live.job) * FILES_TIMES
            live.lease.was_sent(live.lease.sent_s, timeout_s)
            live.lease.brings_files = True

    def _begin_timeout_s(self, job: QueuedJob) -> float:
        """A gang may be held before it is released."""
        return self.terms.begin_timeout_s + (self.terms.gang_hold_s if job.gang else 0.0)

    def may_move(self, job: JobId) -> bool:
        """Whether its host may end the attempt so that another can start elsewhere."""
        live = self.leased.get(job)
        if live is None or live.job.gang:  # the rest of its gang would continue without it
            return False
        return live.job.may_restart and live.job.only is None

    def begun(self, name: HostId, job: JobId, attempt: int, ago_s: float = 0.0) -> list[Action]:
        live = self.holder(name, job, attempt)
        if live is None or live.lease is None or live.lease.begun:
            return []
        live.lease.begun, live.reason = True, ""
        self.running += 1
        self.hosts.begun(name, live.job)
        record = changed(live, JobState.RUNNING, Fate.RUNNING, begun_ago_s=ago_s)
        return [record, *self.gangs.begun(live)] if live.job.gang else [record]

    def leased_s(self, name: HostId, job: JobId, attempt: int, now_s: float) -> float:
        """Returns how long ago it was leased, infinite if that is not known; 0 if it is over."""
        live = self.holder(name, job, attempt)
        return now_s - live.lease.granted_s if live is not None and live.lease is not None else 0.0

    def ready(self, name: HostId, job: JobId, attempt: int) -> list[Action]:
        """A gang member has its slots and files on its host."""
        live = self.holder(name, job, attempt)
        return self.gangs.ready(live) if live is not None else []

    def stopped(
        self, name: HostId, job: JobId, attempt: int, stopped: bool, now_s: float,
        reason: str = "", wanted: str = "",
    ) -> list[Action]:  # fmt: skip
        """The attempt was suspended by SIGSTOP or by its host's owner, or resumed.

        `wanted`: for a gang member, whether its host asks for a move (`GANG_MOVES`) or rules one
        out.
        """
        live = self.holder(name, job, attempt)
        if live is None:
            return []
        self.queues.is_suspended(job, stopped, now_s)
        live.reason = self.gangs.asked_to_move(live, reason, wanted)
        if stopped:
            live.reason = live.reason or stopped_by_signal(live)
            return [changed(live, JobState.SUSPENDED, Fate.SUSPENDED)]
        return [changed(live, JobState.RUNNING, Fate.RUNNING)]

    def ended(
        self, name: HostId, job: JobId, attempt: int, ending: Ending, now_s: float, rng: Random
    ) -> list[Action]:
        """A host reports how an attempt ended. One that is over for us is only forgotten there."""
        live = self.holder(name, job, attempt)
        actions = self._over(live, ending, now_s, rng) if live is not None else []
        return [*actions, Settle(job, attempt, name)]

    def refused(
        self, name: HostId, job: JobId, attempt: int, phase: str, ending: Ending, now_s: float,
        rng: Random,
    ) -> list[Action]:  # fmt: skip
        """The host refused the attempt, and nothing ran. `ending` has the reason, with the errno as
        exit status. If it had reported the attempt begun, that counts: it is lost, or of a gang as
        `may_begin_again` says."""
        live = self.holder(name, job, attempt)
        if live is None:
            return [Settle(job, attempt, name)]
        if self.has_begun(job) and not live.job.gang:
            lost = replace(ending, exit_status=None, reason=f"{name}{BEGUN_BEFORE}{ending.reason}")
            return self.ended(name, job, attempt, lost, now_s, rng)
        assert live.lease is not None
        lease, is_overdue = live.lease, now_s >= live.lease.begin_by_s
        why = lease.why_given_up(now_s) if is_overdue else ending.reason
        self._let_go(live)
        earlier, live.reason = live.reason, f"{name}: {why}"
        gang = self.gangs.of(live.job)
        phase = phase_to_go_by(phase, ending.exit_status, in_gang=gang is not None)
        stop_reason, live.stop_reason = stop_reason_of(live, gang, ending), ""
        actions: list[Action] = []
        if gang is not None and phase in BEFORE_READY:
            gang.may_run = False
        # An attempt that was to end may have been ended while it started, which is not the host's
        # fault.
        is_excused = phase in (*PASSING, *NOT_THERE, AWAY, NOT_YET, NO_ROOM)
        is_fault = not (is_excused or self.hosts.is_stopped(name))
        is_vain = phase in PASSING and not stop_reason and self.hosts.refused(name, live.job)
        if is_vain or (is_fault and not stop_reason):
            actions += self._host_failed(name, live.job, now_s, rng, phase)
        if stop_reason == CANCEL:
            why, live.signal_of = cancelled(live, live.signal_of), ""
            actions += self._final(live, JobState.CANCELLED, why, now_s, rng, Fate.REFUSED)
        elif gang is not None and stop_reason:
            actions += self._given_back(live, gang, name, stop_reason, now_s, rng)
        elif gang is not None and not gang.may_begin_again(live.job):
            actions += self._never_begins(live, phase, ending, now_s, rng)
        elif gang is None and is_overdue:
            self._held_in_vain(live, lease, now_s)
            actions += self._again(live, Fate.REFUSED, None, now_s, rng)
        elif phase in PASSING or phase == NO_KEEPER:
            actions += self._close(name, now_s, rng)
            actions += self._again(live, Fate.REFUSED, None, now_s, rng)
        elif phase in (NOT_YET, NO_ROOM, SHORT_OF):
            actions += self._begins_later(live, name, ending.wait_s, now_s, rng, phase)
        elif phase in NOT_MOUNTED and (wait_s := self.hosts.mounting_s(name)):
            actions += self._begins_later(live, name, wait_s, now_s, rng)
        elif phase == AWAY:
            why = self.pauses.begin(live, self.terms, now_s)
            actions += self._hold(live, why, Fate.REFUSED, None, now_s, rng)
        else:
            actions += self._cannot_begin(live, name, phase, ending, now_s, rng)
            if refused_by(earlier) in live.barred_now:  # it waits for that host, not for this one
                live.reason = earlier
        if gang is not None:
            actions += self._keep_whole(live, gang, now_s, rng)
        return [*actions, Settle(job, attempt, name)]

    def stood_still(self, lasted_s: float) -> bool:
        """`lasted_s`: time since the last tick. If we were stopped for that long, hosts' messages
        are still unread, so leases last that much longer here."""
        if lasted_s <= STILL_S:
            return False
        for live in self.leased.values():
            if live.lease is not None:
                live.lease.shift(lasted_s)
        return True

    def has_longer_leases(self, now_s: float) -> bool:
        """Whether an attempt may have a longer lease than those that are granted now."""
        leases = [live.lease for live in self.leased.values() if live.lease]
        until_s = now_s + self.terms.waited_s
        return any(until_s < lease.until_s < math.inf for lease in leases)

    def tick(self, now_s: float, rng: Random) -> list[Action]:
        """Handles expired leases and hosts whose back-off is over."""
        actions: list[Action] = []
        for live in [live for live in self.leased.values() if live.lease]:
            assert live.lease is not None
            if live.stop_reason and live.lease.told_s == math.inf:
                live.lease.told_s = now_s
            if now_s >= live.lease.until_s:
                what = f"{CONTACT_WITH}{live.lease.host} was lost"
                if live.lease.is_given_up(self.terms.lease_s, now_s):
                    what = f"{live.lease.host} {live.lease.why_given_up(now_s)}"
                actions += self._over(live, Ending(Cause.LOST, reason=what), now_s, rng)
        for job, hosts in self.bars.over(now_s, LOOKS_MAX):
            actions += self._unbarred(self._live(job), hosts, now_s, rng)
        for job in self.pauses.over(self.jobs, now_s, LOOKS_MAX):
            actions += self._released(self._live(job), now_s, rng)
        for gang in self.gangs.overdue(now_s):
            actions += self.gangs.stop(gang, REGROUP)
        self.dependents.passed(now_s)
        actions += self._look_at_dependents(now_s, rng)
        if now_s >= self.hosts.more_until_s:
            actions += self.gangs.moved()
        actions += self._begin(self.queues.tick(now_s, rng), now_s)
        for host in self.hosts.returning(now_s):
            actions += self._begin(self.queues.host_is(host, now_s, rng), now_s)
        return actions + self._begin(self.queues.asked_again(now_s, rng), now_s)

    def rules_changed(
        self, tiers: Callable[[HostId], tuple[int, ...]], now_s: float, rng: Random
    ) -> list[Action]:
        """Applies new cutoffs and each host's new `tiers`."""
        self.hosts.tiers_are(tiers)
        return self._begin(self.queues.rules_changed(tiers, now_s, rng), now_s)

    # Internals

    def _live(self, job: JobId) -> Live:
        live = self.jobs.get(job)
        if live is None:
            raise Inapplicable(f"job {job} has ended")
        return live

    def holder(self, name: HostId, job: JobId, attempt: int) -> Live | None:
        """Returns the job if this is the attempt that may be alive."""
        live = self.leased.get(job)
        if live is None or live.lease is None:
            return None
        return live if (live.lease.host, live.lease.attempt) == (name, attempt) else None

    def _begin(self, starts: Iterable[Start], now_s: float) -> list[Action]:
        actions: list[Action] = []
        starts = list(starts)
        if not starts:
            return actions
        gangs = self.gangs.begin(starts, now_s)
        for start in starts:
            live = self.leased[start.job.id] = self.jobs.out_of_backlog(start.job)
            hosts = gangs.get(start.job.array, ())
            actions.append(next_attempt(live, start, now_s, hosts))
        return actions

    def _let_go(self, live: Live) -> None:
        self.running -= live.lease is not None and live.lease.begun
        live.lease = None
        self.leased.pop(live.job.id, None)
        if live.job.gang:
            self.gangs.over(live)

    def _over(self, live: Live, ending: Ending, now_s: float, rng: Random) -> list[Action]:
        """The attempt has certainly ended."""
        assert live.lease is not None
        lease, host, gang = live.lease, live.lease.host, self.gangs.of(live.job)
        stop_reason, actions = stop_reason_of(live, gang, ending), list[Action]()
        ending = as_believed(live, lease, ending)
        if gang is not None and ending.cause is not Cause.LOST and not stop_reason:
            actions += self.gangs.begun(live)  # what has ended had begun, reported or not
            if not (gang.released or gang.may_run):
                ending = replace(ending, cause=Cause.LOST, reason=UNASKED)
        live.over = live.lease.attempt, ending.cause.value
        self._let_go(live)
        evicted = ending.cause is Cause.EVICTED
        lost = ending.cause is Cause.LOST or (evicted and not live.job.may_restart)
        if lost:
            actions += self._lost_at(live, lease, now_s, rng)
        elif ending.exit_status == 0:
            self.hosts.worked(host, live.job)
        ending = with_sender(live, ending, stop_reason)
        was_asked, live.stop_reason, live.reason = bool(live.stop_reason), "", ending.reason
        succeeded = has_succeeded(live, ending, stop_reason)
        if succeeded:
            self.queues.heads.learn(self.queues.registry.entries[live.job.id], now_s)
        if stop_reason == CANCEL and not succeeded:
            why = ending.reason or "cancelled"
            return actions + self._final(
                live, JobState.CANCELLED, why, now_s, rng, Fate.CANCELLED, ending
            )
        if gang is not None and stop_reason == DISBAND and not succeeded:
            ending = replace(ending, reason=ending.reason or DISBANDED)
            return actions + self._final(
                live, JobState.CANCELLED, ending.reason, now_s, rng, Fate.CANCELLED, ending
            )
        if gang is not None and stop_reason == REGROUP:  # even if it has succeeded since
            if live.job.may_restart or not lease.begun:
                return actions + self._given_back(live, gang, host, stop_reason, now_s, rng, ending)
            # Another host reported that none had begun.
            if not succeeded:
                actions += self._lost(live, host, ending, now_s, rng, had_begun=True)
            else:
                actions += self._final(live, JobState.DONE, "", now_s, rng, Fate.DONE, ending)
            return actions + self._keep_whole(live, gang, now_s, rng)
        if stop_reason == REQUEUE and live.job.may_restart:  # likewise: its user was promised that
            fate = Fate.DONE if succeeded else Fate.CANCELLED
            if not was_asked and (why := self._excused(live, host, now_s)):
                return actions + self._hold(live, why, fate, ending, now_s, rng)
            return actions + self._requeued(live, fate, ending, now_s, rng)
        lost = lost or (gang is not None and ending.cause in NOT_ALONE)
        if ending.cause in (Cause.CUT, Cause.CHECKPOINT) and not lost:
            return actions + self._next_tier(live, lease, ending, now_s, rng)
        if lost:
            actions += self._lost(live, host, ending, now_s, rng, had_begun=lease.begun)
            return actions + (self._keep_whole(live, gang, now_s, rng) if gang else [])
        if evicted and (why := self._excused(live, host, now_s)):
            return actions + self._hold(live, why, Fate.EVICTED, ending, now_s, rng)
        if evicted:
            return actions + self._again(live, Fate.EVICTED, ending, now_s, rng)
        state, fate = (JobState.DONE, Fate.DONE) if succeeded else (JobState.FAILED, Fate.FAILED)
        return actions + self._final(live, state, ending.reason, now_s, rng, fate, ending)

    def _requeued(
        self, live: Live, fate: Fate, ending: Ending, now_s: float, rng: Random
    ) -> list[Action]:
        live.job = self.queues.registry[live.job.id].job._replace(tier=1)
        starts = self.queues.ended(live.job.id, now_s, rng, whole=False)
        ending = replace(ending, reason=ending.reason or "requeued")
        return self._begin(starts, now_s) + self._arrives(live, now_s, rng, fate, ending)

    def _lost(
        self,
        live: Live,
        name: HostId,
        ending: Ending,
        now_s: float,
        rng: Random,
        *,
        had_begun: bool,
    ) -> list[Action]:
        gang = self.gangs.of(live.job)
        if gang is not None and not gang.is_whole:
            why = f"{ending.reason}; another job of its gang has ended, so it cannot start again"
            return self._final(live, JobState.LOST, why, now_s, rng, Fate.LOST, ending)
        if gang is not None and not (had_begun or gang.released or gang.may_run):
            self._keep_from(live, name, now_s, why=LOST_IT)  # it was held, and never ran
            return self._again(live, Fate.LOST, ending, now_s, rng)
        if not live.job.may_restart:
            why = f"{ending.reason}; it may have run in part and is not restartable"
            return self._final(live, JobState.LOST, why, now_s, rng, Fate.LOST, ending)
        why, was_shut_down = "", self.hosts.is_stopped(name)
        if was_shut_down:  # it was the host's end, whatever the job does
            why = self._excused(live, name, now_s)
        else:
            live.crashes, live.lost_on = live.crashes + 1, (*live.lost_on, name)
        if live.crashes >= self.terms.crash_limit:
            why = f"held: its attempts were lost {live.crashes} times ({ending.reason})"
        if why:
            return self._hold(live, why, Fate.LOST, ending, now_s, rng)
        least_s = kept_away_s(live, name, self.terms, self.queues)
        if least_s and not was_shut_down:
            self._keep_from(live, name, now_s, least_s, LOST_IT)
        return self._again(live, Fate.LOST, ending, now_s, rng)

    def _excused(self, live: Live, name: HostId, now_s: float, what: str = "gave it back") -> str:
        """Counts an attempt that has ended by nobody's fault, as its host says, so that the job
        begins again, or its gang. After `crash_limit` of them it does not go to that host for a
        while. Returns why the job is to be held, "" if it may begin again."""
        count = self.jobs[self._together_as(live)].excuse(live.attempt)
        if count >= self.terms.attempts_max:
            return f"held: its hosts {what} {count} times, the last one was {name}"
        if count > self.terms.crash_limit:
            live.reason = f"{name}: {what}; {count} attempts have ended so"
            self._keep_from(live, name, now_s)
        return ""

    def _given_back(
        self, live: Live, gang: Gang, name: HostId, stop_reason: str, now_s: float, rng: Random,
        ending: Ending | None = None,
    ) -> list[Action]:  # fmt: skip
        """It has ended on that host as requested because of its gang. `ending`: given if it had
        begun."""
        fate = Fate.CANCELLED if ending is not None else Fate.REFUSED
        if stop_reason == DISBAND:
            return self._final(live, JobState.CANCELLED, DISBANDED, now_s, rng, fate)
        if ending is not None:
            fate = Fate.EVICTED if live.job.id in gang.moves else fate
            why = f"{ending.reason}; {AGAIN}" if ending.cause is Cause.LOST else AGAIN
            ending = replace(ending, reason=gang.moves.get(live.job.id, why))
        if fate is Fate.EVICTED and (why := self._excused(live, name, now_s)):
            return self._hold(live, why, fate, ending, now_s, rng)
        actions = list[Action]()
        if live.job.id in gang.late:
            live.reason = f"{name}: was not ready within {self.terms.gang_hold_s:g} s"
            self._keep_from(live, name, now_s)
            is_fault = live.job.id in gang.at_fault and self.hosts.held_in_vain(name, live.job)
            if is_fault:
                actions += self._host_failed(name, live.job, now_s, rng)
        gang.late.discard(live.job.id)
        return actions + self._again(live, fate, ending, now_s, rng)

    def _keep_whole(self, live: Live, gang: Gang, now_s: float, rng: Random) -> list[Action]:
        """Decides about the rest of the gang after this member was refused or lost."""
        if live.lease is not None:
            return []  # all members were there, and have started again
        if gang.is_whole:
            return self.gangs.stop(gang, REGROUP)
        actions = self.gangs.stop(gang, DISBAND)
        for job in sorted(gang.tasks):
            other = self.jobs.get(job)
            if other is not None and other.lease is None:
                actions += self._final(other, JobState.CANCELLED, DISBANDED, now_s, rng)
        return actions

    def _never_begins(
        self, live: Live, phase: str, ending: Ending, now_s: float, rng: Random
    ) -> list[Action]:
        """Other members of its gang may have started, and must not start a second time."""
        state, status = JobState.LOST, None
        if phase in NOT_THERE:
            state, status = JobState.FAILED, exit_status(phase, ending.exit_status)
        why = f"{live.reason}; other jobs of its gang may have run, so it cannot start again"
        refused = Ending(Cause.REFUSED, status, reason=why)
        return self._final(live, state, why, now_s, rng, Fate.REFUSED, refused)

    def _cannot_begin(
        self, live: Live, name: HostId, phase: str, ending: Ending, now_s: float, rng: Random
    ) -> list[Action]:
        """The job cannot start on that host. It fails if it cannot start on any known host; but
        while a new dispatcher may not know all hosts yet, it is retried a moment later, unless its
        user has named that host."""
        job = self.queues.registry[live.job.id].job
        others = others_for(job, job.barred | {name}, self.hosts, self.queues)
        if others or self._together_as(live) in self.bars:
            self._bar(live, name, ending.reason)
            return self._again(live, Fate.REFUSED, None, now_s, rng)
        if now_s < self.hosts.more_until_s and live.job.only != name:
            why = self.pauses.until(live, self.hosts.more_until_s)
            return self._hold(live, why, Fate.REFUSED, None, now_s, rng)
        status, why = exit_status(phase, ending.exit_status), live.reason
        if others is not None:
            why += f"; {TOO_FEW_OTHERS if live.job.gang else NO_OTHER}"
        refused = Ending(Cause.REFUSED, status, reason=why)
        return self._final(live, JobState.FAILED, why, now_s, rng, Fate.REFUSED, refused)

    def _begins_later(
        self, live: Live, name: HostId, wait_s: float, now_s: float, rng: Random, phase: str = ""
    ) -> list[Action]:
        """The job can start on that host only later; until then perhaps on another. A gang is kept
        from that host for longer each time: it draws all others of the gang to a vain start."""
        least_s = 0.0
        if live.job.gang or phase in (NO_ROOM, SHORT_OF):
            pause_s = self.pauses.next_s(self._together_as(live), self.terms)
            wait_s = max(wait_s, pause_s)
            least_s = pause_s if live.job.gang or phase == SHORT_OF else 0.0
        self._bar_for(live, name, wait_s, now_s, least_s=least_s)
        return self._again(live, Fate.REFUSED, None, now_s, rng)

    def _together_as(self, live: Live) -> JobId:
        """Returns under which job it is noted when the job, or its gang, may start where."""
        gang = self.gangs.of(live.job)
        return live.job.id if gang is None else gang.key

    def _keep_from(
        self, live: Live, name: HostId, now_s: float, least_s: float = 0.0, why: str = ""
    ) -> None:
        """Keeps the job, or its gang, from that host for a while, longer each time."""
        if name not in live.barred_now:
            wait_s = max(self.pauses.next_s(self._together_as(live), self.terms), least_s)
            self._bar_for(live, name, wait_s, now_s, least_s=wait_s, why=why)

    def _bar_for(
        self, live: Live, name: HostId, wait_s: float, now_s: float, *, least_s: float = 0.0,
        why: str = "",
    ) -> None:  # fmt: skip
        """Bars the job, or all of its gang, from that host for a while, at least for `least_s`
        whatever the host says."""
        wait_s = min(max(wait_s, least_s, self.terms.aside_s), ASKED_AGAIN_S)
        self.bars.add(self._together_as(live), name, now_s + wait_s, now_s + least_s)
        for one in self.gangs.together(live):
            one.barred_now |= {name}
            self._bar(one, name, why or live.reason.partition(": ")[2])

    def _bar(self, live: Live, name: HostId, why: str) -> None:
        live.forgot = live.forgot or len(live.refusals) == REFUSALS_KEPT
        live.refusals = (*live.refusals, (name, why))[-REFUSALS_KEPT:]
        entry = self.queues.registry.entries.get(live.job.id)
        barred = (live if entry is None else entry).job.barred | {name}
        barred = self.jobs.lists.shared(live.job.submission, barred)
        if live.job.gang:  # it may have been barred for another of it
            live.job = live.job._replace(barred=barred)
        self.queues.bar(live.job.id, barred)

    def _unbarred(
        self, live: Live, hosts: frozenset[HostId], now_s: float, rng: Random
    ) -> list[Action]:
        barred_from = dict[JobId, frozenset[HostId]]()
        for one in self.gangs.together(live):
            barred = self.jobs.lists.shared(one.job.submission, one.job.barred - hosts)
            barred_from[one.job.id] = barred
            one.job = one.job._replace(barred=barred)
            one.barred_now -= hosts
            one.refusals = tuple([refusal for refusal in one.refusals if refusal[0] not in hosts])
            if refused_by(one.reason) in hosts:
                one.reason = ""
        if live.job.gang:
            return self._begin(self.queues.unbar_gang(barred_from, now_s, rng), now_s)
        return self._begin(self.queues.unbar(live.job.id, barred, now_s, rng), now_s)

    def _next_tier(
        self, live: Live, lease: Lease, ending: Ending, now_s: float, rng: Random
    ) -> list[Action]:
        """The job starts again from scratch, or from its own checkpoint."""
        fate, why = Fate(ending.cause.value), ""
        if fate is Fate.CHECKPOINT and live.attempt >= self.terms.attempts_max:
            why = f"held: it stopped at a checkpoint again in attempt {live.attempt}"
        elif fate is Fate.CHECKPOINT and now_s - lease.sent_s < BRIEF_S:  # as its host says
            why = self._excused(live, lease.host, now_s, "stopped it at a checkpoint at once")
        if why:
            return self._hold(live, why, fate, ending, now_s, rng)
        return self._again(live, fate, ending, now_s, rng)

    def _hold(
        self, live: Live, why: str, fate: Fate, ending: Ending | None, now_s: float, rng: Random
    ) -> list[Action]:
        live.held = why
        starts = self.queues.ended(live.job.id, now_s, rng, whole=False)
        recorded = changed(live, JobState.PENDING, fate, ending)
        return [recorded, *self._begin(starts, now_s)]

    def _again(
        self, live: Live, fate: Fate, ending: Ending | None, now_s: float, rng: Random
    ) -> list[Action]:
        job = live.job.id
        onward = fate in (Fate.CUT, Fate.CHECKPOINT)
        starts = (self.queues.cut_off if onward else self.queues.lost)(job, now_s, rng)
        live.job = self.queues.registry[job].job
        if ending is not None and fate is Fate.LOST:
            ending = replace(ending, reason=f"{ending.reason}; the job begins again")
        return [changed(live, JobState.PENDING, fate, ending), *self._begin(starts, now_s)]

    def _arrives(
        self, live: Live, now_s: float, rng: Random, fate: Fate | None = None,
        ending: Ending | None = None,
    ) -> list[Action]:  # fmt: skip
        recorded = changed(live, JobState.PENDING, fate, ending)
        return [recorded, *self._begin(self.queues.returned(live.job, now_s, rng), now_s)]

    def _final(
        self, live: Live, state: JobState, reason: str, now_s: float, rng: Random,
        fate: Fate | None = None, ending: Ending | None = None,
    ) -> list[Action]:  # fmt: skip
        self.jobs.drop(live.job.id)
        self.jobs.lists.gone(live.job)
        self.pauses.drop(live.job.id)
        self.bars.drop(live.job.id)
        if live.job.gang:
            self.gangs.ended(live.job)
        live.held, live.reason = "", reason
        whole = fate in (Fate.DONE, Fate.FAILED)
        starts = self.queues.ended(live.job.id, now_s, rng, whole=whole)
        actions = [changed(live, state, fate, ending), *self._begin(starts, now_s)]
        self.dependents.drop(live.job.id)
        self.dependents.ended(live.job, well=state is JobState.DONE)
        return actions + self._look_at_few(now_s, rng)

    def look_on(self, now_s: float, rng: Random) -> list[Action]:
        """Continues with due jobs that an earlier event had to leave."""
        return self._look_at_dependents(now_s, rng)

    def _look_at_few(self, now_s: float, rng: Random) -> list[Action]:
        """`look_on` does the rest, in turns of its own."""
        most = self.dependents.looks.left(now_s, FEW_LOOKS)
        return self._look_at_dependents(now_s, rng, most)

    def _look_at_dependents(self, now_s: float, rng: Random, most: int = LOOKS_MAX) -> list[Action]:
        """Handles jobs whose conditions have changed, a limited number at a time, since all tasks
        of an array may join the queue at once. Also handles what ends because of that."""
        dependents, actions, ready = self.dependents, list[Action](), list[QueuedJob]()
        if dependents.looks.are_under_way:
            return []
        dependents.looks.are_under_way = True
        for _ in range(most):
            if not dependents.due:
                break
            job = dependents.due.take()
            dependents.looks.count += 1
            if job not in dependents.waits or (why := dependents.verdict(job, now_s)) is None:
                continue
            dependents.drop(job)
            live = self._live(job)
            if why:
                actions += self._final(live, JobState.CANCELLED, why, now_s, rng)
                continue
            actions.append(Met(job))
            if not live.held:
                ready.append(live.job)
        dependents.looks.are_under_way = False
        if ready:
            actions += self._begin(self.queues.all_returned(ready, now_s, rng), now_s)
        return actions

    def _close(self, name: HostId, now_s: float, rng: Random) -> list[Action]:
        """The host takes no more jobs until its next heartbeat."""
        host = self.hosts.full(name, len(self.queues.servers_by_host[name].running) - 1)
        return self._begin(self.queues.host_is(host, now_s, rng), now_s) if host else []

    def _lost_at(self, live: Live, lease: Lease, now_s: float, rng: Random) -> list[Action]:
        """Holds it against the host that this attempt was lost."""
        given_up = lease.is_given_up(self.terms.lease_s, now_s)
        if given_up and not self._held_in_vain(live, lease, now_s):
            return []
        stopped = self.hosts.is_stopped(lease.host)
        return [] if stopped else self._host_failed(lease.host, live.job, now_s, rng)

    def _held_in_vain(self, live: Live, lease: Lease, now_s: float) -> bool:
        """A host held this attempt for long and did not begin it. The job does not go there for as
        long again. Returns whether it is held against the host."""
        pause_s = self.pauses.next_s(self._together_as(live), self.terms)
        wait_s, why = max(lease.held_s(now_s), pause_s), lease.why_given_up(now_s)
        self._bar_for(live, lease.host, wait_s, now_s, least_s=wait_s, why=why)
        return self.hosts.held_in_vain(lease.host, live.job)

    def _host_failed(
        self, name: HostId, job: QueuedJob, now_s: float, rng: Random, refused_at: str = NO_KEEPER
    ) -> list[Action]:
        """`refused_at`: the phase; most refusals a user can arrange."""
        may_be_users = refused_at not in (*PASSING, NO_KEEPER)
        if not self.hosts.failed(name, job, now_s, may_be_users=may_be_users):
            return []
        return self._begin(self.queues.host_gone(name, now_s, rng), now_s)
