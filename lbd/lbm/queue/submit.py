"""`lbrun -q` and `-d` at their origin: submits the job; with -q also shows its output and its end.

The client gets QUEUED once the dispatcher has the job on disk. If a client of -q disconnects, its
job is cancelled or ended. If we stop, it runs on, and `lbctl wait` and `logs` find it.
"""

import asyncio
import contextlib
import math
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from lbd.errors import LbdError, Unavailable
from lbd.lbm.core.jobs import Job
from lbd.lbm.core.journey_events import LBRUN_FAILED, CommandEnd
from lbd.lbm.outbound.context import OutboundContext
from lbd.lbm.outbound.directory import Directory
from lbd.lbm.outbound.request import leaving, make_request
from lbd.lbm.owner.accounts import user_name
from lbd.lbm.queue.dispatcher_client import DispatcherClient, Watching
from lbd.lbm.queue.early_frames import EarlyFrames, OnItsWay, report_waiting
from lbd.lbm.queue.follow import FollowedJobs
from lbd.lbm.queue.followed_array import FollowedArray
from lbd.lbm.queue.named_host import ANSWER_DETACHED_S, ANSWER_S, why_refused
from lbd.lbm.session.client import pack_end
from lbd.lbm.session.peer_process import PeerProcess
from lbd.lbm.session.request import ClientRequest, queued_fields, request_of, within
from lbd.lbm.staging.queued_files import QueuedFiles, note_of
from lbd.local import client_tags as tags
from lbd.local import frames
from lbd.local.admins import Admins
from lbd.local.caller import Caller, range_owner
from lbd.local.client_frames import Frame
from lbd.local.field_reader import Reader
from lbd.local.field_table import Field
from lbd.model import HostId, JobId
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.gen import lbm_pb2
from lbd.text.closed_words import JOINING
from lbd.text.index_list import COUNT_MAX, Runs, count_of, is_number, read_runs, runs_text
from lbd.text.job_limits import AFTER_MAX, PRIORITY_MAX, SPEEDUP_MAX, TIME_MAX, WORK_S_MAX
from lbd.text.job_phrases import jobs_do, shell_line_remark
from lbd.text.needs_words import needs_text

NO_CERTIFICATE = f"this host runs without a certificate, so it has no queue ({JOINING})"
ClientLine = tuple[socket.socket, Callable[[], Awaitable[list[Frame]]]]


@dataclass(slots=True)
class SubmitOptions:
    """What a QUEUE frame says beyond a RUN frame."""

    tasks: tuple[Runs, int] = ((), 0)  # of an array: its indexes, and how many run at once
    key: str = ""
    input: bytes = b""
    output: bytes = b""
    error: bytes = b""
    checkpoint: bytes = b""
    priority: int = 0
    target_s: float | None = None
    deadline: float | None = None  # UNIX seconds
    speedup: tuple[float, float] | None = None  # A and σ
    work_s: float | None = None
    after: tuple[str, ...] = ()  # "ok:12", as in SubmitRequest
    begin: float | None = None  # UNIX seconds
    notify: bytes = b""  # a line for `sh -c`


Asked = tuple[ClientRequest, SubmitOptions]


def read_queued(body: bytes) -> Asked:
    """Reads a QUEUE frame. Raises ValueError."""
    given, options = queued_fields(body), SubmitOptions()
    OPTIONS.set(given, options)
    return request_of(given), options


def read_indexes(text: bytes) -> tuple[Runs, int]:
    """The indexes, in order as a client writes them, and how many at once. Raises ValueError."""
    indexes, percent, limit = text.decode("ascii").partition("%")
    if percent and not is_number(limit):
        raise ValueError("an array that cannot be")
    return read_runs(indexes), min(int(limit or "0"), COUNT_MAX)


def read_key(value: bytes) -> str:
    if b"\0" in value:
        raise ValueError("a zero byte in the idempotency key")
    return value.decode()


def read_after(value: bytes) -> tuple[str, ...]:
    words = value.decode("ascii").split(maxsplit=AFTER_MAX)
    if len(words) > AFTER_MAX:
        raise ValueError(f"more than {AFTER_MAX} jobs to wait for")
    return tuple(words)


