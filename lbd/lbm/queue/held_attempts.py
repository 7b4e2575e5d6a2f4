"""The queue's attempts that are alive here, or whose end is not settled yet.

Each belongs to the ledger of the dispatcher that started it, and only one that shows the token of
this ledger (dispatch/ledger/ledger_tokens.py) hears of the attempt and gives orders about it. So
another host that the queue's settings come to name, if only for seconds and at this host alone, can
neither renew nor end what runs here, have an end forgotten, or pass what it has started off as
that of the ledger.
"""

import asyncio
import signal
from collections import UserDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from logging import getLogger

from lbd.lbm.core import execution_events as e
from lbd.lbm.core.execution import Timer
from lbd.lbm.core.leases import Key, Leases
from lbd.lbm.core.pending_updates import PendingReports
from lbd.lbm.queue.attempt import Attempt, let_go
from lbd.lbm.queue.dispatcher_words import HeldOrders, order_bytes
from lbd.model import JobId
from lbd.net.gen import dispatch_pb2 as pb
from lbd.process.boot_clock import clock_s
from lbd.process.job_log import JobLog

WATCH_S = 0.1  # polled, since the leases' clock runs on while the machine sleeps
FILE_NAME_DIGITS = 16
OF_ANOTHER = e.GivenUp("the queue's dispatcher is another one, which does not have this job")

job_log = JobLog(getLogger("lbd.lbm"))


@dataclass(slots=True)
class Held:
    attempt: Attempt
    ledger_token: bytes
    end: pb.AttemptReport | None = None  # if it is not settled
    order_bytes: int = field(init=False)

    @property
    def origin(self) -> str:
        return self.attempt.request.origin

    def __post_init__(self) -> None:
        self.order_bytes = order_bytes(self.attempt.start, self.attempt.request)


class HeldAttempts(UserDict[Key, Held]):
    def __init__(self, own_lease_s: Callable[[], float]) -> None:
        """`own_lease_s`: the length of a lease by this host's own settings."""
        self._own_lease_s = own_lease_s
        self.orders = HeldOrders()
        self.ledger_token = b""  # of the dispatcher that we are connected to
        self.names = set[JobId]()  # of the attempts of its ledger, as the slots know them
        self._since_s = 0.0  # since when we are connected to that one
        self._left_s: dict[bytes, float] = {}  # since when no dispatcher of the others is connected
        self._is_any = asyncio.Event()
        super().__init__()

    def __setitem__(self, key: Key, held: Held) -> None:
        super().__setitem__(key, held)
        self.orders.change(held.attempt.start.user, held.order_bytes, 1)
        self._is_any.set()
        if held.ledger_token == self.ledger_token:
            self.names.add(held.attempt.id)

    def __delitem__(self, key: Key) -> None:
        held = self[key]
        super().__delitem__(key)
        self.orders.change(held.attempt.start.user, held.order_bytes, -1)
        self.names.discard(held.attempt.id)
        let_go(held.attempt)
        if not self:
            self._is_any.clear()

    def connected(self, ledger_token: bytes, now_s: float) -> None:
        """Notes who hears of the attempts from now on."""
        if ledger_token != self.ledger_token:
            self._left_s[self.ledger_token] = now_s
            self.ledger_token, self._since_s = ledger_token, now_s
        self.names.clear()
        self.names.update(held.attempt.id for held in self.of_ledger().values())

    def lease_s(self, granted_s: float, now_s: float) -> float:
        """Returns how much of a lease counts. What a host that is named for seconds has running
        here must not last for hours."""
        return min(granted_s, max(self._own_lease_s(), now_s - self._since_s))

    def of_ledger(self) -> dict[Key, Held]:
        """The attempts that the dispatcher we are connected to hears of."""
        return {key: one for key, one in self.items() if one.ledger_token == self.ledger_token}

    def ordered(self, key: Key) -> Held | None:
        """The attempt, if that dispatcher may give orders about it."""
        held = self.get(key)
        return held if held is not None and held.ledger_token == self.ledger_token else None

    def ledger_of(self, job: str, attempt: int) -> str:
        """What its ledger is called in the names of files that are open in jobs; for an attempt
        that is not held, that of the dispatcher we are connected to."""
        held = self.get((JobId(job), attempt))
        return file_name_of(self.ledger_token if held is None else held.ledger_token)

    def alive(self, job: str, attempt: int) -> bool:
        held = self.get((JobId(job), attempt))
        return held is not None and not held.attempt.execution.is_reported

    def is_awaited_by(self, reader: str, job: str, attempt: int) -> bool:
        """Whether it is alive, and its user waits for it on that host if anywhere; "": unproven."""
        held = self.get((JobId(job), attempt))
        return self.alive(job, attempt) and held is not None and reader in ("", held.origin)

    def end(self, job: JobId, attempt: int) -> None:
        if (held := self.get((job, attempt))) is not None:
            held.attempt.feed(e.EndWanted(signal.SIGKILL))

    def held_names(self) -> set[str]:
        return {f"{job}.{attempt}" for job, attempt in self}

    def begun(self) -> list[Key]:
        """Attempts that have begun and whose end is not settled."""
        return [k for k, held in self.items() if held.attempt.execution.process is not None]

    def end_others(self, now_s: float) -> None:
        """Ends the attempts of other ledgers, once their leases should have been renewed, and
        forgets their ends; those that never began at once. Must be called again and again."""
        others = {key: one for key, one in self.items() if one.ledger_token != self.ledger_token}
        tokens = {held.ledger_token for held in others.values()}
        self._left_s = {token: self._left_s.get(token, now_s) for token in tokens}
        for key, held in others.items():
            is_time = now_s >= self._left_s[held.ledger_token] + self._own_lease_s()
            if held.end is not None:
                if held.attempt.is_over and (is_time or held.end.event == "refused"):
                    del self[key]
            elif is_time and not held.attempt.execution.must_end:
                held.attempt.feed(OF_ANOTHER)

    async def watch_leases(self) -> None:
        """Ends attempts whose lease has expired. Runs until cancelled; does not wake up while none
        is held."""
        while True:
            await self._is_any.wait()
            now_s = clock_s()
            for attempt in [held.attempt for held in self.values()]:
                until_s = attempt.execution.timers.get(Timer.LEASE)
                if until_s is not None and until_s <= now_s:
                    job_log.warning(attempt.shown, "its lease has expired; ending it")
                    attempt.feed(e.Tick())
            await asyncio.sleep(WATCH_S)


@lru_cache(maxsize=16)
def file_name_of(ledger_token: bytes) -> str:
    """The token itself is no job's to know: who shows it is obeyed."""
    return sha256(ledger_token).hexdigest()[:FILE_NAME_DIGITS] if ledger_token else ""


def as_message(key: Key, held: Held, leases: Leases, now_s: float) -> pb.Held:
    reason, left_s = held.attempt.execution.stop_reason, leases.left_s(key, now_s)
    return pb.Held(job=key[0], attempt=key[1], stop_reason=reason, left_s=left_s)


def all_reports(held: Iterable[Held]) -> PendingReports[pb.AttemptReport]:
    """All reports again: the last stream may have broken before any of them arrived."""
    pending = PendingReports[pb.AttemptReport]()
    for one in held:
        for report in one.attempt.reports(has_ended=one.end is not None):
            pending.add(report)
        if one.end is not None:
            pending.add(one.end)
    return pending
