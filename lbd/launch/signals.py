"""Sends signals to a job's process group, as a terminal or kill(1) would."""

import contextlib
import os
import signal

GROUP_WIDE = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGSTOP, signal.SIGCONT, signal.SIGWINCH
)  # fmt: skip


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
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return False
    masks = [int(line[8:], 16) for line in lines if line.startswith((b"SigCgt:", b"SigIgn:"))]
    return any(mask >> (number - 1) & 1 for mask in masks)


def signal_group(leader: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