def read_time(value: bytes) -> float:
    return within(float(value), TIME_MAX)


def read_priority(value: bytes) -> int:
    return int(within(int(value) + PRIORITY_MAX, 2 * PRIORITY_MAX)) - PRIORITY_MAX


def read_speedup(value: bytes) -> tuple[float, float]:
    parallelism, sigma = map(float, value.split())
    return 1 + within(parallelism - 1, SPEEDUP_MAX), within(sigma, SPEEDUP_MAX)


OPTIONS = Reader(
    (
        Field(tags.ARRAY, "tasks", decode=read_indexes),
        Field(tags.KEY, "key", decode=read_key),
        Field(tags.INPUT_DATA, "input"),
        Field(tags.OUTPUT_FILE, "output"),
        Field(tags.ERROR_FILE, "error"),
        Field(tags.CHECKPOINT, "checkpoint"),
        Field(tags.TARGET, "target_s", decode=read_time),
        Field(tags.DEADLINE, "deadline", decode=read_time),
        Field(tags.PRIORITY, "priority", decode=read_priority),
        Field(tags.SPEEDUP, "speedup", decode=read_speedup),
        Field(tags.WORK, "work_s", decode=lambda value: within(float(value), WORK_S_MAX)),
        Field(tags.AFTER, "after", decode=read_after),
        Field(tags.NOTIFY, "notify"),
        Field(tags.BEGIN, "begin", decode=read_time),
    )
)


async def serve_queued(
    home: OutboundContext,
    client: tuple[Caller, PeerProcess],
    ends: ClientLine,
    asked: Asked,
    more: list[Frame],
    taken: Callable[[], None],
) -> None:
    """Serves a client of -q or -d. `taken` is called when no more of the request is held here than
    its options. Raises OSError if the client is gone."""
    sock, listen = ends
    early = EarlyFrames(listen, more)
    try:
        await _serve(home, client, sock, asked, early, taken)
    except (OSError, ValueError) as problem:  # its client is gone, or breaks the protocol
        raise problem.with_traceback(None) from None  # else it and frames of ours are a cycle
    finally:
        early.close()


async def _serve(
    home: OutboundContext,
    client: tuple[Caller, PeerProcess],
    sock: socket.socket,
    asked: Asked,
    early: EarlyFrames,
    taken: Callable[[], None],
) -> None:
    caller, (request, options), way = client[0], asked, OnItsWay()
    loop, is_detached = asyncio.get_running_loop(), request.has(tags.FLAG_DETACH)

    async def send(tag: bytes, data: bytes = b"") -> None:
        await loop.sock_sendall(sock, frames.pack(tag, data))

    try:
        if home.queue is None or home.files is None:
            raise Unavailable(NO_CERTIFICATE)
        queue, files = home.queue, home.files
        taking = asyncio.ensure_future(take(home, queue, files, client, request, options, way))
        found = await early.meanwhile(taking, partial(report_waiting, sock, queue, way))
        is_unwanted = bool(early.interrupted) or (early.is_gone and not is_detached)
        if is_given_up := is_unwanted and not way.may_be_confirmed:
            taking.cancel()
            await asyncio.wait([taking])  # before it is said, the dispatcher is told
        if early.interrupted:
            with contextlib.suppress(OSError):
                await send(tags.DONE, pack_end(way.interrupted_by(early.interrupted, queue)))
        if is_given_up:
            return
        submission, reply, watching = found or await taking
    except LbdError as problem:
        problem.__traceback__ = None  # breaks the cycle of `taking`, the exception and this frame
        end = CommandEnd(LBRUN_FAILED, "failed", reason=way.why_failed(problem, home.queue))
        if not early.interrupted:
            await send(tags.DONE, pack_end(end))
        return
    text, last = str(reply.first), reply.first + reply.count - 1
    if name := submission.spec.files:
        await files.queued(note_of(name, caller.uid, request, (way.stamp, way.noted), reply))
    queued = partial(say_queued, send, text, remarks(text, reply, asked, way.withheld))
    whose = submission.user, caller.uid, reply.ledger_token.hex()
    del taking, found, submission
    request.argv, request.environment, options.input = [], [], b""
    taken()
    if is_detached and not is_unwanted:
        return await queued()
    numbers = text if reply.count == 1 else f"{text}-{last}"
    attached = FollowedJobs(queue, files, *whose, text, numbers, send, name, request.pauses)
    attached.watching, attached.shown_reason = watching, reply.warning
    if indexes := options.tasks[0]:
        attached.array = FollowedArray(text, indexes, request.has(tags.FLAG_PROGRESS))
    if is_unwanted:
        return await attached.leave()
    del watching
    try:
        await queued()
    except OSError:  # gone meanwhile
        await attached.leave()
        raise
    await attached.attend(early.read, early.kept)


