"""The longest lease that may be in force, kept in the ledger for the next dispatcher.

`dispatch.lease_s` may be lowered while hosts hold longer leases, and the next dispatcher must wait
for these. So a longer lease is on record before the first one is granted, and it is replaced by a
shorter one only when nothing granted before can be in force any more.
"""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass

from lbd.config.dispatch import LEASE_S_MAX
from lbd.dispatch.core.ledger_rows import LedgerTrouble
from lbd.dispatch.ledger.store import Store
from lbd.dispatch.ledger.trouble import passing
from lbd.process.wake_ups import next_moment

NAME = "longest_lease_ms"  # among the counters
LOOK_S = 1.0


@dataclass(slots=True)
class LongestLease:
    """`lease_s`: that are granted now."""

    ledger: Store
    lease_s: float
    kept_s: float = 0.0  # on record

    async def inherit(self) -> float:
        """Returns the longest lease that an earlier dispatcher may have granted, 0 if none did.
        From now on `lease_s` may be granted. Raises LedgerTrouble, after a moment."""
        async with passing():
            found = await self.ledger.counter(NAME)
            earlier_s = min(max(0, found or 0) / 1e3, LEASE_S_MAX)
            self.kept_s = earlier_s
            if earlier_s < self.lease_s:
                await self._keep()
        return earlier_s

    async def lower(self, has_longer: Callable[[], bool]) -> None:
        """Records `lease_s` once no attempt has a longer lease. Runs until cancelled."""
        while True:
            await next_moment(LOOK_S)
            if self.kept_s > self.lease_s and not has_longer():
                with contextlib.suppress(LedgerTrouble):
                    await self._keep()

    async def _keep(self) -> None:
        milliseconds = math.ceil(self.lease_s * 1e3)
        await self.ledger.set_counter(NAME, milliseconds)
        self.kept_s = self.lease_s
