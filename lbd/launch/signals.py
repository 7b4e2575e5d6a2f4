"""Sends signals to a job's process group, as a terminal or kill(1) would."""

import contextlib
import os
import signal

GROUP_WIDE = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGSTOP, signal.SIGCONT, signal.SIGWINCH
)  # fmt: skip
STATUS_BYTES = 1 << 13  # of /proc/PID/status, unless somebody is in very many groups


def deliver(leader: int, number: int) -> int:
    """Sends signals a terminal would send to the whole group, others to the leader alone, like
    kill(1).

    Returns the signal that was sent.
    """
    if number == signal.SIGTSTP and not _handles(leader, number):
        # The group of a session's leader is orphaned, and the kernel drops SIGTSTP there.
        number = signal.SIGSTOP
    if number in GROUP_WIDE:
        signal_group(leader, number)
    else:
        with contextlib.suppress(OSError):  # gone, not ours, or not a signal
            os.kill(leader, number)
    return number


def _handles(pid: int, number: int) -> bool:
    """Returns whether a process catches or ignores a signal."""
    masks = _mask(pid, b"SigCgt:") | _mask(pid, b"SigIgn:")
    return bool(masks >> (number - 1) & 1)


def ignored_by(pid: int) -> int:
    """Returns the signals that a process ignores, bit N - 1 for signal N; also of one that has
    ended and was not waited for."""
    return _mask(pid, b"SigIgn:")


def _mask(pid: int, name: bytes) -> int:
    try:
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:
            status = file.read(STATUS_BYTES)
            if name not in status:
                status += file.read()
        return int(status.partition(b"\n" + name)[2].split(None, 1)[0], 16)
    except (OSError, IndexError):
        return 0


def signal_group(leader: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
