"""The life of a command that runs on this host, and what is guaranteed whatever happens.

    admission ─▶ slot ─▶ files ─▶ spawning ─▶ running ─▶ ending ─▶ collecting ─▶ draining ─▶ over
        │          │       │          │          └─ by itself ────────▲                        ▲
        └──────────┴───────┴──────────┴── refused: nothing has run ────────────────────────────┘

A command is attached (a user on another host waits for it) or queued (an attempt of the
dispatcher's, on a lease). `ending`: it was asked to end and is still alive. `collecting`, queued
commands only: the files that it leaves are being packed. `draining`, attached commands only: its
output is read to the end. There are two detours: a command that is cancelled while its `files` are
being prepared is `called off` until that work has stopped, and a queued command whose keeper is
gone is `unwatched` until another keeper has ended it. A command of a gang is `held`, with its slot
and its files, until the dispatcher knows that the whole gang is; it is refused if a dry start says
that it would not begin.

1. It is reported once: as refused if nothing has run, otherwise as ended.
2. It is spawned at most once, with a slot, with its files, and before its lease expires. Until it
   is spawned, a request to end it takes effect at once.
3. **Nothing outlives its lease.** When the lease expires, the tree is killed. It is killed again
   when the keeper reports a start that it had not reported by then, and by this LBM if the keeper
   does not do it. The keeper holds the lease too (`Spawn`, `LimitLease`), in case this LBM hangs.
4. A slot is freed once, and not before the keeper has reported the end of the whole tree.
5. The first reason to end it is its cause, but "lost" overrides all others: nobody may take the
   result of a command that was started again elsewhere.
6. A signal that arrives while the command is being spawned waits until it has begun, and is sent
   once. So an interrupt during that time is delivered as an interrupt: the command gets the same
   signal as a command that runs.
7. The state is plain data: another LBM that loads it continues as before, after `Resumed`.

Times are seconds of one clock that nobody sets; for a queued command, of the clock of its lease.
The shell performs each action and returns its answer as an event, in the order in which things
happened.

It is one class because its fields, more than most classes have, are exactly what a restart hands
over.
"""

import signal
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from lbd.lbm.core import execution_events as e
from lbd.lbm.core.execution_events import (
    OUT_OF_LEASE,
    Action,
    Cause,
    Event,
    Exit,
    Kind,
    Outcome,
    Process,
    Spec,
    Treatment,
    lost,
    outcome_of,
)
from lbd.lbm.core.slots import Belongings
from lbd.model import JobId, JobState, Needs
from lbd.policy.view import NO_SLOT

DRAINED_S = 0.2  # output of an ended command has gone by then, unless its reader is slow
KEEPER_S = 0.3  # for the keeper to end a tree; the dispatcher waits for at least a second
RETRY_S_MIN = 0.5  # between two questions whether there is room beyond the slots
RESTARTED = "its host's LBM was restarted"
UNKNOWN = "the previous LBM did not hand over enough to continue it"


class Phase(Enum):
    ADMISSION = "admission"
    SLOT = "slot"
    FILES = "files"
    CALLED_OFF = "called off"
    HELD = "held"
    SPAWNING = "spawning"
    RUNNING = "running"
    ENDING = "ending"
    UNWATCHED = "unwatched"
    COLLECTING = "collecting"
    DRAINING = "draining"
    OVER = "over"


NOT_SPAWNED = (Phase.ADMISSION, Phase.SLOT, Phase.FILES, Phase.HELD)
ALIVE = (Phase.SPAWNING, Phase.RUNNING, Phase.ENDING)  # possibly alive


class Timer(IntEnum):
    """The timers. Of those due at the same time, the lower one comes first."""

    LEASE = 1
    SLOT_GIVE_UP = 2
    SLOT_RETRY = 3
    TIMEOUT = 4
    KILL = 5
    KILL_DIRECTLY = 6
    SHOW_EXIT = 7


class Asked(IntEnum):
    """How firmly a command has been asked to end."""

    NOT = 0
    TERM = 1  # by its user's TERM, which it may ignore
    END = 2  # by TERM or the signal its user gave, then KILL after a grace period
    KILL = 3


END_SIGNALS = {0: Asked.END, int(signal.SIGTERM): Asked.TERM, int(signal.SIGKILL): Asked.KILL}


