"""The commands that run on this host, attached and queued. Each receives its events in order."""

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from lbd.keeper import protocol as keeper
from lbd.lbm.core.execution import Execution, Phase
from lbd.lbm.core.execution_events import Event, SlotGranted, Treatment
from lbd.lbm.core.slots import SlotLine, Slots
from lbd.lbm.keeper_link import KeeperLink
from lbd.model import HostId, JobId, Needs
from lbd.net.gen import lbm_pb2
from lbd.process.job_log import JobLog

if TYPE_CHECKING:
    import asyncio

job_log = JobLog(logging.getLogger("lbd.lbm"))


class Live(Protocol):
    """A command with the shell that performs its actions."""

    id: JobId
    shown: str  # the job's id as people know it, if that is not `id`
    execution: Execution
    request: lbm_pb2.RunRequest

    @property
    def is_busy(self) -> bool:
        """Whether something that takes only a moment is half done."""
        ...

    def handle(self, event: Event) -> None: ...

    @property
    def is_running(self) -> bool:
        """Whether it has begun, and not ended."""
        ...

    @property
    def is_movable(self) -> bool:
        """Whether it may start again on another host at present."""
        ...

    @property
    def moving_cost_s(self) -> float:
        """Seconds that moving it loses."""
        ...

    @property
    def gang_hosts(self) -> tuple[HostId, ...]:
        """The hosts of all tasks of its gang, if it is part of one."""
        ...

    @property
    def slots(self) -> int: ...

    @property
    def needs(self) -> Needs:
        """The resources that it needs besides slots."""
        ...

    def owner_wants(self, treatment: Treatment, reason: str = "") -> None: ...


ALL = 0  # in place of a signal: end the whole tree


class Signals:
    """Signals of one command, and ALL, that wait for the keeper. Each is kept once, as pending
    signals of a process are, so that nobody's signals delay the orders for other commands."""

    def __init__(self) -> None:
        self._waiting: dict[int, None] = {}  # in order
        self._are_sent = False

    def add(self, number: int) -> bool:
        """Adds a signal. Returns whether `send` must be called now."""
        self._waiting.pop(number, None)
        self._waiting[number] = None
        were_sent, self._are_sent = self._are_sent, True
        return not were_sent

    async def send(self, link: KeeperLink, job: JobId) -> None:
        try:
            while self._waiting:
                number = next(iter(self._waiting))
                del self._waiting[number]
                if number == ALL:
                    await link.send(keeper.END_TREE, job)
                else:
                    await link.send(keeper.SIGNAL, job, number)
        finally:
            self._are_sent = False


class Executions:
    def __init__(self, slots: Slots) -> None:
        self.line = SlotLine(slots)
        self._live: dict[JobId, Live] = {}
        self._events: deque[tuple[Live, Event]] = deque()  # fed while another is handled
        self._is_performing = False
        self.orders: set[asyncio.Task[None]] = set()  # tasks on their way to the keeper
        self.tasks: set[asyncio.Task[None]] = set()  # tasks whose answers are awaited
        self.leaving = False  # another LBM will follow: waiting commands wait for it

    def __iter__(self) -> Iterator[Live]:
        return iter(list(self._live.values()))

    @property
    def are_settled(self) -> bool:
        return not self.orders and not any(live.is_busy for live in self._live.values())

    def add(self, live: Live) -> None:
        self._live[live.id] = live

    def feed(self, live: Live, event: Event) -> None:
        """Handles an event and what follows from it, in order, including events fed meanwhile."""
        if self._is_performing:
            self._events.append((live, event))
            return
        self._is_performing = True
        while True:
            try:
                live.handle(event)
            except Exception as fault:  # whatever the cause, the other commands continue
                job_log.error(live.shown or live.id, "its event %r is lost", event, problem=fault)
            if live.execution.phase is Phase.OVER and self._live.get(live.id) is live:
                del self._live[live.id]
            if not self._events:
                break
            live, event = self._events.popleft()
        self._is_performing = False

    def free(self, job: JobId) -> None:
        self._grant(self.line.free(job))
        self._give()

    def resize(self, total: int, beyond: int) -> None:
        self._grant(self.line.slots.resize(total, beyond))
        self._give()

    def pass_to(self, now_s: float) -> None:
        """As `Slots.pass_to`."""
        self._grant(self.line.slots.pass_to(now_s))
        self._give()

    def _give(self) -> None:
        if not self.leaving:
            self._grant(self.line.give())

    def _grant(self, jobs: Iterable[JobId]) -> None:
        for job in jobs:
            live = self._live.get(job)
            if live is not None and not self.leaving:
                self.feed(live, SlotGranted())
