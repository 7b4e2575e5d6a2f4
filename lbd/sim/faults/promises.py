"""What is promised for every command, checked after every event by an observer who sees all hosts.

1. No two attempts of one job are ever alive, none starts twice or without a lease; nor are two runs
   of one command alive.
2. A command frees its slot exactly once, and not while its processes are alive.
3. An acknowledged job is on the ledger, and known to the dispatcher until it has ended. An ended
   job never changes, and none of its processes is alive. A no-restart job starts once.
4. An attached command ends exactly once for its caller.
5. A command that has read or written is never evicted, and never runs a second time; nor is an
   attempt of a no-restart job.
6. The dispatcher counts the running and the remaining tasks of an array with a target correctly,
   also after a restart in the middle; and once all tasks have ended nothing of it is left.
7. A job that waits for other jobs starts only after all of them have ended, in the way it asked.
8. No two commands ever hold the same index of a resource, neither on the LBM's record nor among
   live processes; a running command has all that it needs, and a finished one holds nothing.
9. No job of a gang starts before all of the gang are held on their hosts, by attempts of one
   number; and none starts again once another of the gang has succeeded.
10. No host keeps an attempt for long that it has not begun, whatever it says.
"""

from collections import Counter
from dataclasses import dataclass, field

from lbd.dispatch.core.dependencies.conditions import How, conditions_of
from lbd.dispatch.core.ledger_rows import JobRow
from lbd.lbm.core import execution_events as e
from lbd.lbm.core.execution import Phase
from lbd.model import HostId, JobId
from lbd.sim.faults import messages as m
from lbd.sim.faults.dispatcher import Dispatcher
from lbd.sim.faults.host import Host
from lbd.sim.faults.keeper import Tree
from lbd.sim.faults.ledger import ENDED

STOPPED_S = 15.0  # for so long a dispatcher may be stopped, and a while longer


class BrokenPromise(AssertionError):
    """A promise was broken."""


def gang_of(row: JobRow, dispatcher: Dispatcher) -> list[JobRow]:
    jobs = dispatcher.ledger.jobs.values()
    return [one for one in jobs if one.submission == row.submission]


def promise(holds: object, what: str) -> None:
    if not holds:
        raise BrokenPromise(what)


