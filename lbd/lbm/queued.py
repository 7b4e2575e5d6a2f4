"""`lbrun -q` and `-d` at their origin: into the queue, and with -q what the job prints and its end.

The client is told QUEUED once the dispatcher has the job on disk. If a client of -q goes away, its
job is cancelled or ended; if we go away, it runs on, and `lbctl wait` and `logs` find it.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from lbd.errors import LbdError, Unavailable
from lbd.lbm.caller import user_name
from lbd.lbm.client import end_of_command
from lbd.lbm.directory import Directory
from lbd.lbm.environment import outgoing
from lbd.lbm.home import Home
from lbd.lbm.outgoing import make_request
from lbd.lbm.queue_client import QueueClient
from lbd.lbm.remote import ENDING_SIGNALS
from lbd.lbm.request import ClientRequest, read_request
from lbd.lbm.state import Job
from lbd.model import ENDED_NAMES, HostId, JobId
from lbd.rpc import client_tags as tags
from lbd.rpc import frames
from lbd.rpc.admins import Admins
from lbd.rpc.gen import dispatch_pb2 as pb
from lbd.rpc.local import Caller
from lbd.units import duration_text

LBRUN_FAILED = 125
CHECKPOINT = "checkpoint"  # the state of an attempt that is continued by the next
LAST_WORDS_S = 1.0
RETRY_S = 0.5
RETRY_FOR_S = 60.0  # a dispatcher that is being started again
Frame = tuple[bytes, bytes]
Ends = tuple[socket.socket, Callable[[], Awaitable[list[Frame]]]]


@dataclass(slots=True)
class Wish:
    """What a QUEUE frame says beyond a RUN frame."""

    array: tuple[int, int] | None = None
    key: str = ""
    input: bytes = b""
    output: bytes = b""
    error: bytes = b""
    checkpoint: bytes = b""
    slots: tuple[int, int] = (1, 1)  # it needs, and can use
    priority: int = 0


def read_wish(body: bytes) -> Wish:
    """Raises ValueError."""
    wish = Wish()
    for key, value in frames.fields(body):
        if key == tags.ARRAY:
            wish.array = read_range(value)
        elif key == tags.KEY:
            wish.key = value.decode()
        elif key == tags.INPUT_DATA:
            wish.input = value
        elif key == tags.OUTPUT_FILE:
            wish.output = value
        elif key == tags.ERROR_FILE:
            wish.error = value
        elif key == tags.CHECKPOINT:
            wish.checkpoint = value
        elif key == tags.SLOTS:
            wish.slots = read_range(value)
        elif key == tags.PRIORITY:
            wish.priority = int(value)
    return wish


def read_range(text: bytes) -> tuple[int, int]:
    """Raises ValueError."""
    first, _, last = text.decode().partition("-")
    return int(first), int(last)


async def serve_queued(
    home: Home, caller: Caller, ends: Ends, body: bytes, more: list[Frame]
) -> None:
    """Raises ValueError if the request makes no sense, OSError if the client is gone."""
    sock, listen = ends
    loop = asyncio.get_running_loop()
    request, wish = read_request(body), read_wish(body)

    async def send(tag: bytes, data: bytes = b"") -> None:
        await loop.sock_sendall(sock, frames.pack(tag, data))

    try:
        if home.queue is None:
            raise Unavailable("this host has no certificate (lbctl init, lbctl join), so no queue")
        submission = await make_submission(home, caller, request, wish)
        reply = await home.queue.submit(submission)
        if reply.error:
            raise Unavailable(reply.error)
    except LbdError as problem:
        await send(tags.DONE, end_of_command(LBRUN_FAILED, "failed", "", str(problem)))
        return
    last = reply.first + reply.count - 1
    text = str(reply.first) if reply.count == 1 else f"{reply.first}-{last}"
    attached = Attached(home.queue, submission.user, text, send)
    try:
        await send(tags.QUEUED, text.encode())
    except OSError:  # gone meanwhile
        if not request.has(tags.FLAG_DETACH):
            await attached.leave()
        raise
    if request.has(tags.FLAG_DETACH):
        return
    following = asyncio.create_task(attached.follow(), name=f"follow {text}")
    listening = asyncio.create_task(attached.listen(listen, more), name=f"listen to {text}")
    try:
        await asyncio.wait((following, listening), return_when=asyncio.FIRST_COMPLETED)
        # Either may be the first to notice.
        if not following.done() or isinstance(following.exception(), OSError):
            await attached.leave()
    finally:
        for task in (following, listening):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError, ValueError):
                await task


async def make_submission(
    home: Home, caller: Caller, request: ClientRequest, wish: Wish
) -> pb.SubmitRequest:
    """Raises LbdError."""
    if request.is_staged:
        raise Unavailable("--send and --fetch do not go with the queue yet")
    limit = home.config.dispatch.max_input_bytes
    if len(wish.input) > limit:
        raise Unavailable(
            f"standard input has more than {limit} bytes (dispatch.max_input_bytes); "
            "let the command read a file, or give --no-stdin"
        )
    if wish.priority > 0 and not Admins(home.config.admin).include(caller):
        raise Unavailable(
            f"--priority {wish.priority}: only administrators (admin.users, admin.groups) raise "
            "priorities; yours may be 0 or less"
        )
    stamp = await Directory(home.looker, home.unshared, request, caller.uid, caller.pid).stamp()
    user, own_name = user_name(caller.uid), home.config.host.name
    environment, _ = outgoing(request.environment, home.denied, request.let_through)
    job = Job(JobId(""), tuple(request.argv), user, HostId(own_name), HostId(""), 0.0, request.name)
    run = make_request(job, request, environment, caller.uid, caller.pid, stamp)
    run.wants_stdin = bool(wish.input)
    run.closed_fds = run.null_outputs = 0
    run.forced = False
    first, last = wish.array or (0, 0)
    return pb.SubmitRequest(
        user=user,
        origin=own_name,
        name=request.name,
        command=request.argv,
        spec=pb.StoredSpec(
            run_request=run.SerializeToString(),
            input=wish.input,
            output=wish.output,
            error=wish.error,
            checkpoint=wish.checkpoint,
            submitted=time.time(),
        ),
        slots=wish.slots[0],
        priority=wish.priority,
        slots_most=wish.slots[1] if wish.slots[1] > wish.slots[0] else 0,
        may_restart=not request.has(tags.FLAG_NO_RESTART),
        only=request.host or "",
        excluded=sorted(request.excluded),
        key=wish.key,
        is_array=wish.array is not None,
        first_index=first,
        count=last - first + 1,
    )


@dataclass(slots=True)
class Shown:
    """How far one attempt's output has been shown."""

    output: int = 0
    error: int = 0


