"""Look-ups in the user database for callers that may not wait, since it may be slow (LDAP).

A thread asks the database, and asks again once the answer is old. Until then the last answer
counts. Only the first look-up of a name waits, and only briefly.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

KNOWN_S = 60.0  # accounts come and go
FIRST_S = 1.0  # first look-up only; afterwards the name counts as unknown
AT_ONCE = 4


class LateAnswers:
    def __init__(self, find: Callable[[str], int], first_s: float = FIRST_S) -> None:
        """`find`: raises KeyError for an unknown name."""
        self._find, self._first_s = find, first_s
        self._known: dict[str, tuple[int | None, float]] = {}
        self._asked: dict[str, threading.Event] = {}

    def get(self, name: str) -> int | None:
        """Returns the number of this name; None if there is none, or no answer yet."""
        known = self._known.get(name)
        if known is not None and time.monotonic() < known[1]:
            return known[0]
        if name not in self._asked and len(self._asked) < AT_ONCE:
            answered = self._asked[name] = threading.Event()
            asking = threading.Thread(
                target=self._ask, args=(name, answered), name="user database", daemon=True
            )
            try:
                asking.start()
            except RuntimeError:  # too many threads at the moment
                del self._asked[name]
            else:
                if known is None:
                    answered.wait(self._first_s)
        return self._known.get(name, (None, 0.0))[0]

    def _ask(self, name: str, answered: threading.Event) -> None:
        found = None
        with suppress(KeyError, OSError, ValueError):  # a name with a NUL
            found = self._find(name)
        self._known[name] = found, time.monotonic() + KNOWN_S
        del self._asked[name]
        answered.set()
