"""Outputs of ended jobs that are on their way here, for people who wait for them."""

import asyncio
import contextlib
from collections.abc import Container, Iterator, Sequence

from lbd.lbm.staging.open_notes import OpenNotes
from lbd.lbm.staging.pack_store import Note
from lbd.local.json_socket import Json
from lbd.net.gen import dispatch_pb2 as pb
from lbd.text.name_patterns import shown_id

PAUSE_S = 0.2  # the outputs of an array come in large numbers


class AwaitedOutputs:
    def __init__(self, notes: OpenNotes) -> None:
        self._notes = notes
        self.troubles: dict[int, str] = {}  # why outputs of an ended job have not come yet
        self._delayed: set[int] = set()  # those of them that come once another host is back
        self._moved = asyncio.Event()

    def settle(self, job: int) -> None:
        """Notes that nothing more comes from the job."""
        self.troubles.pop(job, None)
        self._delayed.discard(job)
        self._tell()

    def keep(self, job: int, trouble: str, *, delayed: bool) -> None:
        """Notes that the outputs have not come, for now, and why. `delayed`: they come by
        themselves, and the user need not do anything."""
        self.troubles[job] = trouble
        if delayed:
            self._delayed.add(job)
        else:
            self._delayed.discard(job)
        self._tell()

    def _tell(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    def expects(self, job: int, *, array: bool) -> bool:
        """Whether outputs of that job may still come, or of the array that begins with it."""
        note = self._notes.of_job(job)
        return note is not None and (array or note.is_left(job))

    def are_of(self, uid: int) -> bool:
        """Whether any outputs for that user may come, or are known not to."""
        return bool(self._notes.of_user(uid))

    def coming(self, uid: int, jobs: Sequence[int]) -> list[int]:
        """Returns, in order, those of these ended jobs whose outputs are on their way to that user
        here: no trouble is known that keeps them away until the user does something."""
        return sorted(job for _, own in self._by_note(uid, jobs) for job in own)

    def _by_note(self, uid: int, jobs: Sequence[int]) -> list[tuple[Note, list[int]]]:
        return [
            (note, [job for job in own if self._comes(note, job)])
            for note, own in self._notes.with_jobs(jobs)
            if note.uid == uid and note.fetch and not note.waited_for
        ]

    def _comes(self, note: Note, job: int) -> bool:
        return note.is_left(job) and (job not in self.troubles or job in self._delayed)

    async def wait(self, uid: int, jobs: Sequence[int]) -> None:
        """Waits until the outputs of these ended jobs are here, or it is known why they are not."""
        for note, left in self._by_note(uid, jobs):
            while left:  # looked at one by one: an array may have very many
                if self._comes(note, left[-1]):
                    await self._moved.wait()
                    await asyncio.sleep(PAUSE_S)
                else:
                    left.pop()

    async def answer(self, uid: int, ended: Sequence[pb.JobInfo], patience_s: float) -> Json:
        """Returns, after a while, how many jobs have outputs that are still on their way, and why
        those of one job have not come."""
        jobs = sorted(job.id for job in ended)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self.wait(uid, jobs)
        coming = len(self.coming(uid, jobs))
        trouble = next(self._kept(uid, ended, self._delayed if coming else self.troubles), "")
        return {"outputs_coming": coming, "outputs_trouble": trouble}

    def _kept(self, uid: int, ended: Sequence[pb.JobInfo], among: Container[int]) -> Iterator[str]:
        """Yields the troubles of that user's outputs: others' are not waited for."""
        for job in ended:
            note = self._notes.of_job(job.id) if job.id in among else None
            if note is None or note.uid != uid:
                continue
            if (trouble := self.troubles.get(job.id)) is not None:
                yield f"{id_of(job)}: {trouble}"


def id_of(job: pb.JobInfo) -> str:
    """As it is shown to people: 7, or 12_7."""
    return shown_id(str(job.id), job.array_id, job.array_index if job.array_id else None)
