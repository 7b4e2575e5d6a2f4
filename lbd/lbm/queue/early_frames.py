"""What a client of `-q` or `-d` sends and receives before its job is queued.

`lbrun` waits for a dispatcher that is restarting. If its user interrupts it meanwhile, or it
disconnects, the LBM acts at once: it does not submit a job that is not submitted yet, and cancels
one that is, if it gets queued after all.
"""

import asyncio
import contextlib
import math
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from lbd.errors import LbdError
from lbd.launch.directory_stamp import Stamp
from lbd.lbm.core.journey import ENDING_SIGNALS
from lbd.lbm.core.journey_events import BY_SIGNAL, CommandEnd
from lbd.lbm.queue.dispatcher_client import DispatcherClient
from lbd.local import client_tags as tags
from lbd.local import frames
from lbd.local.client_frames import Frame, latest

LOOK_EVERY_S = 0.5
REMARK_AFTER_S = 2.0
Done = TypeVar("Done")


@dataclass(slots=True)
class EarlyFrames:
    listen: Callable[[], Awaitable[list[Frame]]]
    kept: list[Frame] = field(default_factory=list)
    is_gone: bool = False
    _reading: "asyncio.Task[list[Frame]] | None" = None

    @property
    def interrupted(self) -> int:
        """The signal by which the job must end; 0: none."""
        found = [body[0] for tag, body in self.kept if tag == tags.SIGNAL and len(body) == 1]
        return next((number for number in found if number in ENDING_SIGNALS), 0)

    async def meanwhile(
        self, work: "asyncio.Future[Done]", report: Callable[[], object]
    ) -> Done | None:
        """Returns the result of the work; None: its client does not want it any more. `report` is
        called at intervals. Raises what the work raises, OSError, ValueError."""
        while not (self.interrupted or self.is_gone):
            reading = self._reading = self._reading or asyncio.create_task(self._read())
            done, _ = await asyncio.wait(
                (work, reading), timeout=LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED
            )
            if work in done:
                return work.result()
            if reading in done:
                self._reading = None
                received = reading.result()
                self.is_gone = not received
                self.kept = latest([*self.kept, *filter(counts, received)])
            else:
                report()
        return None

    async def _read(self) -> list[Frame]:
        return await self.listen()

    async def read(self) -> list[Frame]:
        """Returns the next frames, once the job is queued. Raises OSError, ValueError."""
        reading, self._reading = self._reading or asyncio.create_task(self._read()), None
        return await reading

    def close(self) -> None:
        reading, self._reading = self._reading, None  # its error refers to us
        if reading is not None and not reading.cancel() and not reading.cancelled():
            reading.exception()  # marks the error as seen


def counts(frame: Frame) -> bool:
    """Whether a queued job's client can send this frame. Other frames are dropped, because they may
    arrive without end."""
    tag, body = frame
    return tag == tags.FORCE or (tag == tags.SIGNAL and len(body) == 1)


@dataclass(slots=True)
class OnItsWay:
    """A submission on its way to the queue."""

    asked_s: float = math.inf  # since when the dispatcher is waited for, if it is
    is_sent: bool = False  # it may be queued
    is_said: bool = False  # the client was told that it waits
    stamp: Stamp | None = None  # of its directory, if files or --notify need it
    noted: str = ""  # where its files come back to
    withheld: str = ""  # the line on its environment for -v

    @property
    def may_be_confirmed(self) -> bool:
        """Whether it is early enough to wait for an answer, by which it can be cancelled."""
        return self.is_sent and not self.is_said

    def why_failed(self, problem: LbdError, queue: DispatcherClient | None) -> str:
        """Says with the problem whether the job may be in the queue, if that is known."""
        if not (math.isfinite(self.asked_s) and queue is not None and queue.hosts):
            return str(problem)
        may_be = "the job may be in the queue all the same: see `lbctl jobs`"
        return f"{problem}; {may_be if self.is_sent else 'nothing was queued'}"

    def interrupted_by(self, number: int, queue: DispatcherClient) -> CommandEnd:
        reason = "interrupted: nothing was queued"
        if self.may_be_confirmed:
            reason = "interrupted: the job is cancelled"
        elif self.is_sent:
            reason = f"interrupted: {queue.awaited} has not confirmed the job; if `lbctl jobs` "
            reason += "lists it later, `lbctl kill` ends it"
        return CommandEnd(BY_SIGNAL + number, "interrupted", reason=reason)


def report_waiting(sock: socket.socket, queue: DispatcherClient, way: OnItsWay) -> None:
    """Shows the client that it is not forgotten, and after a while what it waits for."""
    send_soon(sock, tags.TAKEN)
    if not way.is_said and time.monotonic() >= way.asked_s + REMARK_AFTER_S:
        way.is_said = True
        text = f"waiting for {queue.awaited}, which has not answered yet"
        send_soon(sock, tags.WARN, text.encode())


def send_soon(sock: socket.socket, tag: bytes, body: bytes = b"") -> None:
    """Sends a frame that may be lost if the client does not read."""
    with contextlib.suppress(OSError):
        sock.send(frames.pack(tag, body))
