"""Which jobs of this host's users have ended: the dispatcher tells us, by a stream for each user.

It looks through the jobs of a stream in the order of their numbers, and charges the time to the
user that the stream names. So no user's jobs keep us from hearing of another's. To watch more jobs
of a user, their stream is opened again, and the dispatcher starts over. So a stream stays open for
at least as long as it takes to look through all of its jobs: who submits one job after another
still hears of the ends of all. There are no more streams than accounts: nothing is queued for other
users (queue/submit.py).
"""

import asyncio
import logging
from typing import Generic, Protocol, TypeVar

from lbd.errors import LbdError
from lbd.lbm.owner.accounts import NAMES
from lbd.lbm.queue.dispatcher_client import DispatcherClient
from lbd.net.gen import dispatch_pb2 as pb
from lbd.text.ranges import selectors_of

log = logging.getLogger("lbd.lbm")

Why = TypeVar("Why")
PAUSE_S = 0.5  # between streams of one user
RETRY_S = 5.0
LOOKED_AT_PER_S = 1000.0  # jobs of one user, at least, also by a busy dispatcher


class Watcher(Protocol[Why]):
    """Who wants to know of their ends."""

    def jobs_of(self, uid: int, ledger: str) -> dict[int, Why]:
        """Returns those to watch now, each with what it is watched for; of a large array some."""
        ...

    def job_ended(self, job: pb.JobInfo, why: Why) -> None: ...

    async def forgotten(self, jobs: dict[int, Why], user: str, ledger: str) -> None:
        """The queue no longer knows some of these, or does not look at so many. Raises LbdError."""
        ...


class UserWatches(Generic[Why]):
    def __init__(self, queue: DispatcherClient, watcher: Watcher[Why]) -> None:
        self._queue, self._watcher = queue, watcher
        self._fresh: dict[int, asyncio.Event] = {}  # by user with a stream: there may be more jobs
        self._begun: asyncio.Queue[int] = asyncio.Queue()  # users who need one

    def look(self, uid: int) -> None:
        """There may be more jobs of that user to watch."""
        if uid not in self._fresh:
            self._fresh[uid] = asyncio.Event()
            self._begun.put_nowait(uid)
        self._fresh[uid].set()

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                uid = await self._begun.get()
                group.create_task(self._follow(uid), name=f"watch jobs of user {uid}")

    async def _follow(self, uid: int) -> None:
        """Watches until no job of the user is left to watch."""
        fresh = self._fresh[uid]
        fresh.clear()
        while jobs := self._watcher.jobs_of(uid, ledger := self._queue.ledger):
            stream = self._watch(uid, ledger, jobs)
            watching = asyncio.create_task(stream, name=f"stream of user {uid}")
            more = asyncio.create_task(fresh.wait(), name=f"await jobs of user {uid}")
            try:
                await asyncio.wait((watching,), timeout=len(jobs) / LOOKED_AT_PER_S)
                await asyncio.wait((watching, more), return_when=asyncio.FIRST_COMPLETED)
                if watching.done():
                    watching.result()
            finally:
                watching.cancel()
                more.cancel()
            await asyncio.sleep(PAUSE_S)
            fresh.clear()
        del self._fresh[uid]

    async def _watch(self, uid: int, ledger: str, jobs: dict[int, Why]) -> None:
        """Watches until all of them have ended, or the stream breaks."""
        try:
            user, selectors = await NAMES.look_up(uid), selectors_of(jobs)
            asked = pb.JobsAsked(selectors=selectors, user=user, once_ended=True, by_number=True)
            async for reply in self._queue.watch(asked, ledger):
                for job in reply.jobs:
                    if job.id in jobs:
                        self._watcher.job_ended(job, jobs.pop(job.id))
                if reply.error and jobs:
                    await self._watcher.forgotten(jobs, user, ledger)
                    await asyncio.sleep(RETRY_S)
        except LbdError:
            await asyncio.sleep(RETRY_S)
        except Exception:  # a fault of ours ends this stream, not the LBM
            log.exception("a stream of ended jobs was closed")
            await asyncio.sleep(RETRY_S)
