"""Accounts of this host, as the LBM looks them up."""

import asyncio
import time

from lbd.lbm.accounts import find_account
from lbd.lbm.users import LocalUser

KNOWN_S = 60.0
KNOWN = 1024


class AccountCache:
    """The user database may be slow (LDAP): asked in a thread, remembered a while."""

    def __init__(self) -> None:
        self._known: dict[str | int, tuple[LocalUser | None, float]] = {}

    async def look_up(self, wanted: str | int) -> LocalUser | None:
        known, until_s = self._known.get(wanted, (None, 0.0))
        if time.monotonic() < until_s:
            return known
        found = await asyncio.to_thread(find_account, wanted)
        if len(self._known) >= KNOWN:
            self._known.clear()
        self._known[wanted] = found, time.monotonic() + KNOWN_S
        return found
