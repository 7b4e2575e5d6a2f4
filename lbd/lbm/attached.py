"""An `lbrun -q` at its origin once its job is queued: what that prints, what it made, its end."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from lbd.errors import LbdError, Unavailable
from lbd.jobs_named import jobs_do
from lbd.lbm.client import LBRUN_FAILED, CommandEnd
from lbd.lbm.logs import cut_short
from lbd.lbm.queue_client import CHECKPOINT, QueueClient
from lbd.lbm.queued_files import QueuedFiles
from lbd.lbm.remote import ENDING_SIGNALS
from lbd.model import ENDED_NAMES
from lbd.rpc import client_tags as tags
from lbd.rpc.gen import dispatch_pb2 as pb
from lbd.units import duration_text

LAST_WORDS_S = 1.0
RETRY_S = 0.5
RETRY_FOR_S = 60.0  # a dispatcher that is being started again
REMARK_AFTER_S = 3.0
AWAY = "its dispatcher is away"
Frame = tuple[bytes, bytes]


@dataclass(slots=True)
class Shown:
    """How far one attempt's output has been shown."""

    output: int = 0
    error: int = 0
    cut: bool = False  # and that it was cut short has been said


@dataclass(slots=True)
class Patience:
    """With a dispatcher that is away: counted from when it was missed, not from when it last had
    something to say. Pure."""

    limit_s: float
    since_s: float | None = None  # nothing was heard

    def heard(self) -> None:
        self.since_s = None

    def lasts_s(self, now_s: float) -> float:
        """For how long, as it was asked in vain now."""
        self.since_s = now_s if self.since_s is None else self.since_s
        return now_s - self.since_s

    def ends(self, now_s: float) -> bool:
        return self.lasts_s(now_s) >= self.limit_s


