"""How long similar ended jobs ran: for backfill, gangs and forecasts. Pure.

Earlier runs of exactly the same command line by that user count first, else jobs with the same
label and kind of command (`command_of`); on the same number of slots in either case. For a
forecast, runs of that kind under any label are better than none; who is passed in the line does not
depend on so vague a likeness. The last runs of each key are kept; if there are too many keys, those
unused for longest are forgotten.
"""

from array import array
from collections import OrderedDict
from collections.abc import Sequence

from lbd.dispatch.core.discipline import QueuedJob

RUNS_KEPT = 100
KINDS_KNOWN = 10_000
Key = tuple[str | int, ...]


class Times:
    """The last times of each key, which starts with a user. Uses arrays, as a deque takes six times
    the memory.

    If there are too many keys, those of the user with most keys are forgotten first, so that one
    user's thousands do not displace others'.
    """

    def __init__(self, most: int = KINDS_KNOWN) -> None:
        self._most, self._count = most, 0
        # Users with their keys: least recently used first.
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
        """Returns the times, oldest first."""
        own = self._of_users.get(key[0])
        return own.get(key, ()) if own is not None else ()


class RunTimes:
    def __init__(self, most: int = KINDS_KNOWN) -> None:
        self._times = Times(most)
        self._of_kinds = Times(most)

    def ended(self, job: QueuedJob, run_s: float) -> None:
        """A job ran to its own end."""
        for key in keys_of(job):
            self._times.add(key, run_s)
        if (kind := kind_of(job)) is not None:
            self._of_kinds.add((*kind, job.slots), run_s)

    def of(self, job: QueuedJob, fewest: int = 1) -> Sequence[float]:
        """Returns the times of the most similar group with at least `fewest` runs; none if there is
        none."""
        known = (self._times.of(key) for key in keys_of(job))
        return next((times_s for times_s in known if len(times_s) >= fewest), ())

    def nearest(self, job: QueuedJob) -> tuple[Key | None, Sequence[float]]:
        """Returns the key of the jobs that this one is taken to be like, and their times: those of
        `of`, else of its kind under any label. The key is None if its command is unknown."""
        for key in keys_of(job):
            if times_s := self._times.of(key):
                return key, times_s
        kind = kind_of(job)
        key_of_kind = (*kind, job.slots) if kind is not None else None
        return key_of_kind, self._of_kinds.of(key_of_kind) if key_of_kind is not None else ()

    def has_line(self, job: QueuedJob) -> bool:
        """Whether exactly the same command line has run before."""
        return bool(job.command_line and self._times.of(keys_of(job)[0]))


def kind_of(job: QueuedJob) -> Key | None:
    """Returns what jobs of the same user and command have in common; None if the command is
    unknown."""
    return (job.user, job.command or job.command_line) if job.command or job.command_line else None


def line_of(command: bytes) -> int:
    """Returns a hash of all of a command's words, since thousands are kept and each may have
    megabytes. A user who constructs a collision deceives only himself."""
    return hash(command)


def name_hash(name: str) -> int:
    """Returns a hash of the name under which a command's runs are learnt, 0 for "": a million jobs
    may wait, each with a name of its own."""
    return hash(name) if name else 0


def keys_of(job: QueuedJob) -> list[Key]:
    found: list[Key] = [(job.user, job.command_line, job.slots)] if job.command_line else []
    if job.name or job.command:
        found.append((job.user, job.name, job.command, job.slots))
    return found
