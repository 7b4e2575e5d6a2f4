"""The memory groups of users, between that of all jobs and those of the jobs, where all jobs
together have a limit.

What a job leaves in memory, a file in /dev/shm for example, goes on counting for the groups above
that of the job. In that of all jobs it would take memory from everybody, with nothing of its user's
running; so does memory of the kernel's, for files, pipes or sockets that somebody keeps. So a user
has a group, which may have a share of the whole, and which stays: as it is removed, what is left in
it counts for all.
"""

import contextlib
import os
from pathlib import Path

SHARE = 0.75  # of the memory of all jobs, for one user's
PREFIX = "user-"


class UserGroups:
    """`base`: the group of all jobs; `version`: that of its hierarchy."""

    def __init__(self, base: Path, version: int) -> None:
        self.base, self._version = base, version
        self.limit_bytes = 0  # of each user; 0: they have no groups
        self._jobs: dict[str, Path] = {}

    def set_total(self, memory_bytes: int) -> None:
        """Sets the limit of all jobs. A keeper without privileges has one user's jobs only."""
        self.limit_bytes = int(memory_bytes * SHARE) if os.geteuid() == 0 else 0
        for group in self.base.glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):
                self._limit(group)

    def of(self, job: str) -> Path | None:
        """Returns the group of a job within its user's, if it has one there."""
        return self._jobs.get(job)

    def place(self, job: str, uid: int, mode: int) -> Path:
        """Makes a group for a job. Raises OSError."""
        user = self.base / f"{PREFIX}{uid}"
        if not user.is_dir():
            self._make(user, mode)
        own = self._jobs[job] = user / job
        own.mkdir(mode, exist_ok=True)
        return own

    def _make(self, user: Path, mode: int) -> None:
        """Raises OSError; then there is no such group."""
        user.mkdir(mode)
        try:
            if self._version == 2:
                given = (self.base / "cgroup.subtree_control").read_text().split()
                wanted = " ".join(f"+{controller}" for controller in given)
                (user / "cgroup.subtree_control").write_text(wanted)
            self._limit(user)
        except OSError:
            user.rmdir()
            raise

    def forget(self, job: str) -> None:
        """Removes the group of a job that is gone."""
        if (own := self._jobs.pop(job, None)) is not None:
            with contextlib.suppress(OSError):
                own.rmdir()

    def close(self) -> None:
        """Removes the groups of users, as the keeper ends."""
        for group in self.base.glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):
                group.rmdir()

    def _limit(self, user: Path) -> None:
        """Raises OSError."""
        if self._version == 2:
            (user / "memory.max").write_text(str(self.limit_bytes or "max"))
        else:
            (user / "memory.limit_in_bytes").write_text(str(self.limit_bytes or -1))


def is_of_user(group: Path) -> bool:
    return group.name.startswith(PREFIX)
