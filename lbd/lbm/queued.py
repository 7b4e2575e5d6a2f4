"""`lbrun -q` and `-d` at their origin: into the queue, and with -q what the job prints and its end.

The client is told QUEUED once the dispatcher has the job on disk. If a client of -q goes away, its
job is cancelled or ended; if we go away, it runs on, and `lbctl wait` and `logs` find it.
"""

import asyncio
import contextlib
import os
import re
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from lbd.errors import LbdError, Unavailable
from lbd.jobs_named import jobs_do
from lbd.lbm.account_cache import user_name
from lbd.lbm.attached import Attached, Frame
from lbd.lbm.caller import PeerProcess
from lbd.lbm.client import LBRUN_FAILED, CommandEnd
from lbd.lbm.directory import Directory
from lbd.lbm.environment import outgoing
from lbd.lbm.home import Home
from lbd.lbm.outgoing import make_request
from lbd.lbm.queue_client import QueueClient
from lbd.lbm.queued_files import QueuedFiles, telling
from lbd.lbm.request import ClientRequest, read_request, within
from lbd.lbm.stage_store import Note
from lbd.lbm.state import Job
from lbd.model import HostId, JobId
from lbd.rpc import client_tags as tags
from lbd.rpc import frames
from lbd.rpc.admins import Admins
from lbd.rpc.gen import dispatch_pb2 as pb
from lbd.rpc.local import Caller

ARRAY_MAX = 10_000_000  # jobs: the most that dispatch.max_array can be
PRIORITY_MAX = 999
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
    priority: int = 0


Asked = tuple[ClientRequest, Wish]


def read_wish(body: bytes) -> Wish:
    """Raises ValueError."""
    wish = Wish()
    for key, value in frames.fields(body):
        if key == tags.ARRAY:
            wish.array = read_range(value)
        elif key == tags.KEY:
            wish.key = value.decode()
            if "\0" in wish.key:
                raise ValueError("a zero byte in the idempotency key")
        elif key == tags.INPUT_DATA:
            wish.input = value
        elif key == tags.OUTPUT_FILE:
            wish.output = value
        elif key == tags.ERROR_FILE:
            wish.error = value
        elif key == tags.CHECKPOINT:
            wish.checkpoint = value
        elif key == tags.PRIORITY:
            wish.priority = int(within(int(value) + PRIORITY_MAX, 2 * PRIORITY_MAX)) - PRIORITY_MAX
    return wish


def read_queued(body: bytes) -> Asked:
    """Raises ValueError."""
    return read_request(body), read_wish(body)


def read_range(text: bytes) -> tuple[int, int]:
    """Raises ValueError."""
    found = re.fullmatch(rb"([0-9]{1,18})-([0-9]{1,18})", text)
    first, last = map(int, found.groups()) if found else (1, 0)
    if not 0 <= last - first < ARRAY_MAX:
        raise ValueError("an array that cannot be")
    return first, last


async def serve_queued(
    home: Home,
    client: tuple[Caller, PeerProcess],
    ends: Ends,
    asked: Asked,
    more: list[Frame],
    taken: Callable[[], None],
) -> None:
    """`taken` is called when no more of the request is held here than its options. Raises OSError
    if the client is gone."""
    caller, (sock, listen), (request, wish) = client[0], ends, asked
    loop = asyncio.get_running_loop()

    async def send(tag: bytes, data: bytes = b"") -> None:
        await loop.sock_sendall(sock, frames.pack(tag, data))

    try:
        if home.queue is None or home.files is None:
            raise Unavailable("this host has no certificate (lbctl init, lbctl join), so no queue")
        taking = asyncio.ensure_future(take(home, home.queue, home.files, client, request, wish))
        submission, reply = await telling(taking, lambda: send_soon(sock, tags.TAKEN))
    except LbdError as problem:
        end = CommandEnd(LBRUN_FAILED, "failed", reason=str(problem))
        await send(tags.DONE, end.pack())
        return
    last = reply.first + reply.count - 1
    text = str(reply.first) if reply.count == 1 else f"{reply.first}-{last}"
    if name := submission.spec.files:
        await home.files.queued(note_of(name, caller, request, reply))
    user = submission.user
    attached = Attached(home.queue, home.files, user, caller.uid, text, send, name)
    del taking, submission
    request.argv, request.environment, wish.input = [], [], b""
    taken()
    try:
        if reply.is_other:
            whose = f"--idempotency-key {wish.key}: {jobs_do(text, 'has', 'have')} it"
            await send(tags.WARN, f"{whose}, another command: nothing new is queued".encode())
        if reply.warning:
            attached.told = reply.warning
            await send(tags.WARN, f"{jobs_do(text, 'waits', 'wait')}: {reply.warning}".encode())
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


