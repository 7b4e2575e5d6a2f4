"""JSON over the Unix sockets of this host: an asyncio server and a blocking client.

One frame (see `frames.py`) holds one JSON object. A request with an "id" gets a reply with the same
"id"; a request without one is a notice. A connection may have several outstanding requests.
"""

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from lbd.errors import LbdError, PeerError, Unavailable
from lbd.local import frames
from lbd.local.caller import Caller, caller_of
from lbd.local.client_tags import UNFIT
from lbd.local.connection_limits import Crowd, Questions
from lbd.local.socket_file import bind_unix
from lbd.local.unix_transport import UnixServer, UnixTransport
from lbd.text.one_line import one_line

if TYPE_CHECKING:
    from _socket import socket as BareSocket

BODY_LIMIT_BYTES = 1 << 20
CONNECT_S = 2.0
MOST_S = 1e9  # the longest time that a question may name
ANSWER_LIMIT_BYTES = 64 << 20  # for programs: some 100,000 jobs of the queue

# A JSON object; its reader checks the values.
Json = dict[str, object]
AWAY, HEARD, SEVERAL = "away", "heard", "several"  # SEVERAL jobs match; one must be named


class Refusal(LbdError):
    """A reply {"ok": false}. `code` is usage, denied, unavailable, AWAY, HEARD or SEVERAL."""

    def __init__(self, text: str, code: str = "usage") -> None:
        super().__init__(text)
        self.code = code


ENCODER = json.JSONEncoder(separators=(",", ":"))  # `dumps` would create one on each call


def encode(message: Json) -> bytes:
    return frames.pack(frames.JSON, ENCODER.encode(message).encode())


def encode_within(message: Json) -> bytes:
    """Raises Refusal if the message is so long that the other side would hang up."""
    data = encode(message)
    if len(data) > BODY_LIMIT_BYTES:
        raise Refusal(f"question too long: {len(data)} bytes; the limit is {BODY_LIMIT_BYTES}")
    return data


def decode(tag: bytes, body: bytes) -> Json:
    """Raises PeerError if the frame is not a JSON object."""
    if tag != frames.JSON:
        raise PeerError(f"a frame tagged {tag!r} instead of JSON")
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise PeerError(f"not JSON: {problem}") from problem
    if not isinstance(message, dict):
        raise PeerError("not a JSON object")
    return message


Handler = Callable[[Json, Caller], Awaitable[Json | None]]


async def reply_to(request: Json, answer: Awaitable[Json | None]) -> Json:
    """Returns the reply to a request, or the refusal."""
    try:
        return {"ok": True, **(await answer or {})}
    except Refusal as refusal:
        return {"ok": False, "error": str(refusal), "code": refusal.code}
    except LbdError as problem:
        return {"ok": False, "error": str(problem), "code": "unavailable"}
    except OSError as problem:  # such as a full disk or too many descriptors
        where = f"{problem.filename}: " if problem.filename else ""
        text = f"{where}{problem.strerror or repr(problem)}"
        return {"ok": False, "error": text, "code": "unavailable"}
    except UnicodeEncodeError as problem:  # of a word that the user typed
        error = f"{problem.object[:100]!a}: text must be UTF-8"
        return {"ok": False, "error": error, "code": "usage"}
    except (KeyError, TypeError, ValueError, ArithmeticError) as problem:
        text = f"bad request {request.get('op')!r}: {problem!r}"
        return {"ok": False, "error": text, "code": "usage"}


