"""Stops or ends this process like the remote command, so that the calling shell sees it."""

import _signal  # type: ignore[import-not-found]  # `signal` without its enums
import posix

TYPE_CHECKING = False  # importing typing would cost a millisecond
if TYPE_CHECKING:
    from collections.abc import Sequence

    Handlers = Sequence[tuple[int, object]]

INT, QUIT, STOP = 2, 3, 19
NOT_DEADLY = (17, 18, STOP, 20, 21, 22, 23, 28)  # these stop a process or do nothing
DUMPING = (QUIT, 4, 5, 6, 7, 8, 11, 24, 25, 31)  # signals that leave a core
PR_SET_DUMPABLE = 4


def give_back(handlers: "Handlers") -> None:
    """Restores the handlers of signals."""
    for number, handler in handlers:
        _signal.signal(number, handler)


def stop_by(number: int, with_group: bool) -> None:
    """Stops by this signal. Returns when continued; at once if nobody could wake us (an orphaned
    group)."""
    handler = None if number == STOP else _signal.signal(number, _signal.SIG_DFL)
    posix.kill(0 if with_group else posix.getpid(), number)
    if number != STOP:
        _signal.signal(number, handler)


def die_of(number: int, with_group: bool = False) -> None:
    """Dies of this signal. Returns if that is impossible: process 1 of a container cannot die of
    it, and some signals, which another host may still name, are never deadly.

    `with_group`: it was typed, so our terminal would have sent it to the whole group.
    """
    if number in NOT_DEADLY:
        return
    if number in DUMPING:
        leave_no_core()
    try:
        _signal.signal(number, _signal.SIG_DFL)
    except (OSError, ValueError):  # KILL, and invalid numbers
        pass
    try:
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (number,))
        with_group = with_group and number in (INT, QUIT)
        posix.kill(0 if with_group else posix.getpid(), number)
    except (OSError, ValueError):
        pass


def leave_no_core() -> None:
    """Disables our own core dump, which would show nothing: the command leaves one where it ran, if
    allowed."""
    import ctypes
    import resource

    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # a core handler ignores the limit
    except (OSError, ValueError):
        pass
