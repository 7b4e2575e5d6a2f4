"""`--notify`: a line for `sh -c` that runs here, as its user, once a job of this host has ended.

The line is on disk before `lbrun` returns, and is removed as soon as it has begun, so that each
runs once; twice only if this host dies between the two. It begins like everything that runs as a
user, as a child of the keeper, which ends it when its time is up. Its output is discarded. Each
user's lines run one after the other, so nobody waits for another user's.

For each user a number of jobs is watched, the same number for each notice. The next ones of a large
array are watched when those have ended. So neither the queue's answer nor our memory grows with the
array, and jobs that never begin do not keep other users' notifications back.

The jobs of a ledger that the queue does not have now are not watched. A dispatcher with another
ledger knows nothing of them, and has jobs of the same numbers.
"""

import asyncio
import base64
import contextlib
import errno
import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from google.protobuf.message import DecodeError

from lbd.config.schema import Config
from lbd.errors import LbdError, Unavailable
from lbd.keeper.limits.time_limits import KEEPER
from lbd.launch.directory_stamp import Stamp
from lbd.lbm.as_user import AsUser
from lbd.lbm.inbound.request import make_order
from lbd.lbm.keeper_link import SpawnFailed
from lbd.lbm.outbound.request import stamp_message
from lbd.lbm.owner.accounts import NAMES
from lbd.lbm.queue.dispatcher_client import DispatcherClient
from lbd.lbm.queue.user_watches import UserWatches
from lbd.lbm.staging.pack_store import sync
from lbd.model import ENDED_NAMES
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.gen import lbm_pb2
from lbd.net.submitter import request_in
from lbd.process.job_log import JobLog
from lbd.process.whole_file import write_whole

job_log = JobLog(logging.getLogger("lbd.lbm"))

LINE_BYTES_MAX = 8192
OF_USER_MAX = 1000  # notices, for one user
OF_USER_BYTES = 64 << 20  # kept for one user's notices
RUN_S = 60.0
GRACE_S = 10.0  # for the keeper to end it
RETRY_S = 5.0
WATCHED_MAX = 10_000  # jobs, unless users have more notices than that
# The keeper or the user may have more of these in a moment; other errors are permanent.
SCARCE = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETIMEDOUT)
SUFFIX = ".json"
HOUR_S, DAY_S = 3600.0, 86400.0
Key = tuple[str, int]  # a ledger, and the first job of a submission


@dataclass(frozen=True, slots=True)
class Notice:
    """The notification of one submission."""

    ledger: str  # that has its jobs
    first: int  # id of its first job
    count: int
    uid: int
    line: str  # decoded by os.fsdecode
    request: str  # the submission's RunRequest without its command, in base64
    since: float  # UNIX seconds
    state: str = ""  # in which the job ended
    exit_status: int | None = None

    @property
    def key(self) -> Key:
        return self.ledger, self.first


@dataclass(slots=True)
class OpenJobs:
    """The jobs of a notice that are not known to have ended."""

    notice: Notice
    next: int  # from here on none is watched yet
    watched: set[int]

    @classmethod
    def of(cls, notice: Notice) -> "OpenJobs":
        return cls(notice, notice.first, set())

    @property
    def last(self) -> int:
        return self.notice.first + self.notice.count - 1

    def watch(self, most: int) -> None:
        """Watches up to `most` jobs at once."""
        while len(self.watched) < most and self.next <= self.last:
            self.watched.add(self.next)
            self.next += 1


