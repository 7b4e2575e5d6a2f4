"""The tasks of a step: one process each, on this host.

They stay in the job's process group, whose signals reach them there. This process leaves it, so a
signal that arrives here was sent to it alone, and is passed to each task once.

At a time limit everything that the tasks have started ends, too: processes whose parents are gone
become children of this one.
"""

import os
import select
import signal
import time
from contextlib import suppress

from lbd.local.write_all import write_all
from lbd.slurm.options import SlurmError

TYPE_CHECKING = False  # importing typing takes a while
if TYPE_CHECKING:
    from collections.abc import Callable

PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
             signal.SIGTERM)  # fmt: skip
PR_SET_CHILD_SUBREAPER = 36
LOOK_S = 0.01
KILL_S = 5.0  # between SIGTERM and SIGKILL
TIMED_OUT = 124  # as of `lbrun --timeout`
LIMIT_S_MAX = 1 << 30  # a timer takes no more than some 2**31
RECEIVED = 1 << 16  # also the longest line with a single label


class Tasks:
    """`become(rank)` is called in the child, and returns an exit status on failure."""

    def __init__(
        self,
        count: int,
        become: "Callable[[int], int]",
        *,
        label: bool,
        end_at_failure: bool,
        limit_s: int = 0,  # 0: no time limit
    ) -> None:
        self.limit_s, self.has_expired = limit_s, False
        self.is_ending = False  # what is left is killed when the timer expires
        self.count, self.become = count, become
        self.label, self.end_at_failure = label, end_at_failure
        self.ranks: dict[int, int] = {}  # ranks of running tasks, by process id
        self.lines: dict[int, tuple[bytes, int]] = {}  # by pipe: label, and target descriptor
        self.begun: dict[int, bytes] = {}  # by pipe: an incomplete line
        self.status = 0

    def run(self) -> int:
        """Returns the highest exit status, or 124 at the time limit."""
        if self.limit_s:
            keep_orphans()
            signal.signal(signal.SIGCHLD, lambda _, __: self.reap_orphans())
        heard = [one for one in PASSED_ON if signal.getsignal(one) is not signal.SIG_IGN]
        before = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
        for rank in range(self.count):
            self.begin(rank, before)
        if os.getpgrp() != os.getpid():
            os.setpgid(0, 0)
        for number in heard:
            signal.signal(number, lambda number, _: self.send(number))
        signal.signal(signal.SIGALRM, lambda _, __: self.expire())
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.setitimer(signal.ITIMER_REAL, min(self.limit_s, LIMIT_S_MAX))
        self.watch()
        if not self.has_expired:
            return self.status
        while send_to_descendants(signal.SIGKILL):
            time.sleep(LOOK_S)
        return TIMED_OUT

    def begin(self, rank: int, mask: "set[int | signal.Signals]") -> None:
        pipes = [(*os.pipe(), to) for to in (1, 2)] if self.label else []
        pid = os.fork()
        if not pid:
            self.be_task(rank, pipes, mask)
        self.ranks[pid] = rank
        for reader, writer, to in pipes:
            os.close(writer)
            label = f"{rank:0{len(str(self.count - 1))}}: "
            self.lines[reader], self.begun[reader] = (label.encode(), to), b""

    def be_task(
        self, rank: int, pipes: list[tuple[int, int, int]], mask: "set[int | signal.Signals]"
    ) -> None:
        """Never returns."""
        status = 1
        try:
            for _, writer, to in pipes:
                os.dup2(writer, to)
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            status = self.become(rank)
        except SlurmError as problem:
            complain(str(problem))
        finally:
            os._exit(status)

    def watch(self) -> None:
        """Waits until all have ended and their output is written."""
        ends = {os.pidfd_open(pid): pid for pid in self.ranks}
        poll = select.poll()
        for file in (*ends, *self.lines):
            poll.register(file, select.POLLIN)
        ready: list[tuple[int, int]] = []
        while self.ranks or ready:
            ready = poll.poll(None if self.ranks else 0)
            for file, _ in ready:
                if file in ends:
                    poll.unregister(file)
                    self.end(ends[file])
                elif not self.put(file):
                    poll.unregister(file)
        for file, text in self.begun.items():
            if text:
                self.write(file, text + b"\n")

    def end(self, pid: int) -> None:
        rank = self.ranks.pop(pid)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if not code:
            return
        how = f"Exited with exit code {code}" if code > 0 else signal.strsignal(-code)
        complain(f"{os.environ.get('LBD_HOST', '')}: task {rank}: {how}")
        self.status = max(self.status, code if code > 0 else 128 - code)
        if self.end_at_failure and not self.is_ending:
            self.is_ending = True
            self.send(signal.SIGTERM)
            signal.setitimer(signal.ITIMER_REAL, KILL_S)

    def expire(self) -> None:
        """Ends the tasks at their time limit, and kills those that are ending already."""
        if self.is_ending:
            send_to_descendants(signal.SIGKILL)
            return
        self.has_expired = self.is_ending = True
        complain(f"the step ended at its time limit of {self.limit_s} s")
        send_to_descendants(signal.SIGTERM)
        send_to_descendants(signal.SIGCONT)
        signal.setitimer(signal.ITIMER_REAL, KILL_S)

    def reap_orphans(self) -> None:
        """Reaps ended processes that a task has left behind, up to the first ended task."""
        with suppress(ChildProcessError):
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if ended.si_pid in self.ranks:
                    return
                os.waitpid(ended.si_pid, 0)

    def send(self, number: int) -> None:
        for pid in self.ranks:
            os.kill(pid, number)

    def put(self, file: int) -> bool:
        """Writes whole lines; returns whether there may be more."""
        if not (data := os.read(file, RECEIVED)):
            return False
        text = self.begun[file] + data
        end = text.rfind(b"\n") + 1
        if not end and len(text) >= RECEIVED:
            text, end = text + b"\n", len(text) + 1
        self.begun[file] = text[end:]
        self.write(file, text[:end])
        return True

    def write(self, file: int, text: bytes) -> None:
        label, to = self.lines[file]
        write_all(to, b"".join(label + line for line in text.splitlines(keepends=True)))


def complain(text: str) -> None:
    os.write(2, f"srun: error: {text}\n".encode(errors="replace"))


def keep_orphans() -> None:
    """Makes this process the parent of its descendants' orphans."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def send_to_descendants(number: int) -> int:
    """Returns how many processes got the signal."""
    from lbd.load import process_table

    tasks, own, sent = process_table.everybody(), os.getpid(), 0
    for pid in process_table.with_descendants([own], tasks) - {own}:
        if not tasks[pid].has_ended:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
                sent += 1
    return sent
