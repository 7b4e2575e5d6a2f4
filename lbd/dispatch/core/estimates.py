"""How long jobs will take, by what the same command took before: for least-work and sita-e. Pure.

First the very same command line of that user counts, else what that user's runs of that kind took
(`key_of`, as for eligibility). Means follow the last runs; the least recently used are forgotten.
"""

from collections import OrderedDict
from collections.abc import Iterable

from lbd.dispatch.core.cutoffs import ran_whole
from lbd.dispatch.core.ledger_rows import JobRow, command_of

COMMANDS_KEPT = 20_000
LAST_RUN = 0.2  # its weight, once there are five

Key = tuple[str, str | int]


class Estimates:
    def __init__(self, most: int = COMMANDS_KEPT) -> None:
        self._most = most
        self._known: OrderedDict[Key, tuple[int, float]] = OrderedDict()  # runs, mean

    def __len__(self) -> int:
        return len(self._known)

    def learn(self, rows: Iterable[JobRow]) -> None:
        """Learns from jobs that have ended."""
        for row in rows:
            if row.cpu_s is None or not ran_whole(row):
                continue
            for key in keys_of(row.user, row.command):
                runs, mean_s = self._known.get(key, (0, 0.0))
                weight = max(LAST_RUN, 1.0 / (runs + 1))
                self._known[key] = runs + 1, mean_s + weight * (row.cpu_s - mean_s)
                self._known.move_to_end(key)
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    def of(self, user: str, command: bytes) -> float | None:
        """Returns the estimated CPU seconds; None for a command never seen."""
        for key in keys_of(user, command):
            if (known := self._known.get(key)) is not None:
                return known[1]
        return None


def keys_of(user: str, command: bytes) -> tuple[Key, Key]:
    """`command`: its words, a NUL after each but the last. Thousands are known, and each may have
    megabytes, so a number stands for it: a user who finds two alike deceives himself alone."""
    return (user, hash(command)), (user, command_of(command))