@dataclass(slots=True)
class Promises:
    acknowledged: set[JobId] = field(default_factory=set)
    ended: dict[int, JobRow] = field(default_factory=dict)  # as they were when they ended
    attempts: dict[JobId, list[int]] = field(default_factory=dict)  # that ever started
    alive: dict[JobId, HostId] = field(default_factory=dict)  # jobs and commands: on which host
    alive_here: set[JobId] = field(default_factory=set)  # of these, those on their caller's host
    held: set[m.Key] = field(default_factory=set)  # attempts of gangs that were ever ready
    spoiled: set[JobId] = field(default_factory=set)  # commands that have read or written
    asked: dict[HostId, set[JobId]] = field(default_factory=dict)  # for slots, by host
    callers: Counter[JobId] = field(default_factory=Counter)  # how often each has ended
    waiting: set[JobId] = field(default_factory=set)  # callers whose command has not ended
    evictions: int = 0  # number of evicted attempts

    # Starts and ends

    def attempt_begins(
        self, host: HostId, tree: Tree, dispatcher: Dispatcher, now_s: float
    ) -> None:
        job, number = m.key_of(tree.spec.id)
        has_lease = tree.until_s is not None and tree.until_s > now_s
        promise(has_lease, f"attempt {number} of job {job} begins on {host} without a lease")
        self._begins(host, job, f"job {job}")
        earlier = self.attempts.setdefault(job, [])
        promise(number not in earlier, f"attempt {number} of job {job} begins a second time")
        row = dispatcher.ledger.jobs[int(job)]
        promise(row.may_restart or not earlier, f"job {job} may not restart, and begins again")
        is_recorded = (job, number) in dispatcher.ledger.attempts
        promise(is_recorded, f"attempt {number} of job {job} begins, and is not on the ledger")
        promise(row.state not in ENDED, f"job {job} has ended as {row.state}, and begins again")
        if not earlier:
            check_dependencies(row, dispatcher, now_s)
        if row.gang:
            self._begins_with_its_gang(row, number, dispatcher)
        if row.at_once:
            tasks = range(row.first, row.first + row.count)
            running = sum(JobId(str(task)) in self.alive for task in tasks)
            promise(
                running <= row.at_once,
                f"{running} tasks of array {row.first} run, of {row.at_once}",
            )
        earlier.append(number)

    def _begins_with_its_gang(self, row: JobRow, number: int, dispatcher: Dispatcher) -> None:
        for one in gang_of(row, dispatcher):
            key = JobId(str(one.id)), number
            promise(
                key in self.held, f"job {row.id} begins, and job {one.id} of its gang is not held"
            )
            is_later = one.state == "done" and one.attempt < number
            promise(
                not is_later, f"job {row.id} begins again, and job {one.id} of its gang is done"
            )

    def command_begins(self, host: HostId, command: JobId) -> None:
        self._begins(host, command, f"command {command}")
        promise(
            command not in self.spoiled,
            f"command {command} had read or written before it was evicted, and runs again",
        )

    def _begins(self, host: HostId, job: JobId, what: str) -> None:
        where = self.alive.get(job)
        promise(where is None, f"two runs of {what} are alive, on {where} and {host}")
        self.alive[job] = host

    def attempt_evicted(self, host: HostId, key: m.Key, dispatcher: Dispatcher) -> None:
        row = dispatcher.ledger.jobs[int(key[0])]
        promise(row.may_restart, f"{host} evicted job {key[0]}, which may not restart")
        self.evictions += 1

    def ends(self, job: JobId) -> None:
        self.alive.pop(job, None)

    def touched(self, command: JobId) -> None:
        self.spoiled.add(command)

    def reported(self, host: HostId, command: JobId, action: e.Action) -> None:
        if isinstance(action, e.ReportEnded) and action.outcome.cause is e.Cause.EVICTED:
            promise(
                command not in self.spoiled,
                f"{host} evicted command {command}, which had read or written",
            )

    # Callers

    def called(self, command: JobId) -> None:
        self.waiting.add(command)

    def ended_for_caller(self, command: JobId) -> None:
        self.callers[command] += 1
        self.waiting.discard(command)
        promise(self.callers[command] == 1, f"command {command} ends twice for its caller")

    def caller_gone(self, command: JobId) -> None:
        """Nobody waits for the command's end any more; its LBM may still report it once."""
        self.waiting.discard(command)

    def runs_here(self, host: HostId, command: JobId) -> None:
        """The command runs as its caller, which may be killed before the command ends."""
        self.command_begins(host, command)
        self.spoiled.add(command)
        self.alive_here.add(command)

    def ended_here(self, command: JobId) -> None:
        self.ends(command)
        self.alive_here.discard(command)
        self.ended_for_caller(command)

    # Slots

    def slot_asked(self, host: HostId, job: JobId) -> None:
        asked = self.asked.setdefault(host, set())
        promise(job not in asked, f"{job} asks {host} twice for a slot")
        asked.add(job)

    def slot_freed(self, host: Host, job: JobId) -> None:
        asked = self.asked.setdefault(host.name, set())
        promise(job in asked, f"{job} frees its slot of {host.name} a second time")
        asked.remove(job)
        is_alive = job in host.keeper.alive and not host.keeper.is_dead
        promise(not is_alive, f"{job} frees its slot of {host.name}, and its processes live")

    # Checks after every event

    def check_host(self, host: Host) -> None:
        slots, turns = host.lbm.line.slots, host.lbm.line.turns
        owned = {job for job, one in host.executions.items() if one.has_slot}
        listed = {*slots.holders, *slots.waiting, *turns}
        asked = self.asked.get(host.name, set())
        if listed != owned:
            what = f"belong to {sorted(listed)}, not to {sorted(owned)}"
            raise BrokenPromise(f"the slots of {host.name} {what}")
        if asked != owned:
            raise BrokenPromise(f"on {host.name} {sorted(asked ^ owned)} never freed a slot")
        if slots.used > slots.total:
            raise BrokenPromise(f"{slots.used} of {slots.total} slots of {host.name} are taken")
        check_resources(host)
        for job in host.keeper.alive:
            execution = host.executions.get(job)
            is_over = execution is not None and execution.phase is Phase.OVER
            if is_over and not host.keeper.is_dead:
                raise BrokenPromise(f"{job} is over on {host.name}, and its processes live")

    def check_queue(self, dispatcher: Dispatcher, is_up: bool) -> None:
        ledger = dispatcher.ledger
        is_settled = is_up and not dispatcher.batches
        for job in self.acknowledged:
            row = ledger.jobs.get(int(job))
            if row is None:
                raise BrokenPromise(f"job {job} was acknowledged, and is not on the ledger")
            if row.state in ENDED:
                if row.id not in self.ended and job in self.alive:
                    where = self.alive[job]
                    raise BrokenPromise(f"job {job} has ended as {row.state}, and lives on {where}")
                known = self.ended.setdefault(row.id, row)
                if known is not row:
                    raise BrokenPromise(f"job {job} had ended as {known.state}: now {row.state}")
            elif is_settled and job not in dispatcher.life.jobs:
                raise BrokenPromise(f"the dispatcher has forgotten job {job}")

        if is_settled:
            check_targets(dispatcher)

    def check_all_ended(self, dispatcher: Dispatcher, hosts: list[Host]) -> None:
        """Checks the end of a run, after all faults are healed and there was time."""
        for row in dispatcher.ledger.jobs.values():
            promise(row.state in ENDED, f"job {row.id} never ends: {row.state}, {row.reason!r}")
            lost = row.state == "lost"
            promise(
                not (lost and row.may_restart and not row.gang),
                f"job {row.id} may restart, and is lost",
            )
        promise(not dispatcher.life.queues.targets, "arrays with targets never end")
        promise(not self.waiting, f"callers wait for ever: {sorted(self.waiting)}")
        for host in hosts:
            used = host.lbm.line.slots.used
            promise(not used, f"{used} slots of {host.name} are never freed")
            held = host.lbm.line.slots.pool.held
            promise(not held, f"resources of {host.name} are never freed: {held}")
            promise(not host.executions, f"{host.name} keeps {sorted(host.executions)} for ever")
        promise(not self.alive, f"these never end: {self.alive}")


