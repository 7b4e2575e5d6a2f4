"""A user's command on its way out, and what is guaranteed whatever hosts and messages do.

             ┌───────── refused: full, unable, unwilling, moved ───┐
             ▼                                                     │
    new ─▶ asking ─▶ connecting ──────────── sent ──────────▶ starting ─▶ running ─▶ fetching
      │     │  ▲ ▲                                                 evicted │   │       │
      │     │  │ └─ evicted: waits for a host that takes it ◀──────────────┘   ▼       │
      │     ▼  └─── waiting for room                                         done ◀────┘
      └───▶ here, once it has its turn if others failed ───── ended here ──────▲

1. It ends once for its caller: by one `Finish`, `RunHere` or `Away`, unless the caller has gone
   before. Then only accounting follows, and nothing after `done`.
2. It is on one host at a time: what one `Start` has begun has ended, or was let go, before the next
   one.
3. Once it may have begun it is never started again: lost contact is its end. The exception is a
   command that the far host has ended because its owner is back. It starts again elsewhere if it
   has neither read nor written, as seen from this host: then nobody can tell the difference. Its
   caller has given its descriptors away by then, so the command cannot run here any more, and waits
   for another host at most `evicted_wait_s`.
4. The charge that the LIM holds for it, because the LIM picked the place or was notified of it, is
   discharged exactly once.
5. It tries MAX_TRIES hosts at most, and no host again that has refused it; then it runs here. A
   command that may not run here waits for room, at most `hold_limit_s` in total, however often it
   finds hosts full.
6. The user's choice holds: a command that may run in one place only fails (125) rather than run
   elsewhere. A command runs here silently if other hosts merely lack what it needs or their owners
   do not want it. If other hosts failed, it runs here with a warning, and only a limited number at
   once.

The shell carries out the actions in order and feeds the answers back. An event that no longer fits
is ignored. The state is plain values: it can be saved at any moment and continue elsewhere.

It is one file because it is one life.
"""

import signal
from dataclasses import dataclass, field
from enum import Enum

from lbd.lbm.core import journey_events as e
from lbd.lbm.core.journey_events import (
    BY_SIGNAL,
    CANNOT_EXECUTE,
    LBRUN_FAILED,
    Action,
    CommandEnd,
    Event,
    why_ended,
)
from lbd.lbm.core.next_host_after_refusal import (
    NOWHERE,
    Bounds,
    Demands,
    Eviction,
    Place,
    Search,
    failure_of,
    refused_by,
)
from lbd.lbm.core.slots import NOTHING, Grant
from lbd.model import HostId, JobState, Verdict
from lbd.text.closed_words import JOINING

POLL_S = 0.5  # there may be room of which no event tells
LOOK_S = 1.0  # how often the hosts are asked again while an evicted command waits
ENDING_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
NO_LIM = "no-lim"  # the reason for a place: the LIM did not answer
OF_JOB_CONTROL = (signal.SIGTSTP, signal.SIGCONT)  # the client handles them before the start


class JourneyPhase(Enum):
    NEW = "new"
    LOOKING = "looking for a host that has what it needs"  # the first of three steps of asking
    COUNTING = "asking for slots"
    ASKING = "asking for a place"
    WAITING = "waiting for room"
    EVICTED = "evicted, waiting for a host"
    CONNECTING = "connecting"
    STARTING = "starting"
    RUNNING = "running"
    FETCHING = "fetching"
    TURN = "waiting for its turn here"
    NEEDS = "taking what it needs here"
    HERE = "here"
    DONE = "done"


NOT_BEGUN = (
    JourneyPhase.LOOKING,
    JourneyPhase.COUNTING,
    JourneyPhase.ASKING,
    JourneyPhase.CONNECTING,
)


def keeps_here(program: str) -> str:
    """Why a command that may only run elsewhere fails."""
    return f"{program} must not leave this host (eligibility.never)"


