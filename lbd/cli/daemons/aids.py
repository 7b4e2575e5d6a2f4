"""What helps the dispatcher to estimate, to show and to forget. The queue goes on without it."""

import asyncio
import logging
from collections.abc import Callable, Coroutine

log = logging.getLogger("lbd.dispatch")

AGAIN_S = 60.0


async def kept_up(what: str, run: Callable[[], Coroutine[None, None, None]]) -> None:
    """Runs it, and again some time after a fault of whatever kind: it comes of jobs and reports,
    which anybody sends, and would end every dispatcher that follows."""
    while True:
        try:
            return await run()
        except Exception:
            log.exception("%s: it failed; it begins again in %.0f s", what, AGAIN_S)
        await asyncio.sleep(AGAIN_S)