class NoticeStore:
    """The notices on disk: state/notify, with a file for each."""

    def __init__(self, state_dir: str) -> None:
        self.root = Path(state_dir) / "notify"

    def write(self, notice: Notice) -> None:
        """Raises OSError."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        data = json.dumps(asdict(notice)).encode()
        write_whole(self.path(notice), data, 0o600, is_durable=True)

    def drop(self, notice: Notice) -> None:
        with contextlib.suppress(OSError):
            self.path(notice).unlink(missing_ok=True)
            sync(self.root)

    def path(self, notice: Notice) -> Path:
        return self.root / f"{notice.ledger}-{notice.first}{SUFFIX}"

    def all(self) -> Iterator[Notice]:
        """Yields all notices that can be read."""
        for path in self.root.glob(f"*{SUFFIX}"):
            with contextlib.suppress(OSError, ValueError, TypeError):
                yield Notice(**json.loads(path.read_text()))


class Notifications:
    def __init__(self, config: Config, as_user: AsUser, queue: DispatcherClient) -> None:
        self._config, self._as_user, self._queue = config, as_user, queue
        self.store = NoticeStore(config.host.state_dir)
        self._open: dict[Key, Notice] = {}
        self._left: dict[Key, OpenJobs] = {}  # those whose end is awaited
        self._watches = UserWatches(queue, self)
        queue.when_ledger_changes.append(self._look_again)
        self._due: asyncio.Queue[Notice] = asyncio.Queue()
        self._turns: dict[int, asyncio.Lock] = {}  # by user

    def check(self, uid: int, line: bytes) -> None:
        """Raises Unavailable if the line is not valid, or no more are kept for this user."""
        if not line.strip() or b"\0" in line or len(line) > LINE_BYTES_MAX:
            raise Unavailable(
                f"--notify: must be a command line for sh -c of at most {LINE_BYTES_MAX} bytes"
            )
        own = [one for one in self._open.values() if one.uid == uid]
        if len(own) >= OF_USER_MAX:
            raise Unavailable(f"--notify: {OF_USER_MAX} of your jobs already have one")
        if sum(len(one.request) for one in own) > OF_USER_BYTES:
            raise Unavailable(f"--notify: yours already take more than {OF_USER_BYTES} bytes here")

    async def queued(
        self,
        uid: int,
        line: bytes,
        stamp: Stamp,
        submission: pb.SubmitRequest,
        reply: pb.SubmitReply,
    ) -> None:
        """Keeps the notice of a job whose number is now known. `stamp`: of its directory. Raises
        Unavailable."""
        ledger = reply.ledger_token.hex()
        if reply.is_other or (ledger, reply.first) in self._open:  # the same --idempotency-key
            return
        request = request_in(submission.spec)
        assert request is not None
        for name in ("argv", "workdir", "terminal", "directory_stamp", "memory_bytes"):
            request.ClearField(name)
        request.MergeFrom(lbm_pb2.RunRequest(directory_stamp=stamp_message(stamp)))
        packed = base64.b64encode(request.SerializeToString()).decode()
        given = uid, os.fsdecode(line), packed, time.time()
        notice = Notice(ledger, reply.first, reply.count, *given)
        try:
            await asyncio.to_thread(self.store.write, notice)
        except OSError as problem:
            raise Unavailable(
                f"--notify: {problem.strerror}; the job is queued as {reply.first}, without a "
                "notification"
            ) from None
        self._add(notice)

    def _add(self, notice: Notice) -> None:
        self._open[notice.key] = notice
        self._left[notice.key] = OpenJobs.of(notice)
        self._watches.look(notice.uid)

    async def run(self) -> None:
        """Runs until cancelled."""
        for notice in await asyncio.to_thread(lambda: list(self.store.all())):
            self._add(notice)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watches.run(), name="ends of jobs with notifications")
            group.create_task(self._drop_strangers_hourly(), name="notifications of lost jobs")
            while True:
                notice = await self._due.get()
                group.create_task(self._notify(notice), name=f"notify of job {notice.first}")

    async def _drop_strangers_hourly(self) -> None:
        while True:
            await self._drop_strangers(time.time())
            await asyncio.sleep(HOUR_S if self._queue.ledger else RETRY_S)

    async def _drop_strangers(self, unix_s: float) -> None:
        """Drops notices of a ledger that the queue does not have any more, and has not for long."""
        ledger, keep_s = self._queue.ledger, self._config.dispatch.jobs_keep_days * DAY_S
        for notice in list(self._open.values()) if ledger else ():
            if notice.ledger != ledger and unix_s >= notice.since + keep_s:
                job_log.warning(str(notice.first), "--notify: the queue no longer has the job")
                await self._done(notice)

    def _look_again(self) -> None:
        for left in self._left.values():
            self._watches.look(left.notice.uid)

    def jobs_of(self, uid: int, ledger: str) -> dict[int, OpenJobs]:
        """Some jobs for each notice."""
        lefts = [left for left in self._left.values() if left.notice.ledger == ledger]
        users = {left.notice.uid for left in lefts}
        own = [left for left in lefts if left.notice.uid == uid]
        for left in own:
            left.watch(WATCHED_MAX // len(users) // len(own) or 1)
        return {job: left for left in own for job in left.watched}

    def job_ended(self, job: pb.JobInfo, why: OpenJobs) -> None:
        why.watched.discard(job.id)
        if not why.watched and why.next <= why.last:
            self._watches.look(why.notice.uid)
        elif not why.watched:
            self._ended(why.notice)

    def _ended(self, notice: Notice) -> None:
        if self._left.pop(notice.key, None) is not None:
            self._due.put_nowait(notice)

    async def forgotten(self, jobs: dict[int, OpenJobs], user: str, ledger: str) -> None:
        """Looks at the jobs of each notice. Raises LbdError."""
        for notice in {why.notice.key: why.notice for why in jobs.values()}.values():
            reply = await self._found(notice)
            if notice.key not in self._left:
                continue
            if reply.error:
                job_log.warning(str(notice.first), "--notify: the queue no longer knows the job")
                await self._done(notice)
            elif {job.state for job in reply.jobs} <= ENDED_NAMES and reply.jobs:
                self._ended(notice)

    async def _found(self, notice: Notice) -> pb.JobsInfo:
        """Returns the job of that number, or the array as one. Raises LbdError."""
        asked = pb.JobsAsked(selectors=[str(notice.first)], ended_too=True, by_array=True)
        asked.user = await NAMES.look_up(notice.uid)
        return await self._queue.jobs(asked, notice.ledger)

    async def _notify(self, notice: Notice) -> None:
        """Runs the line in its user's turn. A line that cannot run harms nobody else."""
        lock = self._turns.setdefault(notice.uid, asyncio.Lock())
        async with lock:
            while notice.key in self._open:
                try:
                    ended = await self._with_end(notice)
                    if ended.state not in ENDED_NAMES:  # requeued meanwhile
                        self._add(notice)
                        return
                    await self._run(ended)
                except (ValueError, DecodeError) as problem:
                    await self._give_up(notice, problem)
                except (LbdError, OSError) as problem:
                    if isinstance(problem, SpawnFailed) and not is_passing(problem):
                        await self._give_up(notice, problem)
                        continue
                    job_log.info(str(notice.first), "--notify: %s; will try again", problem)
                    await asyncio.sleep(RETRY_S)

    async def _give_up(self, notice: Notice, problem: Exception) -> None:
        job_log.warning(str(notice.first), "--notify: %s", problem)
        await self._done(notice)

    async def _with_end(self, notice: Notice) -> Notice:
        """Adds how the job, or the whole array, ended. Raises Unavailable."""
        reply = await self._found(notice)
        if reply.error or not reply.jobs:
            raise Unavailable(reply.error or "the queue does not know the job")
        (job,) = reply.jobs
        status = job.exit_status if job.HasField("exit_status") else None
        if job.HasField("array"):
            bad = [task.exit_status for task in job.array.bad if task.HasField("exit_status")]
            status = 0 if job.state == "done" else next(iter(bad), None)
        return replace(notice, state=job.state, exit_status=status)

    async def _run(self, notice: Notice) -> None:
        """Raises Unavailable, SpawnFailed."""
        request = lbm_pb2.RunRequest.FromString(base64.b64decode(notice.request))
        request.argv.extend((b"sh", b"-c", os.fsencode(notice.line)))
        order = make_order(request, None, self._config)
        order.allowed, order.denied = (), ()  # rules for the jobs of others do not apply at home
        of_job = "" if notice.exit_status is None else str(notice.exit_status)
        order.environment |= {
            b"LBD_JOB_ID": str(notice.first).encode(),
            b"LBD_STATE": notice.state.encode(),
            b"LBD_EXIT_STATUS": of_job.encode(),
        }
        spawned = await self._as_user.begin(notice.uid, order, RUN_S)
        await self._done(notice)
        with contextlib.suppress(TimeoutError, LbdError):
            async with asyncio.timeout(RUN_S + GRACE_S):
                status = (await asyncio.shield(spawned.exited)).status
                say = job_log.warning if status else job_log.info
                say(str(notice.first), "--notify: it ended with exit status %d", status)

    async def _done(self, notice: Notice) -> None:
        """Removes the file first: until then the same submission again adds nothing."""
        await asyncio.to_thread(self.store.drop, notice)
        self._open.pop(notice.key, None)
        self._left.pop(notice.key, None)


def is_passing(trouble: SpawnFailed) -> bool:
    """Whether the keeper was stopped, or lacked something that may be there in a moment."""
    return trouble.phase == KEEPER or trouble.number in SCARCE
