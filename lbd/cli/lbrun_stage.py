"""`lbrun --send` and `--fetch`: the caller's side of it.

What is sent is packed, and what is fetched unpacked, by children of `lbrun`: as the caller, with
the caller's rights, at the pace of the pipe. What comes back is made beside its place and put there
in one step when all of it has come; so nothing half fetched is ever seen under its name, whatever
is killed on the way.
"""

import ctypes
import errno
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from lbd.cli.lbrun_caller import encode
from lbd.cli.lbrun_options import Options, Trouble
from lbd.lbm.packing import (
    Allowance,
    BadPack,
    Packer,
    Unpacked,
    Unpacker,
    clear_away,
    naming,
    open_parent,
    shown,
)
from lbd.rpc import client_tags as tags
from lbd.rpc.frames import pack

if TYPE_CHECKING:
    from _socket import socket

RENAME_EXCHANGE = 2
COMPLAINT_BYTES = 4096
ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


class Staging:
    """What one command takes along and brings back; paths as they are listed, cleaned up."""

    def __init__(self, options: Options, directory: bytes) -> None:
        """Raises Trouble: a path outside, nothing to send, something to be overwritten."""
        self._directory = directory
        self.send = clean("--send", options.send)
        self.fetch = clean("--fetch", options.fetch)
        self._pid = os.getpid()
        if b"." in self.fetch:
            raise Trouble("--fetch .: list what is to come back, file by file or directory")
        for path in self.send:
            if not os.path.lexists(os.path.join(directory, path)):
                raise Trouble(f"--send {shown(path)}: No such file or directory")
        for path in self.fetch:
            self._check_place(path)

    def _check_place(self, path: bytes) -> None:
        """A directory is replaced as a whole: never one that was not sent and so would be lost."""
        place = os.path.join(self._directory, path)
        if any(path == s or path.startswith(s + b"/") or s == b"." for s in self.send):
            return
        try:
            occupied = bool(os.listdir(place)) and not os.path.islink(place)
        except OSError:
            return
        if occupied:
            raise Trouble(
                f"--fetch {shown(path)}: a directory that is not empty; --send it too, since it is "
                "replaced as a whole"
            )

    def heard(self, sock: "socket", tag: bytes, body: bytes) -> None:
        """PACK or UNPACK: do it, and say how it ended."""
        first, *rest = map(int, body.split())
        allowance = Allowance(first, rest[0])
        if tag == tags.PACK:
            complaint = self._in_child(sock, 0, lambda file: self._pack(file, allowance), "--send")
        else:
            status = rest[1]
            complaint = self._in_child(
                sock, 1, lambda file: self._unpack(file, allowance, status), "--fetch"
            )
            self._clear()
        with suppress(OSError):  # then the next read says so
            sock.sendall(pack(tags.STAGED, complaint))

    def _in_child(
        self, sock: "socket", end: int, work: Callable[[BinaryIO], None], option: str
    ) -> bytes:
        """Do it at the other end of a pipe of which the LBM gets `end`; what went wrong, or b""."""
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
        with suppress(BrokenPipeError):  # the other side knows why
            Packer(output, allowance, follow=True).pack(self.send)

    def _unpack(self, source: BinaryIO, allowance: Allowance, status: int) -> None:
        """Raises BadPack, OSError."""
        parents: dict[int, int] = {}

        def place(number: int) -> tuple[int, bytes]:
            if number >= len(self.fetch):
                raise BadPack("more came than was asked for")
            path = self.fetch[number]
            if number not in parents:
                parents[number] = open_parent(path, follow=True, make=True)
            return parents[number], self._beside(path, number)

        def allows_link(path: bytes, target: bytes) -> bool:
            number, _, below = path.partition(b"/")
            return stays_inside(os.path.join(self.fetch[int(number)], below).rstrip(b"/"), target)

        try:
            result = Unpacker(source, allowance, place, allows_link).unpack()
            if result.missing and status == 0:
                names = ", ".join(shown(self.fetch[number]) for number in sorted(result.missing))
                raise BadPack(f"{names}: the command made no such file")
            self._commit(result, parents)
        finally:
            self._clear()

    def _commit(self, result: Unpacked, parents: dict[int, int]) -> None:
        """Put everything in its place. Raises BadPack, as a rule before anything was moved."""
        for number in result.arrived:
            try:
                self._check_place(self.fetch[number])
            except Trouble as problem:
                raise BadPack(str(problem).partition(" ")[2]) from None
        for number in sorted(result.arrived):
            path = self.fetch[number]
            name, fresh = os.path.basename(path), self._beside(path, number)
            with naming(path):
                put_in_place(parents[number], fresh, name)

    def _beside(self, path: bytes, number: int) -> bytes:
        name = os.path.basename(path)[:200]
        return b".%b.lbd-%d-%d" % (name, self._pid, number)

    def _clear(self) -> None:
        """What a child that was killed has left, or what was replaced."""
        for number, path in enumerate(self.fetch):
            fresh = os.path.join(self._directory, os.path.dirname(path), self._beside(path, number))
            for left in (fresh, fresh + b".old"):
                clear_away(left)


