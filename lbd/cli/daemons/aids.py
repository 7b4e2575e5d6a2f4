"""What helps the dispatcher to estimate, to show and to forget. The queue goes on without it."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path

from lbd.dispatch.core.ledger_rows import LedgerTrouble
from lbd.dispatch.daemon import Dispatcher
from lbd.dispatch.ledger.retention import clean_up
from lbd.local.json_client import OneQuestion
from lbd.model import HostId
from lbd.process.boot_clock import clock_s

log = logging.getLogger("lbd.dispatch")

AGAIN_S = 60.0
FORGET_EVERY_S = 60.0
REVOKED_EVERY_S, AT_ONCE = 1.0, 1000  # jobs that are looked through without a pause
REMOVED_EVERY_S = 2.0  # a host was removed from the cluster: what waits for it says so this soon
LIM_S = 2.0


async def kept_up(what: str, run: Callable[[], Coroutine[None, None, None]]) -> None:
    """Runs it, and again some time after a fault of whatever kind: it comes of jobs and reports,
    which anybody sends, and would end every dispatcher that follows."""
    while True:
        try:
            return await run()
        except Exception:
            log.exception("%s: it failed; it begins again in %.0f s", what, AGAIN_S)
        await asyncio.sleep(AGAIN_S)


async def drop_removed(lim: Path, dispatcher: Dispatcher) -> None:
    """Has the LIM of this host say which hosts were removed from the cluster, until cancelled. It
    is asked only while one that we know is out of contact."""
    while True:
        await asyncio.sleep(REMOVED_EVERY_S)
        if dispatcher.life.hosts.out_of_contact():
            answer = await OneQuestion(lim).ask({"op": "removed"}, LIM_S)
            names = answer.get("hosts") if answer else None
            removed = map(HostId, map(str, names)) if isinstance(names, list) else ()
            actions = dispatcher.life.hosts_removed(removed, clock_s(), dispatcher.rng)
            dispatcher.carry(actions)


async def forget(dispatcher: Dispatcher) -> None:
    """Drops jobs that ended long ago, until cancelled."""
    while True:
        with contextlib.suppress(LedgerTrouble):
            await clean_up(dispatcher.ledger, dispatcher.config.dispatch, by_uid=dispatcher.by_uid)
        await asyncio.sleep(FORGET_EVERY_S)


async def end_jobs_of_revoked(dispatcher: Dispatcher) -> None:
    """Ends the jobs of hosts that were revoked a while ago, while others are served."""
    while True:
        await asyncio.sleep(REVOKED_EVERY_S)
        for origin in dispatcher.revoked.due(clock_s()):
            if count := await end_jobs_of(dispatcher, origin):
                log.warning("ending %d jobs of %s, which is revoked", count, origin)
            dispatcher.revoked.ended(origin)  # not if the ledger was in trouble meanwhile


async def end_jobs_of(dispatcher: Dispatcher, origin: str) -> int:
    life, count = dispatcher.life, 0
    for number, job in enumerate([*life.jobs]):
        if (live := life.jobs.get(job)) is not None and live.job.origin == origin:
            of = f"the revocation of {origin}"
            await dispatcher.carry(life.kill(job, 0, clock_s(), dispatcher.rng, of=of, ends=True))
            count += 1
        elif not number % AT_ONCE:
            await asyncio.sleep(0)
    return count
