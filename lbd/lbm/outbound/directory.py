"""Where a client's command will run, and which hosts have that directory too.

A look must not hang with a dead file server, nor with a client that hangs in execve. So what is not
known here already is looked up in a thread of the client's user, with a time limit.
"""

import asyncio
import contextlib
import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Protocol, TypeVar

from lbd.errors import Unavailable
from lbd.launch.directory_look import MOUNTS_BYTES, file_system, kernel_id, look, mounts
from lbd.launch.directory_stamp import Stamp
from lbd.lbm.as_user import AsUser
from lbd.lbm.core.journey_events import NOT_SHARED, TAKE_ALONG
from lbd.lbm.core.next_host_after_refusal import Unshared
from lbd.lbm.link.user_threads import UserThreads
from lbd.lbm.session.request import ClientRequest
from lbd.local import client_tags as tags
from lbd.model import HostId
from lbd.process.timed_cache import TimedCache

LOOK_S = 2.0
KNOWN_S = 60.0  # by then the number of a mount may be reused
PROGRAM = -1  # used in `Unshared` in place of a device, for a missing program
Found = TypeVar("Found")


class Looker:
    """Looks at directories; one per LBM."""

    def __init__(self, as_user: AsUser, threads: UserThreads) -> None:
        self.threads = threads
        self.as_user = as_user
        self._kernel = kernel_id()
        self._libc = ctypes.CDLL(None)
        # by the mount namespace, too: a user may have one that lacks others' mounts
        self._mounts: TimedCache[tuple[int, int, str], str] = TimedCache(KNOWN_S)

    async def at(self, uid: int, pid: int, directory: bytes, *, is_current: bool) -> Stamp:
        """Returns the stamp of a directory for a client of that user's. `is_current`: it is the
        working directory of the process `pid`, so no path need be walked (a file server may not let
        root through it). Raises Unavailable if it cannot be examined."""
        own = os.geteuid()
        if pid > 0 and own == uid and is_current:
            try:
                stamp = self._look(b"/proc/%d/cwd" % pid, pid, cached=True)
                if stamp.born_ns or not stamp.is_networked:
                    return stamp
            except OSError:
                pass
        if pid > 0 and own in (0, uid):
            call = partial(self._look_as_client, pid, directory, is_current=is_current)
            if (found := await self._run(uid, call)) is not None:
                return found
        if pid > 0 and self.as_user.is_needed:
            return await self._for_another(uid, pid, directory, is_current=is_current)
        return await self._wait_for(uid, directory)

    def _look_as_client(self, pid: int, directory: bytes, *, is_current: bool) -> Stamp | None:
        """Looks through the client's own view; None if we may not. On some kernels the look
        hangs as long as that process hangs in execve. Raises OSError."""
        if is_current:
            with contextlib.suppress(OSError):
                return self._look(b"/proc/%d/cwd" % pid, pid, cached=False)
        if os.access(f"/proc/{pid}/root", os.X_OK):
            return self._look(b"/proc/%d/root" % pid + directory, pid, cached=False)
        return None

    async def _for_another(
        self, uid: int, pid: int, directory: bytes, *, is_current: bool
    ) -> Stamp:
        """We may not enter the client's view of the file system. Raises Unavailable."""
        if has_our_view(pid):
            with contextlib.suppress(Unavailable):
                return await self._wait_for(uid, directory)
        theirs = b"/proc/%d/" % pid
        return await self.as_user.look(
            uid, theirs + (b"cwd" if is_current else b"root" + directory)
        )

    def _look(self, path: bytes, pid: int, *, cached: bool) -> Stamp:
        whose = str(pid) if pid else "self"

        def file_system_of(mount: int, device: str) -> str:
            key = os.stat(f"/proc/{whose}/ns/mnt").st_ino, mount, device
            now_s = time.monotonic()
            if (known := self._mounts.get(key, now_s)) is not None:
                return known[0]
            return self._mounts.put(key, file_system(mount, device, whose), now_s)

        return look(path, self._kernel, self._libc, file_system_of, cached=cached)

    async def _wait_for(self, uid: int, path: bytes) -> Stamp:
        """Looks in a thread of that user's. Raises Unavailable."""
        return await self._run(uid, partial(self._look, path, 0, cached=False))

    async def _run(self, uid: int, look: Callable[[], Found]) -> Found:
        """Raises Unavailable."""
        threads = self.threads.of(uid)
        try:
            async with asyncio.timeout(LOOK_S):
                return await threads.run(look)
        except TimeoutError:
            raise Unavailable("its file server does not answer") from None
        except OSError as problem:
            raise Unavailable(problem.strerror or "it cannot be accessed") from None


