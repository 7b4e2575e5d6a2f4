"""Performs the actions of an Execution that attached and queued commands have in common."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine

from lbd.errors import LbdError
from lbd.keeper import protocol as keeper
from lbd.keeper import suspension
from lbd.keeper.limits.time_limits import limit_frame
from lbd.keeper.local_account import Admit, Refuse
from lbd.keeper.spawn_order import Order
from lbd.keeper.stdin_watch import command_of
from lbd.lbm.core import execution_events as e
from lbd.lbm.core.execution import ALIVE, Execution, Phase
from lbd.lbm.core.execution_events import Cause, Treatment, recorded
from lbd.lbm.core.slots import Belongings, pack_belongings
from lbd.lbm.handover.records import Running
from lbd.lbm.inbound.context import InboundContext
from lbd.lbm.inbound.executions import ALL, Signals
from lbd.lbm.inbound.refusal_text import explain_here, phase_of
from lbd.lbm.inbound.request import at_all_hours
from lbd.lbm.keeper_link import Forked, ProcessExit, Spawned, SpawnFailed
from lbd.lbm.link.nonblocking_fd import settle
from lbd.lbm.without_keeper import kill_directly
from lbd.model import HostId, JobId, JobState, Needs
from lbd.net.gen import lbm_pb2
from lbd.process.job_log import JobLog

job_log = JobLog(logging.getLogger("lbd.lbm"))

KEEPER_POLL_S = 0.1
FAULT = "an internal error in its LBM; see its log"
LIMITS = {limit.value: limit for limit in e.Limit}
TREATMENTS = {
    Treatment.NONE: suspension.AS_EVER,
    Treatment.NICE: suspension.NICE_LOWEST,
    Treatment.STILL: suspension.STAND_STILL,
    Treatment.GO: suspension.STAND_STILL,
}
Step = Coroutine[object, object, None]


class Steps:
    """The steps that one command awaits, one after the other, in one task. A task for each step
    would cost a short command more than the steps themselves."""

    def __init__(self) -> None:
        self._ahead: deque[Step] = deque()
        self._next: asyncio.Future[None] | None = None
        self.are_over = False  # no more will come

    def add(self, step: Step) -> None:
        self._ahead.append(step)
        self._wake()

    def end(self) -> None:
        self.are_over = True
        self._wake()

    def _wake(self) -> None:
        if self._next is not None:
            settle(self._next)

    async def take(self) -> None:
        """Takes each step as it comes, until they are over."""
        while self._ahead or not self.are_over:
            if self._ahead:
                await self._ahead.popleft()
            else:
                self._next = asyncio.get_running_loop().create_future()
                await self._next

    def left(self) -> list[Step]:
        """Returns the steps left when `take` was cancelled."""
        left = list(self._ahead)
        self._ahead.clear()
        return left


class Performer:
    """Feeds one Execution, and performs the common actions; a subclass does the rest."""

    id: JobId
    request: lbm_pb2.RunRequest
    execution: Execution
    shown, which = "", ""  # the job's id if `id` is not it, and which attempt: "attempt 2, "

    def __init__(self, host: InboundContext, clock: Callable[[], float]) -> None:
        self.host = host
        self.clock = clock  # for the times in its Execution
        self.admitted = Admit(None)
        self.spawned: Spawned | None = None
        self._keeper_pid = 0
        self._ordered_s = 0.0  # when the keeper was asked; a short one's begin is heard at its end
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_s: float | None = None
        self._signals = Signals()
        self.files_s = 0.0  # how long its files took to transfer

    @property
    def is_untouched(self) -> bool:
        """Whether it has neither read nor written: then another could take its place unnoticed."""
        return False

    @property
    def has_terminal(self) -> bool:
        return False

    @property
    def is_movable(self) -> bool:
        return self.is_untouched and (self.execution.spec.is_evictable or bool(self.gang_hosts))

    @property
    def is_running(self) -> bool:
        return self.execution.phase in (Phase.RUNNING, Phase.ENDING)

    @property
    def moving_cost_s(self) -> float:
        """Moving repeats everything, including the transfer of its files."""
        return self.execution.ran_s(self.clock()) + self.files_s

    @property
    def gang_hosts(self) -> tuple[HostId, ...]:
        return ()

    @property
    def slots(self) -> int:
        return self.host.slots.widths.get(self.id, 1)

    @property
    def needs(self) -> Needs:
        return self.execution.spec.needs

    @property
    def is_over(self) -> bool:
        return self.execution.phase is Phase.OVER

    @property
    def is_busy(self) -> bool:
        return self.execution.phase is Phase.SPAWNING and self.spawned is None

    def feed(self, event: e.Event) -> None:
        self.host.executions.feed(self, event)

    def handle(self, event: e.Event) -> None:
        """Called by `Executions`, in order."""
        for action in stepped(self, event):
            try:
                self.perform(action)
            except Exception as fault:  # a slot is freed whatever else fails
                job_log.error(named(self), "could not perform %r", action, problem=fault)
        if (at_s := self.execution.alarm_s) != self._timer_at_s:
            self._set_timer(at_s)

    def owner_wants(self, wanted: Treatment, reason: str = "") -> None:
        self.feed(e.OwnerWants(wanted, self.is_untouched, reason))

    # From one LBM to the next

    def running(self) -> Running:
        """Returns its current state."""
        job, grant = self.host.jobs.running.get(self.id), self.host.slots.pool.grant_of(self.id)
        return Running(self.execution, job, self.slots, grant)

    def take_up(self, left: Running) -> None:
        """Takes up a command that an earlier LBM has spawned. `Resumed` must be fed after this."""
        host, execution = self.host, left.execution
        self.execution = execution
        if left.job is not None:
            host.jobs.add(left.job)
        if execution.has_slot:
            host.slots.hold(self.id, execution.spec.user, left.width, left.grant)
        host.executions.add(self)
        if execution.phase not in ALIVE:
            return
        process = execution.process
        begun = Forked(process.pid, process.group) if process is not None else None
        self._follow(host.link.adopt(self.id, self.stopped, begun))
        if begun is not None:
            self.show_begun()

    def _set_timer(self, at_s: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at_s = None, at_s
        if at_s is not None:
            left_s = max(0.0, at_s - self.clock())
            self._timer = asyncio.get_running_loop().call_later(left_s, self._tick)

    def _tick(self) -> None:
        self._timer = self._timer_at_s = None
        self.feed(e.Tick())

    # Actions

    async def admit(self) -> e.Event:
        """Asks the owner's rules."""
        host, request = self.host, self.request
        found = await host.admit(request.user, request.uid, request.origin)
        if isinstance(found, Refuse):
            found = await at_all_hours(host.link, request, found, host.rules.config, self.id)
            return e.Denied(found.reason, host.phase_of(found), found.try_another, found.wait_s)
        self.admitted = found
        return e.Admitted()

    def perform(self, action: e.Action) -> None:
        executions, link = self.host.executions, self.host.link
        match action:
            case e.AskSlot():
                self.feed(executions.line.ask(self.execution.spec))
                self.host.changed()
            case e.FreeSlot():
                executions.free(self.id)
                self.host.changed()
            case e.Record():
                outcome, mine = action.outcome, self.execution
                state, note = recorded(mine.spec, outcome, mine.stop_reason, mine.must_end)
                what = self.which, outcome.state, outcome.exit_status, note
                job_log.debug_later(named(self), words_of_end, what)
                seen = outcome.exit_status, outcome.cpu_s, note, outcome.wall_s
                self.host.jobs.end(self.id, state, time.time(), *seen)
                self.host.job_ended(self.id, outcome.cpu_s or 0.0)
            case e.ExceedSlots():
                self.feed(executions.line.exceed(self.id))
            case e.Signal():
                self._say_signal(action.number)
            case e.EndTree():
                self._say_signal(ALL)
            case e.LimitLease():
                cutoff_s = self.execution.spec.cutoff_s
                self._order(link.say(limit_frame(self.id, self.clock() + action.lease_s, cutoff_s)))
            case e.KillDirectly() if self.spawned is not None:
                self.answer(kill_directly(self.spawned, named(self)))
            case e.AwaitKeeper():
                self.answer(self._await_keeper())
            case e.Treat():
                self._order(link.send(keeper.TREAT, self.id, TREATMENTS[action.treatment]))
                self.show_state("" if self.execution.is_still else self.host.rules.owner)
            case e.ReportStill():
                self.show_state(action.reason)

    def show_begun(self) -> int:
        """Notifies the LIM and the owner's watch. Returns the pid that its user sees."""
        process = self.execution.process
        assert process is not None
        pid = command_of(process.pid, process.group) if self.has_terminal else process.pid
        self.host.job_began(self.id, pid, process.group)
        return pid

    def show_state(self, reason: str | None = None) -> None:
        """Shows its state in `lbctl jobs`."""
        if (job := self.host.jobs.running.get(self.id)) is not None:
            job.state = self.execution.job_state
            job.reason = job.reason if reason is None else reason

    def _say_signal(self, number: int) -> None:
        if self._signals.add(number):
            self._order(self._signals.send(self.host.link, self.id))

    def _order(self, sending: Step) -> None:
        start_among(self.host.executions.orders, sending, f"order for {self.id}")

    def answer(
        self, work: Coroutine[object, object, e.Event | None], failed: e.Event | None = None
    ) -> None:
        """Feeds the event that `work` returns; `failed` if it raises an unexpected error."""
        self.go_on_with(self._answer(work, failed))

    async def _answer(
        self, work: Coroutine[object, object, e.Event | None], failed: e.Event | None
    ) -> None:
        event = failed
        try:
            event = await work
        except Exception as problem:
            job_log.error(named(self), "its needs cannot be met", problem=problem)
        finally:  # also if it is cancelled
            if event is not None:
                self.feed(event)

    def go_on_with(self, step: Step) -> None:
        """Runs a step in a task of its own."""
        start_among(self.host.executions.tasks, step, f"work for {self.id}")

    # The keeper

    async def spawn(self, order: Order, descriptors: list[int], limit: bytes = b"") -> None:
        """Raises Unavailable, OSError; then nothing runs."""
        grant = self.host.slots.pool.grant_of(self.id)
        if grant or self.slots > 1:
            order.belongings = pack_belongings(Belongings(self.slots, grant))
        self._ordered_s = self.clock()
        self._follow(await self.host.link.spawn(order, descriptors, self.stopped, limit))

    def _follow(self, spawned: Spawned) -> None:
        self.spawned, self._keeper_pid = spawned, self.host.link.pid
        if self.execution.process is None:
            spawned.begun.add_done_callback(self._begun)
        if self.execution.exit is None:
            spawned.exited.add_done_callback(self._exited)

    def _begun(self, begun: "asyncio.Future[Forked]") -> None:
        if begun.cancelled():
            return
        if (trouble := begun.exception()) is None:
            leader, began_s = begun.result(), self._ordered_s or self.clock()
            self.feed(e.Started(e.Process(leader.pid, leader.group, began_s)))
        elif isinstance(trouble, SpawnFailed):
            reason = explain_here(self.request, trouble, self.host.rules.config)
            self.spawned = None
            self.feed(e.NotStarted(reason, phase_of(trouble.phase), trouble.number))

    def _exited(self, exited: "asyncio.Future[ProcessExit]") -> None:
        if exited.cancelled() or isinstance(trouble := exited.exception(), SpawnFailed):
            return
        if trouble is None:
            self.feed(e.Exited(exit_of(exited.result())))
        else:
            self.feed(e.KeeperLost(str(trouble)))

    def stopped(self, stopped: bool) -> None:
        self.feed(e.Stopped(stopped))
        self.show_state()

    async def _await_keeper(self) -> e.Event:
        """A new keeper ends what the last one left before it sends its hello, with its pid."""
        while self.host.link.pid in (0, self._keeper_pid):  # noqa: ASYNC110
            await asyncio.sleep(KEEPER_POLL_S)
        return e.KeeperReady()