@dataclass(slots=True)
class Attached:
    """A client that waits for its job, or for those of its array."""

    queue: QueueClient
    user: str
    jobs: str  # selector
    send: Callable[[bytes, bytes], Awaitable[None]]
    pending: bool = True
    _told: str = ""
    _shown: dict[tuple[int, int], Shown] = field(default_factory=dict)  # by attempt
    _live: "asyncio.Task[None] | None" = None
    _ended: dict[int, pb.JobTold] = field(default_factory=dict)

    async def follow(self) -> None:
        """Until all have ended and the client has been told. Raises OSError if it is gone."""
        patient_until_s = asyncio.get_running_loop().time() + RETRY_FOR_S
        while True:
            try:
                async for told in self.queue.watch(pb.JobsAsked(selectors=[self.jobs])):
                    patient_until_s = asyncio.get_running_loop().time() + RETRY_FOR_S
                    if told.error:
                        raise Unavailable(told.error)
                    for job in told.jobs:
                        await self._heard(job)
                await self._tell_end()
                return
            except LbdError as problem:
                if asyncio.get_running_loop().time() > patient_until_s:
                    text = f"{problem}; job {self.jobs} goes on: lbctl wait {self.jobs}"
                    await self.send(tags.DONE, end_of_command(LBRUN_FAILED, "lost", "", text))
                    return
                await asyncio.sleep(RETRY_S)

    async def _heard(self, job: pb.JobTold) -> None:
        if job.id in self._ended:
            return
        self.pending = job.state == "pending"
        one = "-" not in self.jobs
        if self.pending and one and job.reason and job.reason != self._told:
            self._told, text = job.reason, job.reason
            if job.HasField("predicted_wait_s"):
                text += f"; begins in about {duration_text(job.predicted_wait_s)}"
            await self.send(tags.WAITS, text.encode())
        if job.state == "running" and job.is_final and one and self._live is None:
            self._live = asyncio.create_task(self._show(job, follow=True), name=f"show {job.id}")
        elif self._live is not None and job.state != "running":
            await self._stop_showing(job.state in ENDED_NAMES)
        if job.state in ENDED_NAMES:
            if job.attempt:
                await self._show(job, follow=False)
            self._ended[job.id] = job

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
        for number, host in await self._continued(job):
            await self._show_attempt(job.id, number, host, follow=False)
        await self._show_attempt(job.id, job.attempt, job.host, follow=follow)

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
        shown = self._shown.setdefault((job, number), Shown())
        asked = pb.LogsRequest(
            job=str(job),
            attempt=number,
            output_at=shown.output,
            error_at=shown.error,
            follow=follow,
        )
        try:
            async for piece in self.queue.logs(host, asked):
                if piece.trouble:
                    raise Unavailable(piece.trouble)
                shown.output, shown.error = piece.output_at, piece.error_at
                if piece.dropped_bytes:
                    text = f"{piece.dropped_bytes} bytes of output were dropped here"
                    await self.send(tags.WARN, text.encode())
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
        body = end_of_command(status, cause, job.host, reason, job.signal, job.cpu_s)
        await self.send(tags.DONE, body)

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
        give_up_s = asyncio.get_running_loop().time() + RETRY_FOR_S
        while asyncio.get_running_loop().time() < give_up_s:
            try:
                await self.queue.act(
                    pb.ActRequest(verb="kill", selectors=[self.jobs], user=self.user)
                )
                return
            except LbdError:
                await asyncio.sleep(RETRY_S)

    async def act(self, number: int) -> None:
        with contextlib.suppress(LbdError):
            await self.queue.act(
                pb.ActRequest(verb="kill", selectors=[self.jobs], user=self.user, signal=number)
            )
