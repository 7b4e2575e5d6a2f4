"""The directory of this host's workdirs, which the daemons make in a place like /var/tmp.

Anybody can make one of its name there first, and keep it. Another one is then made beside it, under
a name that nobody can guess, and noted in host.state_dir for later starts. It is not made in
host.state_dir itself, where users could fill the daemons' own disk. Where `stage.root` names
another place than the default, there is none: who has set it would not look for it beside.

What is there may be a user's file system (FUSE) that does not answer, so it is looked at in a
thread, and not again once another user's was found.
"""

import errno
import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

from lbd.launch.directory_look import file_system
from lbd.launch.own_places import may_be_anybodys_mount
from lbd.process import written_disks
from lbd.process.whole_file import write_whole
from lbd.text.kernel_tables import lines_of

log = logging.getLogger("lbd.lbm")

MODE = 0o711  # users pass through
LOOK_S = 5.0
FUSE = "fuse"  # "fuse.sshfs" and "fuseblk", too


class NotOurs(PermissionError):
    """Another user may have made the directory `filename`."""


class Looks:
    """Looks at directories in threads, of which one for each may not end."""

    def __init__(self) -> None:
        self._threads: dict[Path, threading.Thread] = {}  # that had no answer in time

    def look(self, body: Callable[[Path], None], path: Path) -> None:
        """Calls `body` with the path. Raises OSError, which may be TimeoutError."""
        problems: list[Exception] = []

        def run() -> None:
            try:
                body(path)
            except Exception as problem:
                problems.append(problem)

        silent = TimeoutError(errno.ETIMEDOUT, f"{path} does not answer", str(path.parent))
        if path in self._threads and self._threads[path].is_alive():
            raise silent  # still
        thread = threading.Thread(target=run, name="look at stage.root", daemon=True)
        try:
            thread.start()
        except RuntimeError as problem:  # too many threads at the moment
            raise OSError(errno.EAGAIN, str(problem)) from None
        thread.join(LOOK_S)
        if thread.is_alive():
            self._threads[path] = thread
            raise silent
        if problems:
            raise problems[0]


class WorkdirRoot:
    def __init__(self, wanted: str, host: str, state_dir: str) -> None:
        # it may be on a file system that other hosts use as well
        self._wanted = self.path = Path(wanted) / host
        self._may_be_beside = is_default(wanted, state_dir)
        self._note = written_disks.workdirs_note(state_dir)
        self._looks = Looks()
        self._problem: OSError | None = None  # with the wanted one, which is not looked at again

    def make(self) -> None:
        """Raises OSError if there can be none."""
        problem = self._problem
        if problem is None:
            try:
                self._looks.look(make_root, self._wanted)
                return
            except NotOurs as found:
                self._problem = problem = found
            except OSError as found:
                problem = found
        if not self._may_be_beside:
            raise problem.with_traceback(None)
        try:
            instead = self._instead(problem)
        except OSError:
            raise problem.with_traceback(None) from None
        self._problem = problem
        if instead != self.path:
            why = problem.strerror
            log.warning("stage.root: %s; working directories are in %s instead", why, instead)
        self.path = instead

    def entries(self) -> Iterator[bytes]:
        """Yields what is in it, and in the other one of an earlier LBM. Raises OSError."""
        wanted = self._wanted if self._problem is None else None
        for root in filter(None, (wanted, self._noted())):
            try:
                self._looks.look(check_root, root)
            except OSError:
                continue
            yield from map(os.fsencode, root.iterdir())

    def _noted(self) -> Path | None:
        with suppress(OSError):
            return Path(os.fsdecode(self._note.read_bytes()))
        return None

    def _instead(self, problem: OSError) -> Path:
        """`problem`: with the wanted one, which is not looked at here. Raises OSError."""
        if (noted := self._noted()) is not None:
            with suppress(OSError):
                self._looks.look(make_root, noted)
                return noted
        is_of_host = problem.filename == str(self._wanted)
        taken = self._wanted if is_of_host else self._wanted.parent
        beside = taken.with_name(f"{taken.name}.{os.urandom(8).hex()}")
        instead = beside / self._wanted.relative_to(taken)
        write_whole(self._note, os.fsencode(instead), 0o644)
        make_root(instead)
        return instead


def is_default(wanted: str, state_dir: str) -> bool:
    """Returns whether the workdirs are where they are if `stage.root` is not set."""
    return Path(wanted) in (Path(written_disks.SHARED_WORKDIRS), Path(state_dir, "stage"))


def make_root(root: Path) -> None:
    """Raises OSError."""
    for directory in (root.parent, root):
        with suppress(FileExistsError):
            directory.mkdir(parents=True)
            directory.chmod(MODE)  # whatever our umask is: users pass through here
        check(directory)
    found = root.lstat()
    if found.st_uid == os.geteuid() and found.st_mode & 0o022:
        root.chmod(MODE)  # whoever made it: users must not write there


def check_root(root: Path, owners: Collection[int] = ()) -> None:
    """Raises NotOurs if another user may have made it; OSError."""
    for directory in (root.parent, root):
        check(directory, owners)


def check(directory: Path, owners: Collection[int] = ()) -> None:
    """Raises NotOurs if another user may have made it; OSError."""
    if fault := fault_of(directory, owners):
        raise NotOurs(errno.EPERM, fault, str(directory))


def fault_of(directory: Path, owners: Collection[int] = ()) -> str:
    """Returns "" unless another user may have made it. `owners`: who may have; by default root and
    we. Raises OSError."""
    owners = owners or (0, os.geteuid())
    try:
        if (owner := directory.lstat().st_uid) not in owners:
            return f"{directory} is owned by user {owner}"
        if may_be_anybodys_mount(str(directory)) and not is_on_true_disk(directory, owners):
            return f"{directory} is a file system of its own where anybody may mount one"
    except OSError as problem:
        if isinstance(problem, PermissionError) or problem.errno == errno.ENOTCONN:
            return f"{directory}: {problem.strerror}"  # perhaps a user's mount
        raise
    return ""


def is_on_true_disk(directory: Path, owners: Collection[int]) -> bool:
    """Returns whether it is of one of these, by a file system that no user can mount. Raises
    OSError."""
    descriptor = os.open(directory, os.O_PATH | os.O_CLOEXEC)
    try:
        kind = file_system(int(mount_of(descriptor).split()[1]), "")
        # of the descriptor: a user could unmount theirs meanwhile
        is_theirs = os.fstat(descriptor).st_uid in owners
    finally:
        os.close(descriptor)
    return is_theirs and kind != "" and not kind.startswith(FUSE)


def mount_of(descriptor: int) -> str:
    """Returns the line with the mount's number. Raises OSError."""
    lines = lines_of(Path(f"/proc/self/fdinfo/{descriptor}").read_bytes())
    return next(line for line in lines if line.startswith("mnt_id:"))
