"""A local user's command: carries out the actions of its journey (core/journey.py).

One task goes from question to answer; signals and the client's end come in between. Nothing is
decided here.
"""

import asyncio
import logging
import time
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from lbd.errors import LbdError, LostContact
from lbd.lbm.core import journey_events as e
from lbd.lbm.core.jobs import Job
from lbd.lbm.core.journey import Journey, JourneyPhase
from lbd.lbm.core.next_host_after_refusal import Place
from lbd.lbm.handover.records import Outbound
from lbd.lbm.outbound.context import OutboundContext
from lbd.lbm.outbound.directory import Directory
from lbd.lbm.outbound.lim import in_json
from lbd.lbm.outbound.remote_command import RemoteCommand, Talks
from lbd.lbm.outbound.remote_run import RemoteRun
from lbd.lbm.outbound.request import bounds_of, new_job
from lbd.lbm.session.client import Client
from lbd.lbm.session.request import ClientRequest
from lbd.local import client_tags as tags
from lbd.local.json_socket import Json
from lbd.model import HostId, JobState
from lbd.policy.invocation import key_of
from lbd.policy.needs import counted_peak, with_features
from lbd.process.job_log import JobLog
from lbd.text.placement_phrases import CHOSEN, why_not_here, why_placed

if TYPE_CHECKING:
    from lbd.lbm.learnt_file import Run
    from lbd.policy.eligibility import Verdict as Eligible


job_log = JobLog(logging.getLogger("lbd.lbm"))


class Bookkeeping:
    """What is noted about one command: in the list of jobs, with the LIM, in the learnt commands,
    and which pauses its user was told of.

    All of it is done at once, and the command's next step does not depend on it.
    """

    def __init__(self, home: OutboundContext, request: ClientRequest, job: Job) -> None:
        self.job = job
        self._home = home
        self._request = request
        self.pauses = request.pauses
        self.said: e.LimSaid | None = None  # the last answer
        self._eligible: Eligible | None = None
        self._run: Run | None = None  # a run here from which something can be learnt

    @cached_property
    def _key(self) -> str:
        """The key under which the command is learnt."""
        return key_of(self._request.argv)

    def judge(self) -> e.Judged:
        """What lists, tables and experience say about it."""
        request, eligible = self._request, self._home.eligible
        if not request.has(tags.FLAG_SHELL) or request.mode != "auto":
            kept = request.has(tags.FLAG_KEPT) or eligible.kept_by_owner(request.argv)
            return e.Judged(not kept, "never")
        found = self._eligible = eligible.judge(self.job.uid, request.argv, request.directory)
        return e.Judged(found.leaves, found.reason, found.measure and not found.by)

    @property
    def not_here(self) -> str:
        """Why its user does not let it stay, in the user's words; "" if it may."""
        own, request = self._home.config.host.name, self._request
        excluded = own if own in request.excluded else ""
        return why_not_here(remote=request.mode == "remote", excluded=excluded)

    def in_json(self, question: e.Question) -> Json:
        """The question for the LIM."""
        request = self._request
        cpu_s, learnt_bytes = self._home.eligible.expected(self.job.uid, self._key)
        peak_bytes = counted_peak(learnt_bytes, request.memory_bytes)
        needs = replace(request.needs, peak_bytes=peak_bytes) if peak_bytes else request.needs
        report = request.has(tags.FLAG_TELL)
        return in_json(question, self.job, cpu_s, needs, report=report)

    def spoken(self, reason: str) -> str:
        """The reason as its user reads it, if it will be reported at all."""
        if not self._request.has(tags.FLAG_TELL):
            return reason
        word, mark, rest = reason.partition("; ")
        shown = self.said.phrase if self.said is not None and self.said.reason == word else ""
        return (shown or why_placed(word, not_here=self.not_here)) + mark + rest

    def kept(self, reason: str) -> str:
        """The reason as it is kept with the job, with what decided: an option, and loads."""
        word, _, rest = reason.partition("; ")
        seen = self.said.seen if self.said is not None and self.said.reason == word else ""
        return "; ".join(filter(None, (word, self.not_here * (word in CHOSEN), seen, rest)))

    def note(self, action: e.Action) -> None:
        """Notes an action; ignores actions that need no note."""
        home, job = self._home, self.job
        match action:
            case e.Finish() | e.LetGo():  # first, because most commands have these
                pass
            case e.RecordEnd():
                how = action.status, action.cpu_s, action.reason, action.ran_s, action.never_ran
                home.jobs.end(job.id, action.state, time.time(), *how)
                home.room.made()
            case e.Discharge():
                home.notes.ended(job.id, action.host, charged=action.charged)
            case e.BegunHere():
                job.start(action.host, self.kept(action.reason), time.time())
                job.wrong = action.wrong
            case e.Learn():
                seen = action.cpu_s, action.cause, action.peak_bytes
                home.eligible.ran_there(job.uid, self._key, *seen)
            case e.Charge():
                home.notes.placed(job.id, partial(self.in_json, action.question))
            case e.RunHere():
                job.slots = action.slots or job.slots
                self._runs_here(action.reason, pinned=action.pinned)
            case e.GiveNeedsBack():
                home.own_needs.free(job.id)
            case e.Away():
                home.jobs.running.pop(job.id, None)
            case e.BeginAgain(reason):
                self._begin_again(reason)
            case e.GiveTurnBack():
                home.cap.release(job.id)
            case e.Trouble(host, reason):
                home.notes.trouble(host, reason)
            case e.Measured(cpu_s, status, peak_bytes) if self._run is not None:
                self._run.used(cpu_s, status, peak_bytes)

    def _runs_here(self, reason: str, *, pinned: bool) -> None:
        job, eligible = self.job, self._home.eligible
        job.pinned = job.pinned or pinned
        job.start(job.origin, self.kept(reason), time.time())
        if self._eligible is not None and not self._eligible.leaves:
            self._run = eligible.run_here(job.uid, self._key, self._eligible)

    def _begin_again(self, reason: str) -> None:
        """Starts the command again, under a new id."""
        home, job = self._home, self.job
        command = home.commands.pop(job.id)
        before = job.id
        home.jobs.rename(job, home.jobs.new_id())
        job_log.news(before, "starts again as %s: %s", job.id, reason)
        job_log.debug(job.id, "started as %s: %s", before, reason)
        job.take_back(reason)
        home.jobs.add(job)
        home.commands[job.id] = command

    def ended_here(self) -> None:
        if self._run is not None:
            self._run.ended()


