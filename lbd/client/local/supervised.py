"""Runs a command here with a parent that watches it, for a time limit or a status file.

It does what a shell does for a job, so that the command notices nothing: a process group of its own
that has the terminal while it is in the foreground, signals passed on, stops shared. As subreaper
this process can end everything the command has started when the time limit expires; and the command
ends with it.
"""

import contextlib
import ctypes
import os
import resource
import signal
import time
from typing import TYPE_CHECKING, NoReturn

from lbd.client.complaints import FAILED, encode, say
from lbd.client.signals import die_of
from lbd.client.status_file import write_status
from lbd.launch import rlimits
from lbd.launch.exec import become, exit_status_of
from lbd.load import process_table
from lbd.local import client_tags as tags

if TYPE_CHECKING:
    from collections.abc import Callable

    from lbd.client.options import Options

TIMED_OUT = 124
KILL_GRACE_S = 2.0
FORCE_WITHIN_S = 1.0
LONGEST_WAIT_S = 3600.0
FAILURE_BYTES = 8000
TERMINAL_SIGNALS = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH
)  # fmt: skip  # to the whole group, as from a terminal
PASSED_ON = (
    *TERMINAL_SIGNALS, signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2
)  # fmt: skip
WAITED_FOR = (*PASSED_ON, signal.SIGCHLD)
RESET = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTOU)  # signals ignored here, by Python or by us
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def run_supervised(
    options: "Options",
    command: list[bytes],
    environment: dict[bytes, bytes],
    complain: "Callable[[OSError], str]",
    why_not_fetched: "Callable[[], str]" = lambda: "",
) -> int:
    """Returns the exit status as the contract defines it. `complain`: says why it cannot be
    executed, and returns that; `why_not_fetched`: called if the command exits with 0."""
    supervisor = Supervisor(options, command, environment, complain)
    wait_status, usage, timed_out = supervisor.run()
    number = os.WTERMSIG(wait_status) if os.WIFSIGNALED(wait_status) else 0
    status = 128 + number if number else os.waitstatus_to_exitcode(wait_status)
    cause, reason = ("signalled" if number else "exited"), supervisor.why_not_run()
    if reason:
        cause = "refused"
    if timed_out:
        status, cause = TIMED_OUT, "timeout"
        reason = f"ended at its time limit of {options.timeout_s:g} s"
        say(reason)
    if not status and (trouble := why_not_fetched()):
        status, cause = FAILED, "failed"
        reason = f"{trouble}; the command itself exited with 0"
        say(reason)
    if "status_file" in options.values:
        ended = {
            tags.STATUS: str(status),
            tags.SIGNAL_NUMBER: str(number),
            tags.CAUSE: cause,
            tags.REASON: reason,
            tags.HOST: environment.get(b"LBD_HOST", b"").decode(),
            tags.ENDED_CPU: f"{usage.ru_utime + usage.ru_stime:.6f}",
        }
        write_status(options.values["status_file"], ended)
    if number and not timed_out:
        die_of(number)
    return status


