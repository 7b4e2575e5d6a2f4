"""Which worker of an executor runs which task, and what happens when a worker is lost.

Events go in (a task, a result, a worker that is ready or has ended), a list of actions comes out;
`lbd/python/crew.py` carries them out. The promises:

- A task is answered once: with its result, or with a failure that says why.
- Tasks start in the order of submission. A worker is sent short tasks in advance, enough to keep it
  busy for `AHEAD_S` while results are in transit. If its first task turns out to be long and
  another worker is idle, it returns the tasks that it has not started.
- A task whose worker is lost goes to another worker, ahead of all others. After `LOSSES_MAX` losses
  it fails, because it is probably the task that ends its workers. With `restart=False` a task is
  sent only to an idle worker and fails if that worker is lost: it never runs twice.
- A large argument (`blob`) is sent to a host once, through the worker of the first task that needs
  it; other workers of that host wait for it. No host holds more than `cache_bytes` of blobs.
- A host where a worker failed to start, or was lost, is set aside, for longer each time. If there
  is no worker and every host has failed `TRIES` times in a row, all tasks fail with the reason.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from lbd.python.core.actions import (
    Action,
    AskBack,
    DropBlob,
    End,
    Fail,
    Look,
    Send,
    SendBlob,
    ShareBlob,
    Start,
    Tell,
)
from lbd.python.core.host_blobs import HostBlobs
from lbd.python.core.worker_hosts import WorkerHost, next_host

AHEAD_S = 0.02
AHEAD_MAX = 64
STALLED_S = 0.1
LOSSES_MAX = 3
TRIES = 3
ASIDE_S, ASIDE_MAX_S = 1.0, 60.0
STARTING_MAX = 16  # workers at one host, or as many as are ready there: it may promise anything
LOOK_S = 5.0  # maximum age of what is known of the hosts
OWN_WEIGHT = 0.1  # weight of the latest run time in the moving mean


@dataclass(slots=True)
class Task:
    blobs: dict[bytes, int]  # digest -> size in bytes
    losses: int = 0


@dataclass(slots=True)
class WorkerState:
    host: str
    ready: bool = False
    ending: bool = False
    sent: deque[int] = field(default_factory=deque)
    heard_s: float = 0.0
    asked_back: bool = False

    @property
    def can_run(self) -> bool:
        return self.ready and not self.ending


@dataclass(frozen=True, slots=True)
class PoolLimits:
    slots: int | None = None  # None: as many as the hosts have together
    restart: bool = True
    idle_s: float = 60.0  # an idle worker ends after this time
    cache_bytes: int = 1 << 30


class Pool:
    """One class because the tasks and the workers that run them are one state."""

    def __init__(self, limits: PoolLimits, rng: Random) -> None:
        self.limits = limits
        self._rng = rng
        self.tasks: dict[int, Task] = {}
        self.waiting: deque[int] = deque()
        self.workers: dict[int, WorkerState] = {}
        self._hosts: list[WorkerHost] = []
        self._looked_s = float("-inf")
        self._looking = False
        self._blobs_by_host: dict[str, HostBlobs] = {}
        self._failures: dict[str, int] = {}
        self._aside_until_s: dict[str, float] = {}
        self._closing = False
        self._mean_s: float | None = None
        self._next_worker = 0
        self._reason = ""

    # Tasks

    def submit(self, task: int, blobs: dict[bytes, int], now_s: float) -> list[Action]:
        self.tasks[task] = Task(blobs)
        self.waiting.append(task)
        return self._go_on(now_s)

    def cancel(self, task: int) -> None:
        """Removes a task that has not been sent."""
        del self.tasks[task]
        self.waiting.remove(task)

    def kill(self, task: int, now_s: float) -> list[Action]:
        """Ends a running task together with its worker; its future has already been answered."""
        if task in self.waiting:  # its worker was lost
            self.cancel(task)
        for number, worker in self.workers.items():
            if task in worker.sent:
                del self.tasks[task]
                worker.sent.remove(task)
                return [*self._end(number, by_force=True), *self._go_on(now_s)]
        return []

    def result(self, number: int, task: int, run_s: float, now_s: float) -> bool:
        """Returns whether that worker owed a result of that task. Then call `tick`."""
        worker = self.workers[number]
        if task not in worker.sent:
            return False
        worker.sent.remove(task)
        worker.heard_s, worker.asked_back = now_s, False
        del self.tasks[task]
        self._failures.pop(worker.host, None)
        mean_s = run_s if self._mean_s is None else self._mean_s
        self._mean_s = mean_s + OWN_WEIGHT * (run_s - mean_s)
        return True

    def returned(self, number: int, tasks: Iterable[int]) -> bool:
        """Returns whether the worker had these tasks and had not started them. Then call `tick`."""
        worker = self.workers[number]
        worker.asked_back = False  # its first task may still be a long one
        back = list(tasks)
        if not set(back) <= set(worker.sent) or len(set(back)) != len(back):
            return False
        for task in back:
            worker.sent.remove(task)
        self.waiting.extendleft(reversed(back))
        return True

    # Workers

    def ready(self, number: int, now_s: float) -> list[Action]:
        worker = self.workers[number]
        worker.ready, worker.heard_s = True, now_s
        return [*self._share(worker.host), *self._go_on(now_s)]

    def stored(self, number: int, blob: bytes, now_s: float) -> list[Action]:
        host = self.workers[number].host
        self._blobs(host).stored(number, blob)
        return [*self._share(host), *self._go_on(now_s)]

    def _share(self, host: str) -> list[Action]:
        if self._is_alone(host):
            return []
        return [ShareBlob(worker, blob) for worker, blob in self._blobs(host).share()]

    def _is_alone(self, host: str) -> bool:
        return sum(worker.host == host for worker in self.workers.values()) == 1

    def missing(self, number: int, task: int, now_s: float) -> list[Action]:
        """The worker's host has lost blobs of a task: queue the task again."""
        worker = self.workers[number]
        if not self.returned(number, [task]):
            return self._end(number, by_force=True)
        for blob in self.tasks[task].blobs:
            self._blobs(worker.host).lost(blob)
        self.tasks[task].losses += 1
        if self.tasks[task].losses >= LOSSES_MAX:
            self.cancel(task)
            reason = f"{worker.host} does not keep the arguments it is sent"
            return [Fail(task, reason, True), *self._go_on(now_s)]
        return self._go_on(now_s)

    def ended(self, number: int, reason: str, now_s: float) -> list[Action]:
        """A worker has ended, whatever it was doing."""
        worker = self.workers.pop(number)
        actions = self._take_back(worker, reason) if worker.sent else []
        if not worker.ending:
            if worker.sent and not self._is_aside(worker.host, now_s):  # one notice for each host
                cause = reason.partition("; ")[0]  # the rest is about the worker as a command
                actions.append(Tell(f"a worker was lost on {cause}; its tasks run again"))
            self._reason = reason
            self._set_aside(worker.host, now_s)
        self._blobs(worker.host).worker_ended(number)
        if not any(other.host == worker.host for other in self.workers.values()):
            del self._blobs_by_host[worker.host]  # its blobs went with the last worker
        return [*actions, *self._go_on(now_s)]

    def _take_back(self, worker: WorkerState, reason: str) -> list[Action]:
        actions: list[Action] = []
        first = worker.sent[0]
        if not worker.ending:
            self.tasks[first].losses += 1
        losses = self.tasks[first].losses
        if losses >= LOSSES_MAX or (losses and not self.limits.restart):
            often = f"{losses} times, the last one " if losses > 1 else ""
            actions.append(Fail(first, f"its worker was lost {often}on {reason}", True))
            del self.tasks[first]
            worker.sent.popleft()
        self.waiting.extendleft(reversed(worker.sent))
        return actions

    def _is_aside(self, host: str, now_s: float) -> bool:
        return now_s < self._aside_until_s.get(host, 0.0)

    def _set_aside(self, host: str, now_s: float) -> None:
        count = self._failures.get(host, 0)
        self._failures[host] = count + 1
        self._aside_until_s[host] = now_s + min(ASIDE_MAX_S, ASIDE_S * 2.0**count)

    def refuse(self, number: int, reason: str, now_s: float) -> list[Action]:
        """Ends a worker that cannot be used (another Python, for example) and excludes its host."""
        host = self.workers[number].host
        self._reason = reason
        self._aside_until_s[host] = float("inf")
        return [*self._end(number), *self._go_on(now_s)]

    def _end(self, number: int, *, by_force: bool = False) -> list[Action]:
        worker = self.workers[number]
        if worker.ending and not by_force:
            return []
        worker.ending = True
        return [End(number, by_force)]

    # Hosts and time

    def look_at(
        self, hosts: list[WorkerHost], now_s: float, why_none: str = "no host is up"
    ) -> list[Action]:
        """Takes the list of hosts where workers may start."""
        if not hosts:
            self._reason = why_none
        self._hosts, self._looked_s, self._looking = hosts, now_s, False
        return self._go_on(now_s)

    def close(self, now_s: float) -> list[Action]:
        """Takes no more tasks; the workers end once all tasks are answered."""
        self._closing = True
        return self._go_on(now_s)

    @property
    def slots(self) -> int:
        if self.limits.slots is not None:
            return self.limits.slots
        return max(1, sum(host.slots for host in self._hosts))

    def tick(self, now_s: float) -> list[Action]:
        """Ends workers that have been idle too long, and asks stalled ones to return tasks."""
        actions: list[Action] = []
        has_idle = any(worker.can_run and not worker.sent for worker in self.workers.values())
        for number, worker in list(self.workers.items()):
            silent_s = now_s - worker.heard_s
            if not worker.can_run:
                continue
            if not worker.sent and not self.waiting and silent_s >= self.limits.idle_s:
                actions += self._end(number)
            is_stalled = len(worker.sent) > 1 and silent_s >= STALLED_S
            if is_stalled and not worker.asked_back and (has_idle or self._alive() < self.slots):
                worker.asked_back = True
                actions.append(AskBack(number))
        return [*actions, *self._go_on(now_s)]

    def next_tick_s(self, now_s: float) -> float | None:
        """Returns when `tick` next has something to do, or None if no time is known."""
        times: list[float] = []
        for worker in self.workers.values():
            if worker.can_run:
                if len(worker.sent) > 1 and not worker.asked_back:
                    times.append(worker.heard_s + STALLED_S)
                elif not worker.sent:
                    times.append(worker.heard_s + self.limits.idle_s)
        if self.waiting:
            times += [at_s for at_s in self._aside_until_s.values() if now_s < at_s < float("inf")]
        return min(times, default=None)

    def _go_on(self, now_s: float) -> list[Action]:
        actions = self._assign(now_s)
        if self._closing and not self.tasks:
            for number in self.workers:
                actions += self._end(number)
        elif self.waiting:
            actions += self._start_workers(now_s)
        return actions

    # Who runs what

    def _assign(self, now_s: float) -> list[Action]:
        actions: list[Action] = []
        while self.waiting:
            task = self.waiting[0]
            number = self._worker_for(self.tasks[task], now_s)
            if number is None:
                break
            self.waiting.popleft()
            worker = self.workers[number]
            actions += self._send_blobs(number, task)
            if not worker.sent:
                worker.heard_s = now_s
            worker.sent.append(task)
            actions.append(Send(number, task))
        return actions

    def _depth(self) -> int:
        if self._mean_s is None or not self.limits.restart:
            return 1
        return min(AHEAD_MAX, 1 + int(AHEAD_S / max(self._mean_s, 1e-6)))

    def _worker_for(self, task: Task, now_s: float) -> int | None:
        """Returns the ready worker with the fewest tasks; on a tie, the one whose host lacks the
        fewest bytes."""
        depth = self._depth()
        found: int | None = None
        best = (depth, 0)
        for number, worker in self.workers.items():
            sent = len(worker.sent)
            if not worker.can_run or worker.asked_back or sent > best[0]:
                continue
            if sent >= depth or (sent and now_s - worker.heard_s >= STALLED_S):
                continue
            lacking = 0
            if task.blobs:
                blobs = self._blobs(worker.host)
                if not blobs.can_hold(number, task.blobs, self._blobs_in_use(worker.host)):
                    continue
                lacking = blobs.lacking_bytes(task.blobs)
            if found is None or (sent, lacking) < best:
                found, best = number, (sent, lacking)
                if best == (0, 0):
                    break
        return found

    def _blobs(self, host: str) -> HostBlobs:
        return self._blobs_by_host.setdefault(host, HostBlobs(self.limits.cache_bytes))

    def _blobs_in_use(self, host: str) -> set[bytes]:
        sent = (task for w in self.workers.values() if w.host == host for task in w.sent)
        return {blob for task in sent for blob in self.tasks[task].blobs}

    def _send_blobs(self, number: int, task: int) -> list[Action]:
        """Sends the blobs that the host lacks ahead of the task, dropping unused ones for room."""
        blobs = self.tasks[task].blobs
        if not blobs:
            return []
        host = self.workers[number].host
        in_use, is_alone = self._blobs_in_use(host), self._is_alone(host)
        dropped, sent = self._blobs(host).bring(number, blobs, in_use, is_alone=is_alone)
        actions: list[Action] = [DropBlob(number, blob) for blob in dropped]
        return actions + [SendBlob(number, blob, task, is_alone) for blob in sent]

    # Where workers are

    def _alive(self) -> int:
        return sum(not worker.ending for worker in self.workers.values())

    def _start_workers(self, now_s: float) -> list[Action]:
        wanted = min(self.slots, len(self.tasks))
        if self._alive() >= wanted:
            return []
        if now_s - self._looked_s > LOOK_S:
            if self._looking:
                return []
            self._looking = True
            return [Look()]
        actions: list[Action] = []
        own, starting = Counter[str](), Counter[str]()
        for worker in self.workers.values():
            own[worker.host] += 1
            starting[worker.host] += not worker.ready
        aside = {host for host, until_s in self._aside_until_s.items() if now_s < until_s}
        while self._alive() < wanted:
            late = {one for one, n in starting.items() if n >= max(STARTING_MAX, own[one] - n)}
            host = next_host(self._hosts, own, aside | late, self._rng)
            if host is None:
                break
            own[host] += 1
            starting[host] += 1
            self.workers[self._next_worker] = WorkerState(host)
            actions.append(Start(self._next_worker, host))
            self._next_worker += 1
        if not self.workers and self._is_hopeless():
            actions += [Fail(task, self._reason, False) for task in self.waiting]
            for task in self.waiting:
                del self.tasks[task]
            self.waiting.clear()
        return actions

    def _is_hopeless(self) -> bool:
        """Returns whether no host is left where a worker could start later."""
        return all(
            self._failures.get(host.name, 0) >= TRIES
            or self._aside_until_s.get(host.name) == float("inf")
            for host in self._hosts
        )
