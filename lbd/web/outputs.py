"""The last part of a job's output for each viewer; each request reads only what is new."""

import base64
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from lbd.console.daemons import Daemons
from lbd.console.job_output import begins_anew
from lbd.console.jobs import ANSWER_S
from lbd.console.reply import Json, text, texts, whole
from lbd.errors import LbdError

TAIL_BYTES = 64 << 10  # of the output and of the errors, each
PIECES = 16  # read in one request
TAILS_MAX = 64


@dataclass(slots=True)
class Tail:
    """The output of one job, for one session."""

    at: object = (0, 0)
    attempt: int = 0
    kept: list[bytes] = field(default_factory=lambda: [b"", b""])
    passed_bytes: int = 0  # bytes that were dropped
    behind: bool = False
    note: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, reply: Json) -> bool:
        """Adds a piece of output. Returns whether there may be more."""
        if begins_anew(self.attempt, reply):
            self.kept, self.passed_bytes = [b"", b""], 0
        self.attempt = whole(reply, "attempt") or self.attempt
        self.at = reply.get("at") or self.at
        data = texts(reply, "data")
        for which, piece in enumerate(data[:2]):
            joined = self.kept[which] + base64.b64decode(piece)
            self.passed_bytes += max(0, len(joined) - TAIL_BYTES)
            self.kept[which] = joined[-TAIL_BYTES:]
        return bool(data)

    def read(self, daemons: Daemons, name: str) -> None:
        """Reads what is new. If it cannot be read, `note` says why."""
        question: Json = {"op": "queue.logs", "ids": [name]}
        self.note, self.behind = "", False
        try:
            for _ in range(PIECES):
                asked = question | {"at": list(self.places()), "seen_attempt": self.attempt}
                reply = daemons.lbm(asked, ANSWER_S)
                if warning := text(reply, "warning"):
                    self.note = warning
                if not self.take(reply):
                    return
        except LbdError as problem:
            self.note = str(problem)
            return
        self.behind = True

    def places(self) -> tuple[object, ...]:
        return tuple(self.at) if isinstance(self.at, list | tuple) else (0, 0)


class Outputs:
    def __init__(self) -> None:
        self._tails: OrderedDict[tuple[str, str], Tail] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, session: str, daemons: Daemons, name: str) -> Tail:
        """Reads what is new and returns a copy of the tail."""
        with self._lock:
            tail = self._tails.setdefault((session, name), Tail())
            self._tails.move_to_end((session, name))
            while len(self._tails) > TAILS_MAX:
                self._tails.popitem(last=False)
        with tail.lock:
            tail.read(daemons, name)
            return Tail(tail.at, tail.attempt, list(tail.kept), tail.passed_bytes, tail.behind,
                        tail.note)  # fmt: skip