def check_begun(dispatcher: Dispatcher, now_s: float) -> None:
    terms = dispatcher.terms
    for job, live in dispatcher.life.leased.items():
        if live.lease is None or live.lease.begun:
            continue
        # One that waited while its dispatcher was stopped is over at the next tick.
        longest_s = max(terms.lease_s, terms.inherited_s, live.lease.until_s - now_s)
        late_s = now_s - live.lease.begin_by_s - terms.waited_for_s(longest_s)
        promise(
            late_s <= STOPPED_S,
            f"{live.lease.host} keeps job {job}, which it has not begun",
        )


def check_resources(host: Host) -> None:
    slots = host.lbm.line.slots
    alive = {job: host.grants[job] for job in host.keeper.alive if job in host.grants}
    if not slots.pool.held and not any(alive.values()):
        return
    for what, grants in (("held", slots.pool.held), ("used", alive)):
        indices = [
            (one.name, index)
            for grant in grants.values()
            for one in grant.resources
            for index in one.indices
        ]
        if len(set(indices)) < len(indices):
            raise BrokenPromise(f"two of {host.name} have the same: {what} {grants}")
    if stray := slots.pool.held.keys() - slots.holders:
        raise BrokenPromise(f"{sorted(stray)} have resources of {host.name}, and no slot")
    for job in slots.holders:
        execution = host.executions.get(job)
        if execution is None:
            continue
        given = {one.name: len(one.indices) for one in slots.pool.grant_of(job).resources}
        if given != dict(execution.spec.needs.resources):
            raise BrokenPromise(f"{job} has {given} of {host.name}, not what it needs")


def check_dependencies(row: JobRow, dispatcher: Dispatcher, now_s: float) -> None:
    for how, first, last, shown in conditions_of(row.after, row.array_index):
        states = [dispatcher.ledger.jobs[number].state for number in range(first, last + 1)]
        has_ended = all(state in ENDED for state in states)
        well = all(state == "done" for state in states)
        as_asked = how is How.ANY or well == (how is How.OK)
        promise(
            has_ended and as_asked,
            f"job {row.id} begins after {how.value} of {shown}, whose jobs are {states}",
        )
    promise(row.not_before <= now_s, f"job {row.id} begins before {row.not_before}")


def check_targets(dispatcher: Dispatcher) -> None:
    queues = dispatcher.life.queues
    for number, array in queues.targets.arrays.items():
        tasks = [one for one in queues.registry.values() if one.kind.array == number]
        running = {task.id for task in tasks if task.host is not None}
        if running != set(array.begun_s) or len(running) != array.batch.running:
            raise BrokenPromise(f"{running} of array {number} run, not {set(array.begun_s)}")
        if len(tasks) != array.batch.left:
            raise BrokenPromise(f"{len(tasks)} of array {number} are left, not {array.batch.left}")
