"""Runs a command here in a terminal (-t) although its caller has none.

It does what a remote command gets on the other host: a pty of its own, our input typed into it, the
end of our input as ^D, its output on our standard output. Standard error stays the caller's if it
is a file or a pipe.
"""

import os
import select
import signal
from typing import TYPE_CHECKING

from lbd.client.signals import die_of
from lbd.launch.exec import become, exit_status_of
from lbd.local.write_all import write_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from lbd.client.options import Options

CHUNK = 65536
END_OF_FILE = b"\x04"  # VEOF of a new terminal
TYPED_BYTES = 512  # per write: a terminal takes no more of a line than it can hold
PASSED_ON = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2,
    signal.SIGCONT,
)  # fmt: skip
BY_SIGNAL = 128


def is_wanted(options: "Options") -> bool:
    """Returns whether a terminal must be created."""
    return "tty" in options.plain and "no_stdin" not in options.plain and not os.isatty(0)


def run_in_terminal(
    command: list[bytes], environment: dict[bytes, bytes], complain: "Callable[[OSError], object]"
) -> int:
    """Returns the exit status, unless this process dies of the signal that ended the command.
    `complain`: called if it cannot be executed."""
    master, slave = os.openpty()
    keeps_stderr = not os.isatty(2)
    pid = os.fork()
    if pid == 0:
        os.close(master)
        enter(slave, keeps_stderr=keeps_stderr)
        problem = become(command, environment)
        complain(problem)
        os._exit(exit_status_of(problem))
    os.close(slave)
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: os.killpg(pid, number))
    leader = os.pidfd_open(pid)
    if not carry(master, leader):
        os.close(master)  # the command notices by SIGHUP
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        die_of(os.WTERMSIG(status))
        return BY_SIGNAL + os.WTERMSIG(status)
    return os.waitstatus_to_exitcode(status)


def enter(slave: int, *, keeps_stderr: bool) -> None:
    """Becomes the leader of a session on that terminal."""
    stderr = os.dup(2) if keeps_stderr else -1
    os.login_tty(slave)
    if keeps_stderr:
        os.dup2(stderr, 2)
        os.close(stderr)


def carry(master: int, leader: int) -> bool:
    """Copies bytes both ways until the command, whose pidfd is `leader`, has ended. Returns False
    if nobody reads the output any more."""
    os.set_blocking(master, False)
    reads, typed, last, ended = [master, 0, leader], b"", b"\n", False
    while True:
        # Input waits until the terminal takes it: a command that prints without reading blocks
        # nothing.
        ready, room, _ = select.select(reads, [master] if typed else [], [], 0 if ended else None)
        if room:
            typed = typed[os.write(master, typed[:TYPED_BYTES]) :]
        if 0 in ready and not typed:
            typed = os.read(0, TYPED_BYTES)
            if not typed:
                reads.remove(0)
                # twice after an incomplete line
                typed = END_OF_FILE if last == b"\n" else 2 * END_OF_FILE
            last = typed[-1:]
        if master in ready:
            try:
                printed = os.read(master, CHUNK)
            except OSError:  # EIO: nobody has the terminal open any more
                return True
            try:
                write_all(1, printed)
            except OSError:
                return False
        elif ended:
            return True
        ended = leader in ready
