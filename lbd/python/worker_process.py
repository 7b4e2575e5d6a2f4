"""The client's end of one worker: the `lbrun` process and its three pipes."""

import contextlib
import errno
import fcntl
import itertools
import os
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lbd.model import NO_NEEDS, Needs
from lbd.python import wire
from lbd.python.pipes import lend
from lbd.text.one_line import one_line

PIPE_BYTES = 1 << 20
READ_BYTES = 1 << 20
WRITE_BYTES = 1 << 20
PARTS_MAX = 64  # in one writev
ERRORS_KEPT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    host: str | None
    exclude: tuple[str, ...]
    python: str
    cache_bytes: int
    result_bytes: int
    needs: Needs = NO_NEEDS


@dataclass(slots=True)
class Part:
    data: bytes
    at: int = 0  # bytes sent so far
    is_lent: bool = False

    @property
    def left_bytes(self) -> int:
        return len(self.data) - self.at


class WorkerProcess:
    """One class because the three pipes of one process end together."""

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], result_bytes: int
    ) -> None:
        """Raises OSError."""
        # A process group of its own, so that an interrupt from the terminal reaches only the
        # client.
        self._process = subprocess.Popen(
            argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, process_group=0,
        )  # fmt: skip
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stderr
        self.input = self._process.stdin.fileno()
        self.output = self._process.stdout.fileno()
        self.errors = self._process.stderr.fileno()
        for descriptor in (self.input, self.output, self.errors):
            os.set_blocking(descriptor, False)
        for descriptor in (self.input, self.output):
            with contextlib.suppress(OSError):  # the user's pipes have reached their size limit
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.end_seen = os.pidfd_open(self._process.pid)  # readable once the process has ended
        self._incoming = wire.Incoming(result_bytes)
        self._unsent: deque[Part] = deque()
        self._lent: dict[
            bytes, bytes
        ] = {}  # by digest, until the worker has the blob, because the pipe refers to its pages
        self._errors = bytearray()
        self._held = b""
        self._closes = False
        self.is_at_end = self.is_silent = False  # end of its output, of its errors
        self.fault = ""  # why it was killed
        self.read_bytes = 0
        self.is_watched = False  # the thread waits until more can be sent

    # Out

    def send(self, frame: bytes, blob: Mapping[bytes, bytes] | None = None) -> None:
        """Sends as much as the pipe takes now; `write` sends the rest. Blobs, by digest, go after
        the frame."""
        was_empty = not self._unsent
        if self._closes:
            return
        self._unsent.append(Part(frame))
        for digest, data in (blob or {}).items():
            self._lent[digest] = data
            self._unsent.append(Part(data, is_lent=True))
        if was_empty:
            self.write()

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def write(self) -> None:
        while self._unsent:
            try:
                sent = self._write_once()
            except BlockingIOError:
                return
            except OSError as problem:  # the process has ended; what is left to read says how
                if problem.errno not in (errno.EPIPE, errno.ECONNRESET):
                    raise
                self._unsent.clear()
                return
            while sent:
                first = self._unsent[0]
                if sent < first.left_bytes:
                    first.at += sent
                    break
                sent -= first.left_bytes
                self._unsent.popleft()

    def _write_once(self) -> int:
        """Returns how many bytes were written. Raises OSError."""
        first = self._unsent[0]
        if first.is_lent:
            return lend(self.input, first.data, first.at)
        views: list[memoryview] = []
        for part in itertools.islice(self._unsent, PARTS_MAX):
            if part.is_lent:
                break
            views.append(memoryview(part.data)[part.at : part.at + WRITE_BYTES])
            if part.left_bytes > WRITE_BYTES:
                break
        return os.writev(self.input, views)

    def end(self) -> None:
        """Closes the worker's input once everything is sent, which ends the worker."""
        self._closes = True
        self.close_if_sent()

    def close_if_sent(self) -> None:
        assert self._process.stdin
        if self._closes and not self._unsent and not self.is_watched:
            self._process.stdin.close()

    def kill(self) -> None:
        """Kills the worker in the middle of a task. A worker on this host dies with its children;
        one on another host is ended by the daemons, because its `lbrun` is gone."""
        self._unsent.clear()
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    # In

    def read(self) -> list[tuple[bytes, bytes]] | None:
        """Returns the frames that have arrived, None at the end. Sets `fault` on a protocol
        error."""
        try:
            data = os.read(self.output, READ_BYTES)
        except BlockingIOError:
            return []
        self.read_bytes += len(data)
        if not data:
            return None
        frames = self._incoming.feed(data)
        for tag, body in frames:
            if tag == wire.STORED:
                self._lent.pop(body, None)
        self.fault = self.fault or self._incoming.fault
        return frames

    def read_errors(self) -> bytes | None:
        """Returns what the functions, or `lbrun`, have printed; None at the end."""
        try:
            data = os.read(self.errors, READ_BYTES)
        except BlockingIOError:
            return b""
        self._errors += data
        del self._errors[:-ERRORS_KEPT_BYTES]
        return data or None

    def said(self, data: bytes) -> bytes:
        """Returns what to show. Lines of `lbrun` are held back until others follow: the last ones
        say how the worker ended, and the executor reports that. A host could send such lines
        without end, so only the last few are held."""
        lines = (self._held + data).splitlines(keepends=True)
        held, room = len(lines), ERRORS_KEPT_BYTES
        while held and lines[held - 1].startswith(b"lbrun: "):
            room -= len(lines[held - 1])
            if room < 0:
                break
            held -= 1
        self._held = b"".join(lines[held:])
        return b"".join(lines[:held])

    def finish(self) -> int:
        """Reaps the process and returns its exit status."""
        status = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe
            pipe.close()
        os.close(self.end_seen)
        return status

    def last_words(self, *, had_tasks: bool) -> str:
        """Returns the last line of `lbrun`, for a message; "" for none. Without one, the last line
        of a worker that has not greeted: later ones are what its tasks print."""
        lines = [line for line in self._errors.decode(errors="replace").splitlines() if line]
        own = [line.removeprefix("lbrun: ") for line in lines if line.startswith("lbrun: ")]
        return one_line((own or ([] if had_tasks else lines) or [""])[-1])


def end_of(status: int) -> str:
    """`status`: of a process, as `subprocess` has it, or of `lbrun`, 128 + N for signal N."""
    number = -status if status < 0 else status - 128
    return f"ended by signal {number}" if number > 0 else f"exit status {status}"
