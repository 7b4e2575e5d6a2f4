"""From a fork of the keeper to the command: join its cgroup, become its user, exec.

A `Spare` is forked ahead of need and waits for its order, because the fork and the first touch of
every page cost more than all the rest of starting a command. It is its own session already and
dies with the keeper. That it has become the command shows as the end of file on its socket.

Where spare.c has been compiled, it makes the spares for plain orders instead (nursery.py);
`is_plain` says which those are.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import resource
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from lbd.lbm import monitor, rlimits
from lbd.lbm.code_variables import without_code
from lbd.lbm.containment import MARK, Containment
from lbd.lbm.launch import DEFAULT_PATH, become
from lbd.lbm.look import find_program, kernel_id, look
from lbd.lbm.program import real_program, rule_against
from lbd.lbm.spawn_order import (
    ABLE,
    ARGUMENT,
    BEHIND,
    JOB,
    LIMIT,
    ORDER,
    SEEN,
    SUBJECT_AT,
    Order,
    read_order,
)
from lbd.lbm.stamp import Stamp, is_same
from lbd.rpc import frames
from lbd.rpc.descriptors import receive

ORDER_LIMIT_BYTES = 16 << 20
MAX_DESCRIPTORS = 1 << 20
PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38
CLONE_INTO_CGROUP = 1 << 33
SYS_CLONE3 = 435
MACHINES = ("x86_64", "aarch64", "riscv64")  # where that is its number
SYS_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
KEYCTL_JOIN_SESSION_KEYRING = 1


class CannotStart(Exception):
    """Raised in the child before exec: which stage failed, and the OSError behind it."""

    def __init__(self, stage: str, error: OSError) -> None:
        super().__init__(stage, error)
        self.stage = stage
        self.number = error.errno or 0


@dataclass(slots=True)
class Parent:
    """What a child must know of the keeper it was forked from."""

    containment: Containment
    identity: tuple[int, ...]
    ignored: tuple[int, ...]
    libc: ctypes.PyDLL  # which keeps the interpreter's lock during a call
    clones_into_groups: bool
    kernel: str
    lbm_uid: int = -1  # whose terminals may be given to a user; -1: our own user's
    no_keyring: int = 0  # in a child: why it has no session keyring of its own, an errno

    @classmethod
    def of_this_process(cls, containment: Containment) -> "Parent":
        return cls(
            containment=containment,
            identity=(os.geteuid(), os.getegid(), *sorted(os.getgroups())),
            ignored=tuple(
                number
                for number in signal.valid_signals()
                if signal.getsignal(number) == signal.SIG_IGN
            ),
            libc=ctypes.PyDLL(None, use_errno=True),
            kernel=kernel_id(),
            clones_into_groups=containment.kind == "cgroup2" and os.uname().machine in MACHINES,
        )


@dataclass(slots=True)
class Spare:
    """A forked child that waits for its order."""

    pid: int
    socket: socket.socket
    group: str  # its cgroup directory, "" without
    unsent: bytes = b""  # of its order

    def start(self, order: bytes, descriptors: list[int]) -> None:
        """Hand the order over, as far as it is taken now. Raises OSError if the child is gone."""
        frame = frames.pack(ORDER, order)
        self.unsent = frame[socket.send_fds(self.socket, [frame], descriptors) :]

    def go_on(self) -> None:
        """With what has not been sent."""
        try:
            self.unsent = self.unsent[self.socket.send(self.unsent) :]
        except BlockingIOError:
            pass
        except OSError:  # it is gone: what became of it is read next
            self.unsent = b""


def fork_spare(parent: Parent) -> Spare:
    """Raises OSError if there are too many processes."""
    group = parent.containment.new_group()
    ours, theirs = socket.socketpair()
    # Until the child has let go of the keeper's handlers: a TERM of its job's would end all jobs.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = fork_into(parent, group)
        if pid == 0:
            _live(parent, theirs, group)
    except OSError:
        ours.close()
        parent.containment.forget(group)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()
    return Spare(pid, ours, group)


class CloneArguments(ctypes.Structure):
    """struct clone_args of clone3(2)."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (
            *("flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack", "stack_size"),
            *("tls", "set_tid", "set_tid_size", "cgroup"),
        )
    )


