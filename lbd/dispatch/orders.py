"""What `lbctl` and `lbrun` order for jobs: kill, hold, release, requeue, update."""

import asyncio
from collections.abc import Callable, Container, MutableSequence, Sequence
from dataclasses import dataclass, field
from functools import partial

from lbd.dispatch.core.job_selection import Problem, alike, in_few_lines
from lbd.dispatch.core.ledger_rows import JobRow, LedgerTrouble
from lbd.dispatch.core.lifecycle import ENDING
from lbd.dispatch.core.ownership import Asker, Owners, fault_of_admins
from lbd.dispatch.core.records import Action, Signal
from lbd.dispatch.core.why_waiting import out_of_contact
from lbd.dispatch.daemon import Dispatcher
from lbd.dispatch.intake import TEXT_MAX, checked_signal
from lbd.dispatch.job_finder import REQUEUES, JobFinder, ToActOn, not_yours
from lbd.dispatch.job_lines import job_log
from lbd.dispatch.revival import Revival
from lbd.dispatch.updates import Updates
from lbd.errors import Inapplicable, LbdError
from lbd.local.turns import Turns
from lbd.model import CANCEL, JobId, JobState
from lbd.net.gen import dispatch_pb2 as pb
from lbd.process.boot_clock import clock_s
from lbd.text.one_line import one_line

ACTS_AT_ONCE, BYTES_AT_ONCE = 1000, 8 << 20  # jobs: as many as are written together
# Of an order that somebody typed: its answer must come before the caller's LBM gives up (ACT_S), or
# nobody is told what was done.
ORDER_S = 8.0
TURN_S = 0.05  # of one order: then others are served, whatever its jobs cost
LOOK_EVERY_S = 0.1  # whether the ledger can be written
UNLESS_RESTARTED = "not at all if the dispatcher is restarted before"


