"""The workdir of one queued attempt that brings files along: its inputs before, outputs after.

The inputs come whole from the host where the job was submitted, again for each attempt. The outputs
are packed into the spool, where that host finds them. A child of the keeper works in the directory,
as its user (file_worker.py).
"""

import asyncio
import os
from functools import partial
from typing import TypeVar

from lbd.errors import Unavailable
from lbd.keeper.local_account import LocalUser
from lbd.keeper.spawn_order import Order
from lbd.lbm.inbound.context import InboundContext
from lbd.lbm.inbound.request import make_order
from lbd.lbm.queue.dispatcher_client import DispatcherClient
from lbd.lbm.queue.output_file import remove
from lbd.lbm.staging.pack_transfer import receive_pack
from lbd.lbm.staging.step import failure_of_step, run_step
from lbd.lbm.staging.workdirs import AWAY, FilesRefused, Workdir, check_allowed, owner_of
from lbd.model import JobId
from lbd.net.gen import dispatch_pb2, lbm_pb2
from lbd.text.name_patterns import fill_in, shown_id

STOPPED = "it was asked to end"
Done = TypeVar("Done")


class AttemptFiles:
    def __init__(
        self,
        host: InboundContext,
        client: DispatcherClient,
        start: dispatch_pb2.Start,
        request: lbm_pb2.RunRequest,
        name: JobId,
    ) -> None:
        """`name`: of the attempt. The files to fetch get their final names in `request`."""
        self._host = host
        self._client = client
        self._start = start
        self._request = request
        self._name = name
        index = start.array_index if start.HasField("array_index") else None
        own_name = host.config.host.name
        job = shown_id(start.job, start.array, index)
        filled = [fill_in(path, job, index, own_name) for path in request.workdir.fetch]
        del request.workdir.fetch[:]
        request.workdir.fetch.extend(filled)

    async def open(self, run_as: LocalUser | None) -> bytes:
        """Makes the workdir, with the files that were sent. Raises FilesRefused."""
        request, limits = self._request, self._host.config.stage
        check_allowed(limits)
        workdir_request = lbm_pb2.WorkdirRequest(
            id=self._name, origin=request.origin, user=request.user
        )
        await self._host.workdirs.open(workdir_request, run_as, self._host.slots.places)
        spool, start = self._client.spool, self._start
        asked = dispatch_pb2.FilesRequest(name=start.spec.files, job=start.job)
        try:
            with await receive_pack(
                self._client.spools, request.origin, asked, str(spool.root), limits
            ) as file:
                order = self._order("unpack", run_as)
                link, unpacked = self._host.link, file.fileno()
                complaint, number = await failure_of_step(link, order, unpacked, None)
        except OSError as problem:
            complaint, number = problem.strerror or str(problem), problem.errno or 0
        except Unavailable as problem:
            raise FilesRefused(f"its files: {problem}", AWAY) from None
        if complaint:
            raise FilesRefused(f"its files: {complaint}", "stage", number)
        return self.path

    @property
    def path(self) -> bytes:
        workdir = self._host.workdirs.get(self._name)
        return workdir.path if workdir is not None else b""

    def adopt(self, path: bytes) -> None:
        """Adopts a workdir that an earlier LBM has made."""
        workdir = Workdir(self._request.origin, self._request.user, path)
        self._host.workdirs.adopt(self._name, workdir)

    async def collect(self, status: int) -> str:
        """Packs the files to fetch. Returns why that failed, "" if it did not."""
        if not self._request.workdir.fetch:
            return ""
        spool, job, attempt = self._client.spool, self._start.job, self._start.attempt
        try:
            owner = owner_of(self.path)
            own = owner == self._host.link.uid
            run_as = None if own else await self._host.look_up_user(owner, owner)
            descriptor = spool.open_pack(job, attempt, owner)
        except OSError as problem:
            return problem.strerror or str(problem)
        complaint = "it was stopped"
        try:
            order = self._order("collect" if status == 0 else "pack", run_as)
            complaint = await run_step(self._host.link, order, None, descriptor)
        finally:
            os.close(descriptor)
            if complaint:
                packs = [str(spool.pack(job, attempt))]
                spool.calls.start(owner, packs[0], partial(remove, packs))
        return complaint

    def _order(self, step: str, run_as: LocalUser | None) -> Order:
        request = lbm_pb2.RunRequest()
        request.CopyFrom(self._request)
        request.workdir.step = step
        request.job_id = f"{self._name}.{step}"
        request.memory_bytes = 0
        config, weighs_cpu = self._host.rules.config, self._host.link.weighs_cpu
        return make_order(request, run_as, config, self.path, weighs_cpu)

    def close(self) -> None:
        """Gives the workdir up; it is removed once nothing runs in it."""
        self._host.workdirs.end(self._name)


async def result_of(work: asyncio.Task[Done], stopped: Done) -> Done:
    """Returns the result of work done as the user, who may keep it from ending; `stopped` if it was
    stopped."""
    try:
        await asyncio.wait((work,))
        return stopped if work.cancelled() else work.result()
    finally:
        work.cancel()
        del work  # breaks the cycle of its exception, the traceback, this frame and it
