"""The directory of this host's workdirs, which the daemons make in a place like /var/tmp.

Anybody can make one of its name there first, and keep it. Another one is then made beside it, under
a name that nobody can guess, and noted in host.state_dir for later starts. It is not made in
host.state_dir itself, where users could fill the daemons' own disk.
"""

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from lbd.launch.own_places import may_be_anybodys_mount
from lbd.process.whole_file import write_whole
from lbd.process.written_disks import workdirs_note

log = logging.getLogger("lbd.lbm")

MODE = 0o711  # users pass through


class WorkdirRoot:
    def __init__(self, wanted: str, host: str, state_dir: str) -> None:
        # it may be on a file system that other hosts use as well
        self._wanted = self.path = Path(wanted) / host
        self._note = workdirs_note(state_dir)

    def make(self) -> None:
        """Raises OSError if there can be none."""
        try:
            make_root(self._wanted)
            self.path = self._wanted
        except OSError as problem:
            try:
                instead = self._instead()
            except OSError:
                raise problem from None
            if instead != self.path:
                why = problem.strerror
                log.warning("stage.root: %s; working directories are in %s instead", why, instead)
            self.path = instead

    def entries(self) -> Iterator[bytes]:
        """Yields what is in it, and in the other one of an earlier LBM. Raises OSError."""
        for root in filter(None, (self._wanted, self._noted())):
            if os.path.lexists(root) and not fault_of(root.parent) and not fault_of(root):
                yield from map(os.fsencode, root.iterdir())

    def _noted(self) -> Path | None:
        with suppress(OSError):
            return Path(os.fsdecode(self._note.read_bytes()))
        return None

    def _instead(self) -> Path:
        """Raises OSError."""
        if (noted := self._noted()) is not None:
            with suppress(OSError):
                make_root(noted)
                return noted
        taken = self._wanted.parent if fault_of(self._wanted.parent) else self._wanted
        beside = taken.with_name(f"{taken.name}.{os.urandom(8).hex()}")
        instead = beside / self._wanted.relative_to(taken)
        write_whole(self._note, os.fsencode(instead), 0o644)
        make_root(instead)
        return instead


def make_root(root: Path) -> None:
    """Raises OSError."""
    for directory in (root.parent, root):
        if not os.path.lexists(directory):
            directory.mkdir(parents=True)
            directory.chmod(MODE)  # whatever our umask is: users pass through here
        if fault := fault_of(directory):
            raise PermissionError(errno.EPERM, fault)
    found = root.lstat()
    if found.st_uid == os.geteuid() and found.st_mode & 0o022:
        root.chmod(MODE)  # an LBM of an earlier release let users write there


def fault_of(directory: Path) -> str:
    """Returns "" unless another user may have made it. Raises OSError."""
    try:
        if (owner := directory.lstat().st_uid) not in (0, os.geteuid()):
            return f"{directory} is owned by user {owner}"
        if may_be_anybodys_mount(str(directory)):
            return f"{directory} is a file system of its own where anybody may mount one"
    except PermissionError as problem:  # perhaps a user's mount
        return f"{directory}: {problem.strerror}"
    return ""
