"""The commands that `test_kill_points` kills around, and the check that they leave nothing
behind."""

import contextlib
import os
import signal
import subprocess
import termios
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from lbd.lab import cgroups
from lbd.lab.plan import cgroup_name
from tests.live.cluster import wait_until
from tests.live.contract import kill_tree

LOST = 125
LIMIT_S = 20
# What a host has learnt and its accounting stay, on purpose.
KEPT = {"learnt.json", "usage.sqlite", "usage.sqlite-wal", "usage.sqlite-shm", "usage.gap"}
FORCED = (signal.SIGINT, signal.SIGINT)
# Python's own message when it is interrupted before it has read a line of our code.
TOO_EARLY = "Fatal Python error: init_"
TREE = (
    "setsid sleep {mark} & (sleep {mark} &) ; "
    "setsid sh -c 'trap \"\" TERM HUP INT; sleep {mark}; :' & echo ready; wait"
)
STUBBORN = "trap '' TERM HUP INT; : {mark}; echo ready; while :; do sleep 0.05; done"


@dataclass(frozen=True)
class Kind:
    """A kind of command. `{mark}` in it identifies its processes."""

    script: str
    options: tuple[str, ...] = ()
    feed: bool = False  # an endless input
    reads: bool = True  # whether its output is read before it must end
    ends: tuple[int, ...] = ()  # the statuses with which it may end by itself
    said: bytes | None = None  # its whole output if it ended by itself
    told_by: tuple[signal.Signals, ...] = (signal.SIGTERM,)
    fetched: int | None = None  # bytes of the file `{mark}` that comes back
    terminal: bool = False


KINDS = {
    "short": Kind("echo {mark} | wc -l", ends=(0,), said=b"1\n"),
    "brief": Kind("echo a; sleep 0.1; : {mark}; echo b; exit 7", ends=(7,), said=b"a\nb\n"),
    "long": Kind("exec sleep {mark}"),
    "out": Kind("exec yes {mark}"),
    "out, unread": Kind("exec yes {mark}", reads=False),
    "much": Kind("head -c 3000000 /dev/zero; : {mark}", ends=(0,), said=bytes(3_000_000)),
    "in": Kind("cat >/dev/null; : {mark}", feed=True),
    "in, unread": Kind("exec sleep {mark}", feed=True),
    "both": Kind(": {mark}; cat", feed=True),
    "both, unread": Kind(": {mark}; cat", feed=True, reads=False),
    "tree": Kind(TREE),
    "stubborn": Kind(STUBBORN, told_by=FORCED),
    "fetch": Kind(
        # The file is made in one step: a file that the command leaves half written comes back, too.
        "head -c 3000000 /dev/zero >part && mv part {mark} && sleep 0.05", ("--fetch", "{mark}"),
        ends=(0,), said=b"", fetched=3_000_000,
    ),
    "terminal": Kind("exec sleep {mark}", ("-t",), terminal=True),
    "terminal, out": Kind("exec yes {mark}", ("-t",), terminal=True),
    "terminal, short": Kind(
        "stty -echo; : {mark}; echo a", ("-t",), terminal=True, ends=(0,), said=b"a\r\n"
    ),
}  # fmt: skip


def mark_of(number):
    return f"1000.{os.getpid()}{number:04}"


