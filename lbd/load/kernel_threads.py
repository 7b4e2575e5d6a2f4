"""The CPU time of the kernel's own threads. What they do, anybody may have given them to do: a
command that makes and drops network namespaces keeps one busy."""

from lbd.load import process_table
from lbd.load.scopes import KTHREADD, in_initial_pid_namespace


class KernelThreads:
    def __init__(self) -> None:
        self._are_visible = in_initial_pid_namespace()
        self._used_s: dict[int, float] = {}

    def used_s(self) -> float:
        """Returns the CPU seconds that they have used since the last call; 0 at the first one, and
        in a container, where they cannot be seen."""
        before_s, self._used_s = self._used_s, {}
        for pid in process_table.pids() if self._are_visible else ():
            was_one = pid in before_s and process_table.session_of(pid) == 0
            if was_one or is_one(pid):
                self._used_s[pid] = process_table.cpu_clock_s(pid) or 0.0
        if not before_s:
            return 0.0
        return sum(max(0.0, used_s - before_s.get(p, 0.0)) for p, used_s in self._used_s.items())


def is_one(pid: int) -> bool:
    # All kernel threads are in session 0. So are, in a container, processes started outside it, and
    # on any machine those started by an init that leads no session.
    if process_table.session_of(pid) != 0 or not in_initial_pid_namespace():
        return False
    status = process_table.status_of(pid)
    return pid == KTHREADD or (status is not None and status.parent == KTHREADD)
