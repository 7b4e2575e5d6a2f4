"""A planned restart of an LBM, and commands that stream while it happens."""

import contextlib
import hashlib
import os
import random
import signal
import subprocess
import threading

from tests.live.cluster import FAST
from tests.live.contract import alive

PATIENT = ("lbm.orphan_after_s=30", "lbm.named_wait_s=60", "lbm.slots=8")
SETTINGS = (*(setting for setting in FAST if "orphan" not in setting), *PATIENT)
PIECE = 1 << 16


def leave(lab, host, daemon="lbm", number=signal.SIGUSR2):
    """Tells a daemon to make way for its successor, and waits until it has."""
    pid = int((lab.paths(host).run / f"{daemon}.pid").read_text())
    os.kill(pid, number)
    lab.wait_until(lambda: not alive(pid), "it has left")


def restart(lab, *hosts):
    for host in hosts:
        leave(lab, host)
    for host in hosts:
        lab.start(host, "lbm")


class Stream:
    """`lbrun -H HOST COMMAND`, fed by one thread and drained by another; both directions are
    checksummed."""

    def __init__(self, lab, near, far, size=1 << 40, command=("cat",), seed=0, slow_s=0.0):
        self.sent, self.got = hashlib.sha256(), hashlib.sha256()
        self.got_bytes = 0
        self.process = lab.popen(
            near, "lbrun", "-H", far, *command, stdin=-1, stdout=-1, stderr=subprocess.PIPE
        )
        self._rng = random.Random(seed)
        self._size, self._slow_s = size, slow_s
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._feed), threading.Thread(target=self._drain)]
        for thread in self._threads:
            thread.start()

    def _feed(self):
        left = self._size
        with contextlib.suppress(BrokenPipeError), self.process.stdin as pipe:
            while left > 0 and not self._stop.is_set():
                piece = self._rng.randbytes(min(left, self._rng.randint(1, PIECE)))
                pipe.write(piece)
                self.sent.update(piece)
                left -= len(piece)
                self._stop.wait(self._slow_s)

    def _drain(self):
        while piece := self.process.stdout.read1(PIECE):
            self.got.update(piece)
            self.got_bytes += len(piece)

    def enough(self):
        """Ends the input."""
        self._stop.set()

    def finish(self, timeout_s=60):
        """(exit status, standard error) at the end; no output is left unread."""
        try:
            status = self.process.wait(timeout_s)
        finally:
            self._stop.set()
            self.process.kill()
            for thread in self._threads:
                thread.join(10)
        with self.process.stdout, self.process.stderr:
            return status, self.process.stderr.read().decode()

    def is_whole(self):
        return self.sent.digest() == self.got.digest()
