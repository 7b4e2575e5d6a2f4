"""Frames on the local Unix sockets: a length, a tag, flat fields.

    frame  = length (4 bytes, little endian, of the body) | tag (1 byte) | body
    fields = repeated: key (1 byte) | length (4 bytes, little endian) | value

The format is this simple so that `lbrun` needs no import for it and a C program can speak it.
Messages that are not latency-bound (`lbctl`, the LBM talking to its LIM) are one JSON object as the
body of a frame tagged `JSON`. Unknown keys are ignored, so either side may be the newer one.
"""

TYPE_CHECKING = False  # importing typing takes a while
if TYPE_CHECKING:
    from collections.abc import Iterable

HEADER_BYTES = 5
JSON = b"J"
FIELDS_MAX = 1 << 19
MANY = 1 << 30


def pack(tag: bytes, body: bytes = b"") -> bytes:
    """Packs one frame."""
    return len(body).to_bytes(4, "little") + tag + body


def field(key: bytes, value: bytes) -> bytes:
    """Packs one field of a body."""
    return key + len(value).to_bytes(4, "little") + value


def pack_fields(pairs: "Iterable[tuple[bytes, bytes]]") -> bytes:
    """Packs a body."""
    return b"".join(
        [part for key, value in pairs for part in (key, len(value).to_bytes(4, "little"), value)]
    )


def fields(body: bytes, most: int = FIELDS_MAX) -> list[tuple[bytes, bytes]]:
    """Returns the fields of a body in order.

    Raises ValueError if there are more than `most`, or the body ends inside a field.
    """
    found: list[tuple[bytes, bytes]] = []
    at, end, left = 0, len(body), most
    while at < end:
        start = at + 5
        size = int.from_bytes(body[at + 1 : start], "little")
        if start + size > end:
            raise ValueError("a field runs past the end of its frame")
        if not left:
            raise ValueError(f"more than {most} fields")
        left -= 1
        found.append((body[at : at + 1], body[start : start + size]))
        at = start + size
    return found


class TooLong(ValueError):
    """A frame that announces more bytes than allowed."""

    def __init__(self, tag: bytes, size: int, limit_bytes: int) -> None:
        super().__init__(f"a frame of {size} bytes; the limit is {limit_bytes}")
        self.tag, self.size, self.limit_bytes = tag, size, limit_bytes


class Splitter:
    """Turns bytes, as they arrive, into whole frames. Refuses a frame over `limit_bytes`, or over
    `long_bytes` if its tag is one of `long`.

    Data that comes byte by byte costs no more than data that comes at once: it is parsed only when
    a frame can be complete.
    """

    __slots__ = ("_buffer", "_limit_bytes", "_long_bytes", "long", "wanted_bytes")

    def __init__(self, limit_bytes: int, long: bytes = b"", long_bytes: int = 0) -> None:
        self._buffer = bytearray()
        self.wanted_bytes = HEADER_BYTES  # bytes of the frame that has begun, as far as known
        self._limit_bytes = limit_bytes
        self.long = long
        self._long_bytes = long_bytes

    @property
    def rest(self) -> bytes:
        """Returns what has arrived of the next frame."""
        return bytes(self._buffer)

    def feed(self, data: bytes, most: int = MANY) -> list[tuple[bytes, bytes]]:
        """Returns the (tag, body) pairs completed by `data`. Beyond `most` pairs the rest stays
        unparsed, which takes a tenth of the memory, for the next call.

        Raises TooLong if a frame announces more than the limit; the stream is then useless.
        """
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self.wanted_bytes:
                return []
            data = bytes(self._buffer)
        frames: list[tuple[bytes, bytes]] = []
        at, there = 0, len(data)
        wanted = HEADER_BYTES
        while there - at >= HEADER_BYTES and len(frames) < most:
            size = int.from_bytes(data[at : at + 4], "little")
            if size > self._limit_bytes:
                tag = data[at + 4 : at + 5]
                limit_bytes = self._long_bytes if tag in self.long else self._limit_bytes
                if size > limit_bytes:
                    raise TooLong(tag, size, limit_bytes)
            end = at + HEADER_BYTES + size
            if end > there:
                wanted += size
                break
            frames.append((data[at + 4 : at + 5], data[at + HEADER_BYTES : end]))
            at = end
        self._buffer, self.wanted_bytes = bytearray(data[at:]), wanted
        return frames
