"""From a fork of the keeper to the command, by the steps of user_and_start_steps.py.

A `Spare` is forked ahead of need and waits for its steps, because the fork and the first touch of
every page cost more than all the rest of starting a command. It is already a session of its own and
dies with the keeper. End of file on its socket means that it has become the command.

Where spare.c has been compiled, it makes the spares for all but a few orders (preforked.py).
"""

import contextlib
import ctypes
import os
import signal
import socket
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import NoReturn

from lbd.keeper.interpreter import Interpreter, join_session_keyring
from lbd.keeper.limits.cgroups import Containment
from lbd.keeper.side_child import die_with_keeper
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
LINKS_ALONE = 3  # links of /proc/PID/task when the process has one thread
MACHINES = ("x86_64", "aarch64", "riscv64")  # machines on which clone3 has this number
OOM_SCORE, OOM_SCORE_MAX = "/proc/self/oom_score_adj", 1000
OOM_ABOVE_DAEMONS = 200  # as if the process used a fifth more of the memory


@dataclass(slots=True)
class Parent:
    """What a child must know of the keeper it was forked from."""

    containment: Containment
    identity: tuple[int, ...]
    ignored: tuple[int, ...]
    libc: ctypes.PyDLL  # PyDLL keeps the interpreter's lock during a call
    clones_into_groups: bool
    kernel: str
    limits: Own
    lbm_uid: int = -1  # the user who may make terminals for others; -1: the keeper's own user
    nice: int = 0  # a child of a keeper that runs before others (urgency.py) would lose it
    no_keyring: int = 0  # in a child: the errno if it could not get a session keyring of its own

    def steps_of(self, order: Order, group: str) -> tuple[bytes, str, bool]:
        """Returns the steps for a child in that cgroup, the one in which it is then, and whether it
        has further cgroups beside it. Raises Refused."""
        ceilings, own = self.containment.ceilings, self.limits
        here = Surroundings(self.identity, self.kernel, self.containment.mark, self.lbm_uid)
        if not (order.memory_bytes or order.processes or ceilings.limits_all):
            return compile_order(order, here, all_taken(order.limits, own)), group, False
        uid = order.user[0] if order.user else os.geteuid()
        try:
            ceiling = ceilings.prepare(group, uid, order.memory_bytes, order.processes)
        except OSError as error:
            raise Refused("limits", error.errno or 0) from error
        lower = tuple(lowered(own, *limit) for limit in ceiling.limits)
        here = replace(here, joined=tuple(ceiling.joined), ceilings=lower)
        own = tuple((dict(enumerate(own)) | dict(lower)).values())
        steps = compile_order(order, here, all_taken(order.limits, own))
        return steps, ceiling.group, True

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
            nice=os.getpriority(os.PRIO_PROCESS, 0),
            clones_into_groups=containment.kind == "cgroup2" and os.uname().machine in MACHINES,
        )


@dataclass(slots=True)
class Spare:
    """A forked child that waits for its steps."""

    pid: int
    socket: socket.socket
    group: str  # its cgroup's directory; "" without cgroups
    unsent: bytes = b""  # the steps not sent yet

    def start(self, frame: bytes, descriptors: list[int]) -> None:
        """Sends the steps, as far as the socket takes them now. Raises OSError if the child is
        gone."""
        self.unsent = frame[socket.send_fds(self.socket, [frame], descriptors) :]

    def go_on(self) -> None:
        """Sends more of the unsent steps."""
        try:
            self.unsent = self.unsent[self.socket.send(self.unsent) :]
        except BlockingIOError:
            pass
        except OSError:  # the child is gone: the next read reports it
            self.unsent = b""


def fork_spare(parent: Parent) -> Spare:
    """Raises OSError if there are too many processes."""
    group = parent.containment.new_group()
    ours, theirs = socket.socketpair()
    # Signals stay blocked until the child has dropped the keeper's handlers: otherwise a SIGTERM
    # meant for its job would end all jobs.
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
    """Forks, with the child in `group` from birth where the kernel supports it.

    Moving a process into a cgroup afterwards makes it wait for a grace period of RCU, up to 15 ms.
    The clone skips what Python does around fork for threads, so it is used only in a
    single-threaded process. While another thread still closes users' descriptors
    (local/unwanted_descriptors.py), the grace period is paid. Raises OSError.
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
        parent.clones_into_groups = False  # an old kernel or a seccomp filter
    pid = os.fork()
    if pid == 0:
        parent.containment.enter(group)
    return pid


def _live(parent: Parent, sock: socket.socket, group: str) -> NoReturn:
    """Runs the child until it ends."""
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
    """Does all that can be done before the steps are known. `own`: the descriptor to keep."""
    if dies_with_it:
        die_with_keeper(parent.libc)
    os.setsid()
    if os.getpriority(os.PRIO_PROCESS, 0) < parent.nice:
        os.setpriority(os.PRIO_PROCESS, 0, parent.nice)
    parent.no_keyring = join_session_keyring(parent.libc)
    os.closerange(3, own)
    os.closerange(own + 1, MAX_DESCRIPTORS)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, *parent.ignored):
        signal.signal(number, signal.SIG_DFL)  # exec would leave ignored signals ignored
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def go_before_daemons() -> None:
    """Makes the kernel end commands before daemons when memory runs out. Otherwise many small
    commands, each smaller than a daemon, could fill the memory and survive."""
    with contextlib.suppress(OSError), open(OOM_SCORE, "r+b", buffering=0) as file:
        score = int(file.read()) + OOM_ABOVE_DAEMONS
        file.write(b"%d" % min(score, OOM_SCORE_MAX))


def _touch() -> None:
    """Touches what the steps will use, so that its pages are copied before the steps arrive."""
    frames.fields(frames.field(WORDS, text(b"/")) + frames.field(EXEC, text(b"/")))
    become([b"/nonexistent/lbd"], {})


def _receive(sock: socket.socket) -> tuple[bytes, list[int]]:
    split = frames.Splitter(STEPS_LIMIT_BYTES)
    descriptors: list[int] = []
    while True:
        data, more = receive(sock, 1 << 16, 3)
        if not data:
            os._exit(0)  # the keeper no longer needs this spare
        descriptors += more
        for _, body in split.feed(data):
            return body, descriptors


class Helper(ABC):
    """The keeper's side of a child that serves it over a socket until it is ended.

    `pid` is 0 while there is no child.
    """

    def __init__(self, parent: Parent) -> None:
        self.parent = parent
        self.socket: socket.socket | None = None
        self.pid = 0

    @abstractmethod
    def live(self, theirs: socket.socket) -> NoReturn:
        """Runs in the child, with every signal blocked."""

    def fork(self) -> socket.socket:
        """Starts the child; there must be none. Raises OSError."""
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
        """Kills the child. The keeper reaps it like every child and then calls `reaped`."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)

    def reaped(self) -> None:
        """Forgets the child; the next use starts a new one."""
        self.pid = 0
        self.end()
