"""`lbd.client` for asyncio: the same names, with coroutines. Cancelling `run` ends its command."""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lbd.client import calls
from lbd.client.calls import Completed, Option, Word, completed_of, id_of
from lbd.local.json_socket import Json


class AsyncClient:
    def __init__(self, config: str | os.PathLike[str] | None = None) -> None:
        self._client = calls.Client(config)

    async def run(
        self,
        argv: Sequence[Word],
        *,
        input: bytes | None = None,  # noqa: A002  # as subprocess.run has it
        check: bool = False,
        **options: Option,
    ) -> Completed:
        with tempfile.TemporaryDirectory(prefix="lbd-run-") as directory:
            status = Path(directory) / "status"
            words = self._client.run_words(argv, status, options, input)
            completed = completed_of(argv, status, *await communicate(words, input))
        return completed.check() if check else completed

    async def submit(
        self,
        argv: Sequence[Word],
        *,
        input: bytes | None = None,  # noqa: A002  # as subprocess.run has it
        **options: Option,
    ) -> "AsyncJob":
        words = self._client.submit_words(argv, options, input)
        return self.job(id_of(*await communicate(words, input)))

    def job(self, job_id: str | int) -> "AsyncJob":
        return AsyncJob(self._client.job(job_id))


class AsyncJob:
    def __init__(self, job: calls.Job) -> None:
        self._job = job
        self.id = job.id

    def __repr__(self) -> str:
        return repr(self._job)

    async def state(self) -> str:
        return await asyncio.to_thread(lambda: self._job.state)

    async def details(self) -> Json:
        return await asyncio.to_thread(self._job.details)

    async def tasks(self) -> "list[AsyncJob]":
        return [AsyncJob(job) for job in await asyncio.to_thread(self._job.tasks)]

    async def wait(self, timeout: float | None = None) -> str:
        return await asyncio.to_thread(self._job.wait, timeout)

    async def result(self, timeout: float | None = None, *, check: bool = False) -> Completed:
        completed = await asyncio.to_thread(self._job.result, timeout)
        return completed.check() if check else completed

    async def logs(self) -> tuple[bytes, bytes]:
        return await asyncio.to_thread(self._job.logs)

    async def kill(self, signal: int = 0) -> None:
        await asyncio.to_thread(self._job.kill, signal)


async def communicate(words: list[str], data: bytes | None) -> tuple[int, bytes, bytes]:
    """Runs lbrun until it exits. Returns exit status, output and errors."""
    stdin = asyncio.subprocess.DEVNULL if data is None else asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *words, stdin=stdin, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        output, error = await process.communicate(data)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        raise
    assert process.returncode is not None
    return process.returncode, output, error


Client, Job = AsyncClient, AsyncJob