class Command:
    """One `lbrun`, from its request to its end."""

    def __init__(
        self, home: OutboundContext, client: Client, request: ClientRequest, user: str, uid: int
    ) -> None:
        self._home = home
        self._client = client
        self._request = request
        if request.mode == "local":
            request.mode, request.host = "host", HostId(home.config.host.name)
        if request.has(tags.FLAG_SHELL) and request.mode == "auto":
            rules = home.eligible.needed(uid, request.argv)
            request.needs = with_features(request.needs, rules)
        self._uid, self._peer = uid, client.peer
        is_placed = self._peer.pid in home.jobs.placed and self._peer.is_there
        is_deep = request.depth >= home.config.lbm.max_hops
        stays_as = "placed-already" if is_placed else "nested" if is_deep else ""
        bounds = bounds_of(home.config, has_peers=home.streams is not None)
        self.journey = Journey(request.demands(stays_as=stays_as), bounds)
        self.job = new_job(home.jobs.new_id(), request, (user, uid), bounds.own, time.time())
        self.job.pinned = bool(stays_as) or request.mode == "host"
        self._books = Bookkeeping(home, request, self.job)
        self._directory = Directory(home.looker, home.unshared, request, uid, self._peer)
        self.remote: RemoteCommand | None = None
        self._task: asyncio.Task[bool] | None = None

    async def run(self) -> bool:
        """Returns True if the client now runs it itself; otherwise the client has its answer."""
        self._home.jobs.add(self.job)
        self._home.commands[self.job.id] = self
        self._task = asyncio.current_task()
        try:
            if self.journey.phase is JourneyPhase.NEW:
                actions = self._handle(self._books.judge())
            else:  # an earlier LBM has sent it
                actions = self.journey.resumed(time.monotonic())
            while (event := await self._carry_out(actions)) is not None:
                actions = self._handle(event)
        except asyncio.CancelledError:
            if self.journey.phase is not JourneyPhase.DONE:
                self._feed(e.CallerGone())
                raise
        finally:
            del self._home.commands[self.job.id]
            self.let_go()
        return self.journey.phase is JourneyPhase.HERE

    def stay(self) -> bool:
        """Its caller runs it here, and only reports it. False if the request forbids that."""
        self._home.jobs.add(self.job)
        self._feed(e.Judged(leaves=False, reason="asked-to-stay"))
        if self.journey.phase is JourneyPhase.NEEDS and not self._request.needs:
            self._feed(self._take_needs())  # its memory is counted, and nothing waits for that
        if self.journey.phase is JourneyPhase.HERE:
            return True
        self._feed(e.CallerGone())  # it needs resources that must be requested: not possible here
        return False

    def _handle(self, event: e.Event) -> list[e.Action]:
        before = self.journey.phase
        actions = self.journey.handle(event, time.monotonic())
        job_log.step(self.job.id, event, before, self.journey.phase)
        if isinstance(event, e.ContactLost) and self.journey.phase is not before:
            job_log.news(self.job.id, "%s", event.reason)
        return actions

    def _feed(self, event: e.Event) -> None:
        """Feeds an event whose actions are all done at once."""
        for action in self._handle(event):
            self._do(action)

    async def _carry_out(self, actions: list[e.Action]) -> e.Event | None:
        """Returns the event that answers the last action; None: nothing more will come."""
        try:
            for action in actions:
                if type(action) not in e.ANSWERED:
                    self._do(action)
                elif (answer := await self._answer(action)) is not None:
                    return answer
        except LostContact as problem:
            return e.ContactLost(str(problem))
        except TimeoutError:
            return e.Failed("lbrun did not pass on its descriptors")
        except LbdError as problem:
            return e.Failed(str(problem))
        except OSError as problem:
            return e.Failed(problem.strerror or str(problem))
        return None

    async def _answer(self, action: e.Action) -> e.Event | None:
        """None for an action that is done at once. Raises LbdError, TimeoutError, OSError."""
        match action:
            case e.Look():
                directory = self._directory
                strangers = await directory.strangers() if action.lacking else frozenset()
                address = self._home.lim_questions.known_address(action.host)
                return e.Looked(strangers, directory.left_out, address, directory.lacks_program)
            case e.Start():
                self.remote = self._remote(Place(action.host, action.address))
                return await self.remote.start(self._directory, lambda: self._feed(e.Sent()))
            case e.Follow() if self.remote is not None:
                return await self.remote.follow(keep=action.keep)
            case e.AskSlots(insist):
                request = self._request
                return await self._home.lim_questions.slots(request.host, request.slots[0], insist)
            case e.AskLim(question, insist):
                asked = self._books.in_json(question)
                not_here = self._books.not_here if asked["report"] else ""
                said = await self._home.lim_questions.place(
                    asked, question, insist, not_here, self._request.excluded
                )
                self._books.said = said if isinstance(said, e.LimSaid) else None
                return said
            case e.WaitForRoom(limit_s):
                await self._home.room.wait(limit_s)
                return e.Waited()
            case e.TakeTurn():
                return e.TurnTaken(self._home.cap.take(self.job.id, self._request.depth))
            case e.TakeNeeds():
                return self._take_needs()
            case e.AwaitAnswer() if self.remote is not None:
                return await self.remote.answer()
            case e.Fetch(status) if self.remote is not None:
                return await self.remote.fetch(status)
        return None

    def _take_needs(self) -> e.NeedsTaken:
        request = self._request
        needs = replace(request.needs, counted_bytes=request.memory_bytes)
        return self._home.own_needs.take(self.job.id, needs, self._peer)

    def _do(self, action: e.Action) -> None:
        self._books.note(action)
        job = self.job
        match action:
            case e.BegunHere():
                self._directory.found(action.host)
                said = self._books.spoken(action.reason) + action.note
                self._client.placed(job.id, action.host, said)
            case e.Finish(end):
                if why := job.why_cancelled(succeeded=not end.status):
                    end = replace(end, cause=JobState.CANCELLED.value, reason=why)
                self._client.done(end)
            case e.LetGo():
                self.let_go(action.number)
            case e.RunHere(reason, slots, measure, grant=grant):
                said = self._books.spoken(reason)
                self._client.here(job.id, said, slots, measure=measure, grant=grant)
            case e.Away():
                self._client.away()
            case e.Warn(text, once):
                if not once or self._is_news(text):
                    self._client.warn(text)
            case e.Forward(number) if self.remote is not None:
                self.remote.signal(number)
            case e.Lacks(host, phase):
                self._directory.refused(phase, host)

    def _is_news(self, text: str) -> bool:
        """A slow LIM is reported once; a missing one, to each command."""
        return not self._home.lim.connected or self._home.is_news(
            self._uid, self._peer.group, text, time.monotonic()
        )

    def let_go(self, number: int = 0) -> None:
        """Has the other host end the command, by that signal, and remove what it holds of it."""
        if self.remote is not None:
            self.remote.close(number)
            self.remote = None

    # from outside

    def said(self, seen: e.Used | e.NotRun) -> None:
        self._feed(seen)

    def ended_here(self, cpu_s: float | None = None, status: int | None = None) -> None:
        """The client's process, which had become the command, has ended."""
        self._books.ended_here()
        self._feed(e.EndedHere(cpu_s, status))

    def signal(self, number: int) -> None:
        """Passes the signal on; before the command has begun, an ending signal ends the wait."""
        was_done = self.journey.phase is JourneyPhase.DONE
        self._feed(e.UserSignal(number))
        if self.journey.phase is JourneyPhase.DONE and not was_done and self._task is not None:
            self._task.cancel()

    def force(self) -> None:
        """Ends it at once, wherever it runs."""
        if self.remote is not None and self.journey.has_begun:
            self.remote.force()

    @property
    def why_waiting(self) -> str:
        return self.journey.why_waiting

    @property
    def far(self) -> RemoteRun | None:
        """Where the client's messages go, once there is a run."""
        return self.remote.run if self.remote is not None else None

    # across a restart of this LBM

    def withdraw(self) -> None:
        """Has the LIM forget the command, because it will be requested again."""
        self._home.notes.ended(self.job.id, self.job.host, charged=self.journey.is_charged)

    def left(self) -> Outbound:
        """The state for another LBM; no further step of the event loop follows. Raises NotNow."""
        left, remote = Outbound(self.journey, self.job), self.remote
        if self._books.pauses != self._request.pauses:
            left.pauses = self._books.pauses
        if remote is not None and self.journey.phase is not JourneyPhase.CONNECTING:
            remote.leave(left)
        return left

    def take_up(self, left: Outbound, talks: Talks) -> None:
        """Takes up what an earlier LBM left, for `run`. Raises OSError, DecodeError, ValueError."""
        home, bounds = self._home, self.journey.bounds
        if left.run is not None and home.streams is None:
            raise ValueError("this host no longer has a certificate")
        self.journey, self.job = left.journey, left.job
        self.journey.taken_up(bounds)
        self._books = Bookkeeping(home, self._request, self.job)
        if left.pauses is not None:
            self._books.pauses = left.pauses
        if self.journey.stay.has_turn:
            home.cap.hold(self.job.id, self._request.depth)
        home.own_needs.hold(self.job.id, self.journey.stay.grant)
        if left.run is not None:
            self.remote = self._remote(self.journey.place)
            self.remote.take_up(left, talks)

    def _remote(self, place: Place) -> RemoteCommand:
        caller = self._client, self._request, self.job, self._uid
        return RemoteCommand(self._home, *caller, (place.host, place.address), self._books.pauses)
