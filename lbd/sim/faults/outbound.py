"""Carries out the journeys of commands that a simulated host's users start."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from lbd.lbm.core import execution_events as x
from lbd.lbm.core import journey_events as e
from lbd.lbm.core.jobs import LocalCap
from lbd.lbm.core.journey import Journey, JourneyPhase
from lbd.lbm.core.journey_events import CommandEnd
from lbd.lbm.core.next_host_after_refusal import NOWHERE, Bounds, Demands
from lbd.model import HostId, JobId
from lbd.sim.faults import messages as m
from lbd.sim.faults.host import PATIENCE_S, Host
from lbd.sim.faults.keeper import GRACE_S
from lbd.sim.faults.saved_state import handed_over

LIM_LIMIT_S = 1.0  # for the LIM's answer
FETCH_S = 0.5
HOLD_LIMIT_S, EVICTED_WAIT_S = 20.0, 20.0
TURNS = 2  # commands that may run here at once because other hosts failed


class OriginWorld(Protocol):
    def ask_lim(
        self, host: HostId, job: JobId, question: e.Question, answer: Callable[[e.Event], None]
    ) -> None:
        """Asks where to run the command. The LIM may never answer."""
        ...

    def started(self, host: HostId, job: JobId, where: HostId) -> None:
        """Tells the LIM, which was not asked, where the command runs."""
        ...

    def discharged(self, host: HostId, job: JobId) -> None: ...

    def slots(self) -> e.Slots: ...

    def reaches(self, host: HostId, to: HostId) -> bool: ...

    def send(self, host: HostId, to: HostId, message: m.BetweenHosts) -> None: ...

    def runs_here(self, host: HostId, job: JobId) -> None: ...

    def finished(self, host: HostId, job: JobId, outcome: CommandEnd) -> None: ...


@dataclass(slots=True)
class Trip:
    """One command."""

    journey: Journey
    user: str
    runs: int = 0  # how often it was sent to a host
    place: HostId = NOWHERE
    is_touched: bool = False  # some output of it has arrived
    asked: int = 0  # number of the latest question; answers to earlier ones are ignored


@dataclass(slots=True)
class State:
    """What a restart hands over."""

    trips: dict[JobId, Trip] = field(default_factory=dict)
    turns: LocalCap = field(default_factory=lambda: LocalCap(TURNS))


def run_id(job: JobId, number: int) -> JobId:
    """Returns a name for one run of a command, which is never used again."""
    return JobId(f"{job}/{number}")


def command_of(run: JobId) -> JobId:
    return JobId(run.partition("/")[0])


class Outbound:
    """`host` provides the time, and says whether its LBM is still the one that asked."""

    def __init__(self, host: Host, world: OriginWorld) -> None:
        self.host, self.world = host, world
        self.state = State()
        self._bounds = Bounds(host.name, HOLD_LIMIT_S, EVICTED_WAIT_S)

    @property
    def trips(self) -> dict[JobId, Trip]:
        return self.state.trips

    def begin(self, job: JobId, demands: Demands, user: str) -> None:
        self.trips[job] = Trip(Journey(demands, self._bounds), user)
        self.handle(job, e.Judged(leaves=True))

    def resume(self) -> None:
        self.state = handed_over(self.state)
        for job, trip in list(self.trips.items()):
            trip.asked += 1
            for action in trip.journey.resumed(self.host.now_s):
                self._perform(job, trip, action)

    def lose(self) -> list[JobId]:
        """The LBM was killed. Returns the commands that end with it: those that ran elsewhere or
        waited. Commands that run here continue by themselves."""
        trips, self.state = self.trips, State()
        return [job for job, trip in trips.items() if trip.journey.phase is not JourneyPhase.HERE]

    def lost_contact(self, other: HostId) -> None:
        for job, trip in list(self.trips.items()):
            if trip.place == other and trip.journey.is_held:
                self.handle(job, e.ContactLost(f"contact with {other} was lost"))

    def hear(self, sender: HostId, message: m.BetweenHosts) -> None:
        """Handles a host's message about one of the runs."""
        assert isinstance(message, m.Report | m.Printed)
        job = command_of(message.job)
        trip = self.trips.get(job)
        if trip is None or run_id(job, trip.runs) != message.job or trip.place != sender:
            return
        if isinstance(message, m.Printed):
            trip.is_touched = True
            return
        match message.action:
            case x.ReportBegun():
                self.handle(job, e.StartedThere())
            case x.ReportRefused(reason, phase, number, _, full):
                self.handle(job, e.Refused(reason, phase, number, fault=not phase, full=full))
            case x.ReportEnded(outcome) if outcome.exit_status is None:
                self.handle(job, e.ContactLost(outcome.reason))
            case x.ReportEnded(outcome):
                status, cause = outcome.exit_status or 0, outcome.cause.value
                ended = e.Ended(status, cause, outcome.reason, untouched=not trip.is_touched)
                self.handle(job, ended)

    def handle(self, job: JobId, event: e.Event) -> None:
        trip = self.trips.get(job)
        if trip is None:
            return
        for action in trip.journey.handle(event, self.host.now_s):
            self._perform(job, trip, action)
        if trip.journey.phase is JourneyPhase.DONE:
            self.trips.pop(job, None)

    def _answer(self, job: JobId, trip: Trip, delay_s: float, event: e.Event) -> None:
        number = trip.asked

        def answered() -> None:
            if trip.asked == number and self.trips.get(job) is trip:
                self.handle(job, event)

        self.host.later(delay_s, answered)

    def _perform(self, job: JobId, trip: Trip, action: e.Action) -> None:
        name, world = self.host.name, self.world
        match action:
            case e.Look(_, wanted):
                known = wanted if wanted and self.host.world.rng.random() < 0.5 else ""
                self._answer(job, trip, 0.0, e.Looked(address=known))
            case e.AskSlots():
                self._answer(job, trip, 0.001, e.SlotsKnown(world.slots()))
            case e.AskLim(question):
                self._ask_lim(job, trip, question)
            case e.WaitForRoom(limit_s):
                self._answer(job, trip, limit_s, e.Waited())
            case e.TakeTurn():
                self._answer(job, trip, 0.0, e.TurnTaken(self.state.turns.take(job, 0)))
            case e.GiveTurnBack():
                self.state.turns.release(job)
            case e.Start(where):
                self._start(job, trip, where)
            case e.BeginAgain():
                trip.is_touched = False
            case e.Fetch():
                self._answer(job, trip, FETCH_S, e.Fetched())
            case e.Forward(number):
                world.send(name, trip.place, m.SendSignal(run_id(job, trip.runs), number))
            case e.LetGo(where, number):
                world.send(name, where, m.LetGo(run_id(job, trip.runs), number))
            case e.RunHere():
                world.runs_here(name, job)
            case e.Finish(outcome):
                world.finished(name, job, outcome)
            case e.Charge(question) if question.wanted is not None:
                world.started(name, job, question.wanted)
            case e.Discharge():
                world.discharged(name, job)
            case _:
                pass

    def _ask_lim(self, job: JobId, trip: Trip, question: e.Question) -> None:
        trip.asked += 1
        number = trip.asked

        def answered(event: e.Event) -> None:
            if self.trips.get(job) is trip and trip.asked == number:
                trip.asked += 1
                self.handle(job, event)

        self._answer(job, trip, LIM_LIMIT_S, e.LimSilent("no answer"))
        self.world.ask_lim(
            self.host.name, job, question,
            lambda event: self.host.later(0.0, lambda: answered(event)),
        )  # fmt: skip

    def _start(self, job: JobId, trip: Trip, where: HostId) -> None:
        trip.runs += 1
        trip.place = where
        demands, name = trip.journey.demands, self.host.name
        if not self.world.reaches(name, where):
            silent = e.Refused(f"{where} cannot be reached", fault=True)
            return self._answer(job, trip, 0.1, silent)
        spec = x.Spec(
            run_id(job, trip.runs), x.Kind.ATTACHED, trip.user, GRACE_S, demands.slots,
            slot_patience_s=PATIENCE_S if demands.mode == "host" else None,
            timeout_s=demands.timeout_s, brings_files=demands.is_staged,
            is_evictable=demands.may_restart and not demands.is_staged, needs=demands.needs,
        )  # fmt: skip
        self.handle(job, e.Sent())
        self.world.send(name, where, m.StartCommand(spec))