@dataclass(frozen=True, slots=True)
class Orders:
    dispatcher: Dispatcher
    owners: Owners
    finder: JobFinder
    # Of each host, which may make up users, one order at a time is looked up, and one goes on.
    lookups: Turns = field(default_factory=lambda: Turns(1))
    turns: Turns = field(default_factory=lambda: Turns(1))

    async def carry_out(self, asked: pb.ActRequest, host: str) -> bytes:
        """Carries out an order that `host` passes on for one of its users. While the ledger cannot
        be written, or its disk is full, none is begun that somebody typed: it would be done some
        time later, or never. That of an `lbrun -q` that ends (`by_number`) is better done late."""
        if not asked.by_number and (until := self.dispatcher.until_written()):
            why = f"nothing was done; try again once {until}"
            return refusal(asked.selectors, why).SerializeToString()
        with self.dispatcher.life.jobs.ending() as ended:
            revival = Revival(self.dispatcher, ended, partial(self._unwritten, asked))
            return await self._carried_out(asked, host, revival)

    async def _carried_out(self, asked: pb.ActRequest, host: str, revival: Revival) -> bytes:
        began_s = clock_s()
        asker = self.owners.asker(asked.user, asked.uid if asked.HasField("uid") else None)
        fault = fault_of_admins(host, self.dispatcher.config) if asked.is_admin else ""

        def may_act(row: JobRow) -> bool:
            is_admin = asked.is_admin and (not fault or row.origin == host)
            return is_admin or self.owners.owns(asker, row)

        try:
            found = await self._found(asked, asker, host, may_act)
            order = Order(self, asked, host, revival)
            if asked.verb == "update":
                order.updates.check()
        except LedgerTrouble:
            raise
        except LbdError as problem:
            return refusal(asked.selectors, str(problem)).SerializeToString()
        rows = found.rows
        own = {row.id for row in rows if self.owners.owns(asker, row)}
        may = {row.id for row in rows if may_act(row)}
        if rows and not may and not found.problems:
            why = not_yours([row.shown for row in rows], fault)
            return refusal([row.shown for row in rows], why).SerializeToString()
        if asked.verb in REQUEUES:
            await revival.read_names([row for row in rows if row.id in may])
        reply, unsettled_bytes = pb.ActReply(), 0
        named, problems, skipped = found.named_words(), list[Problem](), list[Problem]()
        in_turn = order.in_turn(rows)
        for number, row in enumerate(in_turn, 1):
            try:
                if row.id not in may:
                    raise LbdError(not_yours([row.shown], fault))
                unsettled_bytes += await order.act_on(row)
                job_log.debug(row.shown, "%s: ordered by %s on %s", asked.verb, asked.user, host)
                order.note_done(reply, row)
            except LedgerTrouble:
                raise
            except LbdError as problem:
                is_named = row.shown in named
                mine = is_named or row.id in own or bool(asked.is_admin and fault)
                is_skipped = isinstance(problem, Inapplicable) and not is_named
                if mine and not order.is_said(row):
                    said = skipped if is_skipped else problems
                    said.append((row.shown, by_shown_id(str(problem), row)))
            if not number % ACTS_AT_ONCE or unsettled_bytes >= BYTES_AT_ONCE:
                # lets other requests in between, on the disk too
                if why := await self._why_stopped(asked, began_s):
                    problems += of_each([one.shown for one in in_turn[number:]], why)
                    break
                unsettled_bytes = 0
            elif clock_s() - order.turn_began_s > TURN_S:
                await order.next_turn()
        order.restore_turns(reply.done_ids, problems, skipped)
        problems = [*found.problems, *problems, *(() if reply.done_ids else skipped)]
        if until := await self._unwritten(asked):
            problems += of_each(reply.done_ids, f"done only once {until}; {UNLESS_RESTARTED}")
            reply = pb.ActReply()
        add_failures(reply, problems, named)
        return reply.SerializeToString()

    async def _why_stopped(self, asked: pb.ActRequest, since_s: float) -> str:
        """Why the rest of an order is not done; "" if it is."""
        if until := await self._unwritten(asked):
            return f"not done; try again once {until}"
        if clock_s() - since_s > ORDER_S and not asked.by_number:
            return f"not done within {ORDER_S:g} s; give the order again for the rest"
        return ""

    async def _found(
        self, asked: pb.ActRequest, asker: Asker, host: str, may: Callable[[JobRow], bool]
    ) -> ToActOn:
        """Raises LbdError."""
        if asked.verb in REQUEUES and (until := await self._unwritten(asked)):
            raise LbdError(f"nothing was done; try again once {until}")
        async with self.lookups.turn((host, asked.user)), self.lookups.turn(host):
            return await self.finder.to_act_on(
                asked.verb,
                asked.selectors,
                asker,
                may=may,
                commands=self.dispatcher.estimates is not None,
                by_number=asked.by_number,
            )

    async def _unwritten(self, asked: pb.ActRequest) -> str:
        """Waits until everything ordered so far is on disk, and returns ""; or what has to come
        about first, as soon as it is known that it cannot be written."""
        settled = asyncio.ensure_future(self.dispatcher.settled())
        while not settled.done():
            if self.dispatcher.ledger.trouble and not asked.by_number:
                settled.cancel()
                return self.dispatcher.until_written()
            await asyncio.wait((settled,), timeout=LOOK_EVERY_S)
        return ""


