"""Runs this process before all others, while it ends processes that would leave it no processor.

Each of a thousand busy processes gets a thousandth of the machine. With the same share, the process
that ends them would need minutes for a tenth of a second's work. Linux runs its real-time classes
first, whatever the weights, quotas and sessions of the others. Where they are not allowed, a lower
nice value is tried.
"""

import os
from contextlib import suppress

FIRST_NICE = -20


class Urgency:
    """Whether this process runs before others. Its children never do."""

    def __init__(self) -> None:
        self._before: int | None = None  # its nice value otherwise

    @property
    def is_raised(self) -> bool:
        return self._before is not None

    def become(self, *, urgent: bool) -> None:
        """Best effort: it needs CAP_SYS_NICE."""
        if urgent == self.is_raised:
            return
        if urgent:
            self._before = os.getpriority(os.PRIO_PROCESS, 0)
            if not _scheduled(os.SCHED_RR | os.SCHED_RESET_ON_FORK, 1):
                _scheduled(os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, 0)
                _niced(FIRST_NICE)
        else:
            before, self._before = self._before, None
            _scheduled(os.SCHED_OTHER, 0)
            _niced(before or 0)


def _scheduled(policy: int, priority: int) -> bool:
    with suppress(OSError):
        os.sched_setscheduler(0, policy, os.sched_param(priority))
        return True
    return False


def _niced(nice: int) -> None:
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, nice)
