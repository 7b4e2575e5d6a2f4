"""lbm.sock itself: who may connect, and how many."""

import asyncio
import contextlib
import functools
import resource
import socket
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path

from lbd.lbm.outbound.context import OutboundContext
from lbd.lbm.session.session import Connection
from lbd.lbm.session.socket_question import JsonHandler
from lbd.local import client_tags as tags
from lbd.local import frames
from lbd.local.descriptors import take_descriptors
from lbd.local.socket_file import bind_unix
from lbd.local.unread_answers import UNREAD

ACCEPTED_AT_ONCE = 64
# per client: its socket, its process, three of the command and as many again that no frame takes,
# and one to wait for each of these three
DESCRIPTORS_EACH = 11
DESCRIPTORS_OWN = 256  # for everything else in an LBM: its keeper, its LIM, other hosts
USER_SHARE = 0.75  # of `max_clients` for one user
STOPPED = b"this host's LBM is stopped"
TOO_MANY = b"the lbm of this host has too many commands under way (lbm.max_clients)"


class ClientServer:
    """Accepts clients on lbm.sock, up to a limit."""

    def __init__(self, path: Path, home: OutboundContext, answer: JsonHandler) -> None:
        self._path = path
        self._restarting = path.with_name("lbm.restarting")  # for clients that find no LBM
        self._home = home
        self.answer = answer
        self._tasks: dict[asyncio.Task[None], Connection] = {}
        self._of_user: Counter[int] = Counter()
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._limit = clients_within(home.config.lbm.max_clients, descriptors)
        self._listener: socket.socket | None = None

    def start(self, left: int | None, *, for_all: bool) -> None:
        """`left`: the socket from an earlier LBM, on which clients may wait already.

        `for_all`: otherwise only our own user may connect, as whom all that we run elsewhere would
        run.
        """
        mode = 0o666 if for_all else 0o600
        self._listener = listener = (
            bind_unix(self._path, mode) if left is None else socket.socket(fileno=left)
        )
        listener.setblocking(False)
        take_descriptors(listener, wanted=False)  # before any are requested
        asyncio.get_running_loop().add_reader(listener, self._accept, listener)
        with contextlib.suppress(OSError):
            self._restarting.unlink(missing_ok=True)

    def leave(self) -> tuple[int, list[Connection]]:
        """Stops accepting. Returns the listening socket (-1: none) and the connected clients."""
        if self._listener is None:
            return -1, []
        asyncio.get_running_loop().remove_reader(self._listener)
        with contextlib.suppress(OSError):
            self._restarting.touch()
        return self._listener.fileno(), list(self._tasks.values())

    def turn_away(self) -> None:
        """We stop: clients that come now find no socket, or are told so."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        asyncio.get_running_loop().remove_reader(listener)
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
        with listener, contextlib.suppress(OSError):
            while True:
                sock, _ = listener.accept()
                with sock, contextlib.suppress(OSError):
                    sock.setblocking(False)
                    sock.send(frames.pack(tags.UNFIT, STOPPED))

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            sock.setblocking(False)
            connection = self.connection(sock)
            uid, limit = connection.caller.person, self._limit
            if UNREAD.is_full(uid):
                connection.close()
                continue
            if len(self._tasks) >= limit or self._of_user[uid] >= limit * USER_SHARE:
                with contextlib.suppress(OSError):
                    sock.send(frames.pack(tags.UNFIT, TOO_MANY))
                connection.close()
                continue
            self.serve(connection, connection.serve())
            if len(self._tasks) == 1:  # if another has come meanwhile, we are called again
                return

    def connection(self, sock: socket.socket) -> Connection:
        return Connection(sock, self._home, self.answer)

    def serve(self, connection: Connection, serving: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(serving)
        self._tasks[task] = connection
        uid = connection.caller.person
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
        """Takes no new clients; ends commands that run elsewhere. May be called before `start`."""
        self._home.usage.is_stopping = True
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.detach()  # waiting clients may have sent descriptors, which end with us
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def clients_within(most: int, descriptors: int) -> int:
    """As many clients as there are descriptors for, at most `most`; negative: unlimited
    descriptors. Without a free descriptor we could not even refuse a client."""
    room = (descriptors - DESCRIPTORS_OWN) // DESCRIPTORS_EACH
    return most if descriptors < 0 else min(most, max(1, room))
