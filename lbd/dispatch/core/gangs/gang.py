"""A gang's life: the jobs of an array that start together or not at all. Pure.

    wait ──▶ held on all their hosts ──▶ released ──▶ each runs to its own end
      ▲              │                       │
      └── given back ┴── begun again ────────┴──▶ ended, if they may not begin again

1. **Held, then released.** All its attempts are created by one decision and sent together. A host
   takes slots and files for its attempt, reports that it is ready, and starts nothing. Once all are
   ready they are released. So none starts before there is room for all. An attempt that its host
   reports ended before that counts as lost.
2. **Given back.** If one is refused or lost, or not all are ready within `hold_s`, all others are
   ended, and the gang waits again. It is reassembled once no attempt is alive, so the attempts of
   one start have the same number.
3. **Whole or not at all.** A lost attempt ends the others: then all start again, unless they may
   not restart, or one of them has already ended. What a task's own end means is up to its user, so
   it ends nothing else.
4. **Moved as a whole.** A host whose owner is back may ask for the gang to start again elsewhere:
   all are ended, and start again together. It is not moved if output of any member was shown, if
   one has ended, or if they may not restart or named their host: then that member stays suspended
   until the owner has left. A new dispatcher waits until all hosts have reported what was shown.
5. **No record of its own.** A member that has begun, or has ended, was released, and so the others
   may have been. A dispatcher that takes over learns from the hosts and the ledger whether a gang
   is whole. Until it knows, a lost member counts as one that may have run.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lbd.dispatch.core.discipline import QueuedJob, Start
from lbd.dispatch.core.records import Action, Live, Release, asked_to_stop
from lbd.model import DISBAND, GANG_MOVES, GANG_SHOWN, REGROUP, HostId, JobId

AGAIN = "its whole gang starts again"
STAYS = "its gang is not restartable: waiting until the owner leaves"
DISBANDED = "another job of its gang was lost or could not start, and the gang is not restartable"


@dataclass(slots=True)
class Gang:
    size: int
    tasks: set[JobId] = field(default_factory=set)  # those that have not ended
    ready: set[JobId] = field(default_factory=set)
    late: set[JobId] = field(default_factory=set)  # those that were not ready in time
    at_fault: set[JobId] = field(default_factory=set)  # of these, those that bring no files
    released: bool = False
    may_run: bool = False  # an earlier dispatcher may have released it
    hold_until_s: float = math.inf
    # members whose hosts ask for a move, and why
    moves: dict[JobId, str] = field(default_factory=dict)
    shown: bool = False  # output of a member has been seen

    @property
    def is_whole(self) -> bool:
        return len(self.tasks) == self.size

    @property
    def key(self) -> JobId:
        """Returns the task under whose name is noted what is noted once for all of them."""
        return min(self.tasks)

    def may_begin_again(self, job: QueuedJob) -> bool:
        return self.is_whole and (job.may_restart or not (self.released or self.may_run))


@dataclass(slots=True)
class Gangs:
    """The gangs that have not ended, by submission."""

    jobs: Mapping[JobId, Live]
    hold_s: float
    _gangs: dict[int, Gang] = field(default_factory=dict)

    def of(self, job: QueuedJob) -> Gang | None:
        return self._gangs.get(job.array) if job.gang else None

    def came(self, job: QueuedJob) -> None:
        if job.gang:
            self._gangs.setdefault(job.array, Gang(job.gang)).tasks.add(job.id)

    def ended(self, job: QueuedJob) -> None:
        gang = self.of(job)
        if gang is not None:
            gang.tasks.discard(job.id)
            gang.released = True  # if one has ended on its own
            if not gang.tasks:
                del self._gangs[job.array]

    def together(self, live: Live) -> list[Live]:
        """Returns the job, or all of its gang that have not ended."""
        gang = self.of(live.job)
        if gang is None:
            return [live]
        return [self.jobs[job] for job in sorted(gang.tasks, key=lambda job: (len(job), job))]

    # From the decision to the release

    def begin(self, starts: Iterable[Start], now_s: float) -> Mapping[int, tuple[HostId, ...]]:
        """These jobs start now. Returns for each gang the hosts of its tasks, in task order."""
        hosts: dict[int, list[tuple[int, HostId]]] = {}
        for start in starts:
            gang, job = self.of(start.job), start.job
            if gang is not None:
                gang.ready, gang.late, gang.at_fault = set(), set(), set()
                gang.released = gang.may_run = gang.shown = False
                gang.moves.clear()
                gang.hold_until_s = now_s + self.hold_s
                hosts.setdefault(job.array, []).append((job.array_index or 0, start.host))
        return {array: tuple(host for _, host in sorted(own)) for array, own in hosts.items()}

    def found(self, live: Live, now_s: float) -> None:
        """A new dispatcher finds an attempt of the previous one."""
        gang = self.of(live.job)
        if gang is not None and live.lease is not None:
            gang.may_run = True
            gang.released = gang.released or live.lease.begun
            # Not before each host has reported whether it has begun, or its lease has expired.
            gang.hold_until_s = max(now_s + self.hold_s, live.lease.until_s)

    def ready(self, live: Live) -> list[Action]:
        """The member's host has everything it needs."""
        gang = self.of(live.job)
        if gang is None or live.stop_reason:
            return []
        gang.ready.add(live.job.id)
        if gang.released or not gang.is_whole:
            return self._release(gang, (live,))
        return self._release_whole(gang)

    def begun(self, live: Live) -> list[Action]:
        """A member has begun, so an earlier dispatcher has released it and the others. A host that
        starts its member unasked does not start the others."""
        gang = self.of(live.job)
        if gang is None or gang.released:
            return []
        gang.ready.add(live.job.id)
        if not gang.may_run:
            return self._release_whole(gang)
        return self._release(gang, [self.jobs[job] for job in sorted(gang.ready & gang.tasks)])

    def _release_whole(self, gang: Gang) -> list[Action]:
        if not gang.ready >= gang.tasks:
            return []
        return self._release(gang, [self.jobs[job] for job in sorted(gang.tasks)])

    def _release(self, gang: Gang, tasks: Sequence[Live]) -> list[Action]:
        gang.released = True
        return [
            Release(one.job.id, one.lease.attempt, one.lease.host)
            for one in tasks
            if one.lease is not None and not one.lease.begun
        ]

    # Moved as a whole

    def asked_to_move(self, live: Live, reason: str, wanted: str) -> str:
        """Handles a host's report that a member was suspended or resumed. Returns the reason to
        show."""
        gang = self.of(live.job)
        if gang is None:
            return reason
        gang.shown = gang.shown or wanted == GANG_SHOWN
        if live.stop_reason:
            return reason  # it is ending
        gang.moves.pop(live.job.id, None)
        if wanted != GANG_MOVES:
            return reason
        gang.moves[live.job.id] = reason
        if self.may_move(gang, live.job):
            return reason
        return f"{reason.rpartition('; ')[0]}; {STAYS}"

    def may_move(self, gang: Gang, job: QueuedJob) -> bool:
        may_restart = job.may_restart and job.only is None
        return may_restart and gang.released and gang.is_whole and not gang.shown

    def moved(self) -> list[Action]:
        """Returns the actions of gangs that start again elsewhere now."""
        return [
            action
            for gang in self._gangs.values()
            for job in list(gang.moves)[:1]
            if job in gang.tasks and self.may_move(gang, self.jobs[job].job)
            for action in self.stop(gang, REGROUP)
        ]

    # Its end, or a restart

    def over(self, live: Live) -> None:
        """Its attempt is no longer alive."""
        gang = self.of(live.job)
        if gang is not None:
            gang.ready.discard(live.job.id)

    def stop(self, gang: Gang, stop_reason: str) -> list[Action]:
        """Ends the live attempts, unless they are to end anyway."""
        actions: list[Action] = []
        for job in sorted(gang.tasks):
            live = self.jobs[job]
            is_free = not live.stop_reason or (live.stop_reason, stop_reason) == (REGROUP, DISBAND)
            if live.lease is not None and is_free:
                actions += asked_to_stop(live, stop_reason, 0)
        return actions

    def overdue(self, now_s: float) -> Iterator[Gang]:
        """Yields the gangs that were not all ready in time; `late` names those that were not."""
        for gang in self._gangs.values():
            if now_s >= gang.hold_until_s:
                gang.hold_until_s = math.inf
                leased = {job for job in gang.tasks if self.jobs[job].lease is not None}
                if leased and gang.is_whole and not gang.released:
                    gang.late = leased - gang.ready
                    gang.at_fault = {job for job in gang.late if not brings_files(self.jobs[job])}
                    yield gang


def brings_files(live: Live) -> bool:
    return live.lease is not None and live.lease.brings_files
