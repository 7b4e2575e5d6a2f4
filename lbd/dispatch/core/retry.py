"""What follows when a host refuses an attempt, by the phase of the refusal; nothing ran. Pure.

A job that cannot start now is held, and retried later, at growing intervals.
"""

import errno
from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.hosts import HostTable, Terms
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.records import Live
from lbd.model import HostId, JobId
from lbd.text.job_phrases import HELD_FOR_A_WHILE

# Nobody's fault: the host filled up, or the order came too late.
LATE = "late"  # also by its keeper, with ETIME: its lease was over before it could begin
PASSING = ("slot", "drained", LATE)
# For a gang: the member was not ready, so its gang was never released.
BEFORE_READY = ("slot", "drained", "not-yet", "admission", "request", "files", "stage", "no-room")
NO_KEEPER = "keeper"  # its keeper is being replaced: the host's fault, and no other job's
# Its host has no memory, process or descriptor for it; or its user has used up their own.
SHORT_OF = "short"
# Not the host's fault: the job needs what this host lacks, or may not run there, or cannot run
# anywhere, which its host could not know before. Files are unpacked as the job's user, who can make
# that fail anywhere; that must not take the host away from others.
NOT_THERE = ("exec", "chdir", "directory", "admission", "user", "request", "stage")
# That may pass on a host which was booted a moment ago: its file systems may be mounted late.
NOT_MOUNTED = ("chdir", "directory")
# Any user of a host may use up what these errnos are about, for a while: its processes, memory,
# descriptors and disk. SLOW: its user database does not answer, or there is no process to ask it.
SHORT = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC)
SLOW = (errno.EAGAIN, errno.ENOMEM, errno.ETIMEDOUT)
# Its host has none for its files or its output; hosts report it as "stage", with the errno.
NO_ROOM = "no-room"
NOT_FOUND, NOT_EXECUTABLE, FAILED = 127, 126, 125
ENOENT = 2
NOT_YET = "not-yet"  # its host takes its user's commands, but at other times
AWAY = "files"  # the phase at which a host refuses an attempt because its files are unavailable
ASKED_AGAIN_S = 3600.0  # the longest that a host's refusal counts
LOSSES_OF_ONE = 2  # attempts of a job, before it waits for other hosts
STALE_MIN = 1000  # outdated entries that the heap may hold in any case
Key = TypeVar("Key", JobId, tuple[JobId, HostId])


class Moments(Generic[Key]):
    """The moment at which each key is due. A heap finds those due without a look at the others;
    there may be as many keys as jobs."""

    def __init__(self) -> None:
        self._at_s: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []  # also holds keys that were dropped or set again

    def set(self, key: Key, at_s: float) -> None:
        self._at_s[key] = at_s
        if len(self._heap) > 2 * len(self._at_s) + STALE_MIN:
            self._heap = [(due_s, one) for one, due_s in self._at_s.items()]
            heapify(self._heap)
        else:
            heappush(self._heap, (at_s, key))

    def no_later(self, key: Key, at_s: float) -> None:
        if self._at_s.get(key, at_s) > at_s:
            self.set(key, at_s)

    def drop(self, key: Key) -> None:
        self._at_s.pop(key, None)

    def due(self, now_s: float, most: int) -> list[Key]:
        """Removes and returns the keys that are due, `most` at a time: very many may be due at the
        same moment."""
        found: list[Key] = []
        for _ in range(most):
            if not self._heap or self._heap[0][0] > now_s:
                break
            at_s, key = heappop(self._heap)
            if self._at_s.get(key) == at_s:
                del self._at_s[key]
                found.append(key)
        return found


class Pauses:
    """Jobs that are held for a while. A job that has ended must be dropped."""

    def __init__(self) -> None:
        self._counts: dict[JobId, int] = {}
        self._until: Moments[JobId] = Moments()

    def begin(self, live: Live, terms: Terms, now_s: float) -> str:
        """Holds the job, for longer each time. Returns why it is held."""
        return self.until(live, now_s + self.next_s(live.job.id, terms))

    def next_s(self, job: JobId, terms: Terms) -> float:
        """Returns how long its next pause lasts: twice as long each time."""
        count = self._counts[job] = self._counts.get(job, 0) + 1
        return min(terms.aside_s * 2.0 ** min(count - 1, 30), terms.aside_max_s)

    def until(self, live: Live, until_s: float) -> str:
        """Holds the job until then. Returns why it is held."""
        self._until.set(live.job.id, until_s)
        return HELD_FOR_A_WHILE + live.reason

    def drop(self, job: JobId) -> None:
        self._counts.pop(job, None)
        self._until.drop(job)

    def over(self, jobs: Mapping[JobId, Live], now_s: float, most: int) -> list[JobId]:
        """Returns the jobs to retry now, `most` at a time."""
        found = self._until.due(now_s, most)
        return [job for job in found if job in jobs and jobs[job].held.startswith(HELD_FOR_A_WHILE)]


