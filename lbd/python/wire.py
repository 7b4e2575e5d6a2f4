"""Frames between an executor and its workers, on the workers' standard input and output.

They are the frames of lbd/local/frames.py. The raw bytes of a blob follow the frame that announces
it and are not counted in its length. To the worker: SETTINGS first, then TASK, BLOB, OWN_BLOB,
SHARE, DROP, ASK_BACK. STORED answers BLOB, OWN_BLOB and SHARE. From the worker: HELLO first, then
RESULT, STORED, RETURNED, MISSING. Anything else is a protocol error, and the receiver hangs up.
"""

import struct
from dataclasses import dataclass

from lbd.local.frames import pack

VERSION = 2
SETTINGS, TASK, BLOB, OWN_BLOB, SHARE, DROP, ASK_BACK = b"I", b"T", b"B", b"O", b"A", b"D", b"G"
HELLO, RESULT, STORED, RETURNED, MISSING = b"H", b"R", b"S", b"U", b"N"

HEADER = struct.Struct("<Ic")
TASK_HEAD = struct.Struct("<QI")  # id, bytes of the function; then function and arguments
BLOB_HEAD = struct.Struct("<16sQ")
RESULT_HEAD = struct.Struct("<QBd")  # id, how, run time in seconds; then the pickled result
IDS = struct.Struct("<Q")
DIGEST_BYTES = 16
VALUE, RAISED, TEXT = 0, 1, 2  # how: a pickled value, a pickled exception, a text about one

SMALL_LIMIT_BYTES = 1 << 20  # for frames without user data
FRAME_LIMIT_BYTES = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class TaskFrame:
    number: int
    function: bytes
    arguments: bytes


def pack_task(task: TaskFrame) -> bytes:
    head = TASK_HEAD.pack(task.number, len(task.function))
    return pack(TASK, b"".join((head, task.function, task.arguments)))


def pack_blob(digest: bytes, size: int, *, is_own: bool) -> bytes:
    return pack(OWN_BLOB if is_own else BLOB, BLOB_HEAD.pack(digest, size))


def read_task(body: bytes) -> TaskFrame:
    """Raises ValueError."""
    if len(body) < TASK_HEAD.size:
        raise ValueError("a task without its head")
    number, function_bytes = TASK_HEAD.unpack_from(body)
    at = TASK_HEAD.size + function_bytes
    if at > len(body):
        raise ValueError("a task runs past the end of its frame")
    return TaskFrame(number, body[TASK_HEAD.size : at], body[at:])


def read_ids(body: bytes) -> list[int]:
    """Raises ValueError."""
    if len(body) % IDS.size:
        raise ValueError("half a number of a task")
    return [number for (number,) in IDS.iter_unpack(body)]


def pack_ids(numbers: list[int]) -> bytes:
    return b"".join([IDS.pack(number) for number in numbers])


class Incoming:
    """Turns bytes from a worker into frames. Only a result may be long.

    `fault` says why no more frames can be read: a tag that no worker sends, or a frame that is too
    long.
    """

    def __init__(self, result_limit_bytes: int) -> None:
        self._limit_bytes = min(result_limit_bytes + SMALL_LIMIT_BYTES, FRAME_LIMIT_BYTES)
        self._buffer = bytearray()
        self.fault = ""

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Returns the complete frames, up to the first fault."""
        buffer = self._buffer
        buffer += data
        found: list[tuple[bytes, bytes]] = []
        at, end = 0, len(buffer)
        while end - at >= HEADER.size and not self.fault:
            size, tag = HEADER.unpack_from(buffer, at)
            limit = self._limit_bytes if tag == RESULT else SMALL_LIMIT_BYTES
            if tag not in (HELLO, RESULT, STORED, RETURNED, MISSING):
                self.fault = f"a frame tagged {tag!r}"
                break
            if size > limit:
                self.fault = f"a frame of {size} bytes; the limit is {limit}"
                break
            start = at + HEADER.size
            if start + size > end:
                break
            with memoryview(buffer) as view:
                found.append((tag, bytes(view[start : start + size])))
            at = start + size
        if at:
            del buffer[:at]
        return found