async def say_queued(
    send: Callable[[bytes, bytes], Awaitable[None]], text: str, lines: list[str]
) -> None:
    """Tells the client. Raises OSError."""
    for line in lines:
        await send(tags.WARN, line.encode())
    await send(tags.QUEUED, text.encode())


def remarks(jobs: str, reply: pb.SubmitReply, asked: Asked, withheld: str) -> list[str]:
    """What the client says about its jobs once they are queued."""
    request, options = asked
    lines = [*filter(None, (shell_line_remark(request.argv),))]
    if reply.is_other:
        whose = f"--idempotency-key {options.key}: {jobs_do(jobs, 'has', 'have')} it"
        lines.append(f"{whose}, a different command: nothing new was queued")
    if reply.warning:
        lines.append(f"{jobs_do(jobs, 'waits', 'wait')}: {reply.warning}")
    if reply.cancelled and request.has(tags.FLAG_DETACH):  # others say it at their end
        lines.append(f"{jobs_do(jobs)} is cancelled: {reply.cancelled}")
    if reply.remark:
        lines.append(f"{jobs_do(jobs)}: {reply.remark}")
    if withheld and request.has(tags.FLAG_TELL):
        lines.append(f"{jobs_do(jobs)}: {withheld}")
    return lines


async def take(
    home: OutboundContext,
    queue: DispatcherClient,
    files: QueuedFiles,
    client: tuple[Caller, PeerProcess],
    request: ClientRequest,
    options: SubmitOptions,
    way: OnItsWay,
) -> tuple[pb.SubmitRequest, pb.SubmitReply, Watching | None]:
    """Puts a job into the queue. Raises LbdError."""

    def sent() -> None:
        way.is_sent = True

    uid, notifications = client[0].uid, files.notifications
    if options.notify:
        notifications.check(uid, options.notify)
    check_options(home, client[0], options)
    environment, way.withheld = await leaving(home.denied, request, client[0].uid)
    submission = await make_submission(home, *client, request, options, environment)
    answer_s = ANSWER_DETACHED_S if request.has(tags.FLAG_DETACH) else ANSWER_S
    why, is_for_good = await why_refused(home, submission, answer_s)
    if is_for_good:
        raise Unavailable(why)
    if request.is_staged or options.notify:
        directory = Directory(home.looker, home.unshared, request, uid, client[1])
        way.stamp = await directory.look("; nothing was queued")
        if request.is_staged:
            submission.spec.files, way.noted = await files.gather(request, uid, way.stamp)
    watching, reply, way.asked_s = None, None, time.monotonic()
    try:
        if request.has(tags.FLAG_DETACH):
            reply = await queue.submit(submission, sent)
        else:
            reply, watching = await queue.submit_and_watch(submission, sent)
    finally:
        if submission.spec.files and (reply.error if reply is not None else not way.is_sent):
            files.store.drop(submission.spec.files)
    if reply.error:
        way.asked_s = math.inf
        raise Unavailable(reply.error)
    reply.warning = reply.warning or why
    if way.stamp is not None and options.notify:
        await notifications.queued(uid, options.notify, way.stamp, submission, reply)
    return submission, reply, watching