def has_our_view(pid: int) -> bool:
    """Whether a path means the same to that process as to us; False if there are too many mounts
    to tell."""
    try:
        theirs = mounts(str(pid))
        return len(theirs) < MOUNTS_BYTES and theirs == mounts()
    except OSError:
        return False


class CheckedPeer(Protocol):
    """A client's process. `check` raises Unavailable if its number may be reused by now."""

    @property
    def pid(self) -> int: ...
    def check(self) -> None: ...


class Directory:
    """The working directory of one command, and its program."""

    def __init__(
        self,
        looker: Looker,
        unshared: Unshared,
        request: ClientRequest,
        uid: int,
        peer: CheckedPeer,
    ) -> None:
        self._looker = looker
        self._unshared = unshared
        self._uid = uid
        self._peer = peer
        self._path = request.directory
        self._is_current = not request.has(tags.FLAG_CHDIR)
        # A user who names both the host and the directory means what is there; and / is each host's
        # own.
        is_named = request.has(tags.FLAG_ROOTED) or request.directory == b"/"
        self._by_name = request.mode == "host" and is_named
        self._stamp: Stamp | None = None
        self._name = request.argv[0]
        self._request = request
        self.left_out = ""  # which hosts are no candidates and why, for people
        self.lacks_program = False  # one of them lacks the program

    @cached_property
    def _program(self) -> bytes:
        return program_key(self._request)

    async def stamp(self, so: str = "") -> Stamp | None:
        """None: any directory of that name will do. Raises Unavailable if it cannot be examined.
        `so`: what follows from that."""
        if self._stamp is None and not self._by_name:
            self._stamp = await self.look(so)
        return self._stamp

    async def look(self, so: str = "") -> Stamp:
        """Like `stamp`, also where any directory of that name will do elsewhere."""
        try:
            found = await self._looker.at(
                self._uid, self._peer.pid, self._path, is_current=self._is_current
            )
            self._peer.check()
        except Unavailable as problem:
            if "the keeper" in str(problem):  # it looks at directories as the user
                raise Unavailable(f"{problem}: see `lbctl doctor` here{so}") from None
            if "(users." in str(problem):  # no directory could be: this user may run nothing
                raise Unavailable(f"this host does not let it leave: {problem}{so}") from None
            name = self._path.decode(errors="replace")
            raise Unavailable(f"{name} cannot be accessed here: {problem}{so}") from None
        return found if found.born_ns else replace(found, seen_ns=time.time_ns())

    async def strangers(self) -> frozenset[HostId]:
        """The hosts that recently said they lack the directory, or the program."""
        found: dict[str, set[HostId]] = {}
        advice = ""
        if self._unshared:
            now_s = time.monotonic()
            with contextlib.suppress(Unavailable):
                if (stamp := await self.stamp()) is not None:
                    name = self._path.decode(errors="replace")
                    hosts = self._unshared.hosts(self._uid, stamp.device, self._path, now_s)
                    found[f"the directory {name} is not shared with"] = hosts
                    advice = TAKE_ALONG if hosts else ""
            name = self._name.decode(errors="replace")
            hosts = self._unshared.hosts(self._uid, PROGRAM, self._program, now_s)
            found[f"{name} is not found on"] = hosts
            self.lacks_program = bool(hosts)
        parts = [f"{what} {', '.join(sorted(hosts))}" for what, hosts in found.items() if hosts]
        self.left_out = "; ".join(filter(None, (*parts, advice)))
        return frozenset().union(*found.values())

    def refused(self, phase: str, host: HostId) -> None:
        now_s = time.monotonic()
        if phase in NOT_SHARED and self._stamp is not None:
            self._unshared.note(self._uid, self._stamp.device, self._path, host, now_s)
        elif phase == "exec" and self._program:
            self._unshared.note(self._uid, PROGRAM, self._program, host, now_s)

    def found(self, host: HostId) -> None:
        """Notes that the command has begun on that host."""
        if not self._unshared:
            return
        if self._stamp is not None:
            self._unshared.shares(self._uid, self._stamp.device, self._path, host)
        if self._program:
            self._unshared.shares(self._uid, PROGRAM, self._program, host)


def program_key(request: ClientRequest) -> bytes:
    """A key for a program on PATH; b"" for a path, which a build may be about to create."""
    if b"/" in request.argv[0]:
        return b""
    path = next((item for item in request.environment if item.startswith(b"PATH=")), b"")
    return b"%d" % hash((request.argv[0], path))
