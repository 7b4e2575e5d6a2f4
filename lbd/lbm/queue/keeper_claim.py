"""Which keeper runs this host's attempts, as a proof that it runs no others.

An attempt is a process tree of one keeper, which names to each LBM all that it has not ended. So if
the dispatcher sent an attempt while we named a keeper, and we name the same one later without
holding the attempt, then nothing of it is alive. That is true only of this very process of this
boot. A host that was started again proves nothing: another machine may have its name, its address
and a copy of its disk, while the old one is merely cut off.

A copy of a running machine (a snapshot of a virtual machine, CRIU) cannot be told from the
original: both have this boot and this process. See docs/explanation/promises.md.
"""

import os
import re
from collections.abc import Collection, Mapping
from typing import Protocol

from lbd.load.process_table import task_of
from lbd.model import JobId
from lbd.process.boot_clock import boot_id

ATTEMPT = re.compile(r"\d+(_\d+)?\.\d+")  # the keeper's name for one


def life_of(pid: int) -> str:
    """Returns a name that no other process has ever had; "" if that cannot be found out."""
    try:
        boot, space = boot_id(), os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
    task = task_of(pid) if pid else None
    if task is None or task.is_zombie or not boot:
        return ""
    return f"{boot}/{space}/{pid}/{task.started_ticks}"


class HasLife(Protocol):
    @property
    def life(self) -> str: ...


class Link(Protocol):
    """The connection to the keeper. `pid` is 0 until it has named all its jobs: those that are
    known here, and those of an earlier LBM that are yet to be taken over."""

    pid: int

    @property
    def about(self) -> HasLife: ...

    @property
    def jobs(self) -> list[JobId]: ...

    @property
    def has(self) -> Mapping[JobId, bytes]: ...


def claim(link: Link, held: Collection[JobId]) -> str:
    """Returns what to tell the dispatcher: the keeper's name, or "" while it has attempts of an
    earlier LBM, which we do not hold."""
    others = (job for job in (*link.jobs, *link.has) if job not in held)
    if not link.pid or any(ATTEMPT.fullmatch(job) for job in others):
        return ""
    return link.about.life
