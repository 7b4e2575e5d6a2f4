"""The CPU time that the commands which run here have used so far, for who lists them."""

import asyncio
import time
from collections.abc import Mapping

from lbd.keeper.limits.time_limits import group_cpu_s
from lbd.lbm.inbound.executions import Executions
from lbd.load import process_table

KEPT_S = 1.0
Roots = Mapping[str, tuple[int, str]]  # by job: the leader's pid, its cgroup or ""


class CpuUsed:
    """Looked at once a second at most, however many ask, and beside the event loop: without cgroups
    it takes a walk through all processes."""

    def __init__(self, executions: Executions) -> None:
        self._executions = executions
        self._looking = asyncio.Lock()
        self._looked_s = -KEPT_S
        self._found: dict[str, float] = {}

    async def by_job(self) -> dict[str, float]:
        """In seconds, by the ids that people know: h1-26, 12, 12_7."""
        async with self._looking:
            if time.monotonic() - self._looked_s >= KEPT_S:
                live = [(one.shown or one.id, one.execution.process) for one in self._executions]
                roots = {job: (it.pid, it.group) for job, it in live if it is not None}
                self._found = await asyncio.to_thread(used_s, roots)
                self._looked_s = time.monotonic()
        return self._found


def used_s(roots: Roots) -> dict[str, float]:
    """Where no cgroup counts it, what those that live have used, with their ended children."""
    counted = {job: group_cpu_s(group) for job, (_, group) in roots.items()}
    everybody = process_table.everybody() if None in counted.values() else {}
    found = {}
    for job, (leader, _) in roots.items():
        if (by_group_s := counted[job]) is not None:
            found[job] = by_group_s
            continue
        own = {pid for pid, task in everybody.items() if task.session == leader}
        tree = process_table.with_descendants(own, everybody)
        found[job] = sum(everybody[pid].cpu_s for pid in tree if pid in everybody)
    return found