class Supervisor:
    """One command, its parent, and perhaps a terminal between them."""

    def __init__(
        self,
        options: "Options",
        command: list[bytes],
        environment: dict[bytes, bytes],
        complain: "Callable[[OSError], str]",
    ) -> None:
        self._options = options
        self._tell_user = complain
        self._command = command
        self._environment = environment
        self._libc = ctypes.CDLL(None)
        self._interrupted_s = 0.0
        self._terminal = own_terminal()
        # A file, not a pipe: nobody has to read it, and who else has it open does not matter.
        self._failure = os.memfd_create("why the command was not run")

    def why_not_run(self) -> str:
        """Returns why the command could not be executed; "" if it was."""
        return os.pread(self._failure, FAILURE_BYTES, 0).decode(errors="replace")

    def run(self) -> tuple[int, resource.struct_rusage, bool]:
        """Returns (wait status, usage, whether the time limit ended it).

        Signals are blocked and waited for: a Python handler would not run if its signal came just
        before a blocking call.
        """
        self._libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        # we set the terminal's group from the background
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, WAITED_FOR)
        self._pid = os.fork()
        if self._pid == 0:
            self._become()
        with contextlib.suppress(OSError):  # the child does this too: whichever is first
            os.setpgid(self._pid, self._pid)
        try:
            ended = self._wait_within_limit()
            return (*ended, False) if ended else (*self._end_tree(), True)
        finally:
            give_terminal(self._terminal, os.getpgrp())

    def _become(self) -> NoReturn:
        """Runs in the child."""
        self._libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.setpgid(0, 0)
        give_terminal(self._terminal, os.getpgrp())
        for number in RESET:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        if self._options.memory_bytes:
            rlimits.lower(resource.RLIMIT_DATA, self._options.memory_bytes)
        if "no_stdin" in self._options.plain:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if "tty" in self._options.plain:
            from lbd.client.local import own_terminal

            if own_terminal.is_wanted(self._options):
                status = own_terminal.run_in_terminal(
                    self._command, self._environment, self._complain
                )
                os._exit(status)
        problem = become(self._command, self._environment)
        self._complain(problem)
        os._exit(exit_status_of(problem))

    def _complain(self, problem: OSError) -> None:
        os.write(self._failure, encode(self._tell_user(problem)))

    def _pass_on(self, number: int) -> None:
        """Passes a signal on; a second interrupt within a second kills the command."""
        now_s = time.monotonic()
        if number == signal.SIGINT and now_s - self._interrupted_s < FORCE_WITHIN_S:
            number = signal.SIGKILL
        elif number == signal.SIGINT:
            self._interrupted_s = now_s
        with contextlib.suppress(ProcessLookupError):
            if number in TERMINAL_SIGNALS or number == signal.SIGKILL:
                os.killpg(self._pid, number)
            else:
                os.kill(self._pid, number)

    def _wait_within_limit(self) -> tuple[int, resource.struct_rusage] | None:
        """Returns status and usage of the command; None if the time limit expired first."""
        limit_s = self._options.timeout_s or float("inf")
        over_s = time.monotonic() + limit_s
        while True:
            left_s = min(over_s - time.monotonic(), LONGEST_WAIT_S)
            if left_s <= 0:
                return None
            received = signal.sigtimedwait(WAITED_FOR, left_s)
            if received is not None and received.si_signo != signal.SIGCHLD:
                self._pass_on(received.si_signo)
            if ended := self._reap():
                return ended

    def _reap(self) -> tuple[int, resource.struct_rusage] | None:
        """Reaps ended children, including the command's orphans. Returns the command's own end, if
        any."""
        while True:
            pid, status, usage = os.wait4(-1, os.WNOHANG | os.WUNTRACED)
            if pid == 0:
                return None
            if pid == self._pid and not os.WIFSTOPPED(status):
                return status, usage
            if pid == self._pid:
                self._stop_along()

    def _stop_along(self) -> None:
        """Stops like the command, until we are continued."""
        give_terminal(self._terminal, os.getpgrp())
        os.kill(os.getpid(), signal.SIGSTOP)
        if self._terminal is not None and os.tcgetpgrp(self._terminal) == os.getpgrp():
            give_terminal(self._terminal, self._pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGCONT)

    def _end_tree(self) -> tuple[int, resource.struct_rusage]:
        """Sends TERM to the whole tree, KILL after a grace period. Returns the status of the
        command itself."""
        ended: tuple[int, resource.struct_rusage] | None = None
        for pid in descendants():
            send(pid, signal.SIGTERM)
            send(pid, signal.SIGCONT)
        kill_at_s = time.monotonic() + KILL_GRACE_S
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                assert ended is not None  # our own child, so it was reaped
                return ended
            if pid == self._pid:
                ended = status, usage
            elif pid == 0:
                if ended is not None or time.monotonic() > kill_at_s:
                    for left in descendants():
                        send(left, signal.SIGKILL)
                time.sleep(0.01)


def send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def descendants() -> list[int]:
    """Returns every process below this one."""
    own = os.getpid()
    return sorted(process_table.with_descendants([own], process_table.everybody()) - {own})


def own_terminal() -> int | None:
    """Returns the terminal that has us in the foreground, if there is one."""
    for descriptor in (0, 1, 2):
        with contextlib.suppress(OSError):
            if os.isatty(descriptor) and os.tcgetpgrp(descriptor) == os.getpgrp():
                return os.dup(descriptor)
    return None


def give_terminal(terminal: int | None, group: int) -> None:
    if terminal is not None:
        with contextlib.suppress(OSError):
            os.tcsetpgrp(terminal, group)
