"""One simulated host: the deciding code of its LBM, and a simulated keeper.

`LbmState` is all that the LBM knows of what runs here, and what a restart hands over. The host
carries out the executions' actions. An answer arrives as an event, in the order in which things
happened, and is lost if the LBM that asked is gone.

One file because its LBM, its keeper and its connection act on each other in every event.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from lbd.dispatch.core.discipline import HostSlots
from lbd.dispatch.core.records import Cause, Ending
from lbd.lbm.core import execution_events as e
from lbd.lbm.core.execution import Execution, Phase, survivor
from lbd.lbm.core.execution_events import Treatment
from lbd.lbm.core.kept_free import KeptFree
from lbd.lbm.core.leases import Leases
from lbd.lbm.core.slots import (
    Belongings,
    Grant,
    ResourcePool,
    SlotLine,
    Slots,
    pack_belongings,
    read_belongings,
)
from lbd.model import GANG_MOVES, HostId, JobId
from lbd.sim.faults import keeper as keepers
from lbd.sim.faults import messages as m
from lbd.sim.faults.keeper import GRACE_S
from lbd.sim.faults.saved_state import handed_over

PATIENCE_S = 3.0  # how long to wait for a slot
FILES_S, MANY_FILES_S = 0.5, 10.0  # maximum time until files are there
BRINGS_FILES, MANY_FILES = 0.3, 0.3  # share of attempts with files, and of those with many
NO_FILES = 0.05  # share of commands whose files cannot be fetched
AHEAD = 2  # attempts it may be sent before a slot is free
TIERS = (1, 2, 3)
CAUSES = {
    ours: theirs for ours in e.Cause for theirs in Cause if ours.value == theirs.value
}  # maps an execution's causes to the dispatcher's


Reported = e.ReportReady | e.ReportBegun | e.ReportRefused | e.ReportEnded
GPUS = 2  # per host
REFUSED_GANGS = 0.5  # share of a gang's tasks that a host refuses that begins nothing


class Scene(keepers.World, Protocol):
    def slot_asked(self, host: HostId, job: JobId) -> None: ...

    def slot_freed(self, host: HostId, job: JobId) -> None: ...

    def evicted(self, host: HostId, key: m.Key) -> None:
        """An attempt was evicted because the owner is back."""
        ...

    def is_ready(self, key: m.Key) -> None:
        """An attempt of a gang has all it needs and is held."""
        ...

    def reports(self, host: HostId, job: JobId, action: e.Action) -> None:
        """Reports on an attached command to its user's host."""
        ...


@dataclass(slots=True)
class LbmState:
    line: SlotLine
    leases: Leases = field(default_factory=Leases)
    executions: dict[JobId, Execution] = field(default_factory=dict)  # not settled, or not finished
    ends: dict[m.Key, m.AttemptEnded | m.AttemptRefused] = field(default_factory=dict)
    gang_hosts: dict[JobId, tuple[HostId, ...]] = field(default_factory=dict)  # by attempt
    # of the previous LBM: nothing is reported about them
    survivors: set[JobId] = field(default_factory=set)
    owner_back: str = ""  # reason for starting nothing new while the owner is here; "" otherwise


@dataclass(slots=True)
class Settings:
    slots: int = 2
    max_waiting: int = 4  # attached commands waiting for a slot
    stubborn: float = keepers.STUBBORN
    keeper_grace_s: float = GRACE_S


def spec_of(start: m.StartAttempt, rng: Random) -> e.Spec:
    return e.Spec(
        m.attempt_id(start.key), e.Kind.QUEUED, start.user, GRACE_S, (start.slots, start.slots),
        slot_patience_s=PATIENCE_S, cutoff_s=start.cutoff_s or 0.0,
        takes_checkpoints=not start.gang_hosts, brings_files=rng.random() < BRINGS_FILES,
        is_of_gang=bool(start.gang_hosts), is_evictable=start.movable, needs=start.needs,
    )  # fmt: skip


