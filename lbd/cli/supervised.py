"""A command that runs here but needs somebody beside it: a time limit, a status file."""

import os
import resource
import signal
import time
from typing import TYPE_CHECKING

from lbd.cli.status_file import write_status
from lbd.lbm.launch import become, exit_status_of
from lbd.rpc import client_tags as tags

if TYPE_CHECKING:
    from lbd.cli.lbrun import Options

TIMED_OUT = 124
KILL_GRACE_S = 2.0
PASSED_ON = (
    signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip  # a terminal's own signals reach the command by themselves


class Expired(Exception):
    """The time limit is over."""


def run_supervised(
    options: "Options", command: list[bytes], environment: dict[bytes, bytes]
) -> int:
    """Fork, watch, report. The exit status of the contract."""
    if "status_file" not in options.values and not options.timeout_s:
        return _become(options, command, environment)
    pid = os.fork()
    if pid == 0:
        os._exit(_become(options, command, environment))
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    for passed in PASSED_ON:
        signal.signal(passed, lambda received, _: os.kill(pid, received))
    wait_status, usage, timed_out = _wait(pid, options.timeout_s)
    ended_by = os.WTERMSIG(wait_status) if os.WIFSIGNALED(wait_status) else 0
    status = 128 + ended_by if ended_by else os.waitstatus_to_exitcode(wait_status)
    cause, reason = ("signalled" if ended_by else "exited"), ""
    if timed_out:
        status, cause = TIMED_OUT, "timeout"
        reason = f"ended after its time limit of {options.timeout_s:g} s"
        os.write(2, f"lbrun: {reason}\n".encode())
    if "status_file" in options.values:
        ended = {
            tags.STATUS: str(status),
            tags.SIGNAL_NUMBER: str(ended_by),
            tags.CAUSE: cause,
            tags.REASON: reason,
            tags.HOST: environment.get(b"LBD_HOST", b"").decode(),
            tags.TIMEOUT: f"{usage.ru_utime + usage.ru_stime:.6f}",
        }
        write_status(options.values["status_file"], ended)
    return status


def _become(options: "Options", command: list[bytes], environment: dict[bytes, bytes]) -> int:
    if options.memory_bytes:
        resource.setrlimit(resource.RLIMIT_DATA, (options.memory_bytes, options.memory_bytes))
    if "no_stdin" in options.plain:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    problem = become(command, environment)
    os.write(2, f"lbrun: {options.command[0]}: {problem.strerror}\n".encode())
    return exit_status_of(problem)


def _wait(pid: int, timeout_s: float) -> tuple[int, resource.struct_rusage, bool]:
    """(wait status, usage, whether the limit ended it): TERM at the limit, KILL after a grace."""
    if not timeout_s:
        _, status, usage = os.wait4(pid, 0)
        return status, usage, False

    def expire(*_: object) -> None:
        raise Expired

    signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    try:
        _, status, usage = os.wait4(pid, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        return status, usage, False
    except Expired:
        os.kill(pid, signal.SIGTERM)
    give_up_s = time.monotonic() + KILL_GRACE_S
    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if done:
            return status, usage, True
        if time.monotonic() > give_up_s:
            os.kill(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
            return status, usage, True
        time.sleep(0.02)
