"""Answers as long as the list of jobs: a few at a time for each asker, built without long pauses of
the event loop.

An asker holds its turn from the question until the answer is sent; other users do not wait for it.
"""

import asyncio
import contextlib
import json
import time
import types
from collections.abc import (
    AsyncIterator,
    Coroutine,
    Generator,
    Hashable,
    Iterable,
    Iterator,
)
from contextvars import ContextVar
from typing import TypeVar

from lbd.local import frames
from lbd.local.json_socket import Json
from lbd.local.steps import Steps
from lbd.local.turns import Turns

OPERATIONS = frozenset(
    ("jobs", "queue.jobs", "queue.act", "queue.lines", "command.lines", "lines", "explain",
     "history", "past", "stats")
)  # fmt: skip
AT_ONCE = 2  # per asker
Row = TypeVar("Row")
Result = TypeVar("Result")


class LongAnswers:
    """Counts the long answers in progress for each asker: a user or another host."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._turns = Turns(at_once)

    def turn(
        self, asker: Hashable, operation: object
    ) -> contextlib.AbstractAsyncContextManager[None]:
        return self._turns.turn(asker) if operation in OPERATIONS else contextlib.nullcontext()

    def __len__(self) -> int:
        return len(self._turns)


class OwnTime:
    """The CPU time that an answer took, in `in_turns` or `timed`, in which nobody else was
    served."""

    seconds = 0.0


_own: ContextVar[OwnTime | None] = ContextVar("own", default=None)


@contextlib.contextmanager
def own_time() -> Iterator[OwnTime]:
    """Adds up the time of what this task does in this context."""
    before = _own.set(own := OwnTime())
    try:
        yield own
    finally:
        _own.reset(before)


@types.coroutine
def timed(
    work: Coroutine[object, object, Result], own: OwnTime
) -> Generator[object, object, Result]:
    """Awaits the work, and adds the time that it takes itself, not what others do meanwhile."""
    problem: BaseException | None = None
    while True:
        began_s = time.thread_time()
        try:
            waited_for = work.send(None) if problem is None else work.throw(problem)
        except StopIteration as end:
            result: Result = end.value
            return result
        finally:
            own.seconds += time.thread_time() - began_s
        problem = None
        try:
            yield waited_for
        except BaseException as raised:  # it may be cancelled
            problem = raised


async def in_turns(rows: Iterable[Row]) -> AsyncIterator[Row]:
    """Yields the same items, with pauses in which others are served."""
    own, steps = _own.get() or OwnTime(), Steps(rows, time.monotonic)
    while steps.is_left:
        began_s = time.thread_time()
        for row in steps:
            yield row
        own.seconds += time.thread_time() - began_s
        if steps.is_left:
            await asyncio.sleep(0)


async def encode(message: Json) -> bytes:
    """Like `json_socket.encode`, with pauses within lists."""
    pieces: list[bytes] = []  # joined once: an answer may have tens of megabytes
    for key, value in message.items():
        pieces.append(f"{',' if pieces else '{'}{text_of(key)}:".encode())
        if not isinstance(value, list):
            pieces.append(text_of(value).encode())
            continue
        mark = b"["
        async for row in in_turns(value):
            pieces += (mark, text_of(row).encode())
            mark = b","
        pieces.append(b"]" if value else b"[]")
    pieces.append(b"}" if pieces else b"{}")
    return frames.pack(frames.JSON, b"".join(pieces))


text_of = json.JSONEncoder(separators=(",", ":")).encode