class Host:
    """A host whose clock runs at `pace` times the true speed.

    One class because its parts are lost, stopped and handed over together.
    """

    def __init__(self, name: HostId, world: Scene, settings: Settings, pace: float = 1.0) -> None:
        self.name, self.world, self.settings, self.pace = name, world, settings, pace
        self.keepers = 0  # so far: the number of the present one
        self.keeper = self._new_keeper()
        self.lbm = self._new_lbm()
        self.grants: dict[JobId, Grant] = {}  # of every started command, including ended ones
        self.lbm_number = 1  # answers to an earlier LBM are lost
        self.up: deque[m.Upward] = deque()  # messages to the dispatcher in transit
        self.connected = False
        self.is_paused = False
        self.begins_nothing = False  # somebody else plays its LBM
        self.hoard: set[m.Key] = set()  # attempts that it then says it holds
        self._postponed: list[Callable[[], None]] = []  # what was due during the pause
        self._events: deque[tuple[JobId, e.Event]] = deque()

    def _new_lbm(self) -> LbmState:
        slots = Slots(self.settings.slots, beyond=0, max_waiting=self.settings.max_waiting)
        slots.pool = ResourcePool(("linux",), {"gpu": GPUS})
        slots.kept_free = KeptFree(PATIENCE_S)
        return LbmState(SlotLine(slots))

    def _new_keeper(self) -> keepers.Keeper:
        of = self.settings
        self.keepers += 1
        return keepers.Keeper(
            self.name, self.world, self.handle, stubborn=of.stubborn, grace_s=of.keeper_grace_s
        )

    @property
    def now_s(self) -> float:
        return self.world.now_s * self.pace

    @property
    def executions(self) -> dict[JobId, Execution]:
        return self.lbm.executions

    # Restarts

    def pause(self) -> None:
        """The LBM is stopped, or has left and its successor has not started."""
        self.is_paused, self.keeper.has_lbm = True, False

    def go_on(self) -> None:
        self.is_paused = False
        postponed, self._postponed = self._postponed, []
        for body in postponed:
            body()
        self.keeper.connect()

    def resume(self) -> None:
        """Starts another LBM with the last one's state, which the keeper has held meanwhile."""
        if self.keeper.is_dead:
            return self.start_afresh()
        self.lbm = handed_over(self.lbm)
        self.lbm_number += 1
        self.is_paused = False
        self._postponed.clear()
        for job in list(self.executions):
            self.handle(job, e.Resumed())
            self.wake(job)
        self.keeper.connect()

    def lose_lbm(self) -> None:
        """Kills the LBM; its keeper ends what that LBM had started."""
        self.lbm = self._new_lbm()
        self.lbm_number += 1
        self.pause()
        self._postponed.clear()
        self.connected = False
        self.up.clear()
        self.keeper.lose_lbm()

    def start_afresh(self) -> None:
        """Starts an LBM without saved state, once its keeper is ready."""
        if self.keeper.is_dead:
            self.keeper.end_all()
            self.lose_lbm()
            self.keeper = self._new_keeper()
            self.is_paused = False
        else:
            self.keeper.order(self._see_out)

    def _see_out(self) -> None:
        """What the keeper still runs is ending, and holds its slots and resources until then."""
        for job, tree in self.keeper.alive.items():
            held = read_belongings(tree.belongings)
            self.executions[job] = survivor(job, held, is_ending=True)
            self.lbm.line.slots.hold(job, "", held.width, held.grant)
            self.lbm.survivors.add(job)
            self.world.slot_asked(self.name, job)
        self.go_on()

    def lose_keeper(self) -> None:
        """Kills the keeper; what it ran ends with it."""
        if not self.keeper.is_dead:
            self.keeper.die()
            self.later(0.0, self._notice_death)

    def _notice_death(self) -> None:
        if self.keeper.is_dead:
            for job in list(self.executions):
                self.handle(job, e.KeeperLost("its keeper was killed"))
            self.later(self.world.rng.uniform(0.1, 1.0), self._replace_keeper)

    def _replace_keeper(self) -> None:
        """Replaces the keeper, which ends everything left before it takes orders."""
        if not self.keeper.is_dead:
            return
        self.keeper.end_all()
        self.keeper = self._new_keeper()
        for job in list(self.executions):
            self.handle(job, e.KeeperReady())

    # The dispatcher

    @property
    def keeper_claim(self) -> str:
        keeper = self.keeper
        known = keeper.has_lbm and not (keeper.is_dead or keeper.is_paused or keeper.orders)
        held = {m.attempt_id((job, attempt)) for job, attempt, _ in held_by(self.lbm)}
        others = [j for j, tree in keeper.alive.items() if tree.is_queued and j not in held]
        return f"{self.name}/{self.keepers}" if known and not others else ""

    def heartbeat(self) -> None:
        number = self.lbm.leases.heartbeat(self.now_s)
        self._pass_to_now()
        held, offer = held_by(self.lbm), offer_of(self)
        held += tuple((*key, "") for key in sorted(self.hoard))
        keys = [(job, attempt) for job, attempt, _ in held]
        left_s = {key: self.lbm.leases.left_s(key, self.now_s) for key in keys}
        self.say(m.Heartbeat(number, held, offer, self.keeper_claim, self.now_s, left_s))

    def owner_is(self, back: str) -> None:
        self.lbm.owner_back = back
        if self.connected and not self.is_paused:
            self.heartbeat()

    def say(self, message: m.Upward) -> None:
        if self.connected:
            self.up.append(message)

    def reconnected(self) -> None:
        """Repeats all messages, because it is unknown which of them arrived."""
        self.connected = True
        self.up.clear()
        self.heartbeat()
        for job, execution in self.executions.items():
            if execution.phase is Phase.HELD:
                self.say(m.AttemptReady(m.key_of(job)))
            if execution.spec.kind is e.Kind.QUEUED and execution.process is not None:
                self.say(m.AttemptBegun(m.key_of(job)))
                self.say(stopped_by_owner(execution))
        self.up.extend(self.lbm.ends.values())

    def hear(self, message: m.Downward) -> None:
        lbm = self.lbm
        match message:
            case m.StartAttempt():
                self._start_attempt(message)
            case m.LeasesRenewed(number, lease_s, keys):
                lbm.leases.renew(number, keys, lease_s, self.now_s)
                for key in keys:
                    if key in lbm.leases.until_s:
                        self.handle(m.attempt_id(key), e.Renewed(lbm.leases.until_s[key]))
            case m.ReleaseAttempt(key):
                self.handle(m.attempt_id(key), e.Released())
            case m.EndAttempt(key, number, stop_reason):
                self.handle(m.attempt_id(key), e.EndWanted(number, stop_reason))
            case m.ForgetAttempt(key):
                if lbm.ends.pop(key, None) is not None:
                    self._forget_if_over(m.attempt_id(key))

    def _start_attempt(self, start: m.StartAttempt) -> None:
        key, job, leases = start.key, m.attempt_id(start.key), self.lbm.leases
        if job in self.executions:
            return
        if self.begins_nothing:
            return self._hoard(start)
        until_s = leases.take(key, start.anchor, start.lease_s, self.now_s)
        if until_s is None:
            return self.say(m.AttemptRefused(key, "late", Ending(Cause.LOST, reason="late")))
        spec, self.lbm.gang_hosts[job] = spec_of(start, self.world.rng), start.gang_hosts
        self.executions[job] = Execution.leased(spec, until_s)
        self.handle(job, admission_to(self, "drained"))

    def _hoard(self, start: m.StartAttempt) -> None:
        """Takes it and does nothing, or refuses a gang for now."""
        if start.gang_hosts and self.world.rng.random() < REFUSED_GANGS:
            refused = Ending(Cause.LOST, reason="not now")
            return self.say(m.AttemptRefused(start.key, "not-yet", refused))
        self.hoard.add(start.key)

    def is_honest_again(self) -> None:
        self.begins_nothing = False
        self.hoard.clear()

    # Commands of users on other hosts

    def start_attached(self, spec: e.Spec) -> None:
        if spec.id not in self.executions:
            self.executions[spec.id] = Execution(spec)
            self.handle(spec.id, admission_to(self, "admission"))

    # Actions of executions

    def handle(self, job: JobId, event: e.Event) -> None:
        """Handles an event and all that follow from it, in order."""
        self._events.append((job, event))
        if len(self._events) > 1:
            return
        while self._events:
            job, event = self._events[0]
            if job in self.executions:
                self._step(job, event)
            self._events.popleft()

    def _step(self, job: JobId, event: e.Event) -> None:
        execution = self.executions[job]
        before_s = execution.wake_at_s
        for action in execution.handle(event, self.now_s):
            self._perform(job, execution.spec, action)
        if execution.wake_at_s is not None and execution.wake_at_s != before_s:
            self.wake(job)
        self._forget_if_over(job)

    def wake(self, job: JobId) -> None:
        """Schedules the Tick that an execution asks for."""
        execution = self.executions.get(job)
        if execution is not None and (at_s := execution.wake_at_s) is not None:
            left_s = (at_s - self.now_s) / self.pace
            self.later(max(left_s, 0.0) + 1e-6, lambda: self._tick(job))

    def _tick(self, job: JobId) -> None:
        execution = self.executions.get(job)
        if execution is not None and execution.wake_at_s is not None:
            if execution.wake_at_s <= self.now_s:
                self.handle(job, e.Tick())
            else:
                self.wake(job)

    def _forget_if_over(self, job: JobId) -> None:
        execution = self.executions.get(job)
        if execution is None or execution.phase is not Phase.OVER:
            return
        if execution.spec.kind is e.Kind.ATTACHED or m.key_of(job) not in self.lbm.ends:
            del self.executions[job]

    def later(self, delay_s: float, body: Callable[[], None]) -> None:
        """Calls `body` later, unless another LBM has started by then."""
        number = self.lbm_number

        def still_wanted() -> None:
            if number == self.lbm_number:
                self._postponed.append(body) if self.is_paused else body()

        self.world.at(delay_s, still_wanted)

    def _perform(self, job: JobId, spec: e.Spec, action: e.Action) -> None:
        match action:
            case e.AskSlot():
                self.world.slot_asked(self.name, job)
                self.handle(job, self.lbm.line.ask(spec))
                self._pass_to_now()
            case e.ExceedSlots():
                self.handle(job, self.lbm.line.exceed(job))
            case e.FreeSlot():
                self._free_slot(job)
            case e.PrepareFiles():
                failed = self.world.rng.random() < NO_FILES
                ready = e.FilesFailed("no room", "files") if failed else e.FilesReady()
                are_many = self.world.rng.random() < MANY_FILES
                self._answer(job, MANY_FILES_S if are_many else FILES_S, ready)
            case e.CollectFiles():
                self._answer(job, FILES_S, e.FilesCollected())
            case e.Drain():
                self._answer(job, FILES_S, e.OutputsDrained())
            case e.AwaitKeeper() if not self.keeper.is_dead:
                self._answer(job, 0.0, e.KeeperReady())
            case e.ReportStill() if spec.kind is e.Kind.QUEUED:
                self.say(stopped_by_owner(self.executions[job]))
            case _ if isinstance(action, Reported):
                self._report(job, spec, action)
            case _:
                self._order_keeper(job, spec, action)

    def _answer(self, job: JobId, limit_s: float, event: e.Event) -> None:
        self.later(self.world.rng.uniform(0.0, limit_s), lambda: self.handle(job, event))

    def _order_keeper(self, job: JobId, spec: e.Spec, action: e.Action) -> None:
        keeper = self.keeper
        match action:
            case e.Spawn() if keeper.is_dead:
                self.handle(job, e.NotStarted("its keeper is being replaced", "keeper"))
            case e.Spawn(lease_s):
                self.grants[job] = self.lbm.line.slots.pool.grant_of(job)
                until_s = None if lease_s is None else self.world.now_s + lease_s
                width = self.lbm.line.slots.widths.get(job, 1)
                belongings = pack_belongings(Belongings(width, self.grants[job]))
                keeper.order(lambda: keeper.spawn(spec, until_s, belongings))
            case e.LimitLease(lease_s):
                until_s = self.world.now_s + lease_s
                keeper.order(lambda: keeper.limit(job, until_s))
            case e.Signal(number):
                keeper.order(lambda: keeper.signal(job, number))
            case e.EndTree():
                keeper.order(lambda: keeper.kill(job))
            case e.KillDirectly():
                keeper.kill_directly(job)
            case e.Treat(treatment):
                keeper.order(lambda: keeper.treat(job, treatment))
            case _:
                pass

    def _pass_to_now(self) -> None:
        for job in [*self.lbm.line.slots.pass_to(self.now_s), *self.lbm.line.give()]:
            self.handle(job, e.SlotGranted())

    def _free_slot(self, job: JobId) -> None:
        self.world.slot_freed(self.name, job)
        for other in [*self.lbm.line.free(job), *self.lbm.line.give()]:
            self.handle(other, e.SlotGranted())
        self._pass_to_now()

    def _report(self, job: JobId, spec: e.Spec, action: Reported) -> None:
        if job in self.lbm.survivors:
            return
        if spec.kind is e.Kind.ATTACHED:
            return self.world.reports(self.name, job, action)
        key = m.key_of(job)
        match action:
            case e.ReportReady():
                self.world.is_ready(key)
                return self.say(m.AttemptReady(key))
            case e.ReportBegun():
                return self.say(m.AttemptBegun(key))
            case e.ReportRefused(reason, phase, number):
                ending = Ending(Cause.LOST, number or None, reason=reason)
                self._report_end(key, m.AttemptRefused(key, phase, ending))
            case e.ReportEnded(outcome):
                if outcome.cause is e.Cause.EVICTED:
                    self.world.evicted(self.name, key)
                ending = Ending(
                    CAUSES.get(outcome.cause, Cause.SIGNALLED), outcome.exit_status,
                    outcome.signal, outcome.cpu_s, outcome.reason,
                    self.executions[job].stop_reason,
                )  # fmt: skip
                self._report_end(key, m.AttemptEnded(key, ending))

    def _report_end(self, key: m.Key, end: m.AttemptEnded | m.AttemptRefused) -> None:
        self.lbm.leases.drop(key)
        self.lbm.ends[key] = end
        self.say(end)


