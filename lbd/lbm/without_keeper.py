"""Kills process trees that must not live on although their keeper does not end them.

A stopped or starved keeper kills nobody, and once an attempt's lease is over the dispatcher may
start another one elsewhere. So we kill the tree ourselves, as far as we may; the keeper's warden
(warden.py) ends what belongs to another user. The keeper reports how it ended once it continues.
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
ROUNDS = 20  # killed processes may have started others meanwhile


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
    """Whether its process is known."""
    begun = spawned.begun
    return begun.done() and not begun.cancelled() and begun.exception() is None
