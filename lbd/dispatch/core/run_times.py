"""How long similar ended jobs ran: for backfill, gangs and forecasts. Pure.

Earlier runs of exactly the same command line by that user count first, else jobs with the same
label and kind of command (`command_of`); on the same number of slots in either case. For a
forecast, runs of that kind under any label are better than none; who is passed in the line does not
depend on so vague a likeness. For a forecast each command line counts once: a hundred runs with one
argument say no more about another argument than a single run would. The last runs of each key are
kept; if there are too many keys, those unused for longest are forgotten.
"""

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from lbd.dispatch.core.discipline import QueuedJob
from lbd.theory.lifetimes import learnt_s

RUNS_KEPT = 100
KINDS_KNOWN = 10_000
SPREADS_KNOWN = 1000
Key = tuple[str | int, ...]


class Runs(NamedTuple):
    times_s: "array[float]"  # oldest first
    lines: "array[int]"  # hash of the command line of each; empty if it is the same for all


class Nearest(NamedTuple):
    """What the next run of a job is predicted from."""

    key: Key | None  # shared by the jobs that it is taken to be like; None: its command is unknown
    times_s: Sequence[float]  # of those that ended; of other command lines, one time of each
    runs: int  # how many have ended
    # the hash of its command line, if only others of the same command have run; 0 otherwise
    line: int = 0


NOTHING_RAN = Runs(array("d"), array("q"))


class Times:
    """The last times of each key, which starts with a user. Uses arrays, as a deque takes six times
    the memory.

    If there are too many keys, those of the user with most keys are forgotten first, so that one
    user's thousands do not displace others'.
    """

    def __init__(self, most: int = KINDS_KNOWN) -> None:
        self._most, self._count = most, 0
        # Users with their keys: least recently used first.
        self._of_users: OrderedDict[str | int, OrderedDict[Key, Runs]] = OrderedDict()

    def __len__(self) -> int:
        return self._count

    def add(self, key: Key, time_s: float, kept: int = RUNS_KEPT, line: int | None = None) -> None:
        """`line`: the hash of its command line, if the key does not say it."""
        own = self._of_users.get(key[0])
        if own is None:
            own = self._of_users[key[0]] = OrderedDict()
        runs = own.get(key)
        if runs is None:
            runs = own[key] = Runs(array("d"), array("q"))
            self._count += 1
        runs.times_s.append(learnt_s(time_s))
        del runs.times_s[:-kept]
        if line is not None:
            runs.lines.append(line)
            del runs.lines[:-kept]
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
        return self.runs_of(key).times_s

    def runs_of(self, key: Key) -> Runs:
        own = self._of_users.get(key[0])
        return own.get(key, NOTHING_RAN) if own is not None else NOTHING_RAN


class RunTimes:
    def __init__(self, most: int = KINDS_KNOWN) -> None:
        self._times = Times(most)
        self._of_kinds = Times(most)
        # by key, until another run ends: the time that each command line takes
        self._of_lines: dict[Key, Sequence[float]] = {}

    def ended(self, job: QueuedJob, run_s: float) -> None:
        """A job ran to its own end."""
        line = line_key(job)
        if line is not None:
            self._times.add(line, run_s)
        for times, key in self._of_command(job):
            times.add(key, run_s, line=job.command_line)
            self._of_lines.pop(key, None)

    def of(self, job: QueuedJob, fewest: int = 1) -> Sequence[float]:
        """Returns the times of the most similar group with at least `fewest` runs; none if there is
        none."""
        known = (self._times.of(key) for key in keys_of(job))
        return next((times_s for times_s in known if len(times_s) >= fewest), ())

    def nearest(self, job: QueuedJob) -> Nearest:
        """Returns the runs that its next one is taken to be like: those of `of`, else of its kind
        under any label."""
        line = line_key(job)
        if line is not None and (times_s := self._times.of(line)):
            return Nearest(line, times_s, len(times_s))
        for times, key in self._of_command(job):
            if (runs := times.runs_of(key)).times_s:
                if line is None:
                    return Nearest(key, runs.times_s, len(runs.times_s))
                return Nearest(key, self._each_line(key, runs), len(runs.times_s), job.command_line)
        kind = kind_of(job)
        return Nearest((*kind, job.slots) if kind is not None else None, (), 0)

    def _of_command(self, job: QueuedJob) -> list[tuple[Times, Key]]:
        """Returns the keys of its command under its label and under any, and where they are."""
        found: list[tuple[Times, Key]] = []
        if (label := label_key(job)) is not None:
            found.append((self._times, label))
        if (kind := kind_of(job)) is not None:
            found.append((self._of_kinds, (*kind, job.slots)))
        return found

    def _each_line(self, key: Key, runs: Runs) -> Sequence[float]:
        if key not in self._of_lines:
            if len(self._of_lines) >= SPREADS_KNOWN:
                self._of_lines.clear()
            found = dict[int, list[float]]()
            for line, time_s in zip(runs.lines, runs.times_s, strict=True):
                found.setdefault(line, []).append(time_s)
            self._of_lines[key] = tuple(map(median, found.values()))
        return self._of_lines[key]

    def has_line(self, job: QueuedJob) -> bool:
        """Whether exactly the same command line has run before."""
        line = line_key(job)
        return line is not None and bool(self._times.of(line))


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


def line_key(job: QueuedJob) -> Key | None:
    return (job.user, job.command_line, job.slots) if job.command_line else None


def label_key(job: QueuedJob) -> Key | None:
    has_one = job.name or job.command
    return (job.user, job.name, job.command, job.slots) if has_one else None


def keys_of(job: QueuedJob) -> list[Key]:
    return [key for key in (line_key(job), label_key(job)) if key is not None]
