"""A child of the keeper that does what somebody else may hold up for any time.

The keeper itself never waits: it reads from a pipe what the child has found, and kills the child
where it gets stuck.
"""

import ctypes
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from lbd.local.descriptors import is_readable

PR_SET_PDEATHSIG = 1


class SideChild:
    def __init__(self, run: Callable[[int], None]) -> None:
        """`run`: what the child does, with every signal blocked, given its end of the pipe. Raises
        OSError if there are too many processes or descriptors at the moment."""
        self.pid = 0
        self.pipe, theirs = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.pipe, False)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self.pid = os.fork()
            if self.pid == 0:
                _live(run, theirs)
            self._handle = os.pidfd_open(self.pid)
        except OSError:
            os.close(self.pipe)
            if self.pid:
                os.kill(self.pid, signal.SIGKILL)  # not reaped yet, so the pid is still its own
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(theirs)

    @property
    def has_ended(self) -> bool:
        return is_readable(self._handle)

    def kill(self) -> None:
        """The keeper reaps it like every other child."""
        with suppress(ProcessLookupError):  # already reaped; the pid may be another's
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def close(self) -> None:
        """Ends the child, and everything about it; call once."""
        self.kill()
        os.close(self._handle)
        os.close(self.pipe)


def _live(run: Callable[[int], None], answer: int) -> NoReturn:
    """Runs in the child. It closes nothing first, because that may also wait for a user's file
    system."""
    with suppress(BaseException):
        die_with_keeper(ctypes.PyDLL(None))
        run(answer)
    os._exit(0)


def die_with_keeper(libc: ctypes.PyDLL) -> None:
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