def held_by(lbm: LbmState) -> tuple[tuple[JobId, int, str], ...]:
    return tuple(
        (*m.key_of(job), execution.stop_reason)
        for job, execution in lbm.executions.items()
        if execution.spec.kind is e.Kind.QUEUED
    )


def offer_of(host: Host) -> HostSlots:
    slots = host.lbm.line.slots
    others = sum(
        slots.widths.get(job, 1)
        for job in slots.holders
        if host.executions[job].spec.kind is e.Kind.ATTACHED
    )
    open_slots = max(0, slots.total - others)
    closed = host.lbm.owner_back
    executions = host.executions.items()
    attempts = {job for job, one in executions if one.spec.kind is e.Kind.QUEUED}
    facts = slots.pool.facts(besides=attempts)
    hog, beside_hog = slots.room_beside_hog(attempts)
    return HostSlots(
        host.name, slots.total, open_slots, tiers=TIERS, ahead=AHEAD, closed=closed, facts=facts,
        hog=hog, beside_hog=beside_hog,
    )  # fmt: skip


def room_of(host: Host) -> int:
    """Returns the number of free slots."""
    slots = host.lbm.line.slots
    return max(0, slots.total - slots.used)


def admission_to(host: Host, phase: str) -> e.Event:
    return e.Denied(host.lbm.owner_back, phase) if host.lbm.owner_back else e.Admitted()


def stopped_by_owner(execution: Execution) -> m.AttemptStopped:
    key, treatment = m.key_of(execution.spec.id), execution.treatment
    wanted = GANG_MOVES if execution.spec.is_of_gang and treatment is Treatment.GO else ""
    return m.AttemptStopped(key, execution.is_still, execution.still_reason, wanted)
