"""An `lbrun -q` at its origin once its job is queued: shows its output, its files and its end."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from functools import partial

from lbd.errors import LbdError, Unavailable
from lbd.lbm.core.journey import ENDING_SIGNALS
from lbd.lbm.core.journey_events import BY_SIGNAL, LBRUN_FAILED, CommandEnd
from lbd.lbm.core.pauses import Pauses
from lbd.lbm.queue.dispatcher_client import DispatcherClient, Watching
from lbd.lbm.queue.followed_array import KILL, AwaitedJobs, FollowedArray
from lbd.lbm.queue.shown_output import RETRY_FOR_S, RETRY_S, SILENT_S, Patience, ShownOutput
from lbd.lbm.session.client import pack_end
from lbd.lbm.session.queue_json import cause_of, name_of
from lbd.lbm.staging.followed_outputs import FollowedOutputs
from lbd.lbm.staging.queued_files import QueuedFiles
from lbd.local import client_tags as tags
from lbd.local.client_frames import Frame
from lbd.model import ENDED_NAMES
from lbd.net.gen import dispatch_pb2 as pb
from lbd.text.array_phrases import still_running
from lbd.text.job_phrases import (
    BY_USER,
    BY_USER_OR_HOST,
    CHILD_WAS,
    ENDED_UNRECORDED,
    RUNS_UNRECORDED,
    STARTING,
    jobs_do,
    waits_for_mending,
)
from lbd.text.one_line import one_line
from lbd.text.units import duration_text
from lbd.theory.calibration import FEWEST

LAST_WORDS_S = 1.0
REMARK_AFTER_S = 3.0
ADVICE_AFTER_S = 2.0  # most commands end within that time of an interrupt
INTERRUPT, ADVICE = 2, 0
REPEATED_S = 0.05  # between reading signals that are already under way: nobody types faster
HELD_ON = "running", "suspended"  # states of a job that has begun on its host
WAITS_FOR_NOTHING = STARTING, RUNS_UNRECORDED
AWAY = "its dispatcher cannot be reached"


class SignalOrders:
    """The orders that a client gives by its signals. One is given beside earlier ones of other
    signals: with many tasks an order takes a while. One of the same signal is given once that one
    is answered, however many come."""

    def __init__(self, order: Callable[[int], Awaitable[None]]) -> None:
        self._order = order
        self.under_way: dict[int, asyncio.Task[None]] = {}
        self.repeated: set[int] = set()

    def give(self, number: int) -> None:
        if not self.begin(number, self._give(number)):
            self.repeated.add(number)

    def begin(self, key: int, doing: Coroutine[object, object, None]) -> bool:
        """Returns False if it is under way already."""
        earlier = self.under_way.get(key)
        if earlier is not None and not earlier.done():
            doing.close()
            return False
        task = self.under_way[key] = asyncio.create_task(doing, name=f"signal {key}")
        task.add_done_callback(partial(self._over, key))
        return True

    def _over(self, key: int, task: "asyncio.Task[None]") -> None:
        if self.under_way.get(key) is task:  # another may have begun just after it
            del self.under_way[key]

    async def _give(self, number: int) -> None:
        wanted = True
        while wanted:
            self.repeated.discard(number)
            await self._order(number)
            wanted = number in self.repeated

    def close(self) -> None:
        for task in self.under_way.values():
            task.cancel()


@dataclass(slots=True)
class FollowedJobs:
    """A client that waits for its job, or for the jobs of its array."""

    queue: DispatcherClient
    files: QueuedFiles
    user: str
    uid: int
    ledger: str  # that has the jobs
    jobs: str  # id of the job, or of the array
    numbers: str  # a selector for all its jobs
    send: Callable[[bytes, bytes], Awaitable[None]]
    pack: str  # name of the pack that was sent; "" = none
    pauses: Pauses = field(default_factory=Pauses)
    pending: bool = True
    shown_reason: str = ""  # why it waits
    array: FollowedArray | None = None
    interrupted: int = 0  # by this signal; 0 = not
    watching: Watching | None = None  # begun when they were submitted
    _output: ShownOutput = field(init=False)
    _outputs: FollowedOutputs = field(init=False)
    _warned_of: str = ""  # the last reason for which no host took it
    _is_unrecorded: bool = False  # whether that was said
    _is_forced: bool = False  # they are to end at once
    _live: "asyncio.Task[None] | None" = None
    _ended: AwaitedJobs = field(init=False)
    _orders: "SignalOrders" = field(init=False)

    def __post_init__(self) -> None:
        self._output = ShownOutput(self.queue, self.user, self.ledger, self.send)
        self._outputs = FollowedOutputs(self.files, self.ledger, self.pack, self.send)
        self._ended = AwaitedJobs(self.numbers)
        self._orders = SignalOrders(self._order)

    async def attend(
        self, listen: Callable[[], Awaitable[list[Frame]]], received: list[Frame]
    ) -> None:
        """Runs until all jobs have ended and the client knows, or the client is gone."""
        following = asyncio.create_task(self.follow(), name=f"follow {self.jobs}")
        hearing = self.listen(listen, received)
        listening = asyncio.create_task(hearing, name=f"listen to {self.jobs}")
        try:
            await asyncio.wait((following, listening), return_when=asyncio.FIRST_COMPLETED)
            # Either task may be the first to notice.
            if not following.done() or isinstance(following.exception(), OSError):
                await self.leave()
        finally:
            for task in (following, listening):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, OSError, ValueError):
                    await task
            del task, following, listening  # break the cycle with an exception of theirs

    async def follow(self) -> None:
        """Runs until all have ended and the client knows. Raises OSError if it is gone."""
        try:
            await self._follow()
        finally:
            if self._live is not None:  # it may wait for a client that does not read any more
                self._live.cancel()
                await asyncio.gather(self._live, return_exceptions=True)
            await self._outputs.stop()

    async def _follow(self) -> None:
        patience = Patience(RETRY_FOR_S)
        while True:
            try:
                asked = pb.JobsAsked(
                    selectors=[self.numbers], user=self.user, uid=self.uid, by_number=True
                )
                watching = self.watching or self.queue.watch(asked, self.ledger)
                self.watching = None
                async for reply in watching:
                    patience.heard()
                    if reply.error:
                        raise Unavailable(reply.error)
                    await self._report_progress(reply.jobs)
                    for job in reply.jobs:
                        await self._heard(job)
                await self._outputs.all_here()
                await self._report_end()
                return
            except LbdError as problem:
                now_s = asyncio.get_running_loop().time()
                await self._report_away(str(problem), patience.lasts_s(now_s))
                if patience.ends(now_s):
                    text = (
                        f"{problem}; {jobs_do(self.jobs, 'continues', 'continue')}: lbctl wait "
                        f"{self.jobs}"
                    )
                    end = CommandEnd(LBRUN_FAILED, "lost", reason=text)
                    await self.send(tags.DONE, pack_end(end))
                    return
                await asyncio.sleep(RETRY_S)

    async def _report_away(self, problem: str, lasts_s: float) -> None:
        """Reports that the dispatcher is away, once it has been for more than a moment."""
        if lasts_s >= REMARK_AFTER_S and self.shown_reason != AWAY:
            self.shown_reason = AWAY
            await self.send(tags.WAITS, problem.encode())

    async def _report_progress(self, changed: Iterable[pb.JobInfo]) -> None:
        """Shows the progress of an array, on a terminal."""
        if self.array is not None and self.array.shows_progress:
            self.array.heard(changed)
            line = self.array.progress(asyncio.get_running_loop().time())
            await self.send(tags.PROGRESS, line.encode())

    async def _heard(self, job: pb.JobInfo) -> None:
        if not self._ended.awaits(job.id) or self._outputs.has_in_hand(job.id):
            return
        self.pending = job.state == "pending"
        one = self.array is None
        if one and job.state in HELD_ON:
            still = job.reason if job.state == "suspended" else ""
            if line := self.pauses.line(job.host, still):
                await self.send(tags.WARN, line.encode())
        says = job.reason not in ("", self.shown_reason) and not job.reason.startswith(
            WAITS_FOR_NOTHING
        )
        if job.state not in ENDED_NAMES and job.reason.startswith(ENDED_UNRECORDED):
            await self._report_unrecorded(job)
        elif one and job.state not in (*ENDED_NAMES, "suspended") and says:
            self.shown_reason, text = job.reason, job.reason
            if self.pending and job.HasField("predicted_wait_s"):
                text += f"; {begin_text(job)}"
            if not waits_for_mending(job.reason):
                await self.send(tags.WAITS, text.encode())
            elif (said := job.reason.replace(BY_USER_OR_HOST, BY_USER)) != self._warned_of:
                self._warned_of = said  # also without a terminal, and not after each attempt
                await self.send(tags.WARN, f"{jobs_do(self.jobs, 'waits')}: {job.reason}".encode())
        if job.state == "running" and job.is_final and one and self._live is None:
            self._live = asyncio.create_task(
                self._output.show(job, follow=True), name=f"show {job.id}"
            )
        elif self._live is not None and job.state != "running":
            await self._stop_showing(job.state in ENDED_NAMES)
        if job.state in ENDED_NAMES:
            if job.attempt:
                await self._output.show(job, follow=False)
            await self._outputs.fetch(job, self._is_over)

    def _is_over(self, job: pb.JobInfo) -> None:
        self._ended.add(job)
        self._output.forget(job.id)

    async def _report_unrecorded(self, job: pb.JobInfo) -> None:
        """Says once, also without a terminal, that a command has ended of which nothing comes."""
        if not self._is_unrecorded:
            self._is_unrecorded = True
            which = "" if self.array is None else f"job {name_of(job)}: "
            await self.send(tags.WARN, f"{which}{one_line(job.reason)}".encode())

    async def _stop_showing(self, ended: bool) -> None:
        """Stops showing a live output. The host itself ends the stream of an ended attempt, soon;
        the rest of it is then requested again."""
        live, self._live = self._live, None
        assert live is not None
        # else it was lost with its host, or has stopped at a checkpoint
        await asyncio.wait((live,), timeout=SILENT_S if ended else LAST_WORDS_S)
        live.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await live

    async def _report_end(self) -> None:
        """Reports the end of the only job, or of an array's first task that did not succeed."""
        job = self._ended.first
        status = job.exit_status if job.HasField("exit_status") else LBRUN_FAILED
        if job.state == "cancelled" and not status:  # it may have answered the signal with 0
            status = LBRUN_FAILED
        if job.state == "cancelled" and not job.HasField("exit_status") and self.interrupted:
            status = BY_SIGNAL + self.interrupted
        # our own signal has cancelled it: then how it ended says more than who sent that
        signal, cause = job.signal, (job.cause if self.interrupted else "") or cause_of(job)
        reason = reason_of(job, cause, status)
        if self.array is not None:
            signal, reason = 0, self.array.end(self._ended, self.interrupted)
            if self.interrupted and not self._ended.all_done:
                status, cause = BY_SIGNAL + self.interrupted, "interrupted"
        attempt = max(1, job.attempt)
        end = CommandEnd(status, cause, job.host, reason, signal, job.cpu_s, attempt)
        await self.send(tags.DONE, pack_end(end))

    async def listen(
        self, listen: Callable[[], Awaitable[list[Frame]]], received: list[Frame]
    ) -> None:
        """Handles signals from the client; returns when it is gone."""
        try:
            while True:
                for tag, body in received:
                    if tag == tags.SIGNAL and len(body) == 1:
                        self._act_soon(body[0])
                    elif tag == tags.FORCE:
                        self._act_soon(KILL)
                if self._orders.repeated:
                    await asyncio.sleep(REPEATED_S)
                received = await listen()
                if not received:
                    return
        finally:
            self._orders.close()

    def _act_soon(self, number: int) -> None:
        if number in ENDING_SIGNALS:
            self.interrupted = number
        self._is_forced |= number == KILL
        if number in ENDING_SIGNALS or number == KILL:
            self._outputs.end_soon(forced=number == KILL)
        self._orders.give(number)

    async def _order(self, number: int) -> None:
        await self.act(number, cancels_waiting=number in ENDING_SIGNALS)
        if number == INTERRUPT:
            self._orders.begin(ADVICE, self._advise())

    async def _advise(self) -> None:
        """After an interrupt, says what to do about jobs that go on: they may ignore it."""
        await asyncio.sleep(ADVICE_AFTER_S)
        if (left := self._ended.left) and not self._is_forced:
            with contextlib.suppress(OSError):
                await self.send(
                    tags.WARN, still_running(left, is_array=self.array is not None).encode()
                )

    async def leave(self) -> None:
        """Ends the jobs of a client that is gone, once the dispatcher is connected."""
        self._outputs.left_alone()
        await self.queue.departures.end((self.user, self.uid, self.ledger), self.numbers)

    async def act(self, number: int, *, cancels_waiting: bool = False) -> None:
        with contextlib.suppress(LbdError):
            await self.queue.act(self._kill(number, cancels_waiting=cancels_waiting))

    def _kill(self, number: int, *, cancels_waiting: bool = False) -> pb.ActRequest:
        return pb.ActRequest(
            verb="kill", selectors=[self.numbers], user=self.user, uid=self.uid, signal=number,
            cancels_waiting=cancels_waiting, by_number=True,
        )  # fmt: skip


def reason_of(job: pb.JobInfo, cause: str, status: int) -> str:
    """Returns what to say of how it ended; "" if it ended by itself."""
    by_itself = cause in ("exited", "signalled") and status != LBRUN_FAILED
    return "" if by_itself and not job.reason.startswith(CHILD_WAS) else job.reason


def begin_text(job: pb.JobInfo) -> str:
    """Returns when a waiting job starts: `starts in ~12s (likely 4s to 2m)` if that is a guess."""
    about = "about " if job.comparable >= FEWEST else "~"
    found = f"starts in {about}{duration_text(job.predicted_wait_s)}"
    if not (job.HasField("predicted_low_s") and job.HasField("predicted_high_s")):
        return found
    low, high = duration_text(job.predicted_low_s), duration_text(job.predicted_high_s)
    return f"{found} (likely {low} to {high})" if job.predicted_high_s > 0 else found
