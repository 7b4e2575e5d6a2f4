"""What must not live on although its keeper does not end it.

A keeper that is stopped, or starved, kills nobody, and of an attempt whose lease is over the
dispatcher may start another elsewhere. So we kill it ourselves, as far as we may (what is another
user's the keeper's warden ends, warden.py); how it ended the keeper tells once it goes on.
"""

import asyncio
import contextlib
import logging
import os
import signal

from lbd.keeper.stdin_watch import members
from lbd.lbm.keeper_link import Spawned
from lbd.process.job_log import JobLog

job_log = JobLog(logging.getLogger("lbd.lbm"))

POLL_S = 0.05
ROUNDS = 20  # what was killed may have begun others meanwhile


async def kill_directly(spawned: Spawned, job: str) -> None:
    if spawned.exited.done() or not is_known(spawned):
        return
    begun = spawned.begun.result()
    job_log.warning(job, "the keeper does not end the process tree of %d; killing it", begun.pid)
    for _ in range(ROUNDS):
        if spawned.exited.done():
            return
        for pid in members(begun.pid, begun.group):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(POLL_S)


def is_known(spawned: Spawned) -> bool:
    """Who it is."""
    begun = spawned.begun
    return begun.done() and not begun.cancelled() and begun.exception() is None
