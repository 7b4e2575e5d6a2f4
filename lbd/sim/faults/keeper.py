"""A simulated keeper: it starts process trees, ends them, and outlives its LBM.

It holds the lease of every attempt that it runs; its warden enforces the leases when the keeper
hangs. Its reports wait while no LBM listens, and its orders wait while it is paused.
"""

import errno
import signal
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Protocol

from lbd.lbm.core import execution_events as e
from lbd.lbm.core.execution_events import Treatment
from lbd.model import HostId, JobId

START_S, KILL_S, OBEY_S = 0.2, 0.05, 0.3  # maximum delays
WARDEN_S = 0.3  # after which the warden acts for its keeper
BOMB_S = 0.6  # maximum until the last process of a stubborn tree is stopped, if it is a fork bomb
GRACE_S = 1.0  # from TERM to KILL
STUBBORN = 0.1  # share of commands that ignore TERM
KILLED, TERMINATED = e.Exit(137, 9), e.Exit(143, 15)


class World(Protocol):
    """What surrounds a host."""

    rng: Random

    @property
    def now_s(self) -> float: ...

    def at(self, delay_s: float, body: Callable[[], None]) -> None: ...

    def begins(self, host: HostId, tree: "Tree") -> None:
        """The processes of the tree are alive from now on."""
        ...

    def ends(self, host: HostId, tree: "Tree") -> None: ...


@dataclass(slots=True)
class Tree:
    """The processes of one command."""

    spec: e.Spec
    until_s: float | None  # its lease, by the world's clock
    belongings: bytes = b""  # slots and resources it holds, for a later LBM
    is_stubborn: bool = False
    is_reported: bool = False  # its start was reported
    is_frozen: bool = False
    is_touched: bool = False  # it has read or written

    @property
    def is_queued(self) -> bool:
        return self.spec.kind is e.Kind.QUEUED


@dataclass(slots=True)
class Keeper:
    host: HostId
    world: World
    hears: Callable[[JobId, e.Event], None]
    alive: dict[JobId, Tree] = field(default_factory=dict)
    has_lbm: bool = True
    is_paused: bool = False
    is_dead: bool = False
    stubborn: float = STUBBORN
    grace_s: float = GRACE_S
    orders: deque[Callable[[], None]] = field(default_factory=deque)
    reports: deque[tuple[JobId, e.Event]] = field(default_factory=deque)

    # Orders of its LBM

    def order(self, body: Callable[[], None]) -> None:
        if self.is_paused:
            self.orders.append(body)
        elif not self.is_dead:
            body()

    def spawn(self, spec: e.Spec, until_s: float | None, belongings: bytes) -> None:
        if until_s is not None and self.world.now_s > until_s:
            self._report(spec.id, e.NotStarted("too late", "spawn", errno.ETIME))
            return
        tree = Tree(spec, until_s, belongings, is_stubborn=self.world.rng.random() < self.stubborn)
        self.alive[spec.id] = tree
        self.world.begins(self.host, tree)
        self._watch_lease(tree)
        self.world.at(self.world.rng.uniform(0.0, START_S), lambda: self._started(tree))

    def limit(self, job: JobId, until_s: float) -> None:
        if tree := self.alive.get(job):
            tree.until_s = until_s
            self._watch_lease(tree)

    def signal(self, job: JobId, number: int) -> None:
        """Signals a command whose start was reported; before that there is nothing to signal."""
        tree = self.alive.get(job)
        if tree is None or not tree.is_reported or number != signal.SIGTERM or tree.is_stubborn:
            return
        self._later(OBEY_S, tree, TERMINATED)

    def kill(self, job: JobId) -> None:
        if tree := self.alive.get(job):
            self._later(KILL_S, tree, KILLED)

    def kill_directly(self, job: JobId) -> None:
        """Kills without the keeper, which reports it when it can."""
        if tree := self.alive.get(job):
            self.exits(tree, KILLED)

    def treat(self, job: JobId, treatment: Treatment) -> None:
        if tree := self.alive.get(job):
            tree.is_frozen = treatment in (Treatment.STILL, Treatment.GO)

    # Events of its trees

    def exits(self, tree: Tree, how: e.Exit) -> None:
        """All processes of the tree have ended."""
        job = tree.spec.id
        if self.alive.get(job) is not tree:
            return
        del self.alive[job]
        self.world.ends(self.host, tree)
        if not tree.is_reported:
            self._report_start(tree)
        self._report(job, e.Exited(how))

    def _later(self, limit_s: float, tree: Tree, how: e.Exit) -> None:
        self.world.at(self.world.rng.uniform(0.0, limit_s), lambda: self.exits(tree, how))

    def _started(self, tree: Tree) -> None:
        if self.alive.get(tree.spec.id) is tree and not self.is_dead:
            if self.is_paused:
                self.orders.append(lambda: self._started(tree))
            else:
                self._report_start(tree)

    def _report_start(self, tree: Tree) -> None:
        tree.is_reported = True
        self._report(tree.spec.id, e.Started(e.Process(1, "", self.world.now_s)))

    def _watch_lease(self, tree: Tree) -> None:
        if tree.until_s is None:
            return
        left_s = tree.until_s - self.world.now_s
        self.world.at(max(left_s, 0.0), lambda: self._end_overdue(tree, 0.0))
        self.world.at(max(left_s, 0.0) + WARDEN_S, lambda: self._end_overdue(tree, WARDEN_S))

    def _end_overdue(self, tree: Tree, beyond_s: float) -> None:
        """Ends a tree after its lease. With `beyond_s` the warden does, that much later."""
        is_over = tree.until_s is not None and self.world.now_s >= tree.until_s + beyond_s - 1e-9
        if is_over and (beyond_s or not (self.is_paused or self.is_dead)):
            how = replace(KILLED, limit=e.Limit.LEASE)
            self._later(BOMB_S, tree, how) if tree.is_stubborn else self.exits(tree, how)

    # Reports

    def _report(self, job: JobId, event: e.Event) -> None:
        if self.is_dead:
            return
        if self.has_lbm and not self.is_paused:
            self.hears(job, event)
        else:
            self.reports.append((job, event))

    def connect(self) -> None:
        """An LBM connects and takes over the last one's state."""
        self.has_lbm = True
        self._say_what_waits()

    def pause(self) -> None:
        self.is_paused = True

    def go_on(self) -> None:
        """Carries out the waiting orders and sends the waiting reports."""
        self.is_paused = False
        while self.orders and not self.is_paused:
            self.orders.popleft()()
        self._say_what_waits()

    def _say_what_waits(self) -> None:
        while self.reports and self.has_lbm and not self.is_paused:
            self.hears(*self.reports.popleft())

    def lose_lbm(self) -> None:
        """The LBM was killed and left no state: ends what runs with TERM, and after a grace period
        with KILL."""
        self.has_lbm = False
        self.reports.clear()
        self.order(self._end_with_grace)

    def _end_with_grace(self) -> None:
        for tree in list(self.alive.values()):
            if tree.is_stubborn:
                self.world.at(self.grace_s, partial(self._later, KILL_S, tree, KILLED))
            else:
                self._later(OBEY_S, tree, TERMINATED)

    def die(self) -> None:
        """The keeper dies; its warden ends what it ran."""
        self.is_dead = True
        self.orders.clear()
        self.reports.clear()
        for tree in self.alive.values():
            self._later(WARDEN_S, tree, KILLED)

    def end_all(self) -> None:
        self.is_dead = True
        for tree in list(self.alive.values()):
            self.exits(tree, KILLED)
