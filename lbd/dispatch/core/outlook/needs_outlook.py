"""When a host has what a job needs besides slots: resources, memory, features. Pure.

A job's needs are split into parts: a number of slots on suitable hosts, and an amount of each
resource. On each of the likeliest hosts, each missing part is released as the jobs that hold it
end, as for slots (`theory/queue_time.py`). The host has room when the last part is available, and
the job waits for the first such host. What jobs ahead in the line take of the same parts is worked
off at the combined rate of all those hosts.

How long a resource is held is learnt from ended jobs that had it. If fewer than `FEWEST` have
ended, or commands outside the queue hold it, its release cannot be predicted.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lbd.dispatch.core.discipline import HostConnection, QueuedJob
from lbd.dispatch.core.malleable.slot_times import FEWEST, MEMORY
from lbd.dispatch.core.servers import Server
from lbd.model import HostId, Needs
from lbd.policy.needs import asked, memory_asked
from lbd.theory.lifetimes import UniformLog
from lbd.theory.queue_time import Held, Releases, wait_s

HOSTS_MAX = 8  # hosts considered: those that lack least
UNITS_MAX = 64  # a size is counted in so many parts of the total
KINDS_MAX = 16  # of jobs at a time: each requires a look at every host
FRESH_S = 1.0
OTHERS_HAVE_IT = "no estimate while commands outside the queue hold what it needs"
Key = tuple[HostConnection, Needs, int, HostId | None, frozenset[HostId]]
# keyed by the needs themselves for slots, else by the name of the resource
Parts = Counter[Hashable]
Known = Callable[[Hashable], tuple[UniformLog, float] | None]  # lifetimes of a part, and their mean


def parts_of(needs: Needs, slots: int) -> Parts:
    found: Parts = Counter(dict(needs.resources))
    if needs.memory_bytes:
        found[MEMORY] = needs.memory_bytes
    found[needs] = slots
    return found


class Shortage(NamedTuple):
    """The shortage of one part on one host, in suitable units."""

    part: Hashable
    short: int
    held: list[Held]  # by jobs of the queue

    @property
    def comes_back(self) -> bool:
        return self.short <= sum(count for _, count in self.held)


class NeedsOutlook(NamedTuple):
    is_there: bool  # everything is available on a host with the slots
    wait_s: float | None  # until everything is available; None: unknown
    shortage: Shortage | None  # of the part that takes longest
    totals: Mapping[Hashable, int]  # of each part, over all hosts that the job may use
    why: str = ""  # why the wait is unknown

    def behind_s(self, ahead: Mapping[Hashable, int], known: Known) -> float | None:
        """Returns the time for jobs ahead that take so much of each part; None if unknown for some
        part."""
        longest_s = 0.0
        for part, count in ahead.items():
            if count and (found := known(part)) is None:
                return None
            if count and found is not None:
                longest_s = max(longest_s, count * found[1] / max(1, self.totals.get(part, 0)))
        return longest_s


@dataclass(slots=True)
class NeedsOutlooks:
    """The outlooks of the last moment. They are limited, as a user can ask for any number of kinds
    of jobs."""

    _known: dict[Key, NeedsOutlook] = field(default_factory=dict)
    _since_s: float = float("-inf")

    def of(
        self, line: HostConnection, job: QueuedJob, servers: Iterable[Server],
        known: Known, now_s: float,
    ) -> NeedsOutlook | None:  # fmt: skip
        """Returns None if too many kinds of jobs have been evaluated in the last moment."""
        if not 0 <= now_s - self._since_s <= FRESH_S:
            self._known, self._since_s = {}, now_s
        key = line, job.needs, job.slots, job.only, job.barred
        if key not in self._known and len(self._known) < KINDS_MAX:
            self._known[key] = needs_outlook(job, servers, known, now_s)
        return self._known.get(key)

    def forget(self) -> None:
        self._since_s = float("-inf")


def needs_outlook(
    job: QueuedJob, servers: Iterable[Server], known: Known, now_s: float
) -> NeedsOutlook:
    suiting = [one for one in servers if one.suits(job)]
    totals = totals_of(job, suiting)
    if any(one.free >= job.slots and one.has_for(job) for one in suiting):
        return NeedsOutlook(True, 0.0, None, totals)
    found: list[tuple[float, Shortage]] = []
    unknown: set[str] = set()
    for server in sorted(suiting, key=lambda one: lack_of(one, job))[:HOSTS_MAX]:
        shortages = shortages_of(server, job, now_s)
        if not shortages or not all(one.comes_back for one in shortages):
            continue
        if none := [one.part for one in shortages if known(one.part) is None]:
            unknown.update(part for part in none if isinstance(part, str))
            continue
        found.append(longest(shortages, known))
    if not found:
        name = min(unknown, default="")
        return NeedsOutlook(False, None, None, totals, too_few(name) if name else OTHERS_HAVE_IT)
    soonest = min(found, key=lambda one: one[0])
    return NeedsOutlook(False, *soonest, totals)


def too_few(name: str) -> str:
    return f"no estimate until {FEWEST} jobs with {name} have ended"


def longest(shortages: Sequence[Shortage], known: Known) -> tuple[float, Shortage]:
    waits = [
        (wait_s(one.short, one.held, found[0]), one)
        for one in shortages
        if (found := known(one.part)) is not None
    ]
    return max(waits, key=lambda one: one[0])


def totals_of(job: QueuedJob, servers: Iterable[Server]) -> Parts:
    totals: Parts = Counter()
    for server in servers:
        facts = server.facts()
        for name, total, _, _ in (*asked(job.needs, facts), *memory_asked(job.needs, facts)):
            totals[name] += total
        totals[job.needs] += max(0, server.host.usable) if server.host is not None else 0
    return totals


def lack_of(server: Server, job: QueuedJob) -> float:
    """Returns the largest missing share among the parts."""
    facts = server.facts()
    rows = (*asked(job.needs, facts), *memory_asked(job.needs, facts))
    lacks = [(used + amount - total) / amount for _, total, used, amount in rows]
    return max(0.0, (job.slots - server.free) / job.slots, *lacks)


def shortages_of(server: Server, job: QueuedJob, now_s: float) -> list[Shortage]:
    """Returns the shortages on that host."""
    facts, entries = server.facts(), list(server.running.values())
    found = []
    if (short := job.slots - server.free) > 0:
        held = [(max(0.0, one.ran_s(now_s)), one.slots) for one in entries]
        found.append(Shortage(job.needs, short, held))
    for name, total, used, amount in (*asked(job.needs, facts), *memory_asked(job.needs, facts)):
        if (short := used + amount - total) <= 0:
            continue
        unit = -(-total // UNITS_MAX) if total > UNITS_MAX else 1
        held = [
            (max(0.0, one.ran_s(now_s)), -(-had // unit))
            for one in entries
            if (had := amount_of(one.job.needs, name))
        ]
        found.append(Shortage(name, -(-short // unit), held))
    return found


def amount_of(needs: Needs, name: str) -> int:
    if name == MEMORY:
        return needs.memory_bytes
    return dict(needs.resources).get(name, 0)


def releases_of(outlook: NeedsOutlook, known: Known) -> tuple[int, Releases] | None:
    """Returns what must be released before it has room, and who holds it; None if unknown."""
    shortage = outlook.shortage
    if shortage is None or (found := known(shortage.part)) is None:
        return None
    return shortage.short, Releases.of(shortage.held, found[0])
