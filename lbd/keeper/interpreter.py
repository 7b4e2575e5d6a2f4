"""Carries out the steps of user_and_start_steps.py in a child of the keeper. It decides nothing.

spare.c does the same for commands without a terminal or rules. This one handles everything, and is
the only one where there was no C compiler.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import resource
import signal
import socket
import struct
from typing import NoReturn

from lbd.keeper import session_leader as monitor
from lbd.keeper import user_and_start_steps as steps
from lbd.keeper.program_rules import program_found, rule_against
from lbd.keeper.side_child import die_with_keeper
from lbd.keeper.spawn_order import ALLOWED, DENIED, ID_MAX, SUBJECT, SUBJECT_AT
from lbd.launch.directory_look import find_program, look
from lbd.launch.directory_stamp import fits
from lbd.launch.exec import become
from lbd.local import frames

PR_SET_NO_NEW_PRIVS = 38
STANDARD = range(3)
INPUT_BYTES_MAX = 16 << 20  # more than the largest allowed lbm.max_request_bytes
FIRST_FREE = 10  # above a command's three descriptors
COMPARED = 7  # how many numbers of directory_stamp.comparison come first
MAGIC = struct.Struct("=I")  # f_type, the first field of struct statfs
STATFS_BYTES = 256  # more than any kernel's struct statfs
SYS_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
KEYCTL_JOIN_SESSION_KEYRING = 1


class Interpreter:
    """Carries out one list of steps. Methods raise OSError, ValueError, struct.error."""

    def __init__(
        self, libc: ctypes.PyDLL, kernel: str, no_keyring: int, sock: socket.socket
    ) -> None:
        """`no_keyring`: the result of `join_session_keyring` when the child was born."""
        self._libc, self._kernel, self._no_keyring, self._socket = libc, kernel, no_keyring, sock
        self._descriptors: list[int] = []
        self._argv: list[bytes] = []
        self._environment: dict[bytes, bytes] = {}
        self._program = b""  # the program, if it was already found and checked
        self._worker_loaded = False

    def run(self, body: bytes, descriptors: list[int]) -> NoReturn:
        """Ends this process, unless it becomes the command."""
        letter = b"\0"
        try:  # move the descriptors up first, so that they do not overwrite each other
            self._descriptors = [
                fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE) for one in descriptors
            ]
            for letter, value in frames.fields(body):
                self._carry_out(letter, value)
            raise OSError(errno.EBADMSG, "steps without an end")
        except BaseException as trouble:  # the keeper must hear of any failure
            number = getattr(trouble, "errno", None)
            number = number if isinstance(number, int) else errno.EBADMSG
            self._reply(steps.failed(letter, number))
        finally:
            os._exit(127)

    def _reply(self, reply: bytes) -> NoReturn:
        with contextlib.suppress(OSError):
            self._socket.sendall(reply)
        os._exit(127)

    def _carry_out(self, letter: bytes, value: bytes) -> None:
        match letter:
            case steps.WORDS:
                self._argv = texts(value)
            case steps.VARIABLES:
                self._environment = dict(map(variable, texts(value)))
            case steps.WRITE:
                write(*texts(value))
            case steps.TRY_WRITE:
                with contextlib.suppress(OSError):
                    write(*texts(value))
            case steps.CLOSE:
                close(*steps.read_numbers(value))
            case steps.PLACE:
                place(self._descriptors, *steps.read_numbers(value))
            case steps.COPY_INPUT:
                copy_input()
            case steps.LIMIT:
                set_limit(*steps.read_numbers(value))
            case steps.TRY_LIMIT:
                with contextlib.suppress(OSError, ValueError):
                    set_limit(*steps.read_numbers(value))
            case steps.NICE:
                with contextlib.suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, 0, one(value))
            case steps.IGNORE:
                ignore(one(value))
            case steps.UMASK:
                os.umask(one(value))
            case steps.DIRECTORY:
                os.chdir(text(value))
            case steps.SAME:
                self._compare(*steps.read_numbers(value))
            case steps.EXEC:
                raise become(self._argv, self._environment, self._program)
            case _:
                self._change_identity(letter, value)

    def _change_identity(self, letter: bytes, value: bytes) -> None:
        match letter:
            case steps.GROUPS:
                os.setgroups([not_nobody(gid) for gid in steps.read_numbers(value)])
            case steps.GROUP:
                os.setgid(not_nobody(one(value)))
            case steps.USER:
                os.setuid(not_nobody(one(value)))
                die_with_keeper(self._libc)  # setuid cleared this
            case steps.KEYRING:
                if join_session_keyring(self._libc) and self._no_keyring:
                    raise OSError(self._no_keyring, "no session keyring")
            case steps.NO_NEW_PRIVILEGES:
                if self._libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
                    raise OSError(ctypes.get_errno(), "no_new_privs")
            case _:
                self._do_what_spare_cannot(letter, value)

    def _do_what_spare_cannot(self, letter: bytes, value: bytes) -> None:
        match letter:
            case steps.TERMINAL:
                self._lead(*steps.read_numbers(value))
            case steps.RULES:
                self._obey_rules(value)
            case steps.LOOK:
                self._reply(steps.ANSWER + look(text(value), self._kernel, self._libc).pack())
            case steps.CHECK:
                if missing := find_program(self._argv[0], text(value)):
                    raise OSError(missing, "not to be run")
                self._reply(steps.ANSWER)
            case steps.WORKER:
                self._work()
            case _:
                raise OSError(errno.ENOTSUP, "no such step")

    def _compare(self, *values: int) -> None:
        how, inode, *rest = values[:COMPARED]
        here = look(b".", self._kernel, self._libc, lambda *_: "")
        found = ctypes.create_string_buffer(STATFS_BYTES)
        self._libc.statfs(b".", found)
        is_networked = MAGIC.unpack_from(found)[0] in values[COMPARED:]
        if not fits((how, inode % (1 << 64), *rest), here, is_networked):
            raise OSError(0, "another directory")

    def _lead(self, behind: int, owner: int, maker: int) -> None:
        maker = maker if maker >= 0 else os.geteuid()
        monitor.lead(self._descriptors, bool(behind), owner if owner >= 0 else None, maker)
        die_with_keeper(self._libc)

    def _obey_rules(self, value: bytes) -> None:
        """Applies the owner's rules to the program, and makes sure that exactly this program is
        run."""
        pairs = frames.fields(value)
        allowed, denied = (
            [rule.decode() for key, rule in pairs if key == kind] for kind in (ALLOWED, DENIED)
        )
        subject, path = dict(pairs)[SUBJECT], dict(pairs)[steps.EXEC]
        name = subject or self._argv[0]
        found = program_found(name, path)
        if not found:
            raise OSError(find_program(name, path) or errno.ENOENT, "not found")
        program = os.path.realpath(found)
        if rule := rule_against(program, allowed, denied):
            self._reply(steps.ruled_out(rule, found, program))
        if subject:  # the shell must not look the program up again
            self._argv[SUBJECT_AT] = program
        else:
            self._program = program

    def _work(self) -> None:
        """Loads the file worker while it is still readable; runs it at the last step."""
        from lbd.keeper import file_worker as file_worker

        if self._worker_loaded:
            self._socket.close()  # as exec would have done
            os._exit(file_worker.main(self._argv))
        self._worker_loaded = True


def texts(value: bytes) -> list[bytes]:
    """Raises ValueError."""
    if value[-1:] != b"\0":
        raise ValueError("a text without an end")
    return value[:-1].split(b"\0")


def text(value: bytes) -> bytes:
    """Raises ValueError."""
    (only,) = texts(value)
    return only


def variable(item: bytes) -> tuple[bytes, bytes]:
    name, _, content = item.partition(b"=")
    return name, content


def one(value: bytes) -> int:
    (number,) = steps.read_numbers(value)
    return number


def not_nobody(number: int) -> int:
    """Raises ValueError."""
    if not 0 <= number <= ID_MAX:
        raise ValueError("no such user or group")
    return number


def write(path: bytes, content: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, content)
    finally:
        os.close(file)


def close(number: int) -> None:
    if number not in STANDARD:
        raise ValueError("no such descriptor")
    with contextlib.suppress(OSError):
        os.close(number)


def place(came: list[int], which: int, number: int) -> None:
    if not 0 <= which < len(came) or number not in STANDARD:
        raise ValueError("no such descriptor")
    os.dup2(came[which], number)


def copy_input() -> None:
    """Makes standard input a copy of what it is, a file in memory, and empties that. We are root,
    and an LBM could pass anything: what is no such file may never end. Raises OSError."""
    fcntl.fcntl(0, fcntl.F_GET_SEALS)
    copy, left = os.memfd_create("input"), INPUT_BYTES_MAX + 1
    while more := os.sendfile(copy, 0, None, left):
        left -= more
        if not left:
            raise OSError(errno.EFBIG, "longer than any input may be")
    os.lseek(copy, 0, os.SEEK_SET)
    os.ftruncate(0, 0)
    os.dup2(copy, 0)
    os.close(copy)


def set_limit(number: int, soft: int, hard: int) -> None:
    resource.setrlimit(number, (soft, hard))


def ignore(mask: int) -> None:
    for number in signal.valid_signals():
        if mask >> (number - 1) & 1:
            with contextlib.suppress(OSError):
                signal.signal(number, signal.SIG_IGN)


def join_session_keyring(libc: ctypes.PyDLL) -> int:
    """Joins a new, empty session keyring: everyone who has the keeper's keyring shares it. Returns
    an errno, or 0, also where there are no keyrings."""
    number = SYS_KEYCTL.get(os.uname().machine)
    if number is None or libc.syscall(number, KEYCTL_JOIN_SESSION_KEYRING, None) >= 0:
        return 0
    failed = ctypes.get_errno()
    return failed if failed not in (errno.ENOSYS, errno.EPERM) else 0
