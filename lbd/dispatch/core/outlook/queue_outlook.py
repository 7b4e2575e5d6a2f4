"""The slots of one line of the queue, and what its head waits for. Pure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.outlook.comers import NOBODY, Came
from lbd.dispatch.core.outlook.needs_outlook import NeedsOutlook
from lbd.dispatch.core.servers import Server
from lbd.text.units import counted
from lbd.theory.lifetimes import UniformLog, learnt_s

CLOSED_SHOWN = 2  # hosts with their reasons

SlotTimes = tuple[int, UniformLog, float]  # how many have ended, their distribution and its mean


@dataclass(frozen=True, slots=True)
class QueueOutlook:
    total: int  # slots available to the queue
    free: int  # of these
    most_free: int  # on one host
    said: str  # the slots available to the queue, in words
    slot_times: SlotTimes | None
    head: NeedsOutlook | None = None  # of the head, if it needs more than slots

    @classmethod
    def of(
        cls, servers: Iterable[Server], slot_times: SlotTimes | None, head: NeedsOutlook | None
    ) -> "QueueOutlook":
        there = [server for server in servers if server.host is not None]
        total = sum(max(server.usable, 0) for server in there)
        free = [server.free for server in there]
        most, at_all = max(free, default=0), sum(one for one in free if one > 0)
        return cls(total, at_all, most, slots_there(there), slot_times, head)

    def slots_for(self, job: QueuedJob, servers: Iterable[Server]) -> str:
        """Says how many slots, taken or not, there are where a job may run."""
        if not (job.only or job.barred):
            return self.said
        return slots_there([one for one in servers if one.name and job.may_go_to(one.name)])

    @property
    def general(self) -> UniformLog | None:
        """Run times of jobs of which nothing else is known; None: too few have ended."""
        return self.slot_times[1] if self.slot_times is not None else None

    @property
    def held_up(self) -> str:
        """Why the head's start is unknown; "" if it is known."""
        if self.head is None or self.head.wait_s is not None:
            return ""
        return f"{self.head.why}; the next job waits for that"

    @property
    def head_s(self) -> float:
        """The time until the head has its needs besides slots."""
        return (self.head.wait_s if self.head is not None else None) or 0.0

    def behind_s(self, slots: int, since: Came = NOBODY) -> float | None:
        """Returns the time until that many slots' jobs have been worked off; None if too few have
        ended. `since`: jobs that came lately; the slots are those of the last of them."""
        if not self.total or (self.slot_times is None and slots > since.known):
            return None
        known, found_s = min(slots, since.known), 0.0
        if known:
            run_s = learnt_s(since.work_s / since.known)  # rounding may have left 0
            found_s = starts_s(known, self.total, run_s, self.slot_times)
        if self.slot_times is not None:
            found_s += (slots - known) * self.slot_times[2] / self.total
        return found_s


def starts_s(count: int, slots: int, run_s: float, before: SlotTimes | None) -> float:
    """Returns the time until so many jobs of `run_s` have started on slots that others release one
    by one. `before`: how long those others run. Where they run longer, each interval of `run_s`
    starts as many more than the one before as they release in it, until all slots are released."""
    if before is None or before[2] <= run_s:
        return count * run_s / slots
    released = slots * run_s / before[2]  # in one interval
    intervals = int((math.sqrt(1 + 8 * count / released) - 1) / 2)
    intervals = min(intervals, int(before[2] / run_s))
    left = count - released * intervals * (intervals + 1) / 2
    return run_s * (intervals + left / min(slots, released * (intervals + 1)))


def slots_there(servers: Sequence[Server]) -> str:
    """Returns `3 of 4 slots (h1: its load of 1.3 is above dispatch.load_ceiling, 1.2)`."""
    usable, total = sum(max(0, one.usable) for one in servers), sum(one.slots for one in servers)
    if usable >= total:
        return counted(usable, "slot")
    closed = {one.name: one.host.closed for one in servers if one.host and one.host.closed}
    why = [f"{name}: {closed[name]}" for name in sorted(filter(None, closed))]
    if more := len(why[CLOSED_SHOWN:]):
        why[CLOSED_SHOWN:] = [f"{counted(more, 'more host')} too"]
    if any(one.usable < one.slots for one in servers if one.name not in closed):
        why.append("others: taken by commands outside the queue")
    return f"{usable} of {counted(total, 'slot')} ({'; '.join(why)})"
