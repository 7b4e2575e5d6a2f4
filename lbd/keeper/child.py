"""From a fork of the keeper to the command, by the steps of user_and_start_steps.py.

A `Spare` is forked ahead of need and waits for its steps, because the fork and the first touch of
every page cost more than all the rest of starting a command. It is its own session already and
dies with the keeper. That it has become the command shows as the end of file on its socket.

Where spare.c has been compiled, it makes the spares for all but a few orders instead
(preforked.py).
"""

import contextlib
import ctypes
import os
import signal
import socket
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NoReturn

from lbd.keeper.interpreter import Interpreter, die_with_keeper, join_session_keyring
from lbd.keeper.limits.cgroups import Containment
from lbd.keeper.spawn_order import Order
from lbd.keeper.user_and_start_steps import EXEC, WORDS, Refused, Surroundings, compile_order, text
from lbd.launch.directory_look import kernel_id
from lbd.launch.exec import become
from lbd.launch.rlimits import Own, all_taken, lowered, own_limits
from lbd.local import frames
from lbd.local.descriptors import receive

STEPS_LIMIT_BYTES = 32 << 20
MAX_DESCRIPTORS = 1 << 20
CLONE_INTO_CGROUP = 1 << 33
SYS_CLONE3 = 435
LINKS_ALONE = 3  # of the directory of a process's threads, when there is one thread
MACHINES = ("x86_64", "aarch64", "riscv64")  # where that is its number
OOM_SCORE, OOM_SCORE_MAX = "/proc/self/oom_score_adj", 1000
OOM_ABOVE_DAEMONS = 200  # as if it had a fifth of the memory more


@dataclass(slots=True)
class Parent:
    """What a child must know of the keeper it was forked from."""

    containment: Containment
    identity: tuple[int, ...]
    ignored: tuple[int, ...]
    libc: ctypes.PyDLL  # which keeps the interpreter's lock during a call
    clones_into_groups: bool
    kernel: str
    limits: Own
    lbm_uid: int = -1  # who may make terminals for others; -1: our own user
    no_keyring: int = 0  # in a child: why it has no session keyring of its own, an errno

    def steps_of(self, order: Order, group: str) -> tuple[bytes, bool]:
        """For a child in that cgroup; and whether it gets others beside it. Raises Refused."""
        ceilings = self.containment.ceilings
        try:
            ceiling = ceilings.prepare(group, order.memory_bytes, order.processes)
        except OSError as error:
            raise Refused("limits", error.errno or 0) from error
        lower = tuple(lowered(self.limits, *limit) for limit in ceiling.limits)
        own = self.limits
        if lower:
            own = tuple((dict(enumerate(own)) | dict(lower)).values())
        facts = self.identity, self.kernel, self.containment.mark, self.lbm_uid
        here = Surroundings(*facts, tuple(ceiling.joined), lower)
        beside = bool(order.memory_bytes or order.processes or ceiling.trees)
        return compile_order(order, here, lambda asked: all_taken(asked, own)), beside

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
            limits=own_limits(),
            clones_into_groups=containment.kind == "cgroup2" and os.uname().machine in MACHINES,
        )


@dataclass(slots=True)
class Spare:
    """A forked child that waits for its steps."""

    pid: int
    socket: socket.socket
    group: str  # its cgroup directory, "" without
    unsent: bytes = b""  # of its steps

    def start(self, frame: bytes, descriptors: list[int]) -> None:
        """Hand the steps over, as far as they are taken now. Raises OSError if the child is
        gone."""
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
    Python does around fork, which is for threads: where one still closes what users have had
    (local/unwanted_descriptors.py), that grace period is the price. Raises OSError.
    """
    if parent.clones_into_groups and group and os.stat("/proc/self/task").st_nlink == LINKS_ALONE:
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
        go_before_daemons()
        interpreter = Interpreter(parent.libc, parent.kernel, parent.no_keyring, sock)
        _touch()
        steps, descriptors = _receive(sock)
        interpreter.run(steps, descriptors)
    finally:
        os._exit(127)


def leave_keeper(parent: Parent, own: int, *, dies_with_it: bool = True) -> None:
    """Everything that can be done before the steps are known. `own`: the descriptor it keeps."""
    if dies_with_it:
        die_with_keeper(parent.libc)
    os.setsid()
    parent.no_keyring = join_session_keyring(parent.libc)
    os.closerange(3, own)
    os.closerange(own + 1, MAX_DESCRIPTORS)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, *parent.ignored):
        signal.signal(number, signal.SIG_DFL)  # exec would not reset those that are ignored
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def go_before_daemons() -> None:
    """Where memory runs out the kernel ends commands first. Many small ones that fill it, each of
    them smaller than a daemon, would else outlive that."""
    with contextlib.suppress(OSError), open(OOM_SCORE, "r+b", buffering=0) as file:
        score = int(file.read()) + OOM_ABOVE_DAEMONS
        file.write(b"%d" % min(score, OOM_SCORE_MAX))


def _touch() -> None:
    """What the steps will touch, so that the copying of pages is over when they come."""
    frames.fields(frames.field(WORDS, text(b"/")) + frames.field(EXEC, text(b"/")))
    become([b"/nonexistent/lbd"], {})


def _receive(sock: socket.socket) -> tuple[bytes, list[int]]:
    split = frames.Splitter(STEPS_LIMIT_BYTES)
    descriptors: list[int] = []
    while True:
        data, more = receive(sock, 1 << 16, 3)
        if not data:
            os._exit(0)  # the keeper has no use for us any more
        descriptors += more
        for _, body in split.feed(data):
            return body, descriptors


class Helper(ABC):
    """The keeper's side of a child that serves it over a socket until it is ended.

    `pid` is 0 while there is none.
    """

    def __init__(self, parent: Parent) -> None:
        self.parent = parent
        self.socket: socket.socket | None = None
        self.pid = 0

    @abstractmethod
    def live(self, theirs: socket.socket) -> NoReturn:
        """In the child, with every signal blocked."""

    def fork(self) -> socket.socket:
        """Start one, which must not be there. Raises OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            pid = os.fork()
            if pid == 0:
                self.live(theirs)
            self.pid = pid
        except OSError:
            ours.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            theirs.close()
        self.socket = ours
        return ours

    def end(self) -> None:
        """The keeper reaps it as it does every child, and says so (`reaped`)."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)

    def reaped(self) -> None:
        """The next to need one starts it."""
        self.pid = 0
        self.end()
