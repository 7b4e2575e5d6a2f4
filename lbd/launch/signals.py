"""Signals to a job's process group, as a terminal or kill(1) would send them."""

import contextlib
import os
import signal

GROUP_WIDE = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGSTOP, signal.SIGCONT, signal.SIGWINCH
)  # fmt: skip


def deliver(leader: int, number: int) -> int:
    """To the whole group what a terminal would send it, to the leader alone what kill(1) would.

    Returns what was sent.
    """
    if number == signal.SIGTSTP and not _handles(leader, number):
        # A group that is a session of its own is orphaned: the kernel drops SIGTSTP there.
        number = signal.SIGSTOP
    if number in GROUP_WIDE:
        signal_group(leader, number)
    else:
        with contextlib.suppress(OSError):  # it is gone, or not ours; or that is no signal
            os.kill(leader, number)
    return number


def _handles(pid: int, number: int) -> bool:
    """Whether a process catches or ignores a signal."""
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
