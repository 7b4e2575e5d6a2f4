"""The outputs of jobs that an `lbrun -q` waits for."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable

from lbd.errors import LbdError
from lbd.lbm.core.journey_events import LBRUN_FAILED
from lbd.lbm.staging.fetch_turns import FetchTurns
from lbd.lbm.staging.pack_store import Note
from lbd.lbm.staging.queued_files import QueuedFiles
from lbd.local import client_tags as tags
from lbd.net.gen import dispatch_pb2 as pb
from lbd.text.one_line import one_line

WAITING_MAX = 1000  # ended jobs that are kept in memory
END_S = 10.0  # for what is on its way after a signal; a slow host may take hours for it
Ended = tuple[Note, pb.JobInfo, Callable[[pb.JobInfo], None]]


class FollowedOutputs:
    """Those of each host come one after the other, beside those of other hosts."""

    def __init__(
        self,
        files: QueuedFiles,
        ledger: str,
        pack: str,
        send: Callable[[bytes, bytes], Awaitable[None]],
    ) -> None:
        """`pack`: the name of the pack that was sent; "": none, and nothing is fetched."""
        self._files, self._ledger, self._pack = files, ledger, pack
        self._send = send
        self._turns = FetchTurns()
        self._lanes: dict[str, deque[Ended]] = {}  # by host
        self._fetching: set[asyncio.Task[None]] = set()
        self._jobs: set[int] = set()
        self._room = asyncio.Semaphore(WAITING_MAX)
        self._limits: set[asyncio.Timeout] = set()  # of what is on its way
        self._is_forced = False
        self._slow: set[str] = set()  # hosts waited for in vain after a signal

    async def fetch(self, job: pb.JobInfo, over: Callable[[pb.JobInfo], None]) -> None:
        """Begins to fetch the outputs of a job that has ended, and calls `over` once they are here.
        If that fails, it becomes the job's end."""
        note = self._files.waited_for(self._ledger, job.id) if self._pack else None
        if note is None:
            return over(job)
        await self._room.acquire()
        self._jobs.add(job.id)
        kept = pb.JobInfo()
        kept.CopyFrom(job)  # a reference would keep its whole message alive
        if (lane := self._lanes.get(job.host)) is None:
            lane = self._lanes[job.host] = deque()
            name = f"outputs of {self._pack}"
            self._fetching.add(asyncio.create_task(self._fetch_all(job.host, lane), name=name))
        lane.append((note, kept, over))
        return None

    def has_in_hand(self, job: int) -> bool:
        return job in self._jobs

    async def all_here(self) -> None:
        """Waits until all are here. Raises OSError if the client is gone."""
        await asyncio.gather(*self._fetching)

    async def stop(self) -> None:
        for task in self._fetching:
            task.cancel()
        await asyncio.gather(*self._fetching, return_exceptions=True)

    async def _fetch_all(self, host: str, lane: "deque[Ended]") -> None:
        while lane:
            note, job, over = lane.popleft()
            await self._fetch(note, job)
            self._room.release()
            self._jobs.discard(job.id)
            over(job)
        del self._lanes[host]
        if (task := asyncio.current_task()) is not None:
            self._fetching.discard(task)

    async def _fetch(self, note: Note, job: pb.JobInfo) -> None:
        try:
            async with self._turns.turn(note.uid, job.id) as turn, self._limit(job.host):
                trouble, aside = await self._files.place(note, job, turn)
            if aside:
                await self._send(tags.WARN, f"--fetch {one_line(aside)}".encode())
        except TimeoutError:
            self._slow.add(job.host)
            trouble = f"{job.host} did not send the files within {END_S:g} s after a signal"
        except LbdError as problem:
            trouble = str(problem)
        if trouble:
            status = job.exit_status if job.HasField("exit_status") else "no status"
            job.reason = f"--fetch {trouble}; the command itself exited with {status}"
            job.exit_status, job.signal, job.state, job.cause = LBRUN_FAILED, 0, "failed", "failed"
        # otherwise nothing has changed
        await self._files.done(note, job.id, write=bool(job.attempt))

    @contextlib.asynccontextmanager
    async def _limit(self, host: str) -> AsyncIterator[None]:
        """Raises TimeoutError."""
        limit_s = END_S if self._is_forced else None
        async with asyncio.timeout(0.0 if host in self._slow else limit_s) as limit:
            self._limits.add(limit)
            try:
                yield
            finally:
                self._limits.discard(limit)

    def end_soon(self, *, forced: bool) -> None:
        """The user has ended the jobs. What is on its way must be here soon; with `forced`, also
        what comes after it."""
        self._is_forced |= forced
        until_s = asyncio.get_running_loop().time() + END_S
        for limit in self._limits:
            limit.reschedule(min(limit.when() or until_s, until_s))

    def left_alone(self) -> None:
        """Their lbrun has gone."""
        self._files.left_alone(self._pack)
