"""Ends the jobs whose `lbrun -q` has gone, however many are left at once.

The dispatcher handles only a few orders of one user at a time. With one order per job, the last of
a few hundred clients that went away together came too late: its order was given up, and its job ran
on with nobody waiting for it. So one order covers all jobs that a user has left behind by then. If
an order has not ended all of them, it is repeated, one job at a time.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from lbd.errors import LbdError
from lbd.model import ENDED_NAMES
from lbd.net.gen import dispatch_pb2 as pb
from lbd.text.name_patterns import shown_id
from lbd.text.one_line import one_line

log = logging.getLogger("lbd.lbm")

AT_ONCE = 1000  # jobs, or arrays, in one order
AGAIN_S, GIVE_UP_S = 0.5, 120.0
Whose = tuple[str, int, str]  # user, uid, and the ledger that has the jobs


class Queue(Protocol):
    async def act(self, request: pb.ActRequest, ledger: str) -> pb.ActReply: ...

    async def jobs(self, request: pb.JobsAsked, ledger: str) -> pb.JobsInfo: ...


@dataclass(slots=True)
class LeftBehind:
    """Jobs left behind by one user that are not known to have ended."""

    selectors: dict[str, None] = field(default_factory=dict)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class Departures:
    queue: Queue
    _of_users: dict[Whose, LeftBehind] = field(default_factory=dict)

    async def end(self, whose: Whose, selector: str) -> None:
        """Returns once these jobs have ended, were told to, or have been retried for long."""
        left = self._of_users.setdefault(whose, LeftBehind())
        left.selectors[selector] = None
        loop = asyncio.get_running_loop()
        give_up_s, at_once, trouble = loop.time() + GIVE_UP_S, AT_ONCE, ""
        try:
            while selector in left.selectors:
                async with left.turn:
                    if selector not in left.selectors:  # another order has ended it
                        return
                    others = (one for one in left.selectors if one != selector)
                    some = [selector, *islice(others, at_once - 1)]
                    trouble = await self._ended(whose, some)
                    for one in () if trouble else some:
                        left.selectors.pop(one, None)
                if trouble:
                    if loop.time() >= give_up_s:
                        log.warning(
                            "job %s keeps running although its lbrun has gone: %s",
                            selector,
                            trouble,
                        )
                        return
                    at_once = 1 if len(some) > 1 else AT_ONCE
                    await asyncio.sleep(AGAIN_S)
        finally:
            left.selectors.pop(selector, None)
            if not left.selectors:
                self._of_users.pop(whose, None)

    async def _ended(self, whose: Whose, some: list[str]) -> str:
        """Returns what prevented it; "" if nothing did."""
        user, uid, ledger = whose
        order = pb.ActRequest(verb="kill", selectors=some, user=user, uid=uid, by_number=True)
        try:
            reply = await self.queue.act(order, ledger)
            if not reply.errors:
                return ""
            asked = pb.JobsAsked(
                selectors=some, user=user, uid=uid, ended_too=True, by_number=True, unexplained=True
            )
            found = await self.queue.jobs(asked, ledger)
        except LbdError as problem:
            return str(problem)
        told = {*reply.done_ids}
        alive = (job for job in found.jobs if job.state not in ENDED_NAMES)
        ids = (shown_id(str(job.id), job.array_id, job.array_index) for job in alive)
        if found.error or any(one not in told for one in ids):
            return one_line("; ".join(filter(None, (*reply.errors, found.error))))
        return ""
