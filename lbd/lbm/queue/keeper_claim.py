"""Which keeper runs this host's attempts, as a proof that it runs no others.

An attempt is a process tree of one keeper, which names to each LBM all that it has not ended. So if
the dispatcher sent an attempt while we named a keeper, and we name the same one later without
holding the attempt, then nothing of it is alive. That is true only of this very process of this
boot. A host that was started again proves nothing: another machine may have its name, its address
and a copy of its disk, while the old one is merely cut off.
"""

import os
import re
from collections.abc import Collection, Iterable

from lbd.load.process_table import task_of
from lbd.load.procfs import read_small
from lbd.model import JobId

BOOT_ID = "/proc/sys/kernel/random/boot_id"
ATTEMPT = re.compile(r"\d+(_\d+)?\.\d+")  # the keeper's name for one


def life_of(pid: int) -> str:
    """Returns a name that no other process has ever had; "" if that cannot be found out."""
    try:
        boot, space = read_small(BOOT_ID).decode().strip(), os.readlink("/proc/self/ns/pid")
    except (OSError, ValueError):
        return ""
    task = task_of(pid) if pid else None
    if task is None or task.has_ended or not boot:
        return ""
    return f"{boot}/{space}/{pid}/{task.started_ticks}"


def claim(life: str, jobs: Iterable[JobId], held: Collection[JobId]) -> str:
    """Returns what to tell the dispatcher: the keeper's name, or "" while it has attempts of an
    earlier LBM, which we do not hold. `jobs`: all that it has."""
    others = (job for job in jobs if job not in held)
    return "" if any(ATTEMPT.fullmatch(job) for job in others) else life
