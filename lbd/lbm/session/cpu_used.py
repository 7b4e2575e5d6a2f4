"""The CPU time that the commands running here have used so far, for listings."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from lbd.keeper.limits.time_limits import group_cpu_s
from lbd.lbm.inbound.executions import Live
from lbd.lbm.link.user_threads import Threads
from lbd.lbm.session.peer_process import PeerProcess
from lbd.load import process_table
from lbd.model import JobId

KEPT_S = 1.0
PATIENCE_S = 0.5  # nobody waits longer for these figures


@dataclass(frozen=True, slots=True)
class Root:
    """The root of a command's processes."""

    pid: int
    group: str = ""  # its cgroup
    is_leader: bool = True  # it leads a session of its own


class CpuUsed:
    """Looks at most once a second, however many ask, and outside the event loop: without cgroups a
    look goes through all processes, and a user can hold it up at one of theirs. Then the figures
    are those of the look before."""

    def __init__(self, placed: Iterable[Live], staying: Mapping[JobId, PeerProcess]) -> None:
        """`placed`: commands placed here by other hosts or the queue; `staying`: commands that this
        host's users run here themselves."""
        self._placed, self._staying = placed, staying
        self._threads = Threads(1)
        self._look: asyncio.Task[None] | None = None
        self._looked_s = -KEPT_S
        self._found: dict[str, float] = {}

    async def by_job(self) -> dict[str, float]:
        """CPU seconds, by the ids that people know: h1-26, 12, 12_7."""
        if self._look is None and time.monotonic() - self._looked_s >= KEPT_S:
            self._look = asyncio.create_task(self._look_now(), name="CPU time of commands")
        if self._look is not None:
            await asyncio.wait((self._look,), timeout=PATIENCE_S)
        return self._found

    async def _look_now(self) -> None:
        try:
            self._found = await self._threads.run(partial(used_s, self._roots()))
        finally:
            self._looked_s, self._look = time.monotonic(), None

    def _roots(self) -> dict[str, Root]:
        placed = [(one.shown or one.id, one.execution.process) for one in self._placed]
        roots = {job: Root(it.pid, it.group) for job, it in placed if it is not None}
        for job, process in self._staying.items():
            if process.pid and process.is_there:
                roots[job] = Root(process.pid, is_leader=False)
        return roots


def used_s(roots: Mapping[str, Root]) -> dict[str, float]:
    """CPU seconds by job; without a cgroup, of live processes with their ended children."""
    counted = {job: group_cpu_s(root.group) for job, root in roots.items()}
    everybody = process_table.everybody() if None in counted.values() else {}
    found = {}
    for job, root in roots.items():
        if (by_group_s := counted[job]) is not None:
            found[job] = by_group_s
            continue
        own = {root.pid}
        if root.is_leader:
            own |= {pid for pid, task in everybody.items() if task.session == root.pid}
        tree = process_table.with_descendants(own, everybody)
        tasks = map(process_table.task_of, tree)
        found[job] = sum(task.cpu_s for task in tasks if task is not None)
    return found