class Order:
    """One order as it is applied to job after job."""

    def __init__(self, orders: Orders, asked: pb.ActRequest, host: str, revival: Revival) -> None:
        self._dispatcher, self._finder = orders.dispatcher, orders.finder
        self._asker = f"{one_line(asked.user, TEXT_MAX)}@{host}"
        self._asked, self._revival = asked, revival
        self.updates = Updates(orders.dispatcher, asked.update, asked.is_admin)
        self._gangs: set[int] = set()  # those acted on as a whole
        self._refused: set[int] = set()  # those whose refusal was reported
        self._not_held: set[int] = set()  # of the jobs to release
        self._turns, self._host, self.turn_began_s = orders.turns, host, clock_s()

    async def next_turn(self) -> None:
        async with self._turns.turn(self._host):
            await asyncio.sleep(0)
        self.turn_began_s = clock_s()

    @property
    def ends_jobs(self) -> bool:
        asked = self._asked
        return asked.verb == "kill" and (asked.signal in ENDING or asked.cancels_waiting)

    def in_turn(self, rows: Sequence[JobRow]) -> Sequence[JobRow]:
        """Ends first what would start last: of 100,000 tasks that takes seconds, and none should
        start because others have ended."""
        return rows[::-1] if self.ends_jobs else rows

    def restore_turns(self, *lists: MutableSequence[str] | MutableSequence[Problem]) -> None:
        """Puts what was found in turn into the order that the jobs were given in."""
        for one in lists if self.ends_jobs else ():
            one.reverse()

    def is_said(self, row: JobRow) -> bool:
        """Whether the error was already reported for another job of its gang."""
        if not (row.gang and self._asked.verb in REQUEUES):
            return False
        said = row.submission in self._refused
        self._refused.add(row.submission)
        return said

    async def act_on(self, row: JobRow) -> int:
        """Acts on a job. Returns the bytes to be written besides its own row. Raises LbdError."""
        size_bytes = 0
        if self._asked.verb == "update":
            change = await self.updates.of(row)
            size_bytes = len(change.spec or b"")
            actions = self.updates.carry(change, row)
        elif row.submission in self._refused:
            raise LbdError(f"the gang of job {row.first} was refused")
        elif row.submission in self._gangs:
            return 0
        else:
            is_again = self._asked.verb in REQUEUES
            actions = await self._revival.start_over(row) if is_again else self._do(row)
            if row.gang and self._asked.signal in ENDING:
                self._gangs.add(row.submission)
        self._dispatcher.carry(actions)
        return size_bytes

    def note_done(self, reply: pb.ActReply, row: JobRow) -> None:
        reply.done_ids.append(row.shown)
        if open_for := self._open_for(row):
            reply.still_open[row.shown] = open_for
        if row.id in self._not_held:
            reply.not_held.append(row.shown)

    def _open_for(self, row: JobRow) -> str:
        """Returns why a job that is to end has not been notified; "" if it has."""
        life, lines = self._dispatcher.life, self._dispatcher.lines
        live = life.leased.get(JobId(str(row.id)))
        if self._asked.verb != "kill" or live is None or live.stop_reason != CANCEL:
            return ""
        has_line = live.lease is not None and live.lease.host in lines
        return out_of_contact(life, live.job.id, clock_s(), has_line=has_line)

    def _do(self, row: JobRow) -> list[Action]:
        """Raises LbdError."""
        asked, life, rng = self._asked, self._dispatcher.life, self._dispatcher.rng
        job, now_s = JobId(str(row.id)), clock_s()
        if asked.verb == "kill":
            number = checked_signal(asked.signal)
            if number in ENDING and row.state == JobState.PENDING.value and job not in life.jobs:
                return []  # it waited for one that this order has ended, and has ended with it
            ends = asked.cancels_waiting and not life.has_begun(job)
            actions = life.kill(job, number, now_s, rng, of=self._asker, ends=ends)
            for order in actions:  # one with a stop reason is repeated once its host is back
                if isinstance(order, Signal) and not order.stop_reason:
                    self._check_line(order)
            return actions
        if asked.verb == "hold":
            return life.hold(job, f"held by {one_line(asked.user, TEXT_MAX)}", now_s, rng)
        if asked.verb == "release":
            return self._release(job, row, now_s)
        raise LbdError(f"no such action on jobs: {asked.verb[:40]!r}")

    def _release(self, job: JobId, row: JobRow, now_s: float) -> list[Action]:
        actions = self._dispatcher.life.release(job, now_s, self._dispatcher.rng)
        if not actions:
            self._not_held.add(row.id)
        elif row.gang:
            self._gangs.add(row.submission)
        return actions

    def _check_line(self, order: Signal) -> None:
        """Raises LbdError."""
        if order.host not in self._dispatcher.lines:
            raise LbdError(f"job {order.job} was not signalled: {order.host} is out of contact")


def add_failures(reply: pb.ActReply, problems: Sequence[Problem], named: Container[str]) -> None:
    """`named`: the jobs that were named by themselves."""
    reply.errors.extend(in_few_lines(problems, named))
    for group in alike(problems):
        reply.failures.add(ids=[job for job, _ in group], error=group[0][1])


def of_each(ids: Sequence[str], why: str) -> list[Problem]:
    """The same problem of each of these jobs."""
    return [(shown, f"job {shown}: {why}") for shown in ids]


def refusal(ids: Sequence[str], error: str) -> pb.ActReply:
    """The reply if nothing was done, for one reason."""
    return pb.ActReply(errors=[error], failures=[pb.ActFailure(ids=ids, error=error)])


def by_shown_id(text: str, row: JobRow) -> str:
    """Replaces the job's number by the id that people know."""
    for end in (" ", ":"):
        text = text.replace(f"job {row.id}{end}", f"job {row.shown}{end}")
    return text