def fork_into(parent: Parent, group: str) -> int:
    """fork, the child being in `group` from its birth on where the kernel can do that.

    Moving a process afterwards makes it wait for a grace period of RCU, up to 15 ms. Without what
    Python does around fork, which is for threads; there are none here. Raises OSError.
    """
    if parent.clones_into_groups and group:
        directory = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        arguments = CloneArguments(
            flags=CLONE_INTO_CGROUP, exit_signal=signal.SIGCHLD, cgroup=directory
        )
        size = ctypes.sizeof(arguments)
        pid: int = parent.libc.syscall(SYS_CLONE3, ctypes.byref(arguments), size)
        os.close(directory)
        if pid >= 0:
            return pid
        parent.clones_into_groups = False  # an old kernel, a seccomp filter
    pid = os.fork()
    if pid == 0:
        parent.containment.enter(group)
    return pid


def _live(parent: Parent, sock: socket.socket, group: str) -> NoReturn:
    """The child's whole life."""
    try:
        leave_keeper(parent, sock.fileno())
        _touch()
        order, descriptors = _receive(sock)
        if order.worker:  # loaded while we may read it
            from lbd.lbm import stage_worker
        if order.terminal:
            maker = parent.lbm_uid if parent.lbm_uid >= 0 else os.geteuid()
            owner = order.user[0] if order.user else None
            monitor.lead(descriptors, order.terminal == BEHIND, owner, maker)
            parent.libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        _set_up(parent, order, descriptors, group)
        if order.worker:
            sock.close()  # as exec would have done
            os._exit(stage_worker.main(order.argv))
        if order.look:
            stamp = look(order.argv[0], parent.kernel, parent.libc)
            raise CannotStart(SEEN + stamp.pack().decode().replace(" ", ","), OSError(0, "seen"))
        path = order.environment.get(b"PATH", DEFAULT_PATH)
        program = b""
        if order.allowed or order.denied:
            program = allowed_program(order, path)
        if order.check:
            missing = find_program(order.argv[0], path)
            raise CannotStart("exec" if missing else ABLE, OSError(missing, "checked"))
        mark = parent.containment.mark.partition(b"=")[2] + order.job.encode()
        order.environment[MARK] = mark
        raise CannotStart(
            "exec", become(order.argv, order.environment, program if not order.subject else b"")
        )
    except CannotStart as trouble:
        sock.sendall(f"{trouble.stage} {trouble.number}".encode())
    except BaseException as trouble:  # whatever it is, the keeper must hear of it
        with contextlib.suppress(OSError):
            sock.sendall(f"spawn {getattr(trouble, 'errno', 0) or 0}".encode())
    finally:
        os._exit(127)


def allowed_program(order: Order, path: bytes) -> bytes:
    """What is run, and nothing else, where the owner has rules for that. Raises CannotStart."""
    name = order.subject or order.argv[0]
    program = real_program(name, path)
    if not program:
        missing = find_program(name, path) or errno.ENOENT
        raise CannotStart("exec", OSError(missing, os.strerror(missing)))
    if rule := rule_against(program, order.allowed, order.denied):
        raise CannotStart(rule, PermissionError(errno.EACCES, "not allowed"))
    order.environment = without_code(order.environment)
    if order.subject:  # the shell is not to look for it again
        order.argv[SUBJECT_AT] = program
    return program


def leave_keeper(parent: Parent, own: int, *, dies_with_it: bool = True) -> None:
    """Everything that can be done before the order is known. `own`: the descriptor it keeps."""
    if dies_with_it:
        parent.libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.setsid()
    parent.no_keyring = join_session_keyring(parent.libc)
    os.closerange(3, own)
    os.closerange(own + 1, MAX_DESCRIPTORS)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, *parent.ignored):
        signal.signal(number, signal.SIG_DFL)  # exec would not reset those that are ignored
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _touch() -> None:
    """What the order will touch, so that the copying of pages is over when it comes."""
    read_order(
        frames.field(JOB, b"j") + frames.field(ARGUMENT, b"/") + frames.field(LIMIT, b"0 0 0")
    )
    become([b"/nonexistent/lbd"], {})