def check_options(home: OutboundContext, caller: Caller, options: SubmitOptions) -> None:
    """Raises Unavailable for what this host does not allow the caller."""
    if (owner := range_owner(caller.uid, user_name(caller.uid))) is not None:
        # Each number of the range would have a user's share of the queue.
        raise Unavailable(
            f"uid {caller.uid} belongs to a range of uid {owner}'s (/etc/subuid) and is not an "
            "account: nothing is queued for it"
        )
    limit = home.config.dispatch.max_input_bytes
    if len(options.input) > limit:
        raise Unavailable(
            f"standard input exceeds {limit} bytes (dispatch.max_input_bytes); let the command "
            "read a file, or use --no-stdin"
        )
    if options.priority > 0 and not Admins(home.config.admin).include(caller):
        raise Unavailable(
            f"--priority {options.priority}: only administrators (admin.users, admin.groups) can "
            "raise priorities; use 0 or less"
        )


async def make_submission(
    home: OutboundContext,
    caller: Caller,
    peer: PeerProcess,
    request: ClientRequest,
    options: SubmitOptions,
    environment: list[bytes],
) -> pb.SubmitRequest:
    """Raises LbdError."""
    stamp = None
    if not request.is_staged:
        directory = Directory(home.looker, home.unshared, request, caller.uid, peer)
        stamp = await directory.stamp("; nothing was queued")
    user, own_name = user_name(caller.uid), home.config.host.name
    job = Job(JobId(""), tuple(request.argv), user, HostId(own_name), HostId(""), 0.0, request.name)
    run = make_request(job, request, environment, caller.uid, peer, stamp)
    make_queued(run, request, has_input=bool(options.input))
    asked = pb.SubmitRequest(
        user=user,
        origin=own_name,
        uid=caller.uid,
        name=request.name,
        command=request.argv,
        spec=pb.StoredSpec(
            run_request=run.SerializeToString(),
            input=options.input,
            output=options.output,
            error=options.error,
            checkpoint=options.checkpoint,
            append=request.has(tags.FLAG_APPEND),
            notify=options.notify,
            submitted=time.time(),
        ),
        slots=request.slots[0],
        priority=options.priority,
        slots_most=request.slots[1] if request.slots[1] > request.slots[0] else 0,
        may_restart=not request.has(tags.FLAG_NO_RESTART),
        only=request.host or "",
        excluded=sorted(request.excluded),
        key=options.key,
        count=1,
        target_s=options.target_s,
        deadline=options.deadline,
        parallelism=options.speedup[0] if options.speedup else None,
        sigma=options.speedup[1] if options.speedup else 0.0,
        work_s=options.work_s,
        gang=request.has(tags.FLAG_GANG),
        needs=run.needs,
    )
    add_waits(asked, options, is_admin=Admins(home.config.admin).include(caller))
    if options.tasks[0]:
        add_array(asked, *options.tasks)
    return asked


def make_queued(run: lbm_pb2.RunRequest, request: ClientRequest, *, has_input: bool) -> None:
    """Sets what differs for a job of the queue."""
    run.wants_stdin = has_input
    run.closed_fds = run.null_outputs = 0
    run.forced = False
    run.slots = run.slots_most = 0  # left to the dispatcher
    # in the queue a memory limit is also requested as a resource
    run.needs = needs_text(replace(request.needs, memory_bytes=request.memory_bytes))
    if request.is_staged:
        run.workdir.send.extend(request.send)
        run.workdir.fetch.extend(request.fetch)


def add_array(asked: pb.SubmitRequest, runs: Runs, at_once: int) -> None:
    asked.is_array, asked.first_index, asked.count = True, runs[0][0], count_of(runs)
    asked.at_once = at_once
    if len(runs) > 1 or runs[0][2] > 1:
        asked.indexes = runs_text(runs)


def add_waits(asked: pb.SubmitRequest, options: SubmitOptions, *, is_admin: bool) -> None:
    if options.after or options.begin is not None:
        asked.after.extend(options.after)
        asked.is_admin = is_admin
        if options.begin is not None:
            asked.not_before = options.begin
