"""The outputs of jobs that an `lbrun -q` waits for."""

import asyncio
from collections.abc import Awaitable, Callable

from lbd.errors import LbdError
from lbd.lbm.core.journey_events import LBRUN_FAILED
from lbd.lbm.staging.queued_files import QueuedFiles
from lbd.local import client_tags as tags
from lbd.net.gen import dispatch_pb2 as pb
from lbd.text.one_line import one_line

END_S = 10.0  # for what is on its way after a signal; a slow host may take hours for it


class FollowedOutputs:
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
        self._limit: asyncio.Timeout | None = None  # of what is on its way
        self._is_forced = False
        self._slow: set[str] = set()  # hosts waited for in vain after a signal

    async def fetch(self, job: pb.JobInfo) -> None:
        """Fetches the outputs of a job that has ended. If that fails, it becomes the job's end."""
        note = self._files.waited_for(self._ledger, job.id) if self._pack else None
        if note is None:
            return
        try:
            async with asyncio.timeout(self._limit_s(job.host)) as self._limit:
                trouble, aside = await self._files.place(note, job)
            if aside:
                await self._send(tags.WARN, f"--fetch {one_line(aside)}".encode())
        except TimeoutError:
            self._slow.add(job.host)
            trouble = f"{job.host} did not send the files within {END_S:g} s after a signal"
        except LbdError as problem:
            trouble = str(problem)
        finally:
            self._limit = None
        if trouble:
            status = job.exit_status if job.HasField("exit_status") else "no status"
            job.reason = f"--fetch {trouble}; the command itself exited with {status}"
            job.exit_status, job.signal, job.state, job.cause = LBRUN_FAILED, 0, "failed", "failed"
        # otherwise nothing has changed
        await self._files.done(note, job.id, write=bool(job.attempt))

    def _limit_s(self, host: str) -> float | None:
        if host in self._slow:
            return 0.0
        return END_S if self._is_forced else None

    def end_soon(self, *, forced: bool) -> None:
        """The user has ended the jobs. What is on its way must be here soon; with `forced`, also
        what comes after it."""
        self._is_forced |= forced
        if self._limit is not None:
            until_s = asyncio.get_running_loop().time() + END_S
            self._limit.reschedule(min(self._limit.when() or until_s, until_s))

    def left_alone(self) -> None:
        """Their lbrun has gone."""
        self._files.left_alone(self._pack)
