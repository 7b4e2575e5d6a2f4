"""A signal has stopped or ended the command elsewhere: the same for us, for our shell to see."""

import _signal  # type: ignore[import-not-found]  # `signal` without its enums
import posix

INT, QUIT, STOP = 2, 3, 19
NOT_DEADLY = (17, 18, STOP, 20, 21, 22, 23, 28)  # they stop, or do nothing
DUMPING = (QUIT, 4, 5, 6, 7, 8, 11, 24, 25, 31)  # signals that leave a core
PR_SET_DUMPABLE = 4


def stop_by(number: int, with_group: bool) -> None:
    """Returns when we go on; at once if nobody could wake us (an orphaned group)."""
    handler = None if number == STOP else _signal.signal(number, _signal.SIG_DFL)
    posix.kill(0 if with_group else posix.getpid(), number)
    if number != STOP:
        _signal.signal(number, handler)


def die_of(number: int, with_group: bool = False) -> None:
    """Returns if that is impossible: process 1 of a container cannot, and of some signals nobody
    dies, whatever another host says.

    `with_group`: it was typed, so our terminal would have sent it to all of them.
    """
    if number in NOT_DEADLY:
        return
    if number in DUMPING:
        leave_no_core()
    try:
        _signal.signal(number, _signal.SIG_DFL)
    except (OSError, ValueError):  # KILL, and numbers that are none
        pass
    try:
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (number,))
        with_group = with_group and number in (INT, QUIT)
        posix.kill(0 if with_group else posix.getpid(), number)
    except (OSError, ValueError):
        pass


def leave_no_core() -> None:
    """The command has left one where it ran, if it may; ours would say nothing."""
    import ctypes
    import resource

    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # a handler of cores asks no limit
    except (OSError, ValueError):
        pass