class Running:
    """A client of a command that has been started, with its input fed and its output read."""

    def __init__(self, lab, kind, number, folder):
        self.kind = kind
        self.mark = mark_of(number)
        self.sent = []
        self.read = bytearray()
        self.errors = folder / f"errors-{number}"
        self.feeder = None
        if kind.feed:
            self.feeder = subprocess.Popen(["cat", "/dev/zero"], stdout=subprocess.PIPE)
        stdin = self.feeder.stdout if self.feeder else subprocess.DEVNULL
        self.output, stdout = os.openpty() if kind.terminal else os.pipe()
        self.modes = termios.tcgetattr(self.output) if kind.terminal else None
        words = (
            *(("setsid", "--ctty") if kind.terminal else ()),
            ("lbrun", "lbrun-python")[number % 2], "-H", "h2", *kind.options,
            "sh", "-c", kind.script,
        )  # fmt: skip
        with self.errors.open("wb") as errors:
            self.client = lab.popen(
                "h1", *(word.replace("{mark}", self.mark) for word in words), cwd=folder,
                stdin=stdout if kind.terminal else stdin, stdout=stdout, stderr=errors,
                start_new_session=not kind.terminal,
            )  # fmt: skip
        os.close(stdout)
        if self.feeder:
            self.feeder.stdout.close()
        self.reader = threading.Thread(target=self._read, daemon=True)
        if kind.reads:
            self.reader.start()

    def _read(self):
        """Reads all the output and retains as much as could matter."""
        with contextlib.suppress(OSError):  # a terminal ends so
            while piece := os.read(self.output, 1 << 16):
                if len(self.read) < 4_000_000:
                    self.read += piece

    def kill(self):
        self._send(signal.SIGKILL)

    def ask_to_end(self):
        for number in self.kind.told_by:
            self._send(number)
            time.sleep(0.02)

    def _send(self, number):
        if self.client.poll() is None:
            self.sent.append(number)
            self.client.send_signal(number)

    def assert_ended_well(self):
        """Checks that the status says how it ended, and that it printed a line or two at most."""
        if not self.kind.reads:
            self.reader.start()
        status = self._waited_for()
        told = {s for number in self.sent for s in (-number, 128 + number)}
        forced = {-signal.SIGKILL, 128 + signal.SIGKILL} if signal.SIGINT in self.sent else set()
        errors = self.errors.read_text(errors="replace")
        seen = f"{self.kind}, told {self.sent}: {status}, {errors!r}"
        if signal.SIGINT in self.sent and errors.startswith(TOO_EARLY):
            return
        assert status in {LOST, *self.kind.ends} | told | forced, seen
        self._assert_as_it_was(seen)
        lines = errors.splitlines()
        assert len(lines) <= 2, seen
        assert all(line.startswith("lbrun: ") for line in lines), seen
        assert lines or status != LOST, seen
        self.reader.join(LIMIT_S)
        assert not self.reader.is_alive(), f"{seen}: its output does not end"
        self._assert_fetched(status, seen)
        if status in self.kind.ends and not self.sent and self.kind.said is not None:
            assert self.read == self.kind.said, f"{seen}: {len(self.read)} bytes of output"

    def _waited_for(self):
        """Two signals that arrive before the first is handled count as one, so the signal is
        repeated."""
        tries = 4
        for left in reversed(range(tries)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.client.wait(LIMIT_S / tries)
            if left and self.sent == list(FORCED) * (tries - left):
                self.ask_to_end()
        raise AssertionError(f"{self.kind}, told {self.sent}: no end")

    def _assert_as_it_was(self, seen):
        """Checks that the terminal is as it was, whichever process had to restore it."""
        if self.kind.terminal:
            wait_until(
                lambda: termios.tcgetattr(self.output) == self.modes,
                f"{seen}: the terminal as it was",
            )

    def _assert_fetched(self, status, seen):
        """Checks that the file that comes back is there whole or not at all."""
        if self.kind.fetched is None:
            return
        file = self.errors.parent / self.mark
        size = file.stat().st_size if file.exists() else None
        assert size in (None, self.kind.fetched), f"{seen}: {size} bytes of a file"
        assert size is not None or status != 0, f"{seen}: nothing came back"

    def give_up(self):
        """Kills the client and closes its pipes, whatever came of it."""
        for one in (self.client, self.feeder):
            if one is not None:
                kill_tree(one.pid)
                one.wait()
        if self.reader.is_alive():
            self.reader.join(LIMIT_S)
        os.close(self.output)


def leftovers(lab, numbers):
    """The processes of commands, by what is known of their origin or else by their mark."""
    found = {job.process.pid: job.part for job in lab.jobs_alive()}
    marks = [mark_of(number).encode() for number in numbers]
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (folder / "cmdline").read_bytes()
            if any(mark in line for mark in marks):
                found[int(folder.name)] = line
    return found


def resources(lab):
    """What the daemons of each host hold: {(host, …): how many}."""
    count = Counter()
    for host, parts in lab.pids().items():
        for part, pid in parts.items():
            count[host, part, "descriptors"] = len(os.listdir(f"/proc/{pid}/fd"))
    for found in lab.processes():
        count[found.host, found.part, "processes"] += 1
    for group in cgroups.find(cgroup_name(lab.root)):
        for folder, _, _ in os.walk(group):
            host = Path(folder).relative_to(group).parts[:1]
            count[*host, "cgroups"] += 1
    for file in lab.root.rglob("*"):
        count[str(file.relative_to(lab.root))] = file.name not in KEPT
    return count
