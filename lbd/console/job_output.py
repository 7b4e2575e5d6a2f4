"""What a job of the queue has printed so far, for programs and `lbctl logs --json`."""

import base64
from collections.abc import Callable
from dataclasses import dataclass, field

from lbd.console.reply import Json, text, texts, whole
from lbd.model import ENDED_NAMES

PIECE_CHARACTERS = 64 << 10  # a shorter piece means that the output was read up to its end
SHORT_MAX = 8  # pieces of one attempt: some are shorter because the middle was dropped


@dataclass(slots=True)
class Printed:
    """Output and errors of one attempt, and of those that it continues."""

    output: bytearray = field(default_factory=bytearray)
    error: bytearray = field(default_factory=bytearray)
    attempt: int = 0  # 0: none has begun
    state: str = ""  # the job's
    short: int = 0  # pieces that reached the end of what there was

    def take(self, reply: Json) -> bool:
        """Adds a piece. Returns whether to ask for another: not once the job has printed all, or
        prints more than once while it is read."""
        attempt = whole(reply, "attempt")
        if begins_anew(self.attempt, reply):
            self.output, self.error, self.short = bytearray(), bytearray(), 0
        self.attempt, self.state = attempt or self.attempt, text(reply, "state")
        data = texts(reply, "data")
        for printed, piece in zip((self.output, self.error), data, strict=False):
            printed += base64.b64decode(piece)
        self.short += is_short(data)
        return bool(data) and (self.short <= SHORT_MAX or self.state in ENDED_NAMES)


def printed_so_far(ask: Callable[[Json], Json], job: str, attempt: int | None = None) -> Printed:
    """Returns what the job has printed in that attempt, or in its last. Raises what `ask` raises,
    and LbdError."""
    printed = Printed()
    question: Json = {"op": "queue.logs", "ids": [job], "attempt": attempt, "at": [0, 0]}
    while printed.take(reply := ask(question)):
        question |= {"at": reply.get("at"), "seen_attempt": printed.attempt}
    return printed


def begins_anew(seen_attempt: int, reply: Json) -> bool:
    """Returns whether the piece is of an attempt that does not go on where the one seen stopped."""
    attempt = whole(reply, "attempt")
    return bool(seen_attempt and attempt not in (0, seen_attempt) and not reply.get("continued"))


def is_short(data: list[str]) -> bool:
    return sum(map(len, data)) < PIECE_CHARACTERS