def clean(option: str, given: list[str]) -> list[bytes]:
    """Normal forms, each once, none that lies in another. Raises Trouble for one that leads out."""
    paths = []
    for text in given:
        path = os.path.normpath(encode(text)) if text else b""
        if not path or path.startswith((b"/", b"../")) or path == b"..":
            raise Trouble(
                f"{option} {text}: only what lies in the working directory, named from it"
            )
        paths.append(path)
    kept: list[bytes] = []
    for path in sorted(set(paths), key=lambda path: (path != b".", len(path))):
        if not any(k == b"." or path.startswith(k + b"/") for k in kept):
            kept.append(path)
    return kept


def stays_inside(link: bytes, target: bytes) -> bool:
    """Whether a symbolic link at this path of the working directory points into it."""
    if target.startswith(b"/") or not target:
        return False
    end = os.path.normpath(os.path.join(os.path.dirname(link), target))
    return end != b".." and not end.startswith(b"../")


def work_in_child(
    descriptor: int, end: int, complaints: int, work: Callable[[BinaryIO], None], directory: bytes
) -> NoReturn:
    """An interrupt ends a packer; an unpacker ends when its stream does, and cleans up."""
    status, complaint = 1, b""
    try:
        for number in (*ENDING, signal.SIGTSTP, signal.SIGCONT, signal.SIGUSR1, signal.SIGUSR2,
                       signal.SIGWINCH):  # fmt: skip
            packs = end == 0 or number not in ENDING
            signal.signal(number, signal.SIG_DFL if packs else signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        os.chdir(directory)
        with open(descriptor, "wb" if end == 0 else "rb") as file:
            work(file)
        status = 0
    except BadPack as problem:
        complaint = str(problem).encode()
    except OSError as problem:
        complaint = (problem.strerror or str(problem)).encode()
    except BaseException as problem:  # whatever it is, the caller must hear of it
        complaint = repr(problem).encode()
    finally:
        with suppress(OSError):
            os.write(complaints, complaint[:COMPLAINT_BYTES])
        os._exit(status)


def put_in_place(parent: int, fresh: bytes, name: bytes) -> None:
    """What is called `fresh` becomes `name`, in one step. Raises OSError."""
    try:
        os.rename(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
        return
    except OSError as problem:
        if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    libc = ctypes.CDLL(None)
    exchange = getattr(libc, "renameat2", None)
    if exchange is not None and exchange(parent, fresh, parent, name, RENAME_EXCHANGE) == 0:
        return  # the old one is cleared away under the name of the fresh one
    os.rename(name, fresh + b".old", src_dir_fd=parent, dst_dir_fd=parent)
    os.rename(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
