"""The host where a command's user waits: what it says while the command runs here."""

import asyncio
import logging
import signal
from collections.abc import Callable

from lbd.errors import LbdError
from lbd.keeper import session_leader as monitor
from lbd.keeper.stdin_watch import IsRead
from lbd.lbm.core import execution_events as e
from lbd.lbm.inbound.performer import FAULT
from lbd.lbm.inbound.stdio import JobStdio
from lbd.lbm.link import wire as tags
from lbd.lbm.link.conversation import Conversation
from lbd.model import JobId
from lbd.process.job_log import JobLog

job_log = JobLog(logging.getLogger("lbd.lbm"))

PUMP_AFTER_S = 0.002  # what commands have printed that are over sooner is read at their end
PROTOCOL = "its origin does not follow the protocol"


class Origin:
    """Each message is dealt with as it comes, until `stop`: it becomes an event of the command's,
    or is for its `ends`."""

    def __init__(
        self, job: JobId, talk: Conversation, ends: JobStdio, feed: Callable[[e.Event], None]
    ) -> None:
        self._job, self._talk, self._ends, self._feed = job, talk, ends, feed
        self._pumps: tuple[asyncio.Task[None], ...] = ()
        self._to_pump: asyncio.TimerHandle | None = None  # not yet
        self._is_over = False

    def follow(self, leader: int, is_read: IsRead) -> None:
        """Of the process `leader`; `is_read` as for `JobStdio.begin`."""
        self._ends.begin(leader, lambda: self._feed(e.KillWanted()), is_read)
        if self._ends.pty is not None:  # somebody looks at it
            self._pump()
        else:
            loop = asyncio.get_running_loop()
            self._to_pump = loop.call_later(PUMP_AFTER_S, self._pump)
        self._talk.follow(self._listen, self._lost)

    def _pump(self) -> None:
        self._to_pump, self._pumps = None, self._ends.pump()

    def drain(self) -> list[asyncio.Task[None]]:
        """Those that have not come to the end of their output, which nobody writes any more."""
        if self._to_pump is not None:
            self._to_pump.cancel()
            self._to_pump, self._pumps = None, self._ends.drain()
        return [pump for pump in self._pumps if not pump.done()]

    def stop(self) -> None:
        self._is_over = True
        if self._to_pump is not None:
            self._to_pump.cancel()
            self._ends.close()
        for pump in self._pumps:
            pump.cancel()
        self._ends.stop()

    def _lost(self, problem: LbdError) -> None:
        if not self._is_over:
            self._feed(e.GivenUp(str(problem)))

    def _listen(self, tag: bytes, body: memoryview) -> None:
        if self._is_over:  # what comes after its end is of no interest
            return
        try:
            self._hear(tag, body)
        except ValueError:  # it counts wrongly: its streams would stand still for ever
            self._feed(e.GivenUp(PROTOCOL))
        except Exception as fault:  # the commands of others come by the same stream
            said = "message %r from its origin was not understood"
            job_log.error(self._job, said, tag, problem=fault)
            self._feed(e.GivenUp(FAULT))

    def _hear(self, tag: bytes, body: memoryview) -> None:
        """Raises ValueError."""
        if tag == tags.SIGNAL and len(body) == 1 and 0 < body[0] < signal.NSIG:
            self._feed(e.Signalled(body[0]))
        elif tag == tags.FORCE:
            self._feed(e.KillWanted())
        elif tag == tags.GROUND and self._ends.pty is not None:
            number = monitor.BACKGROUND if body and body[0] else monitor.FOREGROUND
            self._feed(e.Signalled(number))
        elif tag in tags.FOR_ENDS:
            self._ends.hear(tag, body)
        elif tag != tags.UNKNOWN and self._talk.is_news(tag):
            self._talk.put(tags.UNKNOWN, tag)
