"""The workdirs of this host: private directories of commands that bring their files along (--send).

A workdir belongs to one conversation with the origin. It is made when the conversation opens and
removed when it ends, however it ends, once nothing runs in it any more. Workdirs left by an LBM
that was killed are removed at the next start.

Each is alone in a directory of the daemons', in which no user may write, so its name always refers
to the directory that was made. Otherwise its user could put a directory of another's in its place,
and have that packed or removed with the rights of its owner. The name of the daemons' directory
says whose workdir it is: inside, the user can mount a file system (FUSE) that names any owner, or
does not answer.
"""

import asyncio
import contextlib
import errno
import os
import re
import stat
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from lbd.config.schema import StageConfig
from lbd.errors import Unavailable
from lbd.keeper.local_account import LocalUser
from lbd.lbm.as_user import AsUser, StepFailed
from lbd.lbm.core.jobs import Jobs
from lbd.lbm.core.slots import USER_SHARE
from lbd.lbm.staging.workdir_root import MODE, WorkdirRoot, mount_of
from lbd.net.gen import lbm_pb2
from lbd.pack.clear import clear_away

POLL_S = 0.05
POLLS = 600  # for the processes in a workdir to be gone
CLEAR_S = 3600.0
MAKING_MODE = 0o1733  # of a workdir's directory of the daemons', while the keeper makes it
OWNER = re.compile(rb"\.u([0-9]+)\.[0-9a-f]{8}$")  # in the name of the daemons' directory
NAME = "files"  # of each workdir, in its directory of the daemons'
AWAY = "files"  # the phase of a refusal because its files are not available


class FilesRefused(Unavailable):
    """Nothing has run. `phase`: as in Refused of lbm.proto, or AWAY. `number`: the errno behind it,
    0 if there is none."""

    def __init__(self, reason: str, phase: str = "admission", number: int = 0) -> None:
        super().__init__(reason)
        self.phase, self.number = phase, number


def owner_of(path: bytes) -> int:
    """Returns the owner of a workdir. Raises OSError."""
    if (found := OWNER.search(os.path.dirname(path))) is None:
        raise OSError(errno.EINVAL, "not a working directory of the daemons'")
    return int(found[1])


def path_in(entry: bytes) -> bytes:
    """Returns the workdir in a directory below the root."""
    return os.path.join(entry, os.fsencode(NAME))


def is_plain_directory(path: bytes, uid: int) -> bool:
    """Whether it is that user's directory, on the file system of its parent. No other file system
    is asked, because it may not answer. Raises OSError."""
    with ExitStack() as stack:
        opened = []
        for one in (os.path.dirname(path), path):
            opened.append(os.open(one, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC))
            stack.callback(os.close, opened[-1])
        if mount_of(opened[0]) != mount_of(opened[1]):
            return False
        found = os.fstat(opened[1])
        return stat.S_ISDIR(found.st_mode) and found.st_uid == uid


def check_allowed(limits: StageConfig) -> None:
    """Raises FilesRefused if workdirs are not allowed here."""
    if not (limits.max_bytes and limits.max_files):
        reason = "commands with files are not accepted here (stage.max_bytes, stage.max_files)"
        raise FilesRefused(reason)


@dataclass(frozen=True, slots=True)
class Workdir:
    origin: str
    user: str
    path: bytes


