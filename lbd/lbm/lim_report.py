"""The report of this host's slots and jobs to the LIM, and the LIM's answer."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lbd.errors import LbdError
from lbd.lbm.inbound.context import InboundContext
from lbd.lbm.outbound.context import OutboundContext
from lbd.model import Closed, Facts, HostId
from lbd.process.boot_clock import time_of_day
from lbd.process.wake_ups import until_next_s
from lbd.text.closed_words import WORDS, drained_words
from lbd.text.needs_words import facts_fields, read_facts_fields

if TYPE_CHECKING:
    from lbd.lbm.queue.dispatcher_line import DispatcherLine

log = logging.getLogger("lbd.lbm")

REPORT_S, PAUSE_S = 1.0, 0.05  # at the rate at which its load changes; pause between changes
PATIENCE_S = 0.5  # for its answer, and between attempts to connect


def room_in(answer: Mapping[str, object]) -> dict[HostId, int]:
    """Free slots of the hosts that accept commands."""
    room = answer.get("room")
    if not isinstance(room, dict):
        return {}
    return {HostId(str(name)): free for name, free in room.items() if type(free) is int}


def facts_in(answer: Mapping[str, object]) -> dict[HostId, Facts]:
    """The resources and features of those hosts. Empty unless requested."""
    facts = answer.get("facts")
    if not isinstance(facts, dict):
        return {}
    found = {}
    for name, said in facts.items():
        with contextlib.suppress(ValueError):
            found[HostId(str(name))] = read_facts_fields(said)
    return found


def drain_in(answer: Mapping[str, object]) -> str:
    """Who drained this host, since when and why, in words."""
    note = answer.get("drain")
    if not isinstance(note, dict):
        return WORDS[Closed.DRAINED]
    since = note.get("since")
    shown = time_of_day(since) if isinstance(since, float) else ""
    return drained_words(str(note.get("by")), shown, str(note.get("reason")))


def why_closed(host: InboundContext, *, is_served: bool) -> Closed | None:
    """`is_served`: whether commands of other hosts reach us."""
    if not is_served:
        return Closed.ALONE
    return Closed.NO_KEEPER if host.link.pid == 0 else host.rules.closed()[0]


class LimReport:
    def __init__(self, host: InboundContext, home: OutboundContext) -> None:
        self._host, self._home, self._lim = host, home, home.lim
        self.attempts: DispatcherLine | None = None  # if this host takes any of the queue
        self.is_served = False  # whether commands of other hosts reach us
        self._changed = asyncio.Event()
        self.changed = self._changed.set  # slots or jobs have changed

    async def run(self) -> None:
        """Reports slots and jobs at every change and at intervals; reconnects."""
        while True:
            self._changed.clear()
            if not self._lim.connected and await self._lim.connect():
                self._home.notes.again()
            if self._lim.connected:
                await self.report()
            reported_s = time.monotonic()
            to_report_s = until_next_s(REPORT_S, asyncio.get_running_loop().time())
            pause_s = to_report_s if self._lim.connected else PATIENCE_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._changed.wait()
            if (left_s := reported_s + PAUSE_S - time.monotonic()) > 0:
                await asyncio.sleep(left_s)  # changes come in bursts

    async def report(self, returns_s: float = 0.0) -> None:
        """Sends one report. `returns_s`: how soon another LBM replaces us."""
        host, jobs = self._host, self._home.jobs
        closed = why_closed(host, is_served=self.is_served)
        try:
            answer = await self._lim.call(
                {
                    "op": "lbm",
                    "slots_total": host.slots.total,
                    "slots_used": host.slots.used,
                    "hog": host.slots.hog(),
                    "local": jobs.count(foreign=False),
                    "foreign": jobs.count(foreign=True),
                    "accepting": closed is None,
                    "closed": closed or 0,
                    "opens": host.rules.opens_text() if closed is Closed.HOURS else "",
                    "owner": host.rules.owner_state,
                    "facts": facts_fields(host.slots.pool.facts()),
                    "wants_owners": host.rules.decides,
                    "wants_facts": host.rules.decides and any(one.needs for one in host.executions),
                    "returns_s": returns_s,
                    "keeper": host.link.pid,  # keeper and LBM are not load of this host
                    "dispatcher": self.attempts.summary if self.attempts else None,
                },
                PATIENCE_S,
            )
        except LbdError as problem:
            return log.debug("the LIM rejected the report: %s", problem)
        self._home.lim_questions.heard_s = time.monotonic()
        host.rules.load_is(answer.get("index"))
        self._home.usage.algorithm_is(answer.get("algorithm"))
        host.why_drained = drain_in(answer)
        if self._home.queue is not None:
            hosts = answer.get("queue")
            self._home.queue.follow(list(map(str, hosts)) if isinstance(hosts, list) else None)
        if self.attempts is not None:
            reason = Closed.DRAINED if answer.get("drained") else closed
            self.attempts.load_is(answer.get("index"), reason)
        if isinstance(away := answer.get("away"), dict):
            known = {HostId(str(name)): bool(free) for name, free in away.items()}
            others_free = answer.get("others_free") is True
            host.rules.cluster = known, others_free, room_in(answer), facts_in(answer)
        threshold_s = answer.get("job_threshold_s")
        if isinstance(threshold_s, float):  # the value in force, perhaps changed by lbctl
            self._home.eligible.book.threshold_s = threshold_s