@dataclass(slots=True)
class Stay:
    """The state of a command that runs here."""

    is_measured: bool = False
    has_turn: bool = False
    used: e.Used | None = None
    not_run: e.NotRun | None = None
    is_pinned: bool = False
    grant: Grant = NOTHING

    def record(self, seen: e.EndedHere) -> e.RecordEnd:
        """Records its end. `seen`: the end as far as it was observed from outside."""
        status, cpu_s = seen.status, seen.cpu_s
        if self.used is not None:
            status, cpu_s = self.used.status, self.used.cpu_s
        if (never := self.not_run) is not None:
            return e.RecordEnd(JobState.FAILED, never.status, reason=never.reason, never_ran=True)
        if status is None:
            return e.RecordEnd(JobState.UNKNOWN, None, cpu_s)
        return e.RecordEnd(JobState.FAILED if status else JobState.DONE, status, cpu_s)


@dataclass(slots=True)
class Journey:
    """One `lbrun`, from its request to its end.

    One class because it is one state machine: the effect of an event depends on all the others.
    """

    demands: Demands
    bounds: Bounds
    search: Search = field(init=False)
    phase: JourneyPhase = JourneyPhase.NEW
    place: Place = field(default_factory=Place)  # where it will run, or runs
    stay: Stay = field(default_factory=Stay)
    ended: e.Ended | None = None  # its end on the other host, while its files are fetched
    is_charged: bool = False  # by the LIM, for sure or possibly
    is_held: bool = False  # the host may hold something of it
    early: tuple[int, ...] = ()  # signals to deliver once it has begun elsewhere, in order

    def __post_init__(self) -> None:
        self.search = Search(self.demands, self.bounds, set(self.demands.excluded))

    @property
    def why_waiting(self) -> str:
        """Why a command that has not begun anywhere waits, for people; "" if it does not wait for
        long."""
        full = f": {', '.join(sorted(self.search.full))} full" if self.search.full else ""
        return {
            JourneyPhase.WAITING: f"waiting for room on a host{full}",
            JourneyPhase.STARTING: f"waiting for a slot on {self.place.host}",
            JourneyPhase.TURN: "waiting for its turn to run here",
        }.get(self.phase, "")

    def handle(self, event: Event, now_s: float) -> list[Action]:
        """Returns the actions to take for an event."""
        if self.phase is JourneyPhase.DONE:
            return []
        match event, self.phase:
            case e.Judged(), JourneyPhase.NEW:
                return self._judged(event, now_s)
            case e.Looked(), JourneyPhase.LOOKING:
                return self._looked(event, now_s)
            case e.SlotsKnown(slots), JourneyPhase.COUNTING:
                return self._counted(slots, now_s)
            case e.LimSaid(), JourneyPhase.ASKING:
                return self._lim_said(event, now_s)
            case e.LimRefused(reason), (JourneyPhase.COUNTING | JourneyPhase.ASKING):
                return self._lim_refused(reason, now_s)
            case e.LimSilent(), (JourneyPhase.COUNTING | JourneyPhase.ASKING):
                return self._lim_silent(event, now_s)
            case e.Waited(), (JourneyPhase.WAITING | JourneyPhase.EVICTED | JourneyPhase.TURN):
                return self._waited(now_s)
            case e.TurnTaken(granted), JourneyPhase.TURN:
                return self._turn_taken(granted)
            case e.NeedsTaken(), JourneyPhase.NEEDS:
                return self._needs_taken(event, now_s)
            case e.Sent(), JourneyPhase.CONNECTING:
                self.phase = JourneyPhase.STARTING
            case e.Unseen(reason), JourneyPhase.CONNECTING:
                return self._unseen(reason, now_s)
            case e.StartedThere(), (JourneyPhase.CONNECTING | JourneyPhase.STARTING):
                return self._started(event)
            case e.Refused(), (JourneyPhase.CONNECTING | JourneyPhase.STARTING):
                return self._refused(event, now_s)
            case e.ContactLost(reason), (
                JourneyPhase.CONNECTING | JourneyPhase.STARTING | JourneyPhase.RUNNING
            ):
                return self._fail(f"{reason}; {self._may_have_run}", "lost")
            case e.Ended(), JourneyPhase.RUNNING:
                return self._has_ended(event, now_s)
            case e.Fetched(trouble), JourneyPhase.FETCHING:
                return self._finished(trouble)
            case e.Used(), JourneyPhase.HERE:
                return self._used(event)
            case e.NotRun(), JourneyPhase.HERE:
                self.stay.not_run = event
                return []
            case e.EndedHere(), JourneyPhase.HERE:
                return self._ended_here(event)
            case _, JourneyPhase.HERE:  # the caller is now the command: nothing more happens
                return []
            case e.Failed(reason), _:
                return self._cannot(reason, now_s)
            case e.UserSignal(number), _:
                return self._signalled(number)
            case e.CallerGone(), _:
                record = e.RecordEnd(JobState.CANCELLED, reason="its lbrun has gone")
                return [*self._close(), record]
        return []

    def taken_up(self, bounds: Bounds) -> None:
        """Continues under the bounds of another LBM of this host, which apply from now on."""
        self.bounds = self.search.bounds = bounds
        self.search.demands = self.demands

    def resumed(self, now_s: float) -> list[Action]:
        """Returns what to do after a restart, in place of the pending action."""
        match self.phase:
            case JourneyPhase.STARTING:
                return [e.AwaitAnswer()]
            case JourneyPhase.RUNNING:
                return [e.Follow(self.demands.may_restart)]
            case JourneyPhase.FETCHING:
                return self._finished("this host's LBM was restarted before its files were back")
            case JourneyPhase.WAITING | JourneyPhase.EVICTED | JourneyPhase.TURN:
                return [e.WaitForRoom(POLL_S)]
            case JourneyPhase.NEW | JourneyPhase.HERE | JourneyPhase.DONE:
                return []
        return [*self._leave(), *self._look(now_s)]

    # -- where to ----------------------------------------------------------------------------------

    def _judged(self, judged: e.Judged, now_s: float) -> list[Action]:
        """The user may name this host; any other choice of the user's contradicts this host's
        owner."""
        if judged.leaves or self.demands.host == self.bounds.own:
            return self._find_place(now_s)
        if self.demands.mode != "auto":
            return self._fail(keeps_here(self.demands.name))
        self.place = Place(self.bounds.own, reason=judged.reason)
        return self._run_here(measure=judged.measure, pinned=True)

    def _find_place(self, now_s: float) -> list[Action]:
        if not (self.search.full and self.search.give_up_s):  # otherwise it has waited for a while
            self.search.give_up_s = now_s + self.bounds.hold_limit_s
        return self._look(now_s)

    def _look(self, now_s: float) -> list[Action]:
        self.phase = JourneyPhase.LOOKING
        self.search.is_patient = now_s < self.search.give_up_s
        return [e.Look(not self.search.goes_anywhere, self.demands.host)]

    def _looked(self, looked: e.Looked, now_s: float) -> list[Action]:
        search = self.search
        search.looked(looked)
        if search.is_known_at(looked.address):
            return self._there_by_name(looked.address, now_s)
        search.asked_lim = True
        if search.needs_slots:
            self.phase = JourneyPhase.COUNTING
            return [e.AskSlots(self.demands.mode != "auto")]
        return self._ask_lim()

    def _counted(self, slots: e.Slots, now_s: float) -> list[Action]:
        if complaint := self.search.counted(slots):
            return self._lim_refused(complaint, now_s)
        if self.search.is_hopeless(slots.keys()):
            return self._wait(now_s)
        return self._ask_lim()

    def _ask_lim(self) -> list[Action]:
        self.phase, self.is_charged = (
            JourneyPhase.ASKING,
            True,
        )  # as far as is known until it answers
        return [e.AskLim(self.search.question, self.demands.mode != "auto")]

    def _lim_said(self, said: e.LimSaid, now_s: float) -> list[Action]:
        stays = said.verdict is Verdict.HERE
        word = self.search.why_here(said.reason) if stays else said.reason
        reason = "; ".join(filter(None, (word, self.search.left_out)))
        match said.verdict:
            case Verdict.WAIT:
                return self._wait(now_s)
            case Verdict.HERE:
                return self._here(reason, now_s)
            case Verdict.THERE:
                return self._there(Place(said.host, said.address, reason), now_s)

    def _lim_refused(self, reason: str, now_s: float) -> list[Action]:
        self.is_charged = False
        if self.search.full:  # they will have room again
            return self._wait(now_s)
        failure = self.search.why_nobody(reason)
        return self._cannot(failure.why, now_s, failure.status)

    def _lim_silent(self, silent: e.LimSilent, now_s: float) -> list[Action]:
        if self.search.is_known_at(silent.address):
            return self._there_by_name(silent.address, now_s)
        if self.demands.mode != "auto" or self.demands.needs:
            return self._cannot(silent.reason, now_s)
        self.search.refusals.append((NOWHERE, e.Refused(silent.reason, fault=True)))
        return self._here(NO_LIM, now_s)

    def _wait(self, now_s: float) -> list[Action]:
        self.is_charged = False  # the LIM does not count a waiting command
        if not self.search.is_patient:
            return self._cannot(f"no host had room within {self.bounds.hold_limit_s:g} s", now_s)
        self.phase = JourneyPhase.WAITING
        return [e.WaitForRoom(POLL_S)]

    def _waited(self, now_s: float) -> list[Action]:
        if self.phase is JourneyPhase.TURN:
            return [e.TakeTurn()]
        if self.phase is JourneyPhase.EVICTED:
            self.search.again()
            return self._find_place(now_s)
        self.search.full.clear()
        return self._look(now_s)

    def _cannot(self, why: str, now_s: float, status: int = LBRUN_FAILED) -> list[Action]:
        """Ends a command that cannot continue like this. An evicted command waits for better times
        instead, and its caller is told so once; the host that it came from may take it again too.
        """
        eviction = self.search.eviction
        if not eviction.host or self.phase not in NOT_BEGUN:
            return self._fail(why, status=status)
        if given_up := eviction.given_up(why, self.bounds.evicted_wait_s, now_s):
            return self._fail(given_up)
        self.phase, actions = JourneyPhase.EVICTED, self._leave()
        if warning := eviction.warning(why):
            actions.append(e.Warn(warning))
        return [*actions, e.WaitForRoom(LOOK_S)]

    # -- here --------------------------------------------------------------------------------------

    def _here(self, reason: str, now_s: float) -> list[Action]:
        """Runs it here, unless that contradicts the user's choice."""
        search = self.search
        if search.eviction.host:
            return self._cannot(refused_by(search.refusals) or reason, now_s)
        if failure := search.why_not_here:
            return self._fail(failure.why, "refused", failure.status)
        self.place = Place(self.bounds.own, reason=reason)
        if search.fault:
            self.phase = JourneyPhase.TURN
            return [e.TakeTurn()]
        return self._run_here()

    def _turn_taken(self, granted: bool) -> list[Action]:
        if not granted:
            return [e.WaitForRoom(POLL_S)]
        self.stay.has_turn = True
        text, once = f"{self.search.fault}; running here", self.place.reason == NO_LIM
        return [e.Warn(text, once), *self._run_here()]

    def _run_here(self, *, measure: bool = False, pinned: bool = False) -> list[Action]:
        self.stay.is_measured, self.stay.is_pinned = measure, pinned
        if self.demands.needs or self.demands.memory_bytes:
            self.phase = JourneyPhase.NEEDS
            return [e.TakeNeeds()]
        return self._becomes_it()

    def _becomes_it(self) -> list[Action]:
        self.phase, stay = JourneyPhase.HERE, self.stay
        reason, slots = self.place.reason, self.search.slots_here
        return [e.RunHere(reason, slots, stay.is_measured, stay.is_pinned, stay.grant)]

    def _needs_taken(self, taken: e.NeedsTaken, now_s: float) -> list[Action]:
        """Other commands may have taken the resources first, or this host never had them."""
        if taken.grant is not None:
            self.stay.grant = taken.grant
            return self._becomes_it()
        if not taken.later:
            failure = failure_of(self.search.refusals, f"{self.bounds.own}: {taken.why}")
            return self._fail(failure.why, "refused", failure.status)
        return [*self._leave(), *self._wait(now_s)]

    def _used(self, used: e.Used) -> list[Action]:
        if not self.stay.is_measured or self.stay.used is not None:
            return []
        self.stay.used = used
        return [e.Measured(used.cpu_s, used.status, used.peak_bytes)]

    def _ended_here(self, seen: e.EndedHere) -> list[Action]:
        self.phase, stay = JourneyPhase.DONE, self.stay
        turn: list[Action] = [e.GiveTurnBack()] if stay.has_turn else []
        turn += [e.GiveNeedsBack()] if stay.grant else []
        return [*turn, e.Discharge(self.bounds.own, self.is_charged), stay.record(seen)]

    # -- elsewhere ---------------------------------------------------------------------------------

    def _there_by_name(self, address: str, now_s: float) -> list[Action]:
        """The host that the user named can be reached without asking the LIM."""
        self.is_charged = True
        place = Place(self.demands.host or NOWHERE, address, "wanted")
        return [e.Charge(self.search.question), *self._there(place, now_s)]

    def _there(self, place: Place, now_s: float) -> list[Action]:
        if self.demands.only_asks:
            return [*self._close(), e.Away()]
        if not self.bounds.has_peers:
            why = f"this host runs without a certificate, so it has no peers ({JOINING})"
            return self._cannot(why, now_s)
        self.place, self.phase, self.is_held = place, JourneyPhase.CONNECTING, True
        return [e.Start(place.host, place.address)]

    def _unseen(self, reason: str, now_s: float) -> list[Action]:
        if self.demands.mode != "auto":
            ran_before = bool(self.search.eviction.host)
            return self._cannot(reason if ran_before else f"{reason}; nothing ran", now_s)
        self.search.is_unseen = True
        self.search.refused(self.place.host, e.Refused(reason, e.NOT_SHARED[0]))
        return [*self._leave(), *self._retry(now_s)]

    def _refused(self, answer: e.Refused, now_s: float) -> list[Action]:
        """Nothing has run on that host, so trying another one is safe."""
        search, host, actions = self.search, self.place.host, self._leave()
        is_named = self.demands.mode == "host"
        if answer.fault and not search.asked_lim:
            search.has_moved = True
            return [*actions, *self._retry(now_s)]
        if answer.full and not is_named:
            search.full.add(host)
            return [*actions, *self._retry(now_s)]
        search.refused(host, answer)
        if answer.lacks_something and answer.status != CANNOT_EXECUTE:  # else it is not missing
            actions.append(e.Lacks(host, answer.phase))
        if answer.fault:
            actions.append(e.Trouble(host, answer.reason))
        if not is_named:
            return [*actions, *self._retry(now_s)]
        return [*actions, *self._fail(answer.advice, "refused", answer.status, host)]

    @property
    def _may_have_run(self) -> str:
        """What is known of a command of whose host nothing is heard any more."""
        if self.phase is JourneyPhase.RUNNING:
            return "it may have run in part and is not run again"
        return "it had not begun there as far as is known, but may have, so it is not run again"

    def _retry(self, now_s: float) -> list[Action]:
        self.phase = JourneyPhase.LOOKING
        if self.search.may_try_again(self.place.host):
            return self._find_place(now_s)
        return self._here("nobody-took-it", now_s)

    def _started(self, started: e.StartedThere) -> list[Action]:
        self.phase, place = JourneyPhase.RUNNING, self.place
        wrong = self.demands.mode == "auto" and started.no_less_busy
        begun = e.BegunHere(place.host, place.reason, started.note, wrong)
        early, self.early = map(e.Forward, self.early), ()
        return [begun, *early, e.Follow(self.demands.may_restart)]

    def _has_ended(self, ended: e.Ended, now_s: float) -> list[Action]:
        if ended.cause == "evicted" and ended.untouched and self.demands.may_restart:
            return self._evicted(now_s)
        self.ended = ended
        if self.demands.is_staged and not ended.trouble:
            self.phase = JourneyPhase.FETCHING
            return [e.Fetch(ended.status)]
        return self._finished(ended.trouble)

    def _evicted(self, now_s: float) -> list[Action]:
        host, search, actions = self.place.host, self.search, self._leave()
        search.eviction = Eviction(host, now_s)
        search.excluded.add(host)
        search.full.clear()
        again = e.BeginAgain(f"the owner of {host} is back")
        return [*actions, again, *self._retry(now_s)]

    # -- its end -----------------------------------------------------------------------------------

    @property
    def has_begun(self) -> bool:
        """Whether it has begun elsewhere."""
        return self.phase in (JourneyPhase.RUNNING, JourneyPhase.FETCHING)

    @property
    def is_irrevocable(self) -> bool:
        """Whether it may have begun, or its caller has given its descriptors away; then it cannot
        be requested again."""
        return (
            self.has_begun or self.phase is JourneyPhase.STARTING or bool(self.search.eviction.host)
        )

    def _signalled(self, number: int) -> list[Action]:
        """A signal goes to the command. Before that begins, a signal that ends a command ends the
        wait."""
        if self.has_begun:
            return [e.Forward(number)]
        if number not in ENDING_SIGNALS:
            if number not in OF_JOB_CONTROL:
                self.early = (*(one for one in self.early if one != number), number)
            return []
        status = BY_SIGNAL + number
        finish = e.Finish(CommandEnd(status, "signalled", signal=number))
        record = e.RecordEnd(JobState.CANCELLED, status, reason="interrupted before it started")
        return [finish, *self._close(number), record]

    def _finished(self, trouble: str) -> list[Action]:
        ended, host, demands = self.ended, self.place.host, self.demands
        assert ended is not None
        if trouble:
            return self._fail(f"{trouble}; the command itself exited with {ended.status}")
        limits = demands.timeout_s, demands.memory_bytes
        reason = why_ended(ended.cause, ended.reason, host, *limits)
        end = CommandEnd(
            ended.status, ended.cause, host, reason, ended.signal, ended.cpu_s,
            heard_signals=ended.heard_signals,
        )  # fmt: skip
        learn = e.Learn(ended.cpu_s, ended.cause, ended.peak_bytes)
        state = JobState.DONE if ended.status == 0 else JobState.FAILED
        record = e.RecordEnd(state, ended.status, ended.cpu_s, reason, ended.wall_s)
        return [e.Finish(end), learn, *self._close(), record]

    def _fail(
        self, reason: str, cause: str = "failed", status: int = LBRUN_FAILED, host: HostId = NOWHERE
    ) -> list[Action]:
        end = CommandEnd(status, cause, self.place.host if self.has_begun else host, reason)
        state = JobState.LOST if cause == "lost" else JobState.FAILED
        record = e.RecordEnd(state, status, reason=reason)
        return [e.Finish(end), *self._close(), record]

    def _close(self, number: int = 0) -> list[Action]:
        self.phase = JourneyPhase.DONE
        return self._leave(number)

    def _leave(self, number: int = 0) -> list[Action]:
        """Lets go of the host, if it may hold something of the command, of the LIM's charge for it,
        and of its turn here. `number`: the signal for the command on that host."""
        actions: list[Action] = [e.LetGo(self.place.host, number)] if self.is_held else []
        if self.stay.has_turn:
            actions.append(e.GiveTurnBack())
            self.stay.has_turn = False
        if self.is_charged:
            actions.append(e.Discharge(self.place.host, charged=True))
        self.is_held = self.is_charged = False
        return actions
