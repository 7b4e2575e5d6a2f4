"""The tasks of a step: one process each, on this host.

They stay in the job's process group, whose signals reach them there. This process leaves it, so a
signal that arrives here was sent to it alone, and is passed to each task once.
"""

import os
import select
import signal

from lbd.local.write_all import write_all
from lbd.slurm.options import SlurmError

TYPE_CHECKING = False  # importing typing takes a while
if TYPE_CHECKING:
    from collections.abc import Callable

PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
             signal.SIGTERM)  # fmt: skip
KILL_S = 5.0  # between SIGTERM and SIGKILL
RECEIVED = 1 << 16  # also the longest line with a single label


class Tasks:
    """`become(rank)` is called in the child, and returns an exit status on failure."""

    def __init__(
        self, count: int, become: "Callable[[int], int]", *, label: bool, end_at_failure: bool
    ) -> None:
        self.count, self.become = count, become
        self.label, self.end_at_failure = label, end_at_failure
        self.ranks: dict[int, int] = {}  # ranks of running tasks, by process id
        self.lines: dict[int, tuple[bytes, int]] = {}  # by pipe: label, and target descriptor
        self.begun: dict[int, bytes] = {}  # by pipe: an incomplete line
        self.status = 0

    def run(self) -> int:
        """Returns the highest exit status."""
        heard = [one for one in PASSED_ON if signal.getsignal(one) is not signal.SIG_IGN]
        before = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
        for rank in range(self.count):
            self.begin(rank, before)
        if os.getpgrp() != os.getpid():
            os.setpgid(0, 0)
        for number in heard:
            signal.signal(number, lambda number, _: self.send(number))
        signal.signal(signal.SIGALRM, lambda _, __: self.send(signal.SIGKILL))
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self.watch()
        return self.status

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
        if self.end_at_failure:
            self.end_at_failure = False
            self.send(signal.SIGTERM)
            signal.setitimer(signal.ITIMER_REAL, KILL_S)

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
