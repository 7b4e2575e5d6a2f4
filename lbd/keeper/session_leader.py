"""The session leader of a command that has a terminal: a small process between keeper and command.

A session's own first process group is orphaned, and in an orphaned group the kernel drops the
signals of ^Z and of a background read. So the command runs in a group of its own, and another
process has to lead the session: this one, forked from the same spare. To the keeper it represents
the command: it passes signals on, stops when the command has stopped, and ends as the command
ended.

If the caller's `lbrun` is in the background of its shell, the remote group is put into the
background of its terminal, and the kernel does the rest: a process that reads is stopped, all
others run on.
"""

import contextlib
import errno
import fcntl
import grp
import os
import resource
import signal
import stat
import termios
from typing import NoReturn

# Signals to this process: the caller's `lbrun` has moved to the background or foreground.
BACKGROUND, FOREGROUND = signal.SIGRTMIN + 1, signal.SIGRTMIN + 2
GROUND = (BACKGROUND, FOREGROUND)
TO_GROUP = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)
TO_COMMAND = (signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
WAITED_FOR = (signal.SIGCHLD, *TO_GROUP, *TO_COMMAND, *GROUND)
MAX_DESCRIPTORS = 1 << 20
PTS_MAJORS = range(136, 144)
MODE_WITH_GROUP, MODE_ALONE = 0o620, 0o600  # tty(4); without group tty nobody else may write


def lead(descriptors: list[int], background: bool, owner: int | None, maker: int) -> None:
    """Makes the first descriptor that is a terminal the controlling terminal and forks. Returns in
    the child, which is in the foreground unless `background`. `owner`: the new owner, if not us;
    `maker`: the LBM's user, who made the terminal. Raises OSError."""
    terminal = next((number for number in descriptors if os.isatty(number)), -1)
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)  # fails if it belongs to another session
    if owner is not None:
        give_to(terminal, owner, maker)
    # All of them, for good: a Python handler could run too late, and only the keeper may end this
    # process.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    command = os.fork()
    if command:
        Monitor(terminal, command).watch()
    os.setpgid(0, 0)
    if not background:
        os.tcsetpgrp(terminal, os.getpid())
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def give_to(slave: int, owner: int, maker: int) -> None:
    """Gives the terminal to the user as login does, so that they may open /dev/pts/N, and `write`
    and `mesg` work.

    Accepts only a pseudo-terminal made by the LBM, not one that the LBM's users sit at, nor
    /dev/tty or /dev/ptmx, which are shared. Raises OSError.
    """
    found = os.fstat(slave)
    is_pts = stat.S_ISCHR(found.st_mode) and os.major(found.st_rdev) in PTS_MAJORS
    if not is_pts or found.st_uid != maker:
        raise PermissionError(errno.EPERM, "not a terminal of the LBM's")
    group = -1
    with contextlib.suppress(KeyError):
        group = grp.getgrnam("tty").gr_gid
    os.fchown(slave, owner, group)
    os.fchmod(slave, MODE_ALONE if group == -1 else MODE_WITH_GROUP)


class Monitor:
    """The leader after the fork."""

    def __init__(self, terminal: int, command: int) -> None:
        with contextlib.suppress(OSError):  # the child does this too: whichever is first
            os.setpgid(command, command)
        os.dup2(terminal, 0)
        os.closerange(1, MAX_DESCRIPTORS)
        self._command = command
        self._front = command  # the foreground group, also the one to restore
        # The signal is blocked, so the handler never runs; it shows the keeper that this process
        # handles SIGTSTP.
        signal.signal(signal.SIGTSTP, lambda *_: None)

    def watch(self) -> NoReturn:
        """Runs until the command has ended."""
        while True:
            number = signal.sigwaitinfo(WAITED_FOR).si_signo
            if number == signal.SIGCHLD:
                self._look()
            elif number in GROUND:
                self._change_ground(number)
            else:
                self._pass_on(number)

    def _look(self) -> None:
        pid, status = os.waitpid(self._command, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            return
        if not os.WIFSTOPPED(status):
            end_as(status)
        if signal.SIGCONT not in signal.sigpending():
            os.kill(os.getpid(), signal.SIGSTOP)  # this is what the keeper sees

    def _pass_on(self, number: int) -> None:
        if number == signal.SIGCONT:  # change ground first, or a reader would stop again
            while (change := signal.sigtimedwait(GROUND, 0)) is not None:
                self._change_ground(change.si_signo)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if number in TO_GROUP:
                os.killpg(self._command, number)
            else:
                os.kill(self._command, number)

    def _change_ground(self, number: int) -> None:
        own = os.getpgrp()
        with contextlib.suppress(OSError):
            front = os.tcgetpgrp(0)
            if number == BACKGROUND:
                self._front = front if front != own else self._front
                os.tcsetpgrp(0, own)
            elif front == own:
                self._come_forward()

    def _come_forward(self) -> None:
        try:
            os.tcsetpgrp(0, self._front)
        except OSError:  # that group has ended
            os.tcsetpgrp(0, self._command)


def end_as(status: int) -> NoReturn:
    """Ends like the command: with the same exit status or by the same signal, without a core
    dump."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
