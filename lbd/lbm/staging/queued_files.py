"""The files that queued commands of this host's users take along, and those that come back.

When an `lbrun` submits, the files it sends are packed here, in its directory and with its user's
rights. When a job has ended, its outputs are fetched from where it ran and put into that directory,
in one step. If nobody waits for the job, we do that ourselves, once both hosts are up: the
dispatcher tells us of its end, even if we were down at the time.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections import deque
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from lbd.config.schema import Config
from lbd.errors import Unavailable
from lbd.keeper.spawn_order import Order
from lbd.launch.directory_stamp import Stamp, on_its_host, read_stamp
from lbd.lbm.as_user import AsUser
from lbd.lbm.queue.dispatcher_client import DispatcherClient
from lbd.lbm.queue.notifications import Notifications
from lbd.lbm.queue.other_spools import NotKept
from lbd.lbm.queue.user_watches import UserWatches
from lbd.lbm.session.request import ClientRequest
from lbd.lbm.staging.awaited_outputs import AwaitedOutputs, id_of
from lbd.lbm.staging.begun_again import begin_again
from lbd.lbm.staging.fetch_turns import FetchTurn, FetchTurns, Lane
from lbd.lbm.staging.open_notes import OpenNotes
from lbd.lbm.staging.pack_store import FILES_BYTES, NOTE, Note, PackStore, disk_bytes, memory_bytes
from lbd.lbm.staging.pack_transfer import receive_pack
from lbd.lbm.staging.step import COMPLAINT_BYTES, step_words
from lbd.lbm.staging.sweep import sweep
from lbd.lbm.staging.workdirs import check_allowed
from lbd.local import client_tags as tags
from lbd.net.gen import dispatch_pb2 as pb
from lbd.process.job_log import JobLog
from lbd.text.name_patterns import fill_in
from lbd.text.one_line import one_line
from lbd.text.ranges import selectors_of

job_log = JobLog(logging.getLogger("lbd.lbm"))
Result = TypeVar("Result")

RETRY_S, RETRY_MAX_S, RETRY_SHARE = 10.0, 600.0, 8  # the pause grows with the time since the end
NOTED_BYTES = 128  # of one name to fetch
MARK_DIGITS = 12  # of a note's name, which is random
WATCHED_MAX = 10_000  # jobs, shared by their users; the others follow
DAY_S = 86400.0
TOO_MANY_NAMES = (
    "your queued jobs have so many names of files (--send, --fetch) that this host has no memory "
    "for more until some have ended; nothing was queued"
)
NO_DISK = (
    "your queued jobs' files (--send) and the names of files (--send, --fetch) leave no room for "
    "more on the disk of this host; nothing was queued"
)


class QueuedFiles:
    def __init__(self, config: Config, as_user: AsUser, queue: DispatcherClient) -> None:
        self._config = config
        self._as_user = as_user
        self._queue = queue
        self.notifications = Notifications(config, as_user, queue)
        self.store = PackStore(config.host.state_dir)
        self._open = OpenNotes()
        self._in_hand: dict[int, Note] = {}  # jobs that have ended
        self._ended: asyncio.Queue[pb.JobInfo] = asyncio.Queue()
        self._turns = FetchTurns()
        self._left_out: set[int] = set()  # users with more jobs than are watched
        self.awaited = AwaitedOutputs(self._open)
        self._watches = UserWatches(queue, self)
        queue.when_ledger_changes.append(self._ledger_changed)

    # Out

    async def gather(self, request: ClientRequest, uid: int, stamp: Stamp) -> tuple[str, str]:
        """Returns the name of the pack, once on disk, and notes of where its outputs are to go.
        `stamp`: of the request's directory. Raises Unavailable; then nothing is kept."""
        check_allowed(self._config.stage)
        name, said_bytes = "", COMPLAINT_BYTES + NOTED_BYTES * len(request.fetch)
        paths = *request.send, *request.fetch, request.directory
        note_bytes = memory_bytes((*paths, stamp.pack())) + said_bytes
        disk = disk_bytes(paths, said_bytes)
        if not self.store.memory.has_room(uid, note_bytes):
            raise Unavailable(TOO_MANY_NAMES)
        try:
            name, descriptor = await asyncio.to_thread(self.store.create)
            self.store.memory.take(name, uid, note_bytes)
            with os.fdopen(descriptor, "wb", buffering=0):
                free = await asyncio.to_thread(self.store.free_bytes)
                left = self.store.room.left(uid, free) - disk - FILES_BYTES
                if left < 0:
                    raise Unavailable(NO_DISK)
                most = min(left, self._config.stage.max_bytes)
                self.store.room.take(name, uid, FILES_BYTES + most)
                self.store.room.take(name + NOTE, uid, disk)
                limits = replace(self._config.stage, max_bytes=most)
                words = step_words(b"gather", limits, request.send, request.fetch)
                order = Order(argv=words, directory=request.directory, stamp=stamp)
                given = None, descriptor
                complaint, noted = await self._as_user.step(uid, order, given, said_bytes)
                if complaint:
                    if most == left:
                        complaint += f"; your queued jobs' files may take {most} more here"
                    raise Unavailable(f"--send {complaint}; nothing was queued")
                await asyncio.to_thread(self.store.finish, name, descriptor)
                self.store.room.take(name, uid, FILES_BYTES + os.fstat(descriptor).st_size)
        except OSError as problem:
            self.store.drop(name)
            raise Unavailable(f"--send: {problem.strerror}; nothing was queued") from None
        except BaseException:
            self.store.drop(name)
            raise
        return name, noted

    async def queued(self, note: Note) -> None:
        """Keeps the note of a pack whose jobs are now known and on disk."""
        one = self._open.of_job(note.first, note.ledger)
        if one is not None and one.first == note.first:
            self.store.drop(note.name)  # the same --idempotency-key again
            return
        self._open[note.name] = note
        self.store.memory.keep_note(note)
        try:
            await asyncio.to_thread(self.store.write, note)
        except OSError as problem:
            job_log.warning(str(note.first), "its files: %s", problem.strerror)
        self._watches.look(note.uid)

    async def taken(self, name: str, job: int) -> None:
        """An attempt of that job takes its pack. Raises Unavailable."""
        files = self.store, self._open, self._in_hand
        if await begin_again(files, self._queue, name, job) and name in self._open:
            self._watches.look(self._open[name].uid)

    # Back

    def waited_for(self, ledger: str, job: int) -> Note | None:
        """The note of a job with an lbrun that must have its outputs before it ends."""
        note = self._open.of_job(job, ledger)
        return note if note is not None and note.waited_for and note.is_left(job) else None

    def left_alone(self, name: str) -> None:
        """Drops the outputs of a pack whose lbrun went away: nobody wants them."""
        if (note := self._open.get(name)) is not None:
            note.waited_for, note.fetch = False, []
            self._watches.look(note.uid)

    async def bring(self, note: Note, job: pb.JobInfo, turn: FetchTurn) -> str:
        """Brings a job's outputs into its directory. Returns why not, "" if all is well. Raises
        Unavailable if they are not available at present."""
        trouble, aside = await self.place(note, job, turn)
        if aside:
            job_log.warning(id_of(job), "its outputs: %s", one_line(aside))
        return trouble

    async def place(
        self, note: Note, job: pb.JobInfo, turn: FetchTurn | None = None
    ) -> tuple[str, str]:
        """Like `bring`; returns also what was put aside for them."""
        if not (note.fetch and job.attempt and job.host) or job.state == "lost":
            return "", ""  # it has made nothing, or nothing that is available
        index = job.array_index if job.HasField("array_index") else None
        name = id_of(job)
        fetch = [fill_in(os.fsencode(path), name, index, job.host) for path in note.fetch]
        fetch = [os.path.normpath(path) for path in fetch]
        if any(path.startswith((b"/", b"../")) or path in (b"..", b".") for path in fetch):
            return f"the name of {job.host} points outside the directory", ""
        asked = pb.FilesRequest(job=str(job.id), attempt=job.attempt)
        to = str(self.store.root), self._config.stage, turn.moved if turn is not None else no_matter
        try:
            with await receive_pack(self._queue.spools, job.host, asked, *to) as file:
                if turn is not None:
                    await turn.received()
                send = [mark_of(note, job.id), *map(os.fsencode, note.send)]
                words, directory = (
                    step_words(b"place", self._config.stage, send, fetch),
                    note.directory,
                )
                order = Order(argv=words, directory=os.fsencode(directory), umask=note.umask)
                order.stamp = on_its_host(read_stamp(note.stamp.encode())) if note.stamp else None
                with os.fdopen(os.memfd_create("noted", os.MFD_CLOEXEC), "wb+") as noted:
                    noted.write(note.noted.encode())
                    noted.seek(0)
                    given = file.fileno(), noted.fileno()
                    return await self._as_user.step(note.uid, order, given)
        except NotKept:  # it has made nothing, or its reason says why
            return "", ""
        except OSError as problem:
            return problem.strerror or str(problem), ""

    async def done(self, note: Note, job: int, *, write: bool = True) -> None:
        """Notes that the job needs nothing more."""
        note.end(job)
        self.awaited.settle(job)
        if note.is_over:
            self._open.pop(note.name, None)
            self.store.ended(note)
        if write or note.is_over:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(self.store.write, note)

    # Jobs that nobody waits for

    async def run(self) -> None:
        """Runs until cancelled."""
        held = self.store.hold(*await asyncio.to_thread(self.store.resumed))
        self._open.update(held | self._open.data)
        self._look_again()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._bring_all(group), name="outputs")
            group.create_task(sweep(self.store, self._open, self._config.dispatch), name="files")
            group.create_task(self.notifications.run(), name="notifications")
            group.create_task(self._watches.run(), name="ends of jobs with files")

    def _ledger_changed(self) -> None:
        self._open.ledger = self._queue.ledger
        self._look_again()

    def _look_again(self) -> None:
        for uid in self._open.users:
            self._watches.look(uid)

    def jobs_of(self, uid: int, ledger: str) -> dict[int, Note]:
        """The first few of the user's jobs in this ledger: all users have the same share."""
        own = (note for note in self._open.of_user(uid) if note.ledger == ledger)
        left = ((job, note) for note in own if not note.waited_for for job in note.left)
        jobs = (one for one in left if one[0] not in self._in_hand)
        watched = dict(islice(jobs, WATCHED_MAX // max(1, len(self._open.users)) or 1))
        if next(jobs, None) is not None:
            self._left_out.add(uid)
        else:
            self._left_out.discard(uid)
        return watched

    def job_ended(self, job: pb.JobInfo, why: Note) -> None:
        if job.id not in self._in_hand:
            self._in_hand[job.id] = why
            self._ended.put_nowait(job)

    async def forgotten(self, jobs: dict[int, Note], user: str, ledger: str) -> None:
        """Drops the jobs that the queue does not know any more. Its answer does not say which, and
        the others must not be lost. Raises LbdError."""
        parts = [sorted(jobs)]
        while parts:
            part = parts.pop()
            asked = pb.JobsAsked(
                selectors=selectors_of(part), user=user, ended_too=True, by_number=True,
                unexplained=True,
            )  # fmt: skip
            if not (await self._queue.jobs(asked, ledger)).error:
                continue
            if len(part) > 1:
                parts += part[: len(part) // 2], part[len(part) // 2 :]
            else:
                await self.done(jobs[part[0]], part[0])

    async def _bring_all(self, group: asyncio.TaskGroup) -> None:
        """Brings each user's beside those of others, and those of each host beside those of others:
        a step runs as its user, and a host sends as it likes; either may keep it from ending."""
        while True:
            job = await self._ended.get()
            note = self._in_hand[job.id]
            lane = note.uid, job.host
            if (ended := self._turns.lanes.get(lane)) is None:
                ended = self._turns.lanes[lane] = deque()
                group.create_task(self._bring_of(lane, ended), name=f"outputs of user {note.uid}")
            self._turns.ended(job.id, lane, names_of(note, job))
            ended.append(job)

    async def _bring_of(self, lane: Lane, ended: deque[pb.JobInfo]) -> None:
        uid = lane[0]
        while ended:
            job = ended.popleft()
            note, trouble, delayed = self._in_hand[job.id], "", False
            try:
                async with self._turns.turn(uid, job.id) as turn:
                    trouble = await self.bring(note, job, turn)
            except Unavailable as problem:
                trouble, delayed = str(problem), True
            age_s = time.time() - job.finished
            if trouble and age_s <= self._config.dispatch.output_keep_days * DAY_S:
                if job.id not in self.awaited.troubles:
                    job_log.warning(id_of(job), "its outputs: %s; will try again", trouble)
                self.awaited.keep(job.id, trouble, delayed=delayed)
                pause_s = min(RETRY_MAX_S, max(RETRY_S, age_s / RETRY_SHARE))
                asyncio.get_running_loop().call_later(pause_s, self._ended.put_nowait, job)
                continue
            # For an array, the note is written once for the jobs that ended together.
            await self.done(note, job.id, write=bool(note.fetch) and not ended)
            if self._in_hand.pop(job.id).is_left(job.id):  # it has begun again meanwhile
                self._watches.look(uid)
            await asyncio.sleep(0)  # jobs that never ran have nothing to wait for
        del self._turns.lanes[lane]
        if uid in self._left_out:
            self._watches.look(uid)


def no_matter(_bytes: int) -> None:
    """Nobody has to know how much has come."""


def names_of(note: Note, job: pb.JobInfo) -> int:
    """Returns a number that jobs share whose outputs have the same names in the same directory; 0:
    no other one has these."""
    if not (note.fetch and job.attempt) or any("%j" in name or "%h" in name for name in note.fetch):
        return 0
    index = job.array_index if job.HasField("array_index") else None
    return hash((note.uid, note.directory, index, *note.fetch)) or 1


def note_of(
    name: str,
    uid: int,
    request: ClientRequest,
    places: tuple[Stamp | None, str],
    reply: pb.SubmitReply,
) -> Note:
    """`places`: the stamp of its directory, and notes of where in it the outputs are to go."""
    stamp, noted = places
    return Note(
        name,
        reply.ledger_token.hex(),
        reply.first,
        reply.count,
        uid,
        request.umask,
        os.fsdecode(request.directory),
        [os.fsdecode(path) for path in request.send],
        [os.fsdecode(path) for path in request.fetch],
        waited_for=not request.has(tags.FLAG_DETACH),
        stamp=stamp.pack().decode() if stamp is not None else "",
        noted=noted,
    )


def mark_of(note: Note, job: int) -> bytes:
    """Returns the same mark for each try, so that what an earlier try has left is removed."""
    return b"%d%d" % (int(note.name[:MARK_DIGITS], 16), job)