@dataclass(slots=True)
class Execution:
    """Takes events and returns actions to perform, in order.

    One class because it is one state machine: the effect of an event depends on all the others.
    """

    spec: Spec
    timers: dict[Timer, float] = field(default_factory=dict)
    phase: Phase = Phase.ADMISSION  # the owner's answer is the first event
    has_slot: bool = False  # or waits in line for one
    has_files: bool = False
    asked: Asked = Asked.NOT
    early: tuple[int, ...] = ()  # signals to deliver once it has begun, in order
    cause: Cause | None = None  # why this LBM ended it
    reason: str = ""
    stop_reason: str = ""  # why its dispatcher asked it to end
    process: Process | None = None
    is_stopped: bool = False
    treatment: Treatment = Treatment.NONE  # as the owner's rules demand
    is_treated: bool = True  # as far as is known, the keeper has applied `treatment`
    still_reason: str = ""  # why the owner's rules suspend it
    still_since_s: float | None = None
    still_s: float = 0.0  # length of all earlier suspensions
    exit: Exit | None = None
    exited_s: float = 0.0
    is_reported: bool = False

    @classmethod
    def leased(cls, spec: Spec, until_s: float) -> "Execution":
        return cls(spec, {Timer.LEASE: until_s})

    @property
    def wake_at_s(self) -> float | None:
        """When it needs a Tick, if no event comes before; None = never."""
        return min(self.timers.values(), default=None)

    @property
    def alarm_s(self) -> float | None:
        """Like `wake_at_s`, without the lease, which its holder watches by a clock of its own."""
        timers = self.timers
        if len(timers) == (Timer.LEASE in timers):
            return None
        return min([at_s for timer, at_s in timers.items() if timer is not Timer.LEASE])

    @property
    def job_state(self) -> JobState:
        """Its state in `lbctl jobs` until its end is recorded."""
        if self.process is None:
            return JobState.PENDING
        return JobState.SUSPENDED if self.is_stopped or self.is_still else JobState.RUNNING

    @property
    def is_still(self) -> bool:
        """Says whether the owner's rules suspend it."""
        return self.treatment.is_still

    def ran_s(self, now_s: float) -> float:
        """How long it has run, without the time for which the owner's rules suspended it."""
        if self.process is None:
            return 0.0
        until_s = now_s if self.still_since_s is None else self.still_since_s
        return max(0.0, until_s - self.process.began_s - self.still_s)

    def handle(self, event: Event, now_s: float) -> list[Action]:
        """Handles due timers before the event. A renewal or an exit goes before the timers, because
        it happened before we looked."""
        if not self.timers or min(self.timers.values()) > now_s:
            return self._hear(event, now_s)
        if isinstance(event, (e.Renewed, e.Exited)):
            return [*self._hear(event, now_s), *self._passed(now_s)]
        return [*self._passed(now_s), *self._hear(event, now_s)]

    def _hear(self, event: Event, now_s: float) -> list[Action]:
        """Ignores events that do not belong to this phase: they come too late."""
        phase = self.phase
        match event:
            case e.Admitted() if phase is Phase.ADMISSION:
                self.phase, self.has_slot = Phase.SLOT, True
                return [e.AskSlot()]
            case e.Denied() if phase in (Phase.ADMISSION, Phase.SLOT):
                wait_s, another = event.wait_s, event.try_another
                return self._refuse(event.reason, event.phase, try_another=another, wait_s=wait_s)
            case e.SlotGranted() if phase is Phase.SLOT:
                return self._slot_granted(now_s)
            case e.SlotAwaited() if phase is Phase.SLOT:
                return self._slot_awaited(now_s)
            case e.SlotRefused() if phase is Phase.SLOT and Timer.SLOT_GIVE_UP not in self.timers:
                why = "slot" if event.full else self._lacking
                return self._refuse(event.reason, why, full=event.full)
            case e.FilesReady() if phase is Phase.FILES:
                return self._ready(now_s)
            case e.Released() if phase is Phase.HELD:
                return self._spawn(now_s)
            case e.FilesFailed() if phase is Phase.FILES:
                return self._refuse(event.reason, event.phase, event.number)
            case e.FilesReady() | e.FilesFailed() if phase is Phase.CALLED_OFF:
                return self._clear()
            case e.Started() if phase is Phase.SPAWNING:
                return self._started(event.process, now_s)
            case e.NotStarted() if phase in (Phase.SPAWNING, Phase.HELD):
                return self._refuse(event.reason, event.phase, event.number)
            case e.Exited() if phase in ALIVE:
                return self._exited(event.exit, now_s)
            case e.KeeperLost() if phase in ALIVE:
                return self._keeper_lost(event.reason, now_s)
            case e.KeeperReady() if phase is Phase.UNWATCHED:
                return self._conclude(now_s)
            case e.FilesCollected() if phase is Phase.COLLECTING:
                return self._conclude(now_s, event.complaint)
            case e.OutputsDrained() | e.GivenUp() if phase is Phase.DRAINING:
                return self._report_end(self._outcome())
            case e.Stopped() if phase in ALIVE:
                self.is_stopped = event.stopped
                return [e.ReportStopped(event.stopped)] if self.process is not None else []
            case e.OwnerWants() if phase in (Phase.RUNNING, Phase.ENDING):
                return self._treat(event, now_s)
            case e.Renewed() if Timer.LEASE in self.timers:
                return self._renewed(event.lease_until_s, now_s)
            case e.Resumed():
                return self._resumed(now_s)
        return self._wanted(event, now_s)

    # Requests to end it, and how they are met

    @property
    def must_end(self) -> bool:
        """Whether it is to end, and was not only sent a TERM, which may mean anything."""
        return self.asked > Asked.TERM

    def _wanted(self, event: Event, now_s: float) -> list[Action]:
        match event:
            case e.Signalled() if self.phase in ALIVE:
                return self._signal(event.number)
            case e.KillWanted():
                return self._end(Asked.KILL, now_s, Cause.KILLED)
            case e.GivenUp():
                number = event.number or signal.SIGTERM
                return self._end(Asked.END, now_s, Cause.LOST, event.reason, number)
            case e.EndWanted():
                self.stop_reason = event.stop_reason or self.stop_reason
                if event.number in END_SIGNALS:
                    return self._end(END_SIGNALS[event.number], now_s)
                if event.stop_reason and self.process is None:  # not begun, and it must not begin
                    return self._end(Asked.END, now_s, number=event.number)
                return self._signal(event.number) if self.phase in ALIVE else []
        return []

    def _signal(self, *numbers: int) -> list[Action]:
        """Sends the signals, or keeps them while the command is being spawned, when nobody knows
        which process would get them. Each number is kept once, as pending signals of a process are.
        """
        if self.process is not None:
            return [e.Signal(number) for number in numbers]
        self.early = (*(one for one in self.early if one not in numbers), *map(int, numbers))
        return []

    def _end(
        self, asked: Asked, now_s: float, cause: Cause | None = None, reason: str = "",
        number: int = signal.SIGTERM,
    ) -> list[Action]:  # fmt: skip
        """`number`: the signal that asks it to end, unless it is killed."""
        if self.phase in NOT_SPAWNED:
            return self._call_off(reason or "it was asked to end")
        if self.phase is Phase.COLLECTING:
            return [e.StopFiles()]
        if self.phase not in ALIVE or (self.asked is Asked.KILL and asked is not Asked.KILL):
            return []
        if cause is Cause.LOST or self.cause is None:
            self.cause, self.reason = cause, reason
        self.asked = max(asked, self.asked)
        if asked is not Asked.TERM:
            self.timers.pop(Timer.TIMEOUT, None)
            self.phase = Phase.ENDING if self.process is not None else Phase.SPAWNING
        if asked is Asked.END:
            self.timers.setdefault(Timer.KILL, now_s + self.spec.kill_grace_s)
        if asked is Asked.KILL:
            self.timers.pop(Timer.KILL, None)
            return [e.EndTree()]
        if asked is Asked.TERM:
            return self._signal(number)
        return self._signal(number, signal.SIGCONT)  # it may be stopped

    def _call_off(self, reason: str) -> list[Action]:
        """Ends a command that was not spawned, so that it never will be."""
        if self.phase is not Phase.FILES:
            return self._refuse(reason, "late")
        self.phase, self.is_reported = Phase.CALLED_OFF, True
        self.timers.clear()
        return [e.ReportRefused(reason, "late"), e.StopFiles()]

    def _treat(self, event: e.OwnerWants, now_s: float) -> list[Action]:
        """Applies the owner's treatment. A command that may leave is suspended first, so that all
        its output has arrived by then."""
        before, self.treatment = self.treatment, event.treatment
        is_known, self.is_treated = self.is_treated, True
        if self.is_still and self.still_since_s is None:
            self.still_since_s = now_s
        elif not self.is_still and self.still_since_s is not None:
            self.still_s += now_s - self.still_since_s
            self.still_since_s = None
        reason = event.reason if self.is_still else ""
        is_new = before.is_still != self.is_still or reason != self.still_reason
        self.still_reason = reason
        is_new = is_new or (self.is_still and not is_known)
        reported = [e.ReportStill(self.is_still, reason)] if is_new else []
        if before is not event.treatment or not is_known:
            return [e.Treat(event.treatment), *reported]
        leaves = self.spec.is_evictable and event.untouched and self.cause is None
        if event.treatment is Treatment.GO and leaves:
            return self._end(Asked.KILL, now_s, Cause.EVICTED, reason)
        return [*reported]

    # Time

    def _passed(self, now_s: float) -> list[Action]:
        actions: list[Action] = []
        while self.timers and min(self.timers.values()) <= now_s:
            _, timer = min((at_s, timer) for timer, at_s in self.timers.items())
            del self.timers[timer]
            actions += self._due(timer, now_s)
        return actions

    def _due(self, timer: Timer, now_s: float) -> list[Action]:
        match timer:
            case Timer.LEASE:
                self._watch_death(now_s)
                return self._end(Asked.KILL, now_s, Cause.LOST, OUT_OF_LEASE)
            case Timer.TIMEOUT:
                reason = f"ended at its time limit of {self.spec.timeout_s:g} s"
                return self._end(Asked.END, now_s, Cause.TIMEOUT, reason)
            case Timer.KILL:
                return self._end(Asked.KILL, now_s)
            case Timer.KILL_DIRECTLY:
                return [e.KillDirectly()]
            case Timer.SLOT_RETRY:
                assert self.spec.slot_retry_s is not None
                self.timers[timer] = now_s + max(self.spec.slot_retry_s, RETRY_S_MIN)
                return [e.ExceedSlots()]
            case Timer.SLOT_GIVE_UP if self.timers.pop(Timer.SLOT_RETRY, None) is not None:
                return [e.ExceedSlots()]  # for the last time
            case Timer.SLOT_GIVE_UP:
                return self._refuse(NO_SLOT, "slot", full=True)
            case Timer.SHOW_EXIT:
                assert self.exit is not None
                return [e.ReportExited(self.exit.signal)]

    def _watch_death(self, now_s: float) -> None:
        """Arranges to kill the process directly if the keeper does not. Needs a known process."""
        if self.process is not None:
            self.timers[Timer.KILL_DIRECTLY] = now_s + KEEPER_S

    def _renewed(self, until_s: float, now_s: float) -> list[Action]:
        self.timers[Timer.LEASE] = until_s = max(until_s, self.timers[Timer.LEASE])
        return [e.LimitLease(max(0.0, until_s - now_s))] if self.phase in ALIVE else []

    # From one phase to the next

    def _slot_awaited(self, now_s: float) -> list[Action]:
        self.timers[Timer.SLOT_GIVE_UP] = now_s + (self.spec.slot_patience_s or 0.0)
        if self.spec.slot_retry_s is not None:
            self.timers[Timer.SLOT_RETRY] = now_s + self.spec.slot_retry_s
        return [e.ReportQueued()]

    def _slot_granted(self, now_s: float) -> list[Action]:
        self.timers.pop(Timer.SLOT_GIVE_UP, None)
        self.timers.pop(Timer.SLOT_RETRY, None)
        if not self.spec.brings_files:
            return self._ready(now_s)
        self.phase, self.has_files = Phase.FILES, True
        return [e.PrepareFiles()]

    def _ready(self, now_s: float) -> list[Action]:
        if not self.spec.is_of_gang:
            return self._spawn(now_s)
        self.phase = Phase.HELD
        return [e.ReportReady()]

    def _spawn(self, now_s: float) -> list[Action]:
        self.phase = Phase.SPAWNING
        until_s = self.timers.get(Timer.LEASE)
        return [e.Spawn(until_s - now_s if until_s is not None else None)]

    def _started(self, process: Process, now_s: float) -> list[Action]:
        """Notes the start. The keeper may not have known the command when it was to be killed."""
        self.process = process
        self.phase = Phase.ENDING if self.asked >= Asked.END else Phase.RUNNING
        if self.spec.timeout_s and self.phase is Phase.RUNNING:
            self.timers[Timer.TIMEOUT] = process.began_s + self.spec.timeout_s
        if self.reason == OUT_OF_LEASE:
            self._watch_death(now_s)
        stopped = [e.ReportStopped(True)] if self.is_stopped else []
        early, self.early = self.early, ()
        orders = [e.EndTree()] if self.asked is Asked.KILL else self._signal(*early)
        return [e.ReportBegun(), *stopped, *orders]

    def _exited(self, how: Exit, now_s: float) -> list[Action]:
        self.exit, self.exited_s = how, now_s
        self.timers.clear()
        is_result = self.cause is not Cause.LOST and how.limit is e.Limit.NONE
        if self.has_files and is_result:
            self.phase = Phase.COLLECTING
            return [*self._free_slot(), e.CollectFiles()]
        return [*self._free_slot(), *self._conclude(now_s)]

    def _keeper_lost(self, reason: str, now_s: float) -> list[Action]:
        """Its slot is free at once: nothing can begin before another keeper is connected."""
        self.cause, self.reason, self.exited_s = Cause.LOST, reason, now_s
        self.timers.clear()
        if self.spec.kind is Kind.QUEUED:
            self.phase = Phase.UNWATCHED
            return [*self._free_slot(), e.AwaitKeeper()]
        return [*self._free_slot(), *self._conclude(now_s)]

    def _conclude(self, now_s: float, complaint: str = "") -> list[Action]:
        """Concludes the command: nothing more will be known of its end."""
        outcome = self._outcome(complaint)
        recorded = [*self._drop_files(), e.Record(outcome)]
        if self.spec.kind is Kind.ATTACHED and self.exit is not None:
            self.phase = Phase.DRAINING
            self.timers[Timer.SHOW_EXIT] = now_s + DRAINED_S
            return [*recorded, e.Drain()]
        return [*recorded, *self._report_end(outcome)]

    def _outcome(self, complaint: str = "") -> Outcome:
        wall_s = self.exited_s - self.process.began_s if self.process is not None else 0.0
        if self.exit is None:
            return lost(self.reason, wall_s)
        return outcome_of(self.spec, self.cause, self.reason, self.exit, wall_s, complaint)

    def _report_end(self, outcome: Outcome) -> list[Action]:
        self.is_reported = True
        return [*self._clear(), e.ReportEnded(outcome)]

    def _refuse(
        self, reason: str, phase: str, number: int = 0, *, try_another: bool = True,
        full: bool = False, wait_s: float = 0.0,
    ) -> list[Action]:  # fmt: skip
        self.is_reported = True
        refused = e.ReportRefused(reason, phase, number, try_another, full, wait_s)
        return [refused, *self._clear()]

    @property
    def _lacking(self) -> str:
        """The phase of a refusal for what the host does not have. The dispatcher, which thought it
        had, asks again after a while."""
        return "not-yet" if self.spec.kind is Kind.QUEUED else "admission"

    def _clear(self) -> list[Action]:
        self.phase = Phase.OVER
        self.timers.clear()
        return [*self._free_slot(), *self._drop_files()]

    def _free_slot(self) -> list[Action]:
        had, self.has_slot = self.has_slot, False
        return [e.FreeSlot()] if had else []

    def _drop_files(self) -> list[Action]:
        had, self.has_files = self.has_files, False
        return [e.DropFiles()] if had else []

    def _resumed(self, now_s: float) -> list[Action]:
        """Continues in a new LBM. Requests that were pending in the last LBM will not be answered
        any more."""
        self.is_treated = False
        match self.phase:
            case Phase.ADMISSION | Phase.SLOT | Phase.FILES | Phase.HELD:
                return self._refuse(RESTARTED, "late")
            case Phase.CALLED_OFF:
                return self._clear()
            case Phase.UNWATCHED:
                return [e.AwaitKeeper()]
            case Phase.COLLECTING:
                self.cause, self.reason = Cause.LOST, RESTARTED
                return self._conclude(now_s)
            case Phase.DRAINING:
                return [e.Drain()]
        return [e.EndTree()] if self.asked is Asked.KILL and self.phase in ALIVE else []


def survivor(job: JobId, held: Belongings, *, is_ending: bool) -> Execution:
    """Returns a command that outlives its LBM, as the next LBM of its host sees it: its end is
    awaited, and then what it holds is freed. `is_ending`: the keeper is ending it already, with a
    grace period; otherwise it is killed."""
    amounts = tuple((one.name, one.amount) for one in held.grant.resources)
    needs = Needs(amounts, counted_bytes=held.grant.memory_bytes)
    spec = Spec(job, Kind.ATTACHED, "", 0.0, (held.width, held.width), needs=needs)
    asked = Asked.END if is_ending else Asked.KILL
    return Execution(
        spec, {}, Phase.SPAWNING, has_slot=True, asked=asked, cause=Cause.LOST, reason=UNKNOWN
    )