class Workdirs:
    """The workdirs of this host, by id."""

    def __init__(self, root: WorkdirRoot, jobs: Jobs, as_user: AsUser) -> None:
        self._as_user = as_user
        self._root = root
        self._jobs = jobs
        self._workdirs: dict[str, Workdir] = {}
        self._making: dict[str, Workdir] = {}
        self._removing: dict[asyncio.Task[None], Workdir | None] = {}

    def prepare(self) -> str:
        """Makes the root before commands come. Returns why there can be none; "" if there is."""
        try:
            self._root.make()
        except OSError as problem:
            return problem.strerror or str(problem)
        return ""

    def sweep(self, grace_s: float) -> None:
        """Removes what an earlier LBM has left; its jobs may still be ending, for `grace_s`."""
        with contextlib.suppress(OSError):
            kept = {os.path.dirname(workdir.path) for workdir in self._workdirs.values()}
            left = [path for path in self._root.entries() if path not in kept]
            until_s = time.monotonic() + grace_s
            for path in left:
                self._start_removing(path, lambda: time.monotonic() < until_s)

    def why_full(self, request: lbm_pb2.WorkdirRequest, most: int) -> str:
        """Returns why this workdir has no place among `most`, of which no user and no host gets
        all; "" if it has one."""
        # counted, since users who block removals could have any number
        going = filter(None, self._removing.values())
        held = [*self._workdirs.values(), *self._making.values(), *going]
        share = max(1, int(most * USER_SHARE))
        if len(held) >= most:
            return "too many commands with files here"
        if sum(workdir.user == request.user for workdir in held) >= share:
            return f"too many commands of {request.user} with files here"
        if sum(workdir.origin == request.origin for workdir in held) >= share:
            return f"too many commands from {request.origin} with files here"
        return ""

    async def open(
        self, request: lbm_pb2.WorkdirRequest, owner: LocalUser | None, most: int
    ) -> None:
        """Makes a workdir, if it has a place among `most`. Raises FilesRefused."""
        if full := self.why_full(request, most):
            raise FilesRefused(full, AWAY)
        try:
            await self.make(request, owner)
        except OSError as problem:
            number = problem.errno or 0
            raise FilesRefused(f"stage.root: {problem.strerror}", "stage", number) from None

    async def make(self, request: lbm_pb2.WorkdirRequest, owner: LocalUser | None) -> None:
        """Makes a workdir. Raises OSError. `owner`: None for the daemon's own user."""
        if request.id in self._workdirs or request.id in self._making:
            raise FileExistsError(errno.EEXIST, "a working directory of that name already exists")
        self._root.make()
        uid = os.geteuid() if owner is None else owner.uid
        name = f"{request.id}.u{uid}.{os.urandom(4).hex()}"
        path = os.fsencode(self._root.path / name / NAME)
        made = self._making[request.id] = Workdir(request.origin, request.user, path)
        try:
            await self._make(path, owner)
            self._workdirs[request.id] = made
        except BaseException:  # its origin may have hung up; the directory may exist all the same
            self._start_removing(os.path.dirname(path), lambda: False, made)
            raise
        finally:
            del self._making[request.id]

    async def _make(self, path: bytes, owner: LocalUser | None) -> None:
        """Raises OSError."""
        entry = os.path.dirname(path)
        os.mkdir(entry)
        try:
            if owner is not None and self._as_user.acts_for(owner.uid):
                os.chmod(entry, MAKING_MODE)  # only while it is made
                await self._as_user.work(owner.uid, b"make", path)
            else:
                os.mkdir(path, 0o700)
        except Unavailable as problem:
            number = problem.number if isinstance(problem, StepFailed) else 0
            raise OSError(number or errno.EACCES, str(problem)) from None
        finally:
            os.chmod(entry, MODE)
        if not is_plain_directory(path, owner_of(path)):
            raise OSError(
                errno.EPERM, "the working directory was replaced while it was being created"
            )

    def path_of(self, request: lbm_pb2.RunRequest) -> bytes:
        """The path of the request's workdir, if that belongs to its user; b"" = there is none."""
        workdir = self._workdirs.get(request.workdir.id)
        if workdir is None or (workdir.origin, workdir.user) != (request.origin, request.user):
            return b""
        return workdir.path

    def get(self, name: str) -> Workdir | None:
        return self._workdirs.get(name)

    def adopt(self, name: str, workdir: Workdir) -> None:
        """Adopts a workdir that an earlier LBM has made."""
        self._workdirs[name] = workdir

    def end(self, name: str) -> None:
        """Removes a workdir that nobody needs any more, as soon as nothing runs in it."""
        workdir = self._workdirs.pop(name, None)
        if workdir is not None:
            entry = os.path.dirname(workdir.path)
            self._start_removing(entry, lambda: self._is_used(name), workdir)

    def _is_used(self, name: str) -> bool:
        return any(job == name or job.startswith(f"{name}.") for job in self._jobs.running)

    def _start_removing(
        self, entry: bytes, is_used: Callable[[], bool], workdir: Workdir | None = None
    ) -> None:
        task = asyncio.create_task(self._remove(entry, is_used), name="remove a workdir")
        self._removing[task] = workdir
        task.add_done_callback(self._removing.pop)

    async def _remove(self, entry: bytes, is_used: Callable[[], bool]) -> None:
        for _ in range(POLLS):
            if not is_used():
                break
            await asyncio.sleep(POLL_S)
        with contextlib.suppress(OSError, Unavailable):
            path = path_in(entry)
            with contextlib.suppress(FileNotFoundError):  # it was never made
                owner = owner_of(path)
                if self._as_user.acts_for(owner):
                    await self._as_user.work(owner, b"clear", path, limit_s=CLEAR_S)
                else:
                    await asyncio.to_thread(clear_away, entry)
                with contextlib.suppress(FileNotFoundError):
                    os.rmdir(path)  # its user may not do that
            os.rmdir(entry)

    async def close(self) -> None:
        """Removes our own user's workdirs at once: the keeper has ended what ran in them. The next
        LBM has those of others removed."""
        for task in self._removing:
            task.cancel()
        with contextlib.suppress(OSError):
            for entry in list(self._root.entries()):
                with contextlib.suppress(OSError):
                    if not self._as_user.acts_for(owner_of(path_in(entry))):
                        clear_away(entry)
