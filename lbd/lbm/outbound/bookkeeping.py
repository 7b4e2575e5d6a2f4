"""What is noted of a command on its way out: in the list of jobs, with the LIM, in what is learnt.

All of it is done at once, and nothing that the command does next depends on it.
"""

import logging
import time
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from lbd.lbm.core import journey_events as e
from lbd.lbm.core.jobs import Job
from lbd.lbm.outbound.context import OutboundContext
from lbd.lbm.outbound.lim_questions import in_json
from lbd.lbm.session.request import ClientRequest
from lbd.local import client_tags as tags
from lbd.local.json_socket import Json
from lbd.policy.invocation import key_of
from lbd.policy.needs import counted_peak
from lbd.process.job_log import JobLog
from lbd.text.placement_phrases import why_not_here, why_placed

if TYPE_CHECKING:
    from lbd.lbm.learnt_file import Run
    from lbd.policy.eligibility import Verdict as Eligible

job_log = JobLog(logging.getLogger("lbd.lbm"))


class Bookkeeping:
    """Of one command."""

    def __init__(self, home: OutboundContext, request: ClientRequest, job: Job) -> None:
        self.job = job
        self._home = home
        self._request = request
        self.said: e.LimSaid | None = None  # the last time
        self._eligible: Eligible | None = None
        self._run: Run | None = None  # here, and there is something to be learnt from it

    @cached_property
    def _key(self) -> str:
        """What is learnt of it goes by this."""
        return key_of(self._request.argv)

    def judge(self) -> e.Judged:
        """What lists, tables and experience say of it."""
        request, eligible = self._request, self._home.eligible
        if not request.has(tags.FLAG_SHELL) or request.mode != "auto":
            kept = request.has(tags.FLAG_KEPT) or eligible.kept_by_owner(request.argv)
            return e.Judged(not kept, "never")
        found = self._eligible = eligible.judge(self.job.uid, request.argv, request.directory)
        return e.Judged(found.leaves, found.reason, found.measure and not found.by)

    @property
    def not_here(self) -> str:
        """Why its user lets it not stay, in their words; "" if it may."""
        own, request = self._home.config.host.name, self._request
        excluded = own if own in request.excluded else ""
        return why_not_here(remote=request.mode == "remote", excluded=excluded)

    def in_json(self, question: e.Question) -> Json:
        """For the LIM."""
        request = self._request
        cpu_s, learnt_bytes = self._home.eligible.expected(self.job.uid, self._key)
        peak_bytes = counted_peak(learnt_bytes, request.memory_bytes)
        needs = replace(request.needs, peak_bytes=peak_bytes) if peak_bytes else request.needs
        report = request.has(tags.FLAG_TELL)
        return in_json(question, self.job, cpu_s, needs, report=report)

    def spoken(self, reason: str) -> str:
        """As its user reads it, if it is to be reported at all."""
        if not self._request.has(tags.FLAG_TELL):
            return reason
        word, mark, rest = reason.partition("; ")
        shown = self.said.phrase if self.said is not None and self.said.reason == word else ""
        return (shown or why_placed(word, not_here=self.not_here)) + mark + rest

    def note(self, action: e.Action) -> None:
        """Passes over what is not to be noted."""
        home, job = self._home, self.job
        match action:
            case e.Finish() | e.LetGo():  # as most commands have them; so with what follows
                pass
            case e.RecordEnd(state, status, cpu_s, reason):
                home.jobs.end(job.id, state, time.time(), status, cpu_s, reason)
                home.room.made()
            case e.Discharge(host, charged):
                home.notes.ended(job.id, host, charged=charged)
            case e.BegunHere(host, reason, wrong=wrong):
                job.start(host, reason, time.time())
                job.wrong = wrong
            case e.RunHere(reason, pinned=pinned):
                self._runs_here(reason, pinned=pinned)
            case e.Learn(cpu_s, cause, peak_bytes):
                home.eligible.ran_there(job.uid, self._key, cpu_s, cause, peak_bytes)
            case e.Charge(question):
                home.notes.placed(job.id, partial(self.in_json, question))
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
        job.start(job.origin, reason, time.time())
        if self._eligible is not None and not self._eligible.leaves:
            self._run = eligible.run_here(job.uid, self._key, self._eligible)

    def _begin_again(self, reason: str) -> None:
        """Under a new name."""
        home, job = self._home, self.job
        command = home.commands.pop(job.id)
        before = job.id
        home.jobs.rename(job, home.new_id())
        job_log.debug(before, "starts again as %s: %s", job.id, reason)
        job_log.debug(job.id, "started as %s: %s", before, reason)
        job.waits_again(reason)
        home.jobs.add(job)
        home.commands[job.id] = command

    def ended_here(self) -> None:
        if self._run is not None:
            self._run.ended()
