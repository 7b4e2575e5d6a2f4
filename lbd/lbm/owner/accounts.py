"""Accounts of this host, as the LBM looks them up: those that commands run as, and the names of its
own users, by which other hosts know them.

The user database may be slow (LDAP): it is asked in a thread, and what it says is believed for a
minute, since a number may be given to somebody else. A name counts only if the database gives it
the same number: two sources of accounts (files, LDAP) may use one name for two people, and
elsewhere it is the name that decides as whom a command runs.
"""

import asyncio
import pwd
import time
from collections.abc import Callable

from lbd.keeper.gate import find_account
from lbd.keeper.run_as import LocalUser
from lbd.process.timed_cache import TimedCache

KNOWN_S = 60.0
UNKNOWN_S = 5.0  # of who was not found: the database may have been away


class AccountCache:
    def __init__(self) -> None:
        self._known: TimedCache[str | int, LocalUser | None] = TimedCache(KNOWN_S)

    async def look_up(self, wanted: str | int) -> LocalUser | None:
        if (known := self._known.get(wanted, time.monotonic())) is not None:
            return known[0]
        found = await asyncio.to_thread(find_account, wanted)
        known_s = UNKNOWN_S if found is None else KNOWN_S
        return self._known.put(wanted, found, time.monotonic(), known_s)


class UserNames:
    def __init__(
        self, find: Callable[[int], str | None], clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        """`find`: asks the user database, which may take a while (LDAP)."""
        self._find = find
        self._clock_s = clock_s
        self._known: TimedCache[int, str] = TimedCache(KNOWN_S)

    async def learn(self, uid: int) -> None:
        """So that `of` has no need to wait."""
        if self._known.get(uid, self._clock_s()) is None:
            self._note(uid, await asyncio.to_thread(self._find, uid))

    def of(self, uid: int) -> str:
        """The number itself where there is no such user."""
        known = self._known.get(uid, self._clock_s())
        return known[0] if known is not None else self._note(uid, self._find(uid))

    def _note(self, uid: int, found: str | None) -> str:
        name = found if found is not None else str(uid)
        known_s = KNOWN_S if found is not None else UNKNOWN_S
        return self._known.put(uid, name, self._clock_s(), known_s)


def find_name(uid: int) -> str | None:
    """None if there is no user of that number, or the name is another's."""
    try:
        name = pwd.getpwuid(uid).pw_name
        return name if pwd.getpwnam(name).pw_uid == uid else None
    except (KeyError, OSError, OverflowError):
        return None


NAMES = UserNames(find_name)
user_name = NAMES.of
