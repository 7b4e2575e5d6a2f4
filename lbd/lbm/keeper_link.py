"""The LBM's end of the keeper: sends orders, receives ends of jobs, starts a keeper if none runs.

One file because all of it goes over one socket, on which no two orders may mix.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from lbd.config.access import LimitsConfig
from lbd.config.schema import Config
from lbd.errors import ConfigError, LbdError, Unavailable
from lbd.keeper import fd_store as holding
from lbd.keeper import protocol as keeper
from lbd.keeper import spawn_order as spawn_order
from lbd.keeper.limits import time_limits
from lbd.keeper.limits.ceilings import Totals, pack_totals
from lbd.keeper.spawn_order import Order, pack_order
from lbd.keeper.stdin_watch import pack_wanted
from lbd.keeper.user_and_start_steps import OTHER_PHASE
from lbd.lbm.keeper_start import start_keeper
from lbd.lbm.queue.keeper_claim import life_of
from lbd.local import frames
from lbd.local.caller import caller_of
from lbd.local.descriptors import receive
from lbd.local.field_reader import last_of_each
from lbd.model import JobId, quick_value

log = logging.getLogger("lbd.lbm")

Value = TypeVar("Value")
HELLO_TIMEOUT_S = 10.0
CONNECTIONS_MAX = 3
READ_S = 2.0
FRAME_LIMIT_BYTES = 1 << 20
START = "`lbd keeper` must be started first, by root (`lbd up` does that)"
LEAVE_TIMEOUT_S = 5.0
# The keeper's child was killed before it had read its steps, so while it was not yet its user's,
# who could otherwise cause this.
KILLED = (errno.EPIPE, errno.ECONNRESET)
ARE_KILLED = "its processes are killed as they begin, so no command can start now"
OTHER_DIRECTORY = "another directory has its name now"
ASKED_AT_ONCE = 8  # of each user, until they have ended


@quick_value
class Forked:
    pid: int
    group: str  # cgroup directory; "" = none


@quick_value
class ProcessExit:
    """How a job ended: wait status and usage from wait4."""

    wait_status: int
    user_cpu_s: float
    system_cpu_s: float
    max_rss_bytes: int
    out_of_memory: bool
    over: str = ""  # the limit that ended it
    heard_signals: int = 0  # bit N for signal N

    @property
    def signal(self) -> int:
        return os.WTERMSIG(self.wait_status) if os.WIFSIGNALED(self.wait_status) else 0

    @property
    def status(self) -> int:
        """The command's own status, or 128+N."""
        code = os.waitstatus_to_exitcode(self.wait_status)  # -N if ended by signal N
        return code if code >= 0 else 128 - code


class SpawnFailed(LbdError):
    """The keeper could not start the command, and nothing ran. `phase` and `number`, an errno, say
    where it failed. For a program that a rule forbids, `paths` holds where it was found, and the
    target if that is a link. A child that was killed too early counts as one that could not be
    forked: as EAGAIN, which passes."""

    def __init__(self, phase: str, number: int, paths: Sequence[str] = ()) -> None:
        was_killed = phase == OTHER_PHASE and number in KILLED
        text = OTHER_DIRECTORY if phase == "directory" else f"{phase}: {os.strerror(number)}"
        super().__init__(ARE_KILLED if was_killed else text)
        self.phase = phase
        self.number = errno.EAGAIN if was_killed else number
        self.paths = paths


@dataclass(slots=True)
class Spawned:
    stopped: Callable[[bool], None]
    begun: asyncio.Future[Forked] = field(default_factory=asyncio.Future)
    exited: asyncio.Future[ProcessExit] = field(default_factory=asyncio.Future)
    answered: asyncio.Future[str] = field(default_factory=asyncio.Future)  # of a question
    read: asyncio.Future[bool] | None = None
    gone: Callable[[], None] = lambda: None  # called once the keeper does not have it any more

    def fail(self, problem: LbdError) -> None:
        for future in (self.begun, self.exited, self.answered):
            if not future.done():
                future.set_exception(problem)
                future.exception()  # marks it as seen: nobody need be waiting for it

    def lose(self, problem: LbdError) -> None:
        self.fail(problem)
        self.gone()


UNWANTED: set[asyncio.Task[None]] = set()  # the loop itself keeps only weak references
ABOUT = (keeper.KIND, keeper.LIMITS, keeper.VERSION)


