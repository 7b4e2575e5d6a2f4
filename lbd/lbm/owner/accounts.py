"""Accounts of this host: those that commands run as, and the names of this host's own users.

Other hosts know the users by these names. The user database may be slow (LDAP). It is asked in
threads of its own, about only a few names at once for each asker (a user, another host): an asker
for thousands of missing names blocks nobody else.

An answer is believed for a minute, since a number may be given to somebody else. A name counts only
if the database gives it the same number: two sources of accounts (files, LDAP) may use one name for
two people, and on other hosts the name decides as whom a command runs.
"""

import asyncio
import pwd
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from lbd.local.caller import person_of
from lbd.local.turns import Turns
from lbd.process.steady_threads import SteadyThreads
from lbd.process.timed_cache import TimedCache

KNOWN_S = 60.0
UNKNOWN_S = 5.0  # for a missing name: the database may have been away
ANSWER_S = 30.0  # the longest time of a question from `learn` to the last `of`
THREADS_MAX, AT_ONCE = 32, 2  # AT_ONCE: for one asker
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LookUps(Generic[Key, Value]):
    """Answers of the user database, and questions to it. Missing names push no found ones out."""

    def __init__(
        self,
        find: Callable[[Key], Value | None],
        clock_s: Callable[[], float] = time.monotonic,
        kept_s: float = 0.0,
    ) -> None:
        """`kept_s`: how long an answer stays available once it is due to be looked up again."""
        self._find, self._clock_s = find, clock_s
        self._found: TimedCache[Key, Value] = TimedCache(KNOWN_S + kept_s)
        self._not_found: TimedCache[Key, None] = TimedCache(UNKNOWN_S + kept_s)
        self._kept_s = kept_s
        self._turns = Turns(AT_ONCE)
        self._threads = SteadyThreads(THREADS_MAX, "user-database")

    async def look_up(self, key: Key, asker: Hashable) -> Value | None:
        if (known := self.fresh(key)) is not None:
            return known[0]
        async with self._turns.turn(asker):
            if (known := self.fresh(key)) is not None:  # another task has asked the same
                return known[0]
            loop = asyncio.get_running_loop()
            return self._note(key, await loop.run_in_executor(self._threads, self._find, key))

    def known(self, key: Key) -> tuple[Value | None] | None:
        """Returns the answer in a tuple; None: there is none any more."""
        now_s = self._clock_s()
        return self._found.get(key, now_s) or self._not_found.get(key, now_s)

    def look_up_now(self, key: Key) -> Value | None:
        """Asks the database, and blocks everything until it has answered."""
        return self._note(key, self._find(key))

    def fresh(self, key: Key) -> tuple[Value | None] | None:
        """Returns the answer of `look_up` in a tuple; None: the database must be asked."""
        now_s = self._clock_s() + self._kept_s
        return self._found.get(key, now_s) or self._not_found.get(key, now_s)

    def _note(self, key: Key, found: Value | None) -> Value | None:
        now_s = self._clock_s()
        if found is not None:
            return self._found.put(key, found, now_s)
        self._found.drop(key)
        return self._not_found.put(key, None, now_s)


class UserNames:
    def __init__(
        self, find: Callable[[int], str | None], clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        """`find`: asks the user database, which may take a while (LDAP)."""
        self._names: LookUps[int, str] = LookUps(find, clock_s, ANSWER_S)

    async def learn(self, uid: int) -> None:
        """Looks the name up, so that `of` need not wait during a question of that user."""
        if self._names.fresh(uid) is None:
            await self._names.look_up(uid, person_of(uid))

    async def look_up(self, uid: int) -> str:
        """Like `of`, but keeps nobody else waiting."""
        await self.learn(uid)
        return self.of(uid)

    def of(self, uid: int) -> str:
        """Returns the name; the number itself if there is no such user."""
        known = self._names.known(uid)
        name = known[0] if known is not None else self._names.look_up_now(uid)
        return name if name is not None else str(uid)


def find_name(uid: int) -> str | None:
    """None if there is no user of that number, or the name is another user's."""
    try:
        name = pwd.getpwuid(uid).pw_name
        return name if pwd.getpwnam(name).pw_uid == uid else None
    except (KeyError, OSError, OverflowError):
        return None


NAMES = UserNames(find_name)
user_name = NAMES.of