def _receive(sock: socket.socket) -> tuple[Order, list[int]]:
    split = frames.Splitter(ORDER_LIMIT_BYTES)
    descriptors: list[int] = []
    while True:
        data, more = receive(sock, 1 << 16, 3)
        if not data:
            os._exit(0)  # the keeper has no use for us any more
        descriptors += more
        for _, body in split.feed(data):
            return read_order(body), descriptors


def _set_up(parent: Parent, order: Order, descriptors: list[int], group: str) -> None:
    """Raises CannotStart."""
    try:
        parent.containment.ceilings.enter(group, order.memory_bytes, order.processes)
    except OSError as error:
        raise CannotStart("limits", error) from error
    _take_descriptors(descriptors, order.closed_fds)
    _set_limits(order.limits)
    if order.nice:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, order.nice)
    if order.user and order.user != parent.identity:
        _become_user(parent, order.user, parent.no_keyring)
    if order.no_new_privileges:
        parent.libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if order.ignored_signals:
        _ignore(order.ignored_signals)
    os.umask(order.umask)
    try:
        os.chdir(order.directory)
    except OSError as error:
        raise CannotStart("chdir", error) from error
    if order.stamp is not None and not is_here(order.stamp, parent):
        raise CannotStart("directory", OSError(0, "another one"))


def _ignore(mask: int) -> None:
    for number in signal.valid_signals():
        if mask >> (number - 1) & 1:
            with contextlib.suppress(OSError):
                signal.signal(number, signal.SIG_IGN)


def is_here(stamp: Stamp, parent: Parent) -> bool:
    """Whether we are in the directory of which the origin took this stamp."""
    found = os.stat(".")
    if (stamp.kernel, stamp.device, stamp.inode) == (parent.kernel, found.st_dev, found.st_ino):
        return True
    if stamp.inode != found.st_ino:
        return False
    return is_same(stamp, look(b".", parent.kernel, parent.libc))


def _take_descriptors(descriptors: list[int], closed_fds: int) -> None:
    """Put them at 0, 1, 2, leaving out those the caller had closed; nothing else survives exec."""
    wanted = [number for number in (0, 1, 2) if not closed_fds >> number & 1]
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in descriptors]
    for number in (0, 1, 2):
        with contextlib.suppress(OSError):
            os.close(number)
    for number, descriptor in zip(wanted, high, strict=True):
        os.dup2(descriptor, number)


def _set_limits(limits: list[tuple[int, int, int]]) -> None:
    """The caller's limits, as far as they count here."""
    for number, soft, hard in limits:
        with contextlib.suppress(OSError, ValueError, OverflowError):
            wanted = rlimits.taken(number, soft, hard, resource.getrlimit(number))
            if wanted is not None:
                resource.setrlimit(number, wanted)


def _become_user(parent: Parent, user: tuple[int, ...], no_keyring: int) -> None:
    """`no_keyring`: of `join_session_keyring`, when we were born."""
    uid, gid, *groups = user
    with contextlib.suppress(OSError):  # no audit here, or not to be changed
        Path("/proc/self/loginuid").write_text(str(uid))
    try:
        os.setgroups(groups)
        os.setgid(gid)
        os.setuid(uid)
    except OSError as error:
        raise CannotStart("user", error) from error
    parent.libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # setuid cleared it
    # One that belongs to the user, if the user may have another: else the one we were born with.
    if join_session_keyring(parent.libc) and no_keyring:
        raise CannotStart("keyring", OSError(no_keyring, os.strerror(no_keyring)))


def join_session_keyring(libc: ctypes.PyDLL) -> int:
    """A new one, empty: who has the keeper's shares it with all others who have. An errno, or 0,
    also where there are no keyrings."""
    number = SYS_KEYCTL.get(os.uname().machine)
    if number is None or libc.syscall(number, KEYCTL_JOIN_SESSION_KEYRING, None) >= 0:
        return 0
    failed = ctypes.get_errno()
    return failed if failed not in (errno.ENOSYS, errno.EPERM) else 0
