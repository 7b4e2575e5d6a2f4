"""What queued commands have made, brought to those who asked for it."""

import asyncio
import contextlib
import time

from lbd.config import Config, HostConfig
from lbd.lbm.queued_files import QueuedFiles
from lbd.lbm.stage_store import Note
from lbd.rpc.gen import dispatch_pb2 as pb

HOSTILE, OTHER = 1001, 1002


class Brought(QueuedFiles):
    """What is brought is noted; that of one user never ends, as when the user stops the step."""

    def __init__(self, config):
        super().__init__(config, None, None)
        self.brought = asyncio.Queue()

    async def bring(self, note, job):
        if note.uid == HOSTILE:
            await asyncio.get_running_loop().create_future()
        self.brought.put_nowait(job.id)
        return ""

    async def _watch(self, awaited):
        for note in list(self._open.values()):
            for job in note.left - self._in_hand.keys():
                self._in_hand[job] = note
                self._ended.put_nowait(pb.JobTold(id=job, finished=time.time()))
        await asyncio.get_running_loop().create_future()


def note(job, uid):
    return Note(f"{job:032x}", job, 1, uid, 0o022, "/", ["in"], ["out"])


async def test_one_user_does_not_keep_the_outputs_of_another(tmp_path):
    files = Brought(Config(host=HostConfig(state_dir=str(tmp_path))))
    files.store.root.mkdir()
    for job, uid in ((1, HOSTILE), (2, OTHER), (3, HOSTILE), (4, OTHER)):
        files.store.write(note(job, uid))
    running = asyncio.create_task(files.run())
    try:
        async with asyncio.timeout(20):
            assert {await files.brought.get() for _ in range(2)} == {2, 4}
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
