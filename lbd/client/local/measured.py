"""Runs a command as a child to measure its cost; others see no difference from becoming it.

The child stays in our process group, so signals from the terminal reach both: only signals sent to
us alone are passed on. We stop when it stops, end as it ends, and hold nothing open that it closes.
"""

import _signal  # type: ignore[import-not-found]  # `signal` without its enums
import ctypes
import posix
from collections.abc import Callable

CHLD, CONT, STOP, KILL = 17, 18, 19, 9
PASSED_ON = (1, 2, 3, 10, 12, 15, CONT, 20, 28)  # HUP INT QUIT USR1 USR2 TERM CONT TSTP WINCH
STOPPING = (19, 20, 21, 22)
SENT_BY_A_PROCESS = 0  # si_code of signals from a process is at most this
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
BY_SIGNAL = 128
FD_MAX = 1 << 20


def run_measured(
    become: Callable[[], int], report: Callable[[float, int, int], None], reporting: int
) -> int:
    """Forks and calls `become` in the child; calls `report(CPU seconds, status, peak memory in
    bytes)` at its end. Returns the exit status. `reporting`: the descriptor that `report` uses.
    """
    libc = ctypes.CDLL(None)
    # if ignored, the kernel would reap the child
    child_handler = _signal.signal(CHLD, _signal.SIG_DFL)
    mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, (*PASSED_ON, CHLD))
    parent = posix.getpid()
    pid = posix.fork()
    if pid == 0:
        libc.prctl(PR_SET_PDEATHSIG, KILL, 0, 0, 0)
        if posix.getppid() != parent:
            posix._exit(BY_SIGNAL + KILL)
        _signal.signal(CHLD, child_handler)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
        posix._exit(become())
    let_go(reporting)
    status, cpu_s, peak_bytes = wait_for(pid)
    number = posix.WTERMSIG(status) if posix.WIFSIGNALED(status) else 0
    exit_status = BY_SIGNAL + number if number else posix.waitstatus_to_exitcode(status)
    report(cpu_s, exit_status, peak_bytes)
    if number and number not in STOPPING:
        libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # the command has left its own core, if any
        if number != KILL:
            _signal.signal(number, _signal.SIG_DFL)
        posix.kill(posix.getpid(), number)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (number,))
    return exit_status


def wait_for(pid: int) -> tuple[int, float, int]:
    """Returns the child's wait status, CPU seconds and peak memory; passes signals on meanwhile."""
    while True:
        came = _signal.sigwaitinfo((*PASSED_ON, CHLD))
        if came.si_signo == CHLD:
            ended, status, usage = posix.wait4(pid, posix.WNOHANG | posix.WUNTRACED)
            if ended and posix.WIFSTOPPED(status):
                posix.kill(posix.getpid(), STOP)
                posix.kill(pid, CONT)  # we were continued, so the child is, too
            elif ended:
                return status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
        elif came.si_code <= SENT_BY_A_PROCESS or came.si_signo == CONT:
            posix.kill(pid, came.si_signo)


def let_go(kept: int) -> None:
    """Drops the caller's descriptors, so that those the command closes are really closed."""
    null = posix.open("/dev/null", posix.O_RDWR | posix.O_CLOEXEC)
    for number in (0, 1, 2):
        if number != null:
            posix.dup2(null, number)
    posix.closerange(3, kept)
    posix.closerange(kept + 1, FD_MAX)