@dataclass(frozen=True, slots=True)
class About:
    """What a keeper says about itself."""

    containment: str = "none"
    limits: str = ""  # the means by which it limits jobs
    version: str = ""  # of lbd; after an upgrade its keeper goes on
    life: str = ""  # names this very process; empty: not known
    are_killed: bool = False  # whether its processes are killed as they begin


class KeeperLink:
    """One connection to one keeper. `on_lost` is called once when it breaks."""

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost
        self._jobs: dict[JobId, Spawned] = {}
        self._asking = weakref.WeakValueDictionary[tuple[int, ...], asyncio.Semaphore]()
        self._split = frames.Splitter(FRAME_LIMIT_BYTES)
        self._sending = asyncio.Lock()
        self._socket: socket.socket | None = None
        self.about = About()
        self.pid = self.lost_pid = 0
        self.uid = os.geteuid()  # user of the keeper
        self.given: list[int] = []  # descriptors from an earlier LBM
        self._awaited = 0  # how many of them are expected
        self._meanwhile: list[tuple[bytes, dict[bytes, bytes]]] | None = None
        self._left: asyncio.Future[None] | None = None

    @property
    def jobs(self) -> list[JobId]:
        """The jobs that have not ended."""
        return list(self._jobs)

    @property
    def has(self) -> dict[JobId, bytes]:
        """Jobs that the keeper named before its hello, with what each holds; until `adopted`."""
        jobs = [given for tag, given in self._meanwhile or () if tag == keeper.HAS]
        return {JobId(one[spawn_order.JOB].decode()): one[spawn_order.BELONGINGS] for one in jobs}

    @property
    def weighs_cpu(self) -> bool:
        """Whether it has better means than nice values for `limits.cpu_weight`."""
        return "cpu=nice" not in self.about.limits

    @property
    def alive(self) -> bool:
        return self._socket is not None

    async def connect(self, path: Path, config: Config) -> None:
        """Connects to the keeper at `path`; starts one if there is none. Raises ConfigError,
        Unavailable."""
        for _ in range(CONNECTIONS_MAX):
            self._socket = await self._socket_to(path, config)
            self._split = frames.Splitter(FRAME_LIMIT_BYTES)  # the last may have ended in mid-frame
            loop = asyncio.get_running_loop()
            self._hello = loop.create_future()
            self.given, self._meanwhile = [], []
            loop.add_reader(self._socket.fileno(), self._receive)
            try:
                async with asyncio.timeout(HELLO_TIMEOUT_S):
                    await self._hello
            except TimeoutError:
                self.close()  # else the loop takes the next connection with this number for it
                break
            except Unavailable:  # the keeper was about to end: the next try finds it gone
                continue
            return
        raise ConfigError(f"the keeper at {path} does not answer; kill it and start again")

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
                f"the keeper at {path} belongs to user {owner}, not root or us; remove {path}"
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
            self._heard(tag, last_of_each(body))
        if not data:
            self._lost()

    def _lost(self) -> None:
        self.close()
        if not self._hello.done():
            self._hello.set_exception(Unavailable("the keeper has disconnected"))
            return
        self.lost_pid, self.pid = self.pid, 0
        lose(self._jobs)
        self._on_lost()

    def _forget(self, job: JobId) -> None:
        if (spawned := self._jobs.pop(job, None)) is not None:
            spawned.gone()

    def _heard(self, tag: bytes, given: dict[bytes, bytes]) -> None:
        if tag == keeper.HELLO:
            kind, limits, version = (given[key].decode() for key in ABOUT)
            self.pid = int(given[keeper.PID])
            self.about = About(kind, limits, version, life_of(self.pid))
            self.uid = int(given[keeper.UID])
            self._awaited = int(given.get(holding.COUNT, b"0"))
        if tag in (keeper.HELLO, keeper.GIVEN):
            if len(self.given) >= self._awaited:
                _settle(self._hello, None)
            return
        if tag == keeper.LEFT and self._left is not None:
            return _settle(self._left, None)
        if self._meanwhile is not None:
            return self._meanwhile.append((tag, given))
        if tag == keeper.KILLED:
            self.about = replace(self.about, are_killed=read_killed(given))
            return
        job = JobId(given[spawn_order.JOB].decode())
        if (spawned := self._jobs.get(job)) is None:
            return
        if tag == keeper.BEGUN:
            _settle(spawned.begun, Forked(int(given[keeper.PID]), given[keeper.GROUP].decode()))
        elif tag == keeper.READ and spawned.read is not None:
            _settle(spawned.read, given[keeper.NUMBER] == b"1")
        elif tag == keeper.STOPPED:
            spawned.stopped(given[keeper.NUMBER] == b"1")
        elif tag == keeper.FAILED:
            self._forget(job)
            # The waiter for its beginning may have gone; its end frees the slot in any case.
            phase, *paths = given[keeper.PHASE].decode().split("\0")
            spawned.fail(SpawnFailed(phase, int(given[keeper.NUMBER]), paths))
        elif tag == keeper.ANSWERED:
            self._forget(job)
            _settle(spawned.answered, given[keeper.ANSWER].decode())
        elif tag == keeper.EXITED:
            self._forget(job)
            _settle(spawned.exited, read_exit(given))

    async def spawn(
        self,
        order: Order,
        descriptors: list[int],
        stopped: Callable[[bool], None],
        limit: bytes = b"",
    ) -> Spawned:
        """Sends the order, and the frame `limit` right after it; the two futures of the result tell
        the rest. Raises Unavailable, NotStarted."""
        spawned, job, body = Spawned(stopped), JobId(order.job), pack_order(order)
        if len(body) > keeper.ORDER_LIMIT_BYTES:  # else the keeper hangs up, on everybody
            raise SpawnFailed("spawn", errno.E2BIG)
        data, sent = memoryview(frames.pack(keeper.SPAWN, body) + limit), 0
        await self._sending.acquire()
        sock = self._socket
        try:
            if sock is None or not self._hello.done():  # one that ends before would lose the order
                raise Unavailable("the keeper is not connected")
            self._jobs[job] = spawned
            sent = await _send_descriptors(sock, data, descriptors)
        except OSError as problem:
            raise Unavailable(f"the keeper has disconnected ({problem.strerror})") from None
        finally:
            if sent == 0:
                self._forget(job)
            if sent in (0, len(data)):
                self._sending.release()
        if sent < len(data):
            await self._send_rest(sock, data[sent:], job, spawned)
        return spawned

    async def ask(self, order: Order, patience_s: float) -> str:
        """The answer of a child that runs nothing. Raises TimeoutError, NotStarted, Unavailable."""
        turn = self._asking.setdefault(order.user[:1], asyncio.Semaphore(ASKED_AT_ONCE))
        async with asyncio.timeout(patience_s):
            await turn.acquire()
            return await _answer(self, order, turn)

    async def _send_rest(
        self, sock: socket.socket, rest: memoryview, job: JobId, spawned: Spawned
    ) -> None:
        """Sends on even if we are cancelled: half an order would swallow whatever follows."""

        async def send() -> None:
            try:
                await asyncio.get_running_loop().sock_sendall(sock, rest)
            except OSError as problem:
                raise Unavailable(f"the keeper has disconnected ({problem.strerror})") from None
            finally:
                self._sending.release()

        sending = asyncio.create_task(send(), name=f"order {job}")
        try:
            await asyncio.shield(sending)
        except asyncio.CancelledError:
            spawned.begun.cancel()
            sending.add_done_callback(lambda sent: sent.exception())  # seen: nobody waits for it
            end_soon(self, job)
            raise

    async def send_totals(self, limits: LimitsConfig) -> None:
        """Sends the limits on what all jobs may use together."""
        totals = Totals(limits.memory_bytes, limits.cpu_weight, limits.cpus)
        await self._send(keeper.TOTALS, pack_totals(totals))

    async def ask_read(self, job: JobId, wanted: set[tuple[int, int]]) -> bool:
        """Has the keeper do `stdin_watch.is_read`: it sees every process."""
        if (spawned := self._jobs.get(job)) is None:
            return False
        spawned.read = asyncio.get_running_loop().create_future()
        body = frames.field(spawn_order.JOB, job.encode())
        await self._send(keeper.READ, body + frames.field(keeper.WANTED, pack_wanted(wanted)))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(READ_S):
                return await spawned.read
        return False

    def adopt(self, job: JobId, stopped: Callable[[bool], None], begun: Forked | None) -> Spawned:
        """Adopts a job that an earlier LBM had started. `begun` None: not known yet."""
        self._jobs[job] = spawned = Spawned(stopped)
        if begun is not None:
            spawned.begun.set_result(begun)
        return spawned

    def adopted(self) -> None:
        """Every job is known again: handles what has happened to them meanwhile."""
        meanwhile, self._meanwhile = self._meanwhile or [], None
        for tag, given in meanwhile:
            self._heard(tag, given)

    async def leave(self) -> None:
        """From now on the keeper reports to the next LBM. Raises TimeoutError."""
        self._left = asyncio.get_running_loop().create_future()
        await self.send(keeper.LEAVE)
        async with asyncio.timeout(LEAVE_TIMEOUT_S):
            await self._left

    @property
    def is_idle(self) -> bool:
        """Whether no order is half sent."""
        return not self._sending.locked()

    def hand_over(self, descriptors: list[int]) -> None:
        """Hands the descriptors to the keeper. This process ends after that. Raises OSError."""
        if self._socket is None:
            raise BrokenPipeError(errno.EPIPE, "the keeper is not connected")
        self._socket.setblocking(True)
        self._socket.settimeout(LEAVE_TIMEOUT_S)
        holding.send_descriptors(self._socket, keeper.HOLD, descriptors)

    async def send(self, tag: bytes, job: JobId | None = None, number: int = 0) -> None:
        """Sends SIGNAL, END_TREE or QUIT; does nothing if the keeper is not connected."""
        body = b""
        if job is not None:
            body = frames.field(spawn_order.JOB, job.encode())
            body += frames.field(keeper.NUMBER, str(number).encode())
        await self._send(tag, body)

    async def _send(self, tag: bytes, body: bytes) -> None:
        await self.say(frames.pack(tag, body))

    async def say(self, frame: bytes) -> None:
        """Sends a frame; does nothing if the keeper is not connected."""
        async with self._sending:
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    await asyncio.get_running_loop().sock_sendall(self._socket, frame)

    def close(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None


def read_killed(given: dict[bytes, bytes]) -> bool:
    """Returns whether the keeper's processes are killed as they begin, and logs it: it has
    changed."""
    are_killed = given[keeper.NUMBER] == b"1"
    if are_killed:
        log.warning("keeper: %s; restart it if that lasts", ARE_KILLED)
    else:
        log.info("keeper: its processes are no longer killed as they begin")
    return are_killed


def read_exit(given: dict[bytes, bytes]) -> ProcessExit:
    return ProcessExit(
        int(given[keeper.NUMBER]),
        int(given[keeper.USER_US]) / 1e6,
        int(given[keeper.SYSTEM_US]) / 1e6,
        int(given[keeper.RSS_KIB]) * 1024,
        given[keeper.OUT_OF_MEMORY] == b"1",
        given[time_limits.OVER].decode(),
        int(given[keeper.HEARD]),
    )


async def _send_descriptors(sock: socket.socket, data: memoryview, descriptors: list[int]) -> int:
    """Returns how many bytes were sent with the descriptors: at least one. Raises OSError."""
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


async def _answer(link: KeeperLink, order: Order, turn: asyncio.Semaphore) -> str:
    """Returns the child's answer. If the waiter leaves before that, the child is ended. A child
    that looks into a directory that hangs (FUSE) may not end even then, so each user's number of
    them is limited."""
    try:
        # `Spawned` is in no variable: with its exception and this frame it would be a cycle.
        return await (await link.spawn(order, [], lambda _: None)).answered
    finally:
        if (left := link._jobs.get(JobId(order.job))) is None:
            turn.release()
        else:
            left.gone = turn.release
            end_soon(link, JobId(order.job))


def end_soon(link: KeeperLink, job: JobId) -> None:
    """Ends a job whose waiter is gone: the message is sent by a task of its own."""
    task = asyncio.create_task(link.send(keeper.END_TREE, job))
    UNWANTED.add(task)
    task.add_done_callback(UNWANTED.discard)


async def end_holders(link: KeeperLink, uid: int, paths: Sequence[str]) -> None:
    """Ends that user's processes that have one of these files open, if the keeper knows the order.
    The keeper hangs up at an order that is too long, so only the first `PATHS_MAX` files are sent;
    the rest follow later."""
    packed = os.fsencode("\0".join(paths[: keeper.PATHS_MAX]))
    said = (keeper.UID, b"%d" % uid), (keeper.PATHS, packed)
    await link.say(frames.pack(keeper.HOLDERS, frames.pack_fields(said)))


def lose(jobs: dict[JobId, Spawned]) -> None:
    if jobs:
        log.warning("%d jobs are lost with their keeper", len(jobs))
    while jobs:
        jobs.popitem()[1].lose(Unavailable("the keeper has disconnected"))
