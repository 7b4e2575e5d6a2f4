"""How long jobs took that have ended, by their like: for backfill, gangs and forecasts. Pure.

First the very same command line of that user counts, else the jobs of the same label and kind of
command (`command_of`); on as many slots in either case. The last runs of each are kept, and those
that nobody has run for longest are forgotten.
"""

from array import array
from collections import OrderedDict
from collections.abc import Sequence

from lbd.dispatch.core.discipline import QueuedJob

RUNS_KEPT = 100
KINDS_KNOWN = 10_000
Key = tuple[str | int, ...]


class Times:
    """The last times of each key. A deque takes as much as six of these arrays."""

    def __init__(self, most: int = KINDS_KNOWN) -> None:
        self._most = most
        self._known: OrderedDict[Key, array[float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def add(self, key: Key, time_s: float, kept: int = RUNS_KEPT) -> None:
        times_s = self._known.setdefault(key, array("d"))
        times_s.append(time_s)
        del times_s[:-kept]
        self._known.move_to_end(key)
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    def of(self, key: Key) -> Sequence[float]:
        """The oldest first."""
        return self._known.get(key, ())


class RunTimes:
    def __init__(self, most: int = KINDS_KNOWN) -> None:
        self._times = Times(most)

    def ended(self, job: QueuedJob, run_s: float) -> None:
        """One ran to its own end."""
        for key in keys_of(job):
            self._times.add(key, run_s)

    def of(self, job: QueuedJob, fewest: int = 1) -> Sequence[float]:
        """Of the nearest of its like that have so many; none if there are none."""
        known = (self._times.of(key) for key in keys_of(job))
        return next((times_s for times_s in known if len(times_s) >= fewest), ())

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
