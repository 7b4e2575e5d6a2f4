"""One command's way to a host, between the policy and the table. The driver is in `daemon.py`:

while isinstance(step := placer.next_step(request, replies, now_s), Probe | Ask):
    replies += await carry_out(step)
return placer.settle(request, step, now_s, dry)
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from lbd.lim.core import messages as m
from lbd.lim.core.reservations import Reservations
from lbd.lim.core.table import Table
from lbd.model import Candidate, HostId, JobId, Placement, PlacementRequest, Verdict
from lbd.policy.ranking import choose, first_of_its_tie, here, ranked, settled_early
from lbd.policy.registry import POLICIES
from lbd.policy.view import Decision, Nowhere, Probe, Reply, Step

ENDED_MAX = 1000  # ended jobs kept for the centre; beyond that their charges just fade there
REASONS_MAX = 64  # that are counted separately
ASK_AGAIN_S = 2.0  # a centre that did not answer is not asked again for this long


class Placer:
    def __init__(self, table: Table, reservations: Reservations, rng: Random) -> None:
        self.table = table
        self.reservations = reservations
        self.centre: HostId | None = None  # kept current by the state
        self.decisions: Counter[str] = Counter()  # by reason
        self.by_algorithm: Counter[tuple[str, str]] = Counter()  # and by reason
        self._rng = rng
        self._ask_after_s = 0.0
        self._placed_by_centre: dict[JobId, None] = {}  # not yet ended; oldest first
        self._ended: list[JobId] = []  # of these, those that the centre does not know yet

    @property
    def is_centre(self) -> bool:
        return self.centre == self.table.me

    def next_step(
        self, request: PlacementRequest, replies: Sequence[Reply], now_s: float, dry: bool = False
    ) -> Step:
        table = self.table
        policy = POLICIES[table.params.algorithm]
        if policy.reporting.of_changes:
            table.expire_charges(now_s, silence_counts=True)
        centre = self.centre if now_s >= self._ask_after_s else None
        view = table.view(centre, now_s, request.needs)
        if self.reservations.held:
            held = reversed(self.reservations.held)
            view.reserved = tuple(name for name in held if name in table.entries)
        step = policy.next_step(request, view, replies, self._rng)
        if isinstance(step, Probe) and not dry:
            for name in step.hosts:  # no other command may try the same reservation
                self.reservations.cancelled(name)
        return step

    def settle(
        self, request: PlacementRequest, decision: Decision, now_s: float, dry: bool
    ) -> Decision:
        """Counts and charges the decision. `dry`: only show it, with every candidate."""
        if isinstance(decision, Placement) and decision.host not in self.table.entries:
            # it left while others were being asked
            decision = here(self.table.view(self.centre, now_s), "host-left")
        if dry:
            view = self.table.view(self.centre, now_s, request.needs)
            found = ranked(request, view, limit=len(view.hosts))
            if isinstance(decision, Placement):
                found = first_of_its_tie(found, decision.host)
            return replace(decision, candidates=found)
        if isinstance(decision, Nowhere):
            self._count("nowhere")
            return decision
        self._count(decision.reason)
        if decision.verdict is Verdict.WAIT:
            self.table.discharge(request.job)
        else:
            self.table.charge(decision.host, request.job, now_s)
        return decision

    def _count(self, reason: str) -> None:
        """Some reasons are another host's words: beyond a bound they are counted together."""
        if reason not in self.decisions and len(self.decisions) >= REASONS_MAX:
            reason = "other"
        self.decisions[reason] += 1
        self.by_algorithm[self.table.params.algorithm, reason] += 1

    def job_ended(self, job: JobId) -> None:
        """Drops the job's charge, and remembers to report its end if the centre has charged it
        too."""
        if self.table.discharge(job) == self.table.me:
            self.reservations.departed()
        if job in self._placed_by_centre:
            del self._placed_by_centre[job]
            if len(self._ended) < ENDED_MAX:
                self._ended.append(job)

    def take_ended(self) -> tuple[JobId, ...]:
        """Returns the ended jobs to report to the centre now."""
        if not self._ended:
            return ()
        ended, self._ended = tuple(self._ended), []
        return ended

    # -- LOWEST, THRHLD, RESERVE -------------------------------------------------------------------

    def probed(self, host: HostId, reply: m.Body | None, now_s: float) -> Reply:
        """A probe was answered; None means no answer in time."""
        if not isinstance(reply, m.ProbeReply) or reply.sample.host != host:
            return Reply(host, answered=False)
        self.table.record(reply.sample, now_s)
        return Reply(host, answered=host in self.table.entries)

    # -- CENTRAL ---------------------------------------------------------------------------------

    def question(self, request: PlacementRequest, sample: m.Sample, dry: bool) -> m.AskCentre:
        """Returns the question for the centre; `sample` is our own, with its current age."""
        return m.AskCentre(
            job=request.job,
            excluded=request.excluded,
            must_leave=request.must_leave,
            may_wait=request.may_wait,
            dry=dry,
            sample=sample,
            charges=self.table.charges(self.table.me),
            ended=self.take_ended(),
            needs=request.needs,
        )

    def answered(
        self, request: PlacementRequest, centre: HostId, reply: m.Body | None, now_s: float
    ) -> Reply:
        """The centre answered; None means no answer in time."""
        if not isinstance(reply, m.CentreReply):
            self._ask_after_s = now_s + ASK_AGAIN_S
            return Reply(centre, answered=False)
        candidates: tuple[Candidate, ...] = ()
        if request.shown:
            candidates = ranked(request, self.table.view(centre, now_s, request.needs))
        if reply.verdict is None:
            return Reply(centre, True, Nowhere(reply.reason, candidates))
        if not self._fits(request, reply):
            return Reply(centre, answered=False)
        decision = Placement(reply.verdict, reply.host, reply.reason, candidates)
        if reply.verdict is not Verdict.WAIT:
            self._placed_by_centre[request.job] = None
            if len(self._placed_by_centre) > ENDED_MAX:
                del self._placed_by_centre[next(iter(self._placed_by_centre))]
        return Reply(centre, True, decision)

    def _fits(self, request: PlacementRequest, reply: m.CentreReply) -> bool:
        """Whether the answer matches the request, and names a host that we know."""
        match reply.verdict:
            case Verdict.WAIT:
                return request.may_wait and reply.host in self.table.entries
            case Verdict.HERE:
                return not (request.must_leave or self.table.me in request.excluded)
        stays = reply.host == self.table.me or reply.host in request.excluded
        return reply.host in self.table.entries and not stays

    def centre_learnt(self, origin: HostId, ended: Sequence[JobId]) -> None:
        """As the centre: ends the charges of jobs that we placed for another host."""
        for job in ended:
            self.table.discharge(job_of(origin, job))

    def decide_for(self, origin: HostId, ask: m.AskCentre, now_s: float) -> m.CentreReply:
        """As the centre: places another host's command and charges our copy of the chosen host."""
        self.table.record(ask.sample, now_s)
        self.centre_learnt(origin, ask.ended)
        request = PlacementRequest(
            job=ask.job,
            excluded=ask.excluded,
            must_leave=ask.must_leave,
            may_wait=ask.may_wait,
            shown=False,
            needs=ask.needs,
        )
        view = self.table.view_from(origin, ask.charges, self.centre, now_s, ask.needs)
        decision = settled_early(request, view) or choose(request, view, self._rng)
        if isinstance(decision, Nowhere):
            return m.CentreReply(None, origin, decision.reason)
        if not ask.dry and decision.verdict is not Verdict.WAIT:
            self.table.charge(decision.host, job_of(origin, ask.job), now_s)
        return m.CentreReply(decision.verdict, decision.host, f"centre-{decision.reason}")


def job_of(origin: HostId, job: JobId) -> JobId:
    """Returns the name under which the centre charges it, so no host can end or move another's
    charges."""
    return JobId(f"{origin} {job}")
