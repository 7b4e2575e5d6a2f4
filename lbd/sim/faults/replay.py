"""Repeats a recorded LIM's history and compares it message by message.

The daemon's own state and placer are recreated from the first line and get, at every recorded time,
the same input as the LIM. Their output must be the same as the LIM's.
"""

import json
from collections import Counter
from random import Random

from lbd.errors import ConfigError
from lbd.lim.core import events as e
from lbd.lim.core.history import MADE_OF, Packed, pack, unpack
from lbd.lim.core.settings import InForce
from lbd.lim.core.state import Identity, LimState
from lbd.text.one_line import one_line

OF_PLACER = ("next_step", "settle", "question", "answered", "probed")
OF_STATE = ("start", "handle", "drained_there")
SHOWN_CHARS = 400
NO_HISTORY = "line 1: it is no history of a LIM, or one of another release"


class Divergence(Exception):
    """The present code decides differently from the recorded LIM."""


class Replay:
    """Takes the lines of a history in order."""

    def __init__(self) -> None:
        self.state: LimState | None = None
        self.release = ""
        self.lines = 0
        self.seen: Counter[str] = Counter()  # decisions by algorithm; messages sent and received

    def feed(self, line: str) -> None:
        """Raises ConfigError for a line that is not of a history, Divergence if outputs differ."""
        self.lines += 1
        call, given, gave = self._read(line)
        if call == MADE_OF:
            self._make(given)
            return
        if self.state is None:
            raise ConfigError(NO_HISTORY)
        try:
            found = pack(self._answer(call, given))
        except (TypeError, ValueError, AttributeError, LookupError) as problem:
            what = f"fails now: {type(problem).__name__}: {one_line(str(problem))}"
            raise Divergence(
                f"line {self.lines}: {call} gave then {shown(gave)} and {what}"
            ) from problem
        if found != gave:
            raise Divergence(
                f"line {self.lines}: {call} gave then {shown(gave)} and gives now {shown(found)}"
            )
        self._count(call, given, gave)

    def _read(self, line: str) -> tuple[str, tuple[object, ...], Packed]:
        try:
            _, call, packed, gave = json.loads(line)
            given = unpack(packed)
        except ConfigError as problem:
            raise ConfigError(f"line {self.lines}: {problem}") from None
        except (ValueError, TypeError, LookupError, RecursionError):
            call = None
        if not isinstance(call, str) or not isinstance(given, tuple):
            raise ConfigError(
                NO_HISTORY if self.lines == 1 else f"line {self.lines}: it is no call of a LIM"
            )
        return call, given, gave

    def _make(self, given: tuple[object, ...]) -> None:
        match given:
            case (str(release), Identity() as identity, InForce() as base, int(seed), float(now_s)):
                self.release = release
                self.state = LimState(identity, base, Random(seed), now_s)
            case _:
                raise ConfigError(NO_HISTORY)

    def _answer(self, call: str, given: tuple[object, ...]) -> object:
        assert self.state is not None
        if call in OF_PLACER:
            return getattr(self.state.placer, call)(*given)
        if call in OF_STATE:
            return getattr(self.state, call)(*given)
        raise ConfigError(f"line {self.lines}: a LIM has no {call[:40]!r}")

    def _count(self, call: str, given: tuple[object, ...], gave: Packed) -> None:
        assert self.state is not None
        if call == "settle":
            self.seen[f"decisions under {self.state.in_force.lim.algorithm}"] += 1
        elif call == "handle":
            self.seen["messages received"] += isinstance(given[0], e.Received)
            actions = gave if isinstance(gave, list) else []
            self.seen["messages sent"] += sum(map(messages_in, actions))
        elif call in ("question", "probed"):
            self.seen["messages sent"] += 1


def messages_in(action: Packed) -> int:
    match action:
        case {"is": "events.Send" | "events.Reply"}:
            return 1
        case {"is": "events.Broadcast", "of": [list(to), *_]}:
            return len(to)
    return 0


def shown(packed: Packed) -> str:
    return one_line(json.dumps(packed), SHOWN_CHARS)
