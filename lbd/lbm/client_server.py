"""lbm.sock itself: who may connect, and how many."""

import asyncio
import contextlib
import functools
import socket
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path

from lbd.lbm.clients import Connection, JsonHandler
from lbd.lbm.home import Home
from lbd.rpc import client_tags as tags
from lbd.rpc import frames
from lbd.rpc.local import bind_unix

ACCEPTED_AT_ONCE = 64
USER_SHARE = 0.75  # of `max_clients` that one user may have
TOO_MANY = b"the lbm of this host has too many commands under way (lbm.max_clients)"


class ClientServer:
    """Accepts on lbm.sock, bounded in number."""

    def __init__(self, path: Path, home: Home, answer: JsonHandler) -> None:
        self._path = path
        self._home = home
        self.answer = answer
        self._tasks: dict[asyncio.Task[None], Connection] = {}
        self._of_user: Counter[int] = Counter()
        self._listener: socket.socket | None = None

    def start(self, left: int | None, *, for_all: bool) -> None:
        """`left`: the socket as an earlier LBM has left it; who came meanwhile waits there.

        `for_all`: else for our own user alone, who all that we run elsewhere would run as.
        """
        mode = 0o666 if for_all else 0o600
        self._listener = listener = (
            bind_unix(self._path, mode) if left is None else socket.socket(fileno=left)
        )
        listener.setblocking(False)
        asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def leave(self) -> tuple[int, list[Connection]]:
        """Accept no more; the listening socket (-1: none) and who is connected."""
        if self._listener is None:
            return -1, []
        asyncio.get_running_loop().remove_reader(self._listener)
        return self._listener.fileno(), list(self._tasks.values())

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            sock.setblocking(False)
            connection = self.connection(sock)
            uid, limit = connection.caller.uid, self._home.config.lbm.max_clients
            if len(self._tasks) >= limit or self._of_user[uid] >= limit * USER_SHARE:
                with contextlib.suppress(OSError):
                    sock.send(frames.pack(tags.UNFIT, TOO_MANY))
                connection.close()
                continue
            self.serve(connection, connection.serve())
            if len(self._tasks) == 1:  # alone: if another has come meanwhile, we are called again
                return

    def connection(self, sock: socket.socket) -> Connection:
        return Connection(sock, self._home, self.answer)

    def serve(self, connection: Connection, serving: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(serving)
        self._tasks[task] = connection
        uid = connection.caller.uid
        self._of_user[uid] += 1
        task.add_done_callback(functools.partial(self._forget, uid))

    def _forget(self, uid: int, task: "asyncio.Task[None]") -> None:
        del self._tasks[task]
        self._of_user[uid] -= 1
        if not self._of_user[uid]:
            del self._of_user[uid]
        if not task.cancelled() and (problem := task.exception()) is not None:
            raise problem

    async def stop(self) -> None:
        """No new clients; commands that run elsewhere are ended. Also before `start`."""
        self._home.usage.is_stopping = True
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.detach()  # who waits there may have sent descriptors, which go with us
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
