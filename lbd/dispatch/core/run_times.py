"""How long jobs took that have ended, by their like: for backfill, gangs and forecasts. Pure.

First the very same command line of that user counts, else the jobs of the same label and kind of
command (`command_of`); on as many slots in either case. The last runs of each are kept; of too many
those are forgotten that their user has not run for longest.
"""

from array import array
from collections import OrderedDict
from collections.abc import Sequence

from lbd.dispatch.core.discipline import QueuedJob

RUNS_KEPT = 100
KINDS_KNOWN = 10_000
Key = tuple[str | int, ...]


class Times:
    """The last times of each key, which begins with a user. A deque takes as much as six of these
    arrays.

    Of too many keys those of who has most are forgotten: a user's thousands push out no other's.
    """

    def __init__(self, most: int = KINDS_KNOWN) -> None:
        self._most, self._count = most, 0
        # Users, and the keys of each: who has not run any for longest is first.
        self._of_users: OrderedDict[str | int, OrderedDict[Key, array[float]]] = OrderedDict()

    def __len__(self) -> int:
        return self._count

    def add(self, key: Key, time_s: float, kept: int = RUNS_KEPT) -> None:
        own = self._of_users.setdefault(key[0], OrderedDict())
        self._count += key not in own
        times_s = own.setdefault(key, array("d"))
        times_s.append(time_s)
        del times_s[:-kept]
        own.move_to_end(key)
        self._of_users.move_to_end(key[0])
        while self._count > self._most:
            self._forget_one()

    def _forget_one(self) -> None:
        user = max(self._of_users, key=lambda one: len(self._of_users[one]))
        self._of_users[user].popitem(last=False)
        self._count -= 1
        if not self._of_users[user]:
            del self._of_users[user]

    def of(self, key: Key) -> Sequence[float]:
        """The oldest first."""
        own = self._of_users.get(key[0])
        return own.get(key, ()) if own is not None else ()


class RunTimes:
    def __init__(self, most: int = KINDS_KNOWN) -> None:
        self._times = Times(most)

    def ended(self, job: QueuedJob, run_s: float) -> None:
        """One ran to its own end."""
        for key in keys_of(job):
            self._times.add(key, run_s)

    def of(self, job: QueuedJob, fewest: int = 1) -> Sequence[float]:
        """Of the nearest of its like that have so many; none if there are none."""
        return self.nearest(job, fewest)[1]

    def nearest(self, job: QueuedJob, fewest: int = 1) -> tuple[Key, Sequence[float]]:
        """The same, and which these are; of none the key is ()."""
        known = ((key, self._times.of(key)) for key in keys_of(job))
        return next((one for one in known if len(one[1]) >= fewest), ((), ()))

    def has_line(self, job: QueuedJob) -> bool:
        """Has the very same command line run before?"""
        return bool(job.command_line and self._times.of(keys_of(job)[0]))


def line_of(command: bytes) -> int:
    """Returns a number that stands for all of a command's words. Thousands are known, and each may
    have megabytes; a user who finds two with one number deceives himself alone."""
    return hash(command)


def keys_of(job: QueuedJob) -> list[Key]:
    found: list[Key] = [(job.user, job.command_line, job.slots)] if job.command_line else []
    if job.name or job.command:
        found.append((job.user, job.name, job.command, job.slots))
    return found
