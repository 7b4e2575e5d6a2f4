"""The resources of this host, and what commands of its own users hold of them.

Such a command has no slot, and the keeper does not know it: the client's process becomes it. If the
LBM was killed, nobody would know what it holds. So each grant is noted in a file beside the
sockets, with the process that holds it, before the client learns of it; the file is removed when
the grant is returned. The next LBM keeps what is noted until that process has ended.
"""

import asyncio
import json
import logging
import os
from collections.abc import Callable, Container, Iterator
from itertools import islice
from pathlib import Path
from typing import Protocol

from lbd.config.schema import Config
from lbd.lbm.core import journey_events as e
from lbd.lbm.core.kept_free import KeptFree
from lbd.lbm.core.slots import (
    GPU,
    Belongings,
    Grant,
    ResourcePool,
    Slots,
    pack_belongings,
    read_belongings,
)
from lbd.lbm.inbound.executions import Executions
from lbd.load import equipment
from lbd.load.memory import own_memory
from lbd.load.process_table import mark_of
from lbd.load.procfs import read_small
from lbd.model import JobId, Needs
from lbd.process.boot_clock import boot_id
from lbd.process.job_log import JobLog
from lbd.text.units import size_bytes

job_log = JobLog(logging.getLogger("lbd.lbm"))

NOTE_BYTES_MAX = 1 << 16
NOTES_MAX = 100_000


def slots_of(config: Config, total: int, beyond: int) -> Slots:
    lbm = config.lbm
    longest_s = max(lbm.named_wait_s, lbm.named_limit_s)  # that one command waits
    return Slots(
        total, beyond, lbm.max_waiting, pool=pool_of(config), kept_free=KeptFree(longest_s)
    )


def pool_of(config: Config) -> ResourcePool:
    features = {*equipment.features(), *config.host.features}
    amounts = dict(config.resources.amounts)
    if GPU not in amounts:
        amounts[GPU] = equipment.gpus()
    there = {name: amount for name, amount in amounts.items() if amount}
    return ResourcePool(tuple(sorted(features)), there, memory_of(config))


def memory_of(config: Config) -> int:
    """The memory that jobs may be given, in bytes."""
    if config.host.memory:
        return size_bytes(config.host.memory)
    return own_memory(own_group=config.load.scope != "host").read().total


class Keeper(Protocol):
    pid: int
    lost_pid: int


class Holder(Protocol):
    """The process that holds a grant."""

    pidfd: int | None

    @property
    def pid(self) -> int: ...
    @property
    def is_there(self) -> bool: ...


class OwnNeeds:
    """What commands of this host's own users hold that run here without a slot, and so without the
    keeper. When a keeper is lost, what its commands held is freed, though they may live until the
    next keeper has ended them."""

    def __init__(
        self, executions: Executions, changed: Callable[[], None], keeper: Keeper, notes: "Notes"
    ) -> None:
        self._executions, self._changed, self._keeper = executions, changed, keeper
        self._pool, self._notes = executions.line.slots.pool, notes
        self._is_leaving = False
        self._awaited: dict[int, JobId] = {}  # users of an earlier LBM, by pidfd

    def take(self, job: JobId, needs: Needs, holder: Holder) -> e.NeedsTaken:
        if (lack := self._pool.unmet(needs)) is not None:
            return e.NeedsTaken(None, lack.why, lack.later)
        if self._keeper.pid in (0, self._keeper.lost_pid):  # the next keeper connects after that
            return e.NeedsTaken(None, "its keeper is being restarted", later=True)
        self._pool.take(job, needs)
        grant = self._pool.grant_of(job)
        if grant and (fault := self._notes.write(job, holder, grant)):
            job_log.warning(job, "its resources are lost track of if this LBM is killed: %s", fault)
            if grant.resources:  # nobody else may ever get the same ones
                self._pool.free(job)
                return e.NeedsTaken(None, f"its LBM cannot record who has what: {fault}")
        self._changed()
        return e.NeedsTaken(grant)

    def hold(self, job: JobId, grant: Grant) -> None:
        """Notes what the LBM before us granted."""
        self._pool.hold(job, grant)

    def free(self, job: JobId) -> None:
        """Frees what a job holds. Waiting jobs may get a slot by that."""
        if not self._is_leaving:
            self._notes.remove(job)
        self._executions.free(job)
        self._changed()

    # from one LBM to the next

    def take_up(self) -> None:
        """Takes up grants of an earlier LBM to live commands that it did not hand over."""
        for job, pidfd, grant in self._notes.read(self._pool.held):
            job_log.info(job, "it keeps what an earlier LBM assigned to it")
            self._pool.hold(job, grant)
            self._awaited[pidfd] = job
            asyncio.get_running_loop().add_reader(pidfd, self._ended, pidfd)
        self._changed()

    def leave(self) -> None:
        """From here on nothing is freed for good: the commands outlive this LBM."""
        self._is_leaving = True
        for pidfd in self._awaited:
            asyncio.get_running_loop().remove_reader(pidfd)
            os.close(pidfd)
        self._awaited.clear()

    def _ended(self, pidfd: int) -> None:
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        self.free(self._awaited.pop(pidfd))


class Notes:
    """A file for each grant, named after its command. Notes from another boot are ignored, and a
    process counts as the same only if it also started at the same moment."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, job: JobId, holder: Holder, grant: Grant) -> str:
        """Writes a note. Returns why it cannot; "" if it has, or the process is invisible."""
        mark = None
        if holder.pid > 0 and holder.pidfd is not None:
            mark = mark_of(holder.pid, holder.pidfd)
        if mark is None or not holder.is_there:  # a process that has ended is about to give it back
            return ""
        had = pack_belongings(Belongings(grant=grant)).decode()
        record = [boot_id(), holder.pid, mark, had]
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            (self._directory / job).write_text(json.dumps(record))
        except OSError as problem:
            self.remove(job)  # half of it may be there
            return problem.strerror or str(problem)
        return ""

    def remove(self, job: JobId) -> None:
        try:
            (self._directory / job).unlink(missing_ok=True)
        except OSError as problem:
            job_log.warning(job, "%s: %s", self._directory / job, problem.strerror)

    def read(self, known: Container[JobId]) -> Iterator[tuple[JobId, int, Grant]]:
        """Yields the notes of live processes, each with a pidfd, except those of `known` jobs."""
        try:
            names = [JobId(entry.name) for entry in islice(os.scandir(self._directory), NOTES_MAX)]
        except OSError:
            return
        for job in names:
            if job in known:
                continue
            try:
                found = self._read(job)
            except (OSError, ValueError, TypeError, RecursionError) as problem:
                path = self._directory / job
                job_log.warning(job, "%s: %s; ignored", path, problem)
                found = None
            if found is None:
                self.remove(job)
            else:
                yield job, *found

    def _read(self, job: JobId) -> tuple[int, Grant] | None:
        """Returns None if its process has ended. Raises OSError, ValueError, TypeError."""
        data = read_small(str(self._directory / job), NOTE_BYTES_MAX)
        boot, pid, mark, had = json.loads(data)
        grant = read_belongings(str(had).encode()).grant
        if boot != boot_id():
            return None
        try:
            pidfd = os.pidfd_open(int(pid))
        except ProcessLookupError:
            return None
        # looked up after the pidfd, so that it is the same process
        found = mark_of(int(pid), pidfd)
        if found != mark:
            os.close(pidfd)
            return None
        return pidfd, grant
