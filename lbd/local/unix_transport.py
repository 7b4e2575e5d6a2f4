"""A local user's connection on a Unix socket, read so that passed descriptors cannot block us.

The transports of asyncio and uvloop read without room for descriptors, so the kernel closes those
passed along during the read, in the event loop (see descriptors.py for the danger).
"""

import asyncio
import contextlib
import functools
import socket
from collections.abc import Callable

from lbd.local.caller import caller_of
from lbd.local.descriptors import (
    brings_descriptors,
    receive,
    take_descriptors,
    take_urgent_inline,
)
from lbd.local.unread_answers import UNREAD
from lbd.local.unwanted_descriptors import UNWANTED

READ_BYTES = 1 << 16
HIGH_BYTES, LOW_BYTES = 1 << 16, 1 << 14
ACCEPTED_AT_ONCE = 64


class UnixTransport(asyncio.Transport):
    """The part of a transport that our protocols need."""

    def __init__(self, sock: socket.socket, uid: int, protocol: asyncio.Protocol) -> None:
        """`uid`: the user of the connection."""
        super().__init__({"socket": sock})
        sock.setblocking(False)
        take_urgent_inline(sock)
        self._socket = sock
        self._uid = uid
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._unsent = bytearray()
        self._is_closing = self._is_full = self._is_lost = self._is_reading = False
        protocol.connection_made(self)
        if not self._is_closing:
            self.resume_reading()

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._socket)

    def resume_reading(self) -> None:
        if not (self._is_reading or self._is_closing):
            self._is_reading = True
            self._loop.add_reader(self._socket, self._readable)

    def _readable(self) -> None:
        if UNWANTED.is_full(self._uid) and brings_descriptors(self._socket):
            self.abort()
            return
        try:
            data, descriptors = receive(self._socket, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.abort()
            return
        UNWANTED.close(self._uid, descriptors)
        if data and not descriptors:
            self._protocol.data_received(data)
        else:  # its end, or descriptors, which no client of ours sends
            self.close()

    def write(self, data: "bytes | bytearray | memoryview") -> None:
        if self._is_closing:
            return
        if self._unsent:
            self._unsent += data
        else:
            self._unsent += data[self._sent(data) :]
            if self._unsent and not self._is_lost:
                self._loop.add_writer(self._socket, self._send)
        if len(self._unsent) > HIGH_BYTES and not self._is_full:
            self._is_full = True
            self._protocol.pause_writing()

    def _sent(self, data: "bytes | bytearray | memoryview") -> int:
        """Returns how many bytes were sent."""
        try:
            return self._socket.send(data, socket.MSG_NOSIGNAL)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self.abort()
            return len(data)

    def _send(self) -> None:
        del self._unsent[: self._sent(self._unsent)]
        if self._is_lost:
            return
        if not self._unsent:
            self._loop.remove_writer(self._socket)
            if self._is_closing:
                self.abort()
        if self._is_full and len(self._unsent) <= LOW_BYTES and not self._is_lost:
            self._is_full = False
            self._protocol.resume_writing()

    def close(self) -> None:
        """Closes once everything written has been sent."""
        if not self._is_closing:
            self.pause_reading()
            self._is_closing = True
            if not self._unsent:
                self.abort()

    def abort(self) -> None:
        self.pause_reading()
        self._is_closing = True
        if not self._is_lost:
            self._is_lost = True
            self._unsent.clear()
            self._loop.remove_writer(self._socket)
            self._loop.call_soon(self._lost)

    def _lost(self) -> None:
        self._protocol.connection_lost(None)
        UNREAD.close(self._uid, self._socket, functools.partial(UNWANTED.finish, self._uid))


class UnixServer:
    """Accepts on a listening socket."""

    def __init__(self, listener: socket.socket, connect: Callable[[socket.socket], object]) -> None:
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        listener.setblocking(False)
        take_descriptors(listener, wanted=False)
        self._loop.add_reader(listener, functools.partial(self._accept, connect))

    def _accept(self, connect: Callable[[socket.socket], object]) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                sock, _address = self._listener.accept()
            except OSError:
                return
            user = caller_of(sock).person
            if UNREAD.is_full(user):
                UNWANTED.finish(user, sock)
            else:
                connect(sock)

    def close(self) -> None:
        """Accepts no more. Connections not yet accepted may hold descriptors, which are closed at
        our exit."""
        self._loop.remove_reader(self._listener)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.detach()
