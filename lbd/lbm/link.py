"""The LBM's end of the keeper: orders out, ends of jobs in; starts a keeper where none runs."""

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lbd.config import Config
from lbd.config_access import LimitsConfig
from lbd.errors import ConfigError, LbdError, Unavailable
from lbd.lbm import holding, limits, spawn_order
from lbd.lbm import keeper_protocol as keeper
from lbd.lbm.ceilings import Totals, pack_totals
from lbd.lbm.readers import pack_wanted
from lbd.lbm.spawn_order import Order, pack_order
from lbd.lbm.start_keeper import start_keeper
from lbd.model import JobId
from lbd.rpc import frames
from lbd.rpc.descriptors import receive
from lbd.rpc.local import caller_of

Value = TypeVar("Value")
HELLO_TIMEOUT_S = 10.0
CONNECTIONS_MAX = 3
READ_S = 2.0
FRAME_LIMIT_BYTES = 1 << 20
START = "`lbd keeper`, started by root, is to be there first (`lbd up` sees to that)"
LEAVE_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Begun:
    pid: int
    group: str  # cgroup directory, "" without


@dataclass(frozen=True, slots=True)
class Exit:
    """How a job ended: wait status and usage of wait4."""

    wait_status: int
    user_cpu_s: float
    system_cpu_s: float
    max_rss_bytes: int
    out_of_memory: bool
    over: str = ""  # the limit that ended it

    @property
    def signal(self) -> int:
        return os.WTERMSIG(self.wait_status) if os.WIFSIGNALED(self.wait_status) else 0

    @property
    def status(self) -> int:
        """The command's own, or 128+N."""
        return 128 + self.signal if self.signal else os.waitstatus_to_exitcode(self.wait_status)


class NotStarted(LbdError):
    """The keeper could not start it, and nothing ran. `stage` and `errno` say where it failed."""

    def __init__(self, stage: str, number: int) -> None:
        super().__init__(f"{stage}: {os.strerror(number)}")
        self.stage = stage
        self.number = number


@dataclass(slots=True)
class Spawned:
    begun: asyncio.Future[Begun]
    exited: asyncio.Future[Exit]
    stopped: Callable[[bool], None]
    read: asyncio.Future[bool] | None = None