def is_admitted_at_once(live: Performer) -> bool:
    """Asks the owner's rules. Returns False if `admit` must do that."""
    request = live.request
    try:
        found = live.host.admit_at_once(request.user, request.uid, request.origin)
    except Exception:  # `admit` meets it again, and the command is refused for it
        return False
    if found is not None:
        live.admitted = found
        live.feed(e.Admitted())
    return found is not None


def named(live: Performer) -> str:
    return live.shown or live.id


def stepped(live: Performer, event: e.Event) -> list[e.Action]:
    """Returns the actions for an event; logs a line if it has led to another phase."""
    execution = live.execution
    before, treated, cause = execution.phase, execution.treatment, execution.cause
    actions = execution.handle(event, live.clock())
    if execution.phase is not before:
        job_log.step(named(live), event, before, execution.phase, live.which)
    if execution.cause is not cause and execution.cause is Cause.EVICTED:
        job_log.news(named(live), "%sended for the owner: %s", live.which, execution.reason)
    elif execution.treatment is not treated and execution.is_still != treated.is_still:
        now = f"suspended: {execution.still_reason}" if execution.is_still else "goes on"
        job_log.news(named(live), "%s%s", live.which, now)
    return actions


def words_of_end(what: tuple[str, JobState, int | None, str]) -> str:
    which, state, exit_status, note = what
    status = "" if exit_status is None else f", exit {exit_status}"
    return f"{which}{state.value}{status}{f': {note}' if note else ''}"


def exit_of(ended: ProcessExit) -> e.Exit:
    return e.Exit(
        ended.status,
        ended.signal,
        ended.user_cpu_s,
        ended.system_cpu_s,
        ended.max_rss_bytes,
        ended.out_of_memory,
        LIMITS.get(ended.over, e.Limit.NONE),
        ended.heard_signals,
    )


def not_started(trouble: LbdError | OSError, phase: str) -> e.NotStarted:
    """Nothing has run. `phase`: used unless the keeper is away. The reason names no file: it is for
    the job's user, and the file is one of the daemons'."""
    if isinstance(trouble, SpawnFailed):
        return e.NotStarted(str(trouble), trouble.phase, trouble.number)
    if isinstance(trouble, LbdError):
        return e.NotStarted(str(trouble), "keeper")
    return e.NotStarted(f"{phase}: {trouble.strerror}", phase, trouble.errno or 0)


def start_among(tasks: set[asyncio.Task[None]], work: Step, name: str) -> None:
    """Runs work in a task that is in `tasks` until it ends."""
    task = asyncio.create_task(work, name=name)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
