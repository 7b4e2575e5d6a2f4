"""A gRPC client that sends as much of a message as it likes: hand-written HTTP/2 without TLS."""

import asyncio
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, WINDOW = 0, 1, 2, 3, 4, 6, 8
END_HEADERS, ACK, END_STREAM = 4, 1, 1
WINDOW_SETTING, WINDOW_BYTES = 4, 65535
FRAME_BYTES = 16384


def frame(kind, flags, stream, body=b""):
    return len(body).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + body


def text(value):
    """Encodes a short string for HPACK without compression."""
    data = value.encode()
    assert len(data) < 127
    return bytes((len(data),)) + data


class RawClient:
    """Each call is a message of `size` bytes whose last byte is withheld."""

    def __init__(self, port):
        self._port = port
        self.window, self._initial = WINDOW_BYTES, WINDOW_BYTES
        self.allowed = {}  # bytes that each call may still send
        self.sent, self.size = {}, {}
        self.ended = set()
        self.changed = asyncio.Event()

    async def __aenter__(self):
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(PREFACE + frame(SETTINGS, 0, 0))
        self._task = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_):
        self._task.cancel()
        self._writer.close()
        await asyncio.gather(self._task, return_exceptions=True)

    def call(self, method, size, metadata):
        number = 2 * len(self.sent) + 1
        headers = {
            ":method": "POST", ":scheme": "http", ":path": method, ":authority": "x",
            "te": "trailers", "content-type": "application/grpc",
        } | dict(metadata)  # fmt: skip
        block = b"".join(b"\0" + text(name) + text(value) for name, value in headers.items())
        self._writer.write(frame(HEADERS, END_HEADERS, number, block))
        self.size[number], self.allowed[number], self.sent[number] = size, self._initial, 0
        self._send(number)
        return number

    def _send(self, call):
        """Sends all that is allowed now: five bytes of head and the message without its last
        byte."""
        while call not in self.ended:
            left = self.size[call] + 4 - self.sent[call]
            count = min(left, self.allowed[call], self.window, FRAME_BYTES)
            if count <= 0:
                break
            head = (b"\0" + struct.pack(">I", self.size[call]))[self.sent[call] :]
            self._writer.write(frame(DATA, 0, call, (head + bytes(count))[:count]))
            self.sent[call] += count
            self.allowed[call] -= count
            self.window -= count

    async def _read(self):
        while True:
            head = await self._reader.readexactly(9)
            stream = int.from_bytes(head[5:], "big")
            body = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
            self._hear(head[3], head[4], stream, body)
            for call in self.sent:
                self._send(call)
            self.changed.set()

    def _hear(self, kind, flags, stream, body):
        if kind == SETTINGS and not flags & ACK:
            for name, value in struct.iter_unpack(">HI", body):
                if name == WINDOW_SETTING:
                    for call in self.allowed:
                        self.allowed[call] += value - self._initial
                    self._initial = value
            self._writer.write(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self._writer.write(frame(PING, ACK, 0, body))
        elif kind == WINDOW and stream:
            self.allowed[stream] += int.from_bytes(body, "big")
        elif kind == WINDOW:
            self.window += int.from_bytes(body, "big")
        elif kind == RESET or (kind == HEADERS and flags & END_STREAM):
            self.ended.add(stream)

    async def until(self, condition):
        async with asyncio.timeout(20):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    def whole(self):
        """Returns the calls that were allowed to send all but their last byte and continue."""
        begun = set(self.sent) - self.ended
        return [call for call in begun if self.sent[call] == self.size[call] + 4]