@dataclass(slots=True)
class Attached:
    """A client that waits for its job, or for those of its array."""

    queue: QueueClient
    files: QueuedFiles
    user: str
    uid: int
    jobs: str  # selector
    send: Callable[[bytes, bytes], Awaitable[None]]
    pack: str  # name of what was sent, "" = nothing was
    pending: bool = True
    told: str = ""  # why it waits
    _shown: dict[int, dict[int, Shown]] = field(default_factory=dict)  # by job and attempt
    _live: "asyncio.Task[None] | None" = None
    _ended: dict[int, pb.JobTold] = field(default_factory=dict)

    async def follow(self) -> None:
        """Until all have ended and the client has been told. Raises OSError if it is gone."""
        patience = Patience(RETRY_FOR_S)
        while True:
            try:
                async for told in self.queue.watch(pb.JobsAsked(selectors=[self.jobs])):
                    patience.heard()
                    if told.error:
                        raise Unavailable(told.error)
                    for job in told.jobs:
                        await self._heard(job)
                await self._tell_end()
                return
            except LbdError as problem:
                now_s = asyncio.get_running_loop().time()
                await self._tell_away(str(problem), patience.lasts_s(now_s))
                if patience.ends(now_s):
                    text = (
                        f"{problem}; {jobs_do(self.jobs, 'goes', 'go')} on: lbctl wait {self.jobs}"
                    )
                    await self.send(tags.DONE, CommandEnd(LBRUN_FAILED, "lost", reason=text).pack())
                    return
                await asyncio.sleep(RETRY_S)

    async def _tell_away(self, problem: str, lasts_s: float) -> None:
        """Of a dispatcher that is away, once it is more than a moment."""
        if lasts_s >= REMARK_AFTER_S and self.told != AWAY:
            self.told = AWAY
            await self.send(tags.WAITS, problem.encode())

    async def _heard(self, job: pb.JobTold) -> None:
        if job.id in self._ended:
            return
        self.pending = job.state == "pending"
        one = "-" not in self.jobs
        if one and job.state not in ENDED_NAMES and job.reason and job.reason != self.told:
            self.told, text = job.reason, job.reason
            if self.pending and job.HasField("predicted_wait_s"):
                text += f"; begins in about {duration_text(job.predicted_wait_s)}"
            await self.send(tags.WAITS, text.encode())
        if job.state == "running" and job.is_final and one and self._live is None:
            self._live = asyncio.create_task(self._show(job, follow=True), name=f"show {job.id}")
        elif self._live is not None and job.state != "running":
            await self._stop_showing(job.state in ENDED_NAMES)
        if job.state in ENDED_NAMES:
            if job.attempt:
                await self._show(job, follow=False)
            await self._fetch(job)
            self._ended[job.id] = job
            self._shown.pop(job.id, None)

    async def _fetch(self, job: pb.JobTold) -> None:
        """Its outputs; if they cannot be had, that is how it ended."""
        note = self.files.waited_for(job.id) if self.pack else None
        if note is None:
            return
        try:
            trouble = await self.files.bring(note, job)
        except LbdError as problem:
            trouble = str(problem)
        if trouble:
            status = job.exit_status if job.HasField("exit_status") else "no status"
            job.reason = f"--fetch {trouble}; the command itself ended with {status}"
            job.exit_status, job.signal, job.state, job.cause = LBRUN_FAILED, 0, "failed", "failed"
        await self.files.done(note, job.id)

    async def _stop_showing(self, ended: bool) -> None:
        """The host ends the stream itself when the attempt is over."""
        live, self._live = self._live, None
        assert live is not None
        if not ended:  # lost with its host, or stopped at a checkpoint
            await asyncio.wait((live,), timeout=LAST_WORDS_S)
            live.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await live

    async def _show(self, job: pb.JobTold, *, follow: bool) -> None:
        """What it has printed and was not shown; with `follow` until its attempt is over."""
        continued = await self._continued(job)
        for number, host in continued:
            await self._show_attempt(job.id, number, host, follow=False)
        if not job.started and job.state != "lost":  # it was to begin, and never did
            return
        if job.attempt not in self._shown.setdefault(job.id, {}):
            await self._tell_vain(job, {number for number, _ in continued})
        await self._show_attempt(job.id, job.attempt, job.host, follow=follow)

    async def _tell_vain(self, job: pb.JobTold, continued: set[int]) -> None:
        """Of an attempt that was shown and is made again, lest both be taken for one output."""
        vain = [
            number
            for number, shown in self._shown[job.id].items()
            if number not in continued and shown.output + shown.error
        ]
        if vain:
            text = f"attempt {max(vain)} came to nothing; this is attempt {job.attempt}"
            await self.send(tags.WARN, text.encode())

    async def _continued(self, job: pb.JobTold) -> list[tuple[int, str]]:
        """The attempts before its last that stopped at a checkpoint."""
        if job.attempt < 2:
            return []
        try:
            asked = pb.JobsAsked(selectors=[str(job.id)], ended_too=True, with_attempts=True)
            told = await self.queue.jobs(asked)
        except LbdError:
            return []
        found = [one for row in told.jobs for one in row.attempts if one.number < job.attempt]
        return [(one.number, one.host) for one in found if one.state == CHECKPOINT]

    async def _show_attempt(self, job: int, number: int, host: str, *, follow: bool) -> None:
        shown = self._shown.setdefault(job, {}).setdefault(number, Shown())
        asked = pb.LogsRequest(
            job=str(job),
            attempt=number,
            output_at=shown.output,
            error_at=shown.error,
            follow=follow,
            asks_cut=True,
        )
        try:
            async for piece in self.queue.logs(host, asked):
                if piece.trouble:
                    raise Unavailable(piece.trouble)
                shown.output, shown.error = piece.output_at, piece.error_at
                if piece.dropped_bytes:
                    text = f"{piece.dropped_bytes} bytes of output were dropped here"
                    await self.send(tags.WARN, text.encode())
                if piece.cut and not shown.cut:
                    shown.cut = True
                    await self.send(tags.WARN, cut_short(host).encode())
                if piece.output:
                    await self.send(tags.OUTPUT, piece.output)
                if piece.error:
                    await self.send(tags.ERRORS, piece.error)
        except LbdError as problem:
            if not follow:
                await self.send(tags.WARN, f"job {job}: {problem}".encode())

    async def _tell_end(self) -> None:
        """Of the only job; of an array, of the first that did not succeed."""
        jobs = sorted(self._ended.values(), key=lambda job: job.id)
        bad = [job for job in jobs if job.state != "done"]
        job = bad[0] if bad else jobs[0]
        status = job.exit_status if job.HasField("exit_status") else LBRUN_FAILED
        if job.state == "cancelled" and not job.HasField("exit_status"):
            status = LBRUN_FAILED
        reason = job.reason if job.cause not in ("exited", "signalled") or status == 125 else ""
        if len(bad) > 1:
            reason = f"{len(bad)} of {len(jobs)} jobs did not succeed; {reason}".rstrip("; ")
        cause = job.cause or job.state
        attempt = max(1, job.attempt)
        end = CommandEnd(status, cause, job.host, reason, job.signal, job.cpu_s, attempt)
        await self.send(tags.DONE, end.pack())

    async def listen(
        self, listen: Callable[[], Awaitable[list[Frame]]], received: list[Frame]
    ) -> None:
        """Signals from the client; returns when it is gone."""
        while True:
            for tag, body in received:
                if tag == tags.SIGNAL and len(body) == 1:
                    await self.act(0 if self.pending and body[0] in ENDING_SIGNALS else body[0])
                elif tag == tags.FORCE:
                    await self.act(9)
            received = await listen()
            if not received:
                return

    async def leave(self) -> None:
        """Its caller is gone, and so is to be what it waits for: also if the dispatcher is away
        just now."""
        self.files.left_alone(self.pack)
        give_up_s = asyncio.get_running_loop().time() + RETRY_FOR_S
        while asyncio.get_running_loop().time() < give_up_s:
            try:
                await self.queue.act(self._kill(0))
                return
            except LbdError:
                await asyncio.sleep(RETRY_S)

    async def act(self, number: int) -> None:
        with contextlib.suppress(LbdError):
            await self.queue.act(self._kill(number))

    def _kill(self, number: int) -> pb.ActRequest:
        return pb.ActRequest(
            verb="kill", selectors=[self.jobs], user=self.user, uid=self.uid, signal=number
        )