class Bars:
    """Hosts from which jobs are barred for a time. A job that has ended must be dropped."""

    def __init__(self) -> None:
        self._hosts: dict[JobId, set[HostId]] = {}
        # Those that `no_later` has yet to bring forward, and to when at the earliest.
        self._jobs: dict[HostId, dict[JobId, float]] = {}
        self._until: Moments[tuple[JobId, HostId]] = Moments()

    def __contains__(self, job: JobId) -> bool:
        return job in self._hosts

    def add(self, job: JobId, host: HostId, until_s: float, least_s: float = 0.0) -> None:
        """`least_s`: `no_later` lets it go there no earlier than that."""
        self._hosts.setdefault(job, set()).add(host)
        self._jobs.setdefault(host, {})[job] = least_s
        self._until.set((job, host), until_s)

    def drop(self, job: JobId) -> None:
        for host in self._hosts.pop(job, ()):
            self._until.drop((job, host))
            self._forget(job, host)

    def no_later(self, host: HostId, at_s: float) -> None:
        """Lets all jobs go to that host from then on. `at_s` only grows from call to call, so each
        bar is looked at once, however often a host calls for this."""
        for job, least_s in self._jobs.pop(host, {}).items():
            self._until.no_later((job, host), max(at_s, least_s))

    def _forget(self, job: JobId, host: HostId) -> None:
        jobs = self._jobs.get(host, {})
        jobs.pop(job, None)
        if not jobs:
            self._jobs.pop(host, None)

    def over(self, now_s: float, most: int) -> list[tuple[JobId, frozenset[HostId]]]:
        """Returns which jobs may go to which hosts again, at most `most` bars at a time."""
        found: dict[JobId, set[HostId]] = {}
        for job, host in self._until.due(now_s, most):
            found.setdefault(job, set()).add(host)
            self._forget(job, host)
            self._hosts[job].discard(host)
            if not self._hosts[job]:
                del self._hosts[job]
        return [(job, frozenset(hosts)) for job, hosts in found.items()]


def others_for(
    job: QueuedJob, barred: frozenset[HostId], hosts: HostTable, queues: Queues
) -> bool | None:
    """Whether the job, or its gang, could start elsewhere than on these hosts; None: it may go to
    no other. What a host has that takes no jobs now is not known, so it might."""
    job = job._replace(barred=barred)
    others = [host for host in hosts.known if job.may_go_to(host)]
    if not others:
        return None
    present = [queues.hosts[name] for name in others if name in queues.hosts]
    if len(present) < len(others) or not all(one.slots for one in present):
        return True
    return is_suited(job, queues)


def is_suited(job: QueuedJob, queues: Queues) -> bool:
    """Whether hosts that take jobs now have what the job needs, or its gang."""
    job = job._replace(spooled=False)  # a disk that is full now may have room later
    if job.gang:
        return queues.room_for(job) >= job.gang
    return any(one.suits(job) for name, one in queues.hosts.items() if job.may_go_to(name))


def kept_away_s(live: Live, host: HostId, terms: Terms, queues: Queues) -> float:
    """Returns for how long at least the job does not go to that host again, which has lost it; 0:
    it may at once, as no other host can run it. Those that have lost it often do not count: a job
    that crashes its hosts is held in the end, but not because of one host."""
    most = min(LOSSES_OF_ONE, terms.crash_limit - 1)
    often = frozenset(one for one in live.lost_on if live.lost_on.count(one) >= most)
    barred = often | {host} | live.job.barred - live.barred_now
    if not is_suited(live.job._replace(barred=barred), queues):
        return 0.0
    return ASKED_AGAIN_S if host in often else terms.aside_s


def refused_by(reason: str) -> HostId:
    """Returns the host that a refusal names, as the lifecycle writes it."""
    return HostId(reason.partition(": ")[0])


def phase_to_go_by(phase: str, number: int | None, *, in_gang: bool) -> str:
    """Returns the phase that a refusal counts as. No job fails for what a host lacks for a while.
    `number`: the errno behind the refusal. A gang may have been released when the user database
    became slow, so that is not the same as a member that was not ready yet."""
    if phase == "spawn" and number in SHORT:
        return SHORT_OF
    if phase == "spawn" and number == errno.ETIME:
        return LATE
    if phase == "stage" and number in SHORT:
        return NO_ROOM
    return NOT_YET if phase == "user" and number in SLOW and not in_gang else phase


def exit_status(phase: str, number: int | None) -> int:
    """Returns the exit status of a job that can start nowhere; `number`: the errno behind that."""
    if phase != "exec":
        return FAILED
    return NOT_FOUND if number == ENOENT else NOT_EXECUTABLE