class Connection(asyncio.Protocol):
    """One client of a JSON socket. Each request is handled in a task of its own.

    Reading pauses while there is no room for more questions or the client does not read answers.
    Received data is parsed when its user's turn comes, and as answers are accepted.
    """

    def __init__(
        self, handler: Handler, on_close: "Callable[[Connection], None]", crowd: Crowd
    ) -> None:
        self._handler = handler
        self._on_close = on_close
        self._crowd = crowd
        self._questions = Questions(0, 0)
        self._tasks: set[asyncio.Task[None]] = set()
        self._takes_answers = asyncio.Event()
        self._takes_answers.set()
        self._heard_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._refused = ""
        self.caller = Caller(0, -1, -1)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self.caller = caller_of(transport.get_extra_info("socket"))
        self._refused = self._crowd.why_not(self.caller)
        if self._refused:
            self._hang_up(self._refused)
            return
        self._questions = self._crowd.questions(self.caller)
        self._heard_s = asyncio.get_running_loop().time()
        self._watch()

    def _hang_up(self, why: str) -> None:
        self._transport.write(encode({"ok": False, "error": why, "code": "usage"}))
        self._transport.close()

    def _watch(self) -> None:
        """Closes the connection if it has been silent for too long and awaits no answer."""
        limit_s = self._crowd.idle_s(self.caller)
        if limit_s is None:
            return
        loop = asyncio.get_running_loop()
        left_s = self._heard_s + limit_s - loop.time()
        if left_s <= 0 and not self._tasks:
            self._hang_up(f"no request for {limit_s:g} s")
            return
        self._timer = loop.call_later(left_s if left_s > 0 else limit_s, self._watch)

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        try:
            if self._questions.feed(data):
                self._heard_s = asyncio.get_running_loop().time()
            self._go_on()
        except ValueError as problem:
            self._hang_up(str(problem))

    def _go_on(self) -> None:
        """Answers the questions there is room for, then resumes reading. Raises ValueError."""
        while self._has_room() and (question := self._questions.next()):
            tag, body = question
            task = asyncio.get_running_loop().create_task(self._answer(tag, body))
            self._tasks.add(task)
            task.add_done_callback(partial(self._answered, len(body)))
        if self._transport.is_closing():
            return
        if self._has_room():
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _has_room(self) -> bool:
        return self._questions.has_room and self._takes_answers.is_set()

    def _answered(self, size_bytes: int, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._questions.answered(size_bytes)
        self.data_received(b"")

    def pause_writing(self) -> None:
        self._takes_answers.clear()
        self.data_received(b"")

    def resume_writing(self) -> None:
        self._takes_answers.set()
        self.data_received(b"")

    async def _answer(self, tag: bytes, body: bytes) -> None:
        if wait_s := self._crowd.turn_s(self.caller, len(body)):
            await asyncio.sleep(wait_s)
        if not self._takes_answers.is_set():
            await self._takes_answers.wait()  # otherwise many answers would pile up here
        if self._transport.is_closing():
            return
        try:
            request = decode(tag, body)
        except PeerError as problem:
            self._hang_up(str(problem))
            return
        reply = await reply_to(request, self._handler(request, self.caller))
        if "id" in request and not self._transport.is_closing():
            self._transport.write(encode({"id": request["id"], **reply}))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._questions = Questions(0, 0)
        for task in self._tasks:
            task.cancel()
        if not self._refused:
            self._crowd.left(self.caller)
        self._on_close(self)


async def serve_json(
    path: Path,
    handler: Handler,
    mode: int,
    on_close: Callable[[Connection], None] = lambda _: None,
    crowd: Crowd | None = None,
) -> UnixServer:
    bounds = crowd or Crowd()

    def connect(sock: socket.socket) -> None:
        UnixTransport(sock, caller_of(sock).person, Connection(handler, on_close, bounds))

    return UnixServer(bind_unix(path, mode), connect)


def bounded_s(request: Json, key: str) -> float:
    """Returns the seconds that a request gives, 0 if none. Raises Refusal."""
    value = request.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_S:
        raise Refusal(f"{key} must be a number of seconds from 0 to {MOST_S:g}")
    return float(value)


def checked(reply: Json) -> Json:
    """Returns the reply. Raises Refusal if it is one."""
    if reply.get("ok") is not True:
        raise Refusal(str(reply.get("error", "no reason given")), str(reply.get("code", "usage")))
    return reply


def connected(path: Path, timeout_s: float) -> socket.socket:
    """Raises OSError."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        wait_for_room(sock, timeout_s)
        sock.connect(str(path))
    except OSError:
        sock.close()
        raise
    return sock


def wait_for_room(sock: socket.socket, timeout_s: float) -> None:
    """Sets how long connect may wait; call it before. If too many clients wait to be accepted, a
    blocking connect waits that long and then raises BlockingIOError; with `settimeout` it raises
    that at once."""
    packed = struct.pack("ll", *divmod(int(timeout_s * 1e6), 10**6))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, packed)


Connect = Callable[[Path, float], socket.socket]


def admit_all(size_bytes: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Reading:
    """How a program reads an answer."""

    # is given the length before the answer is read; may wait, or raise LbdError
    admit: Callable[[int], None] = admit_all
    decode: Callable[[bytes, bytes], Json] = decode  # of tag and body; raises PeerError


PLAIN = Reading()


def ask(
    path: Path,
    request: Json,
    timeout_s: float = 5.0,
    connect: Connect = connected,
    reading: Reading = PLAIN,
) -> Json:
    """Asks once and waits, for programs without an event loop.

    Raises Unavailable if nobody answers, Refusal if the answer is no.
    """
    try:
        sock = connect(path, timeout_s)
    except (TimeoutError, BlockingIOError):
        raise Unavailable(f"{path.stem} did not answer within {timeout_s:g} s") from None
    except OSError as problem:
        raise Unavailable(f"{path.stem} is not running ({path}: {problem.strerror})") from None
    with sock:
        return ask_on(sock, path.stem, request, timeout_s, reading)


def ask_on(
    connected: "BareSocket",
    daemon: str,
    request: Json,
    timeout_s: float,
    reading: Reading = PLAIN,
) -> Json:
    """Like `ask`, on an existing connection."""
    is_admitted = False
    split = frames.Splitter(ANSWER_LIMIT_BYTES)
    connected.settimeout(timeout_s)
    try:
        with contextlib.suppress(BrokenPipeError):  # it may have sent the reason
            connected.sendall(encode({"id": 1, **request}))
        while data := connected.recv(1 << 16):
            try:
                answers = split.feed(data)
            except ValueError as problem:
                raise Refusal(f"{daemon}'s answer is too long: {problem}; ask for less") from None
            if not is_admitted and (answers or split.wanted_bytes > frames.HEADER_BYTES):
                reading.admit(max(split.wanted_bytes, len(data)))
                is_admitted = True
            for tag, body in answers:
                if tag == UNFIT:  # refused at connect, before any question
                    raise Unavailable(one_line(body.decode(errors="replace")))
                return checked(reading.decode(tag, body))
    except TimeoutError:
        raise Unavailable(f"{daemon} did not answer within {timeout_s:g} s") from None
    except OSError as problem:
        raise Unavailable(f"{daemon} is not running ({problem.strerror})") from None
    raise Unavailable(f"{daemon} closed the connection")
