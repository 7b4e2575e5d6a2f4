"""Trouble of the ledger that may pass, when a dispatcher begins to lead."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from lbd.dispatch.core.ledger_rows import Deposed, LedgerTrouble

RETRY_S = 0.5


@contextlib.asynccontextmanager
async def passing() -> AsyncIterator[None]:
    """Raises LedgerTrouble of what is done in it as such that may pass, after a moment."""
    try:
        yield
    except Deposed:
        raise
    except LedgerTrouble as problem:
        await asyncio.sleep(RETRY_S)
        raise LedgerTrouble(str(problem), passes=True) from None