def send_soon(sock: socket.socket, tag: bytes) -> None:
    """One that may be lost if the client does not read."""
    with contextlib.suppress(OSError):
        sock.send(frames.pack(tag))


async def take(
    home: Home,
    queue: QueueClient,
    files: QueuedFiles,
    client: tuple[Caller, PeerProcess],
    request: ClientRequest,
    wish: Wish,
) -> tuple[pb.SubmitRequest, pb.SubmitReply]:
    """Into the queue. Raises LbdError."""
    submission = await make_submission(home, *client, request, wish)
    if request.is_staged:
        submission.spec.files = await files.gather(request, client[0].uid)
    return submission, await submit(queue, files, submission)


async def submit(
    queue: QueueClient, files: QueuedFiles, submission: pb.SubmitRequest
) -> pb.SubmitReply:
    """Raises LbdError."""
    reply = await queue.submit(submission)
    if reply.error:
        if submission.spec.files:
            files.store.drop(submission.spec.files)
        raise Unavailable(reply.error)
    return reply


def note_of(name: str, caller: Caller, request: ClientRequest, reply: pb.SubmitReply) -> Note:
    return Note(
        name,
        reply.first,
        reply.count,
        caller.uid,
        request.umask,
        os.fsdecode(request.directory),
        [os.fsdecode(path) for path in request.send],
        [os.fsdecode(path) for path in request.fetch],
        waited_for=not request.has(tags.FLAG_DETACH),
    )


async def make_submission(
    home: Home, caller: Caller, peer: PeerProcess, request: ClientRequest, wish: Wish
) -> pb.SubmitRequest:
    """Raises LbdError."""
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
    stamp = None
    if not request.is_staged:
        directory = Directory(home.looker, home.unshared, request, caller.uid, peer)
        stamp = await directory.stamp()
    user, own_name = user_name(caller.uid), home.config.host.name
    environment, _ = outgoing(request.environment, home.denied, request.let_through)
    job = Job(JobId(""), tuple(request.argv), user, HostId(own_name), HostId(""), 0.0, request.name)
    run = make_request(job, request, environment, caller.uid, peer, stamp)
    run.wants_stdin = bool(wish.input)
    run.closed_fds = run.null_outputs = 0
    run.forced = False
    run.slots = run.slots_most = 0  # the dispatcher's business
    if request.is_staged:
        run.stage.send.extend(request.send)
        run.stage.fetch.extend(request.fetch)
    packed = run.SerializeToString()
    first, last = wish.array or (0, 0)
    return pb.SubmitRequest(
        user=user,
        origin=own_name,
        uid=caller.uid,
        name=request.name,
        command=request.argv,
        spec=pb.StoredSpec(
            run_request=b"" if request.is_staged else packed,
            staged_request=packed if request.is_staged else b"",
            input=wish.input,
            output=wish.output,
            error=wish.error,
            checkpoint=wish.checkpoint,
            submitted=time.time(),
        ),
        slots=request.slots[0],
        priority=wish.priority,
        slots_most=request.slots[1] if request.slots[1] > request.slots[0] else 0,
        may_restart=not request.has(tags.FLAG_NO_RESTART),
        only=request.host or "",
        excluded=sorted(request.excluded),
        key=wish.key,
        is_array=wish.array is not None,
        first_index=first,
        count=last - first + 1,
    )
