"""The caller's side of `lbrun --send` and `--fetch`.

Children of `lbrun` pack the files to send and unpack those fetched: as the caller, with the
caller's rights, at the pace of the pipe (pack/pack.py, pack/unpack.py).
"""

import fcntl
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from lbd.client.complaints import Trouble, encode, say
from lbd.client.options import Options
from lbd.local import client_tags as tags
from lbd.local.frames import pack
from lbd.pack.pack import Allowance, BadPack, Packer, complaint_of, shown
from lbd.pack.places import NotOurs, note
from lbd.pack.unpack import Fetching

if TYPE_CHECKING:
    from _socket import socket

COMPLAINT_BYTES = 4096
PATTERN_SIGNS = b"*", b"?"  # that somebody quoted from the shell
ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


class Staging:
    """The files that one command takes along and brings back, with normalised paths."""

    def __init__(self, options: Options, directory: bytes) -> None:
        """Raises Trouble if a path leads outside, a file to send is missing, or one would be
        overwritten."""
        self.send = clean("--send", options.send, directory)
        self.fetch = clean("--fetch", options.fetch, directory)
        if b"." in self.fetch:
            raise Trouble("--fetch .: name the files or directories to bring back")
        if self.send and not os.path.isdir(directory):
            raise Trouble(f"--send: {shown(directory)}, where it would be, does not exist here")
        for path in self.send:
            if not os.path.lexists(os.path.join(directory, path)):
                raise Trouble(f"--send {shown(path)}: No such file or directory")
        if self.fetch and not os.path.isdir(directory):
            raise Trouble(
                f"--fetch: {shown(directory)}, where it would be put, does not exist here"
            )
        for path in self.fetch:
            if any(sign in path for sign in PATTERN_SIGNS):
                say(f"--fetch {shown(path)}: taken as a name; name each file, or a directory")
        mark = int.from_bytes(os.urandom(8), "big")
        try:
            Fetching(self.send, self.fetch, mark).check(directory)
        except BadPack as problem:
            raise Trouble(f"--fetch {problem}") from None
        self._directory = held(directory)
        try:
            noted = note([*self.send, *self.fetch], self._directory)
        except NotOurs as problem:
            path = problem.filename
            option = "--send" if path in self.send else "--fetch"
            raise Trouble(f"{option} {shown(path)}: {problem.strerror}") from None
        self._noted, noted_fetch = noted[: len(self.send)], noted[len(self.send) :]
        self._fetching = Fetching(self.send, self.fetch, mark, noted_fetch)

    def why_not_made(self) -> str:
        """Checks --fetch after a command that ran here, where nothing is copied; "" if all files
        exist."""
        for path in self.fetch:
            if not os.path.lexists(os.path.join(self._directory, path)):
                return f"--fetch {shown(path)}: the command did not create it"
        return ""

    def heard(self, sock: "socket", tag: bytes, body: bytes) -> None:
        """Carries out PACK or UNPACK and reports the result."""
        first, *rest = map(int, body.split())
        allowance = Allowance(first, rest[0])
        if tag == tags.PACK:
            complaint = self._in_child(sock, 0, lambda file: self._pack(file, allowance), "--send")
        else:
            status = rest[1]
            complaint = self._in_child(
                sock,
                1,
                lambda file: self._unpack(file, allowance, all_there=status == 0),
                "--fetch",
            )
            self._fetching.clear(self._directory)
        with suppress(OSError):  # the next read reports the failure
            sock.sendall(pack(tags.STAGED, complaint))

    def _in_child(
        self, sock: "socket", end: int, work: Callable[[BinaryIO], None], option: str
    ) -> bytes:
        """Runs `work` in a child at one end of a pipe whose other end the LBM gets. Returns the
        error message, or b""."""
        pipe, complaints = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        child = os.fork()
        if child == 0:
            os.close(pipe[end])
            sock.close()
            work_in_child(pipe[1 - end], end, complaints[1], work, self._directory)
        os.close(pipe[1 - end])
        os.close(complaints[1])
        with suppress(OSError):
            sock.sendmsg(
                [pack(tags.PIPE)], [(1, 1, pipe[end].to_bytes(4, sys.byteorder))]
            )  # SOL_SOCKET, SCM_RIGHTS
        os.close(pipe[end])
        with open(complaints[0], "rb") as file:
            complaint = file.read(COMPLAINT_BYTES)
        _, status = os.waitpid(child, 0)
        if status and not complaint:
            complaint = b"ended by a signal"
        return f"{option} ".encode() + complaint if complaint else b""

    def _pack(self, output: BinaryIO, allowance: Allowance) -> None:
        with suppress(BrokenPipeError):  # the other side reports the reason
            Packer(output, allowance, noted=self._noted).pack(self.send)

    def _unpack(self, source: BinaryIO, allowance: Allowance, *, all_there: bool) -> None:
        if aside := self._fetching.unpack(source, allowance, all_there=all_there):
            say(f"--fetch {aside}")


def held(directory: bytes) -> bytes:
    """Returns a path to the directory that is there now: once it is removed, another user may make
    one of its name. Raises Trouble."""
    try:
        opened = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as problem:
        raise Trouble(f"{shown(directory)}: {problem.strerror}") from None
    kept = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, 3)  # the command's own may be closed
    os.close(opened)
    return b"/proc/self/fd/%d" % kept


def clean(option: str, given: list[str], directory: bytes) -> list[bytes]:
    """Returns normalised paths relative to `directory`, without duplicates and paths inside others.
    Raises Trouble for a path that leads outside."""
    paths, above = [], os.path.normpath(directory).rstrip(b"/") + b"/"
    for text in given:
        path = os.path.normpath(encode(text)) if text else b""
        path = path.removeprefix(above)
        if not path or path.startswith((b"/", b"../")) or path == b"..":
            raise Trouble(
                f"{option} {text}: must be a path inside the working directory; "
                "-C DIR starts from a directory above"
            )
        paths.append(path)
    kept: list[bytes] = []
    for path in sorted(set(paths), key=lambda path: (path != b".", len(path))):
        if not any(k == b"." or path.startswith(k + b"/") for k in kept):
            kept.append(path)
    return kept


def work_in_child(
    descriptor: int, end: int, complaints: int, work: Callable[[BinaryIO], None], directory: bytes
) -> NoReturn:
    """Runs in the child. An interrupt ends a packer; an unpacker ends when its stream does, and
    cleans up."""
    status, complaint = 1, b""
    try:
        for number in (*ENDING, signal.SIGTSTP, signal.SIGCONT, signal.SIGUSR1, signal.SIGUSR2,
                       signal.SIGWINCH):  # fmt: skip
            packs = end == 0 or number not in ENDING
            signal.signal(number, signal.SIG_DFL if packs else signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)

        def at_pipe() -> None:
            os.chdir(directory)
            with open(descriptor, "wb" if end == 0 else "rb") as file:
                work(file)

        complaint = complaint_of(at_pipe).encode()
        status = int(bool(complaint))
    except BaseException as problem:  # the caller must hear of any failure
        complaint = repr(problem).encode()
    finally:
        with suppress(OSError):
            os.write(complaints, complaint[:COMPLAINT_BYTES])
        os._exit(status)
