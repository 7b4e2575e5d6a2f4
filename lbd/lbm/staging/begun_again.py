"""Jobs that had ended here and begin again (`lbctl requeue`): their outputs are to come once more.

The dispatcher need not tell us: each attempt takes its files from us first, and says for which job.
"""

import asyncio
import contextlib
import logging
from collections.abc import Container

from lbd.lbm.owner.accounts import NAMES
from lbd.lbm.queue.dispatcher_client import DispatcherClient
from lbd.lbm.staging.open_notes import OpenNotes
from lbd.lbm.staging.pack_store import Note, PackStore
from lbd.model import ENDED_NAMES
from lbd.net.gen import dispatch_pb2 as pb
from lbd.process.job_log import JobLog

job_log = JobLog(logging.getLogger("lbd.lbm"))

NO_MEMORY = (
    "it runs again, but its outputs stay on the host where it runs: the notes of its user's jobs "
    "take too much memory"
)


async def begin_again(
    files: tuple[PackStore, OpenNotes, Container[int]],
    queue: DispatcherClient,
    name: str,
    job: int,
) -> bool:
    """An attempt of the job takes that pack: returns whether the job had ended and now needs its
    note again. `files`: last the jobs whose outputs are being brought. The host that says so may
    have run the job before, and could change files that its user has had for days: so the queue
    must know of it. Raises Unavailable."""
    store, notes, in_hand = files
    if (note := notes.get(name)) is None:  # else it waits for nobody
        async with store.reopening:
            note = notes.get(name) or await asyncio.to_thread(store.closed, name)
    if note is None or not note.fetch or not (note.has_ended(job) or job in in_hand):
        return False
    if not await lives(queue, note, job):
        return False
    async with store.reopening:
        note = notes.get(name) or note  # another of its jobs may have come first
        if name not in notes and not store.memory.has_room_for(note):
            job_log.warning(str(job), NO_MEMORY)
            return False
        notes[name] = note
        store.memory.keep_note(note)
        note.begin(job)
        with contextlib.suppress(OSError):
            await asyncio.to_thread(store.write, note)
        return True


async def lives(queue: DispatcherClient, note: Note, job: int) -> bool:
    """Raises Unavailable."""
    asked = pb.JobsAsked(selectors=[str(job)], ended_too=True, by_number=True, unexplained=True)
    asked.user = await NAMES.look_up(note.uid)
    found = (await queue.jobs(asked, note.ledger)).jobs
    return any(one.id == job and one.state not in ENDED_NAMES for one in found)
