"""Answers as long as the list of jobs: a few at a time for each asker, built without long pauses of
the event loop.

An asker holds its turn from the question until the answer is sent; other users do not wait for it.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Hashable, Iterable
from typing import TypeVar

from lbd.local import frames
from lbd.local.json_socket import Json
from lbd.local.turns import Turns

OPERATIONS = frozenset(
    ("jobs", "queue.jobs", "queue.act", "queue.lines", "command.lines", "lines", "explain",
     "history", "past", "stats")
)  # fmt: skip
AT_ONCE = 2  # per asker
ROWS = 500  # without a pause
Row = TypeVar("Row")


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


async def in_turns(rows: Iterable[Row]) -> AsyncIterator[Row]:
    """Yields the same items, with pauses in which others are served."""
    for number, row in enumerate(rows, 1):
        yield row
        if number % ROWS == 0:
            await asyncio.sleep(0)


async def encode(message: Json) -> bytes:
    """Like `json_socket.encode`, with pauses within lists."""
    parts = []
    for key, value in message.items():
        if isinstance(value, list) and len(value) > ROWS:
            pieces = []
            for at in range(0, len(value), ROWS):
                pieces.append(text_of(value[at : at + ROWS])[1:-1])
                await asyncio.sleep(0)
            parts.append(f"{text_of(key)}:[{','.join(pieces)}]")
        else:
            parts.append(f"{text_of(key)}:{text_of(value)}")
    return frames.pack(frames.JSON, f"{{{','.join(parts)}}}".encode())


def text_of(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