class KeeperLink:
    """One connection to one keeper. `on_lost` is called once when it breaks."""

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost
        self._jobs: dict[JobId, Spawned] = {}
        self._split = frames.Splitter(FRAME_LIMIT_BYTES)
        self._sending = asyncio.Lock()
        self._socket: socket.socket | None = None
        self.containment = "none"
        self.pid = self.lost_pid = 0
        self.uid = os.geteuid()  # of the keeper
        self.limits = ""  # by what it limits jobs
        self.given: list[int] = []  # by an earlier LBM
        self._awaited = 0  # so many of them
        self._meanwhile: list[tuple[bytes, dict[bytes, bytes]]] | None = None
        self._left: asyncio.Future[None] | None = None

    @property
    def jobs(self) -> list[JobId]:
        """Those that have not ended."""
        return list(self._jobs)

    @property
    def weighs_cpu(self) -> bool:
        """Has it better than nice values for `limits.cpu_weight`?"""
        return "cpu=nice" not in self.limits

    @property
    def alive(self) -> bool:
        return self._socket is not None

    async def connect(self, path: Path, config: Config) -> None:
        """To the keeper that listens at `path`; one is started if none does. Raises ConfigError,
        Unavailable."""
        for _ in range(CONNECTIONS_MAX):
            self._socket = await self._socket_to(path, config)
            self._split = frames.Splitter(FRAME_LIMIT_BYTES)  # the last may have gone in mid-frame
            loop = asyncio.get_running_loop()
            self._hello = loop.create_future()
            self.given, self._meanwhile = [], []
            loop.add_reader(self._socket.fileno(), self._receive)
            try:
                await asyncio.wait_for(self._hello, HELLO_TIMEOUT_S)
            except TimeoutError:
                break
            except Unavailable:  # it was about to end as we came: the next try finds that it has
                continue
            return
        raise ConfigError(f"the keeper at {path} does not answer; end it and start again")

    async def _socket_to(self, path: Path, config: Config) -> socket.socket:
        loop = asyncio.get_running_loop()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, str(path))
        except OSError as problem:
            if config.daemons.keeper == "apart":
                sock.close()
                raise Unavailable(f"no keeper at {path}: {problem.strerror}; {START}") from None
            start_keeper(path, config)
            await loop.sock_connect(sock, str(path))
        if (owner := caller_of(sock).uid) not in (0, os.geteuid()):
            sock.close()
            raise ConfigError(
                f"the keeper at {path} is user {owner}'s, not root's or ours; remove {path}"
            )
        return sock

    def _receive(self) -> None:
        assert self._socket is not None
        try:
            if self._meanwhile is None:
                data = self._socket.recv(1 << 16)
            else:
                data, given = receive(self._socket, 1 << 16, holding.AT_ONCE)
                self.given += given
            received = self._split.feed(data)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            data, received = b"", []
        for tag, body in received:
            self._heard(tag, dict(frames.fields(body)))
        if not data:
            self._lost()

    def _lost(self) -> None:
        self.close()
        if not self._hello.done():
            self._hello.set_exception(Unavailable("the keeper went away"))
            return
        self.lost_pid, self.pid = self.pid, 0
        jobs, self._jobs = self._jobs, {}
        for spawned in jobs.values():
            for future in (spawned.begun, spawned.exited):
                if not future.done():
                    future.set_exception(Unavailable("the keeper went away"))
                    future.exception()  # seen: nobody need be waiting for it
        self._on_lost()

    def _heard(self, tag: bytes, given: dict[bytes, bytes]) -> None:
        if tag == keeper.HELLO:
            self.containment = given[keeper.KIND].decode()
            self.pid = int(given[keeper.PID])
            self.uid = int(given[keeper.UID])
            self.limits = given.get(keeper.LIMITS, b"").decode()
            self._awaited = int(given.get(holding.COUNT, b"0"))
        if tag in (keeper.HELLO, holding.GIVEN):
            if len(self.given) >= self._awaited:
                _settle(self._hello, None)
            return
        if tag == holding.LEFT and self._left is not None:
            _settle(self._left, None)
            return
        if self._meanwhile is not None:
            self._meanwhile.append((tag, given))
            return
        job = JobId(given[spawn_order.JOB].decode())
        spawned = self._jobs.get(job)
        if spawned is None:
            return
        if tag == keeper.BEGUN:
            _settle(spawned.begun, Begun(int(given[keeper.PID]), given[keeper.GROUP].decode()))
        elif tag == keeper.READ and spawned.read is not None:
            _settle(spawned.read, given[keeper.NUMBER] == b"1")
        elif tag == keeper.STOPPED:
            spawned.stopped(given[keeper.NUMBER] == b"1")
        elif tag == keeper.FAILED:
            del self._jobs[job]
            problem = NotStarted(given[keeper.STAGE].decode(), int(given[keeper.NUMBER]))
            # Who waited for its beginning may have gone; its end frees the slot in any case.
            for future in (spawned.begun, spawned.exited):
                if not future.done():
                    future.set_exception(problem)
                    future.exception()  # seen: nobody need be waiting for it
        elif tag == keeper.EXITED:
            del self._jobs[job]
            ended = Exit(
                int(given[keeper.NUMBER]),
                int(given[keeper.USER_US]) / 1e6,
                int(given[keeper.SYSTEM_US]) / 1e6,
                int(given[keeper.RSS_KIB]) * 1024,
                given[keeper.OUT_OF_MEMORY] == b"1",
                given[limits.OVER].decode(),
            )
            _settle(spawned.exited, ended)

    def _new(self, stopped: Callable[[bool], None]) -> Spawned:
        loop = asyncio.get_running_loop()
        return Spawned(loop.create_future(), loop.create_future(), stopped)

    async def spawn(
        self,
        order: Order,
        descriptors: list[int],
        stopped: Callable[[bool], None],
        limit: bytes = b"",
    ) -> Spawned:
        """Send the order, and the frame `limit` in the same breath; the two futures of the answer
        tell the rest. Raises Unavailable."""
        spawned = self._new(stopped)
        job = JobId(order.job)
        data = memoryview(frames.pack(keeper.SPAWN, pack_order(order)) + limit)
        sent = 0
        await self._sending.acquire()
        sock = self._socket
        try:
            if sock is None:
                raise Unavailable("the keeper is away")
            self._jobs[job] = spawned
            sent = await _send_descriptors(sock, data, descriptors)
        except OSError as problem:
            raise Unavailable(f"the keeper went away ({problem.strerror})") from None
        finally:
            if sent == 0:
                self._jobs.pop(job, None)
            if sent in (0, len(data)):
                self._sending.release()
        if sent < len(data):
            await self._send_rest(sock, data[sent:], job, spawned)
        return spawned

    async def _send_rest(
        self, sock: socket.socket, rest: memoryview, job: JobId, spawned: Spawned
    ) -> None:
        """Even if we are cancelled: half an order would swallow what is sent after it."""

        async def send() -> None:
            try:
                await asyncio.get_running_loop().sock_sendall(sock, rest)
            except OSError as problem:
                raise Unavailable(f"the keeper went away ({problem.strerror})") from None
            finally:
                self._sending.release()

        sending = asyncio.create_task(send(), name=f"order {job}")
        try:
            await asyncio.shield(sending)
        except asyncio.CancelledError:
            spawned.begun.cancel()
            self._unwanted = asyncio.gather(
                sending, self.tell(keeper.END_TREE, job), return_exceptions=True
            )
            raise

    async def tell_totals(self, limits: LimitsConfig) -> None:
        """What all jobs may use together."""
        totals = Totals(limits.memory_bytes, limits.cpu_weight, limits.cpus)
        await self._send(keeper.TOTALS, pack_totals(totals))

    async def ask_read(self, job: JobId, wanted: set[tuple[int, int]]) -> bool:
        """`readers.is_read` by the keeper, for which no process is out of sight."""
        spawned = self._jobs.get(job)
        if spawned is None:
            return False
        spawned.read = asyncio.get_running_loop().create_future()
        body = frames.field(spawn_order.JOB, job.encode())
        await self._send(keeper.READ, body + frames.field(keeper.WANTED, pack_wanted(wanted)))
        try:
            return await asyncio.wait_for(spawned.read, READ_S)
        except TimeoutError:
            return False

    def adopt(
        self,
        job: JobId,
        stopped: Callable[[bool], None],
        begun: Begun | None,
        ended: Exit | None,
    ) -> Spawned:
        """A job that an earlier LBM had the keeper start; None: not known yet."""
        spawned = self._new(stopped)
        if begun is not None:
            spawned.begun.set_result(begun)
        if ended is not None:
            spawned.exited.set_result(ended)
        else:
            self._jobs[job] = spawned
        return spawned

    def adopted(self) -> None:
        """Every job is known again: now what has happened to them meanwhile."""
        meanwhile, self._meanwhile = self._meanwhile or [], None
        for tag, given in meanwhile:
            self._heard(tag, given)

    async def leave(self) -> None:
        """From now on the keeper tells the next LBM what happens. Raises TimeoutError."""
        self._left = asyncio.get_running_loop().create_future()
        await self.tell(holding.LEAVE)
        await asyncio.wait_for(self._left, LEAVE_TIMEOUT_S)

    @property
    def is_idle(self) -> bool:
        """Is no order half sent?"""
        return not self._sending.locked()

    def hand_over(self, descriptors: list[int]) -> None:
        """After which this process ends. Raises OSError."""
        if self._socket is None:
            raise BrokenPipeError(errno.EPIPE, "the keeper is away")
        self._socket.setblocking(True)
        self._socket.settimeout(LEAVE_TIMEOUT_S)
        holding.send_descriptors(self._socket, holding.HOLD, descriptors)

    async def tell(self, tag: bytes, job: JobId | None = None, number: int = 0) -> None:
        """SIGNAL, END_TREE or QUIT; quietly nothing if the keeper is away."""
        body = b""
        if job is not None:
            body = frames.field(spawn_order.JOB, job.encode())
            body += frames.field(keeper.NUMBER, str(number).encode())
        await self._send(tag, body)

    async def _send(self, tag: bytes, body: bytes) -> None:
        await self.say(frames.pack(tag, body))

    async def say(self, frame: bytes) -> None:
        """Quietly nothing if the keeper is away."""
        async with self._sending:
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    await asyncio.get_running_loop().sock_sendall(self._socket, frame)

    def close(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None


async def _send_descriptors(sock: socket.socket, data: memoryview, descriptors: list[int]) -> int:
    """How many bytes went with them: not none. Raises OSError."""
    try:
        return socket.send_fds(sock, [data], descriptors)
    except BlockingIOError:
        pass
    loop = asyncio.get_running_loop()
    writable: asyncio.Future[None] = loop.create_future()
    loop.add_writer(sock, lambda: _settle(writable, None))
    try:
        await writable
    finally:
        loop.remove_writer(sock)
    return socket.send_fds(sock, [data], descriptors)


def _settle(future: "asyncio.Future[Value]", value: Value) -> None:
    if not future.done():
        future.set_result(value)
