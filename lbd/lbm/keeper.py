"""The keeper: a small single-threaded process that forks, becomes the user, execs and waits.

It alone starts jobs, so it alone is their parent: it knows how each ended (wait4) whatever happens
to the LBM. It has no gRPC, no threads and no event loop, so that fork is cheap and safe. One LBM
at a time is connected, over keeper.sock; the frames' fields are below. When the LBM goes away
without a word, the attached jobs lose their streams with it: they are ended (TERM, a grace, KILL),
and after `orphan_after_s` without a new LBM the keeper ends too.

As subreaper it inherits every orphan of its jobs, so nothing escapes to init unseen.
"""

import contextlib
import ctypes
import fcntl
import os
import pwd
import resource
import select
import signal
import socket
import struct
import sys
import time
from dataclasses import dataclass, field

from lbd.lbm.containment import MARK, Containment
from lbd.lbm.launch import become
from lbd.rpc import frames

# LBM -> keeper
SPAWN = b"S"  # with the command's descriptors attached; fields below
SIGNAL = b"K"  # JOB, NUMBER
END_TREE = b"T"  # JOB: kill all of it now
QUIT = b"Q"  # end every job, then this process
# keeper -> LBM
HELLO = b"O"  # KIND (containment), PID
BEGUN = b"B"  # JOB, PID, GROUP
FAILED = b"F"  # JOB, STAGE, NUMBER (errno): nothing ran
STOPPED = b"Z"  # JOB, NUMBER 1 stopped, 0 continued
EXITED = b"X"  # JOB, NUMBER (wait status), USER_US, SYSTEM_US, RSS_KIB, OUT_OF_MEMORY

JOB = b"j"
PID = b"p"
KIND = b"k"
GROUP = b"g"
STAGE = b"s"
NUMBER = b"n"
USER_US = b"U"
SYSTEM_US = b"Y"
RSS_KIB = b"R"
OUT_OF_MEMORY = b"o"
ARGUMENT = b"a"
ENVIRONMENT = b"e"
DIRECTORY = b"d"
UMASK = b"u"
LIMIT = b"l"
USER_NAME = b"w"  # absent: stay who we are
NICE = b"N"
MEMORY = b"M"
CLOSED_FDS = b"c"

FRAME_LIMIT_BYTES = 16 << 20
POLL_ENDING_MS = 5
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


@dataclass(slots=True)
class Running:
    """A job this keeper has started. `ended` is (wait status, rusage) once its leader is reaped."""

    pid: int
    ended: tuple[int, resource.struct_rusage] | None = None
    kill_at_s: float | None = None


@dataclass(slots=True)
class Order:
    """A SPAWN frame, read."""

    job: str = ""
    argv: list[bytes] = field(default_factory=list)
    environment: dict[bytes, bytes] = field(default_factory=dict)
    directory: bytes = b"/"
    umask: int = 0o022
    limits: list[tuple[int, int, int]] = field(default_factory=list)
    user: str = ""
    nice: int = 0
    memory_bytes: int = 0
    closed_fds: int = 0


class CannotStart(Exception):
    """Raised in the child before exec: which stage failed, and the OSError behind it."""

    def __init__(self, stage: str, error: OSError) -> None:
        super().__init__(stage, error)
        self.stage = stage
        self.number = error.errno or 0


def read_order(body: bytes) -> Order:
    """Raises ValueError if a field is malformed."""
    order = Order()
    for key, value in frames.fields(body):
        if key == ARGUMENT:
            order.argv.append(value)
        elif key == ENVIRONMENT:
            name, _, text = value.partition(b"=")
            order.environment[name] = text
        elif key == JOB:
            order.job = value.decode()
        elif key == DIRECTORY:
            order.directory = value
        elif key == UMASK:
            order.umask = int(value)
        elif key == LIMIT:
            number, soft, hard = (int(n) for n in value.split())
            order.limits.append((number, soft, hard))
        elif key == USER_NAME:
            order.user = value.decode()
        elif key == NICE:
            order.nice = int(value)
        elif key == MEMORY:
            order.memory_bytes = int(value)
        elif key == CLOSED_FDS:
            order.closed_fds = int(value)
    if not order.job or not order.argv:
        raise ValueError("a job without id or command")
    return order


class Keeper:
    """The loop: the LBM's orders in, its children's ends out."""

    def __init__(
        self, listener: socket.socket, containment: Containment, orphan_s: float, grace_s: float
    ) -> None:
        self._listener = listener
        self._containment = containment
        self._orphan_s = orphan_s
        self._grace_s = grace_s
        self._lbm: socket.socket | None = None
        self._split = frames.Splitter(FRAME_LIMIT_BYTES)
        self._descriptors: list[int] = []
        self._jobs: dict[str, Running] = {}
        self._alone_since_s = time.monotonic()
        self._quitting = False
        self._libc = ctypes.CDLL(None)
        self._libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._wake, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._asked_to_quit)

    def _asked_to_quit(self, *_: object) -> None:
        self._quitting = True
        self._end_all()

    def run(self) -> None:
        """Until told to quit, or left alone for `orphan_s`."""
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while not (self._quitting and not self._jobs):
            idle = self._lbm is None and not self._jobs
            if idle and time.monotonic() - self._alone_since_s > self._orphan_s:
                return
            for descriptor, _ in poll.poll(self._poll_ms()):
                if descriptor == self._listener.fileno():
                    self._accept(poll)
                elif descriptor == self._wake:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake, 4096)
                elif self._lbm is not None and descriptor == self._lbm.fileno():
                    self._receive(poll)
            self._reap()
            self._finish()

    def _poll_ms(self) -> int:
        if any(job.ended for job in self._jobs.values()):
            return POLL_ENDING_MS
        due = [job.kill_at_s for job in self._jobs.values() if job.kill_at_s is not None]
        if due:
            return max(0, int((min(due) - time.monotonic()) * 1000)) + 1
        return 500 if self._lbm is None else -1

    def _accept(self, poll: select.poll) -> None:
        connection, _ = self._listener.accept()
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        if struct.unpack("3i", credentials)[1] not in (0, os.geteuid()):
            connection.close()
            return
        if self._lbm is not None:
            self._lost(poll)
        self._lbm = connection
        self._split = frames.Splitter(FRAME_LIMIT_BYTES)
        poll.register(connection, select.POLLIN)
        self._tell(HELLO, (KIND, self._containment.kind), (PID, os.getpid()))

    def _lost(self, poll: select.poll) -> None:
        """The LBM is gone without QUIT: its jobs have lost their streams."""
        assert self._lbm is not None
        poll.unregister(self._lbm)
        self._lbm.close()
        self._lbm = None
        self._alone_since_s = time.monotonic()
        self._drop_descriptors()
        self._end_all()

    def _end_all(self) -> None:
        for job in self._jobs.values():
            _signal_group(job.pid, signal.SIGTERM)
            _signal_group(job.pid, signal.SIGCONT)
            job.kill_at_s = time.monotonic() + self._grace_s

    def _receive(self, poll: select.poll) -> None:
        assert self._lbm is not None
        try:
            data, descriptors, _, _ = socket.recv_fds(
                self._lbm, 1 << 16, 16, socket.MSG_CMSG_CLOEXEC
            )
            self._descriptors += descriptors
            received = self._split.feed(data)
        except (OSError, ValueError):
            data, received = b"", []
        if not data:
            self._lost(poll)
            return
        for tag, body in received:
            try:
                self._obey(tag, body)
            except ValueError:
                self._lost(poll)
                return

    def _obey(self, tag: bytes, body: bytes) -> None:
        if tag == SPAWN:
            self._spawn(read_order(body))
        elif tag == QUIT:
            self._asked_to_quit()
        else:
            given = dict(frames.fields(body))
            job = self._jobs.get(given.get(JOB, b"").decode())
            if job is None:
                return
            if tag == SIGNAL:
                _deliver(job.pid, int(given[NUMBER]))
            elif tag == END_TREE:
                job.kill_at_s = time.monotonic()

    def _drop_descriptors(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []

    def _spawn(self, order: Order) -> None:
        # Two orders may come in one read: each takes just the descriptors that are its own.
        count = 3 - order.closed_fds.bit_count()
        own, self._descriptors = self._descriptors[:count], self._descriptors[count:]
        report, child_report = os.pipe2(os.O_CLOEXEC)
        try:
            group = self._containment.prepare(order.job)
            pid = os.fork()
        except OSError as error:
            for descriptor in (report, child_report, *own):
                os.close(descriptor)
            self._tell(FAILED, (JOB, order.job), (STAGE, "spawn"), (NUMBER, error.errno or 0))
            return
        if pid == 0:
            self._become_job(order, own, child_report)
        for descriptor in (child_report, *own):
            os.close(descriptor)
        trouble = os.read(report, 256)
        os.close(report)
        if trouble:
            os.waitpid(pid, 0)
            self._containment.forget(order.job)
            stage, _, number = trouble.decode().partition(" ")
            self._tell(FAILED, (JOB, order.job), (STAGE, stage), (NUMBER, number))
            return
        self._jobs[order.job] = Running(pid)
        self._tell(BEGUN, (JOB, order.job), (PID, pid), (GROUP, group))

    def _become_job(self, order: Order, descriptors: list[int], report: int) -> None:
        """In the child: never returns."""
        try:
            self._set_up_child(order, descriptors)
            order.environment[MARK] = (self._containment.mark + order.job.encode()).partition(b"=")[
                2
            ]
            raise CannotStart("exec", become(order.argv, order.environment))
        except CannotStart as trouble:
            os.write(report, f"{trouble.stage} {trouble.number}".encode())
        except BaseException as trouble:  # whatever it is, the parent must hear of it
            os.write(report, f"spawn {getattr(trouble, 'errno', 0) or 0}".encode())
        finally:
            os._exit(127)

    def _set_up_child(self, order: Order, descriptors: list[int]) -> None:
        self._libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.setsid()
        try:
            self._containment.enter(order.job, order.memory_bytes)
        except OSError as error:
            raise CannotStart("containment", error) from error
        _take_descriptors(descriptors, order.closed_fds)
        _set_limits(order.limits)
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, order.nice)
        if order.user:
            _become_user(order.user)
            self._libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # setuid cleared it
        os.umask(order.umask)
        try:
            os.chdir(order.directory)
        except OSError as error:
            raise CannotStart("chdir", error) from error
        signal.set_wakeup_fd(-1)
        for number in range(1, signal.NSIG):
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                with contextlib.suppress(OSError, ValueError):
                    signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def _reap(self) -> None:
        """Collect ended leaders (kept for `_finish`) and adopted orphans (forgotten)."""
        by_pid = {job.pid: (name, job) for name, job in self._jobs.items() if not job.ended}
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid not in by_pid:
                continue
            name, job = by_pid[pid]
            if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
                self._tell(STOPPED, (JOB, name), (NUMBER, int(os.WIFSTOPPED(status))))
            else:
                job.ended = (status, usage)

    def _finish(self) -> None:
        """Push on what is ending; report the jobs of which nothing is left."""
        now_s = time.monotonic()
        for name, job in list(self._jobs.items()):
            if not job.ended:
                if job.kill_at_s is not None and now_s >= job.kill_at_s:
                    self._containment.end_tree(name, job.pid)
                    _signal_group(job.pid, signal.SIGKILL)
                    job.kill_at_s = now_s + 0.1
                continue
            out_of_memory = self._containment.ran_out_of_memory(name)
            if not self._containment.end_tree(name, job.pid):
                continue
            del self._jobs[name]
            status, usage = job.ended
            self._tell(
                EXITED,
                (JOB, name),
                (NUMBER, status),
                (USER_US, int(usage.ru_utime * 1e6)),
                (SYSTEM_US, int(usage.ru_stime * 1e6)),
                (RSS_KIB, usage.ru_maxrss),
                (OUT_OF_MEMORY, int(out_of_memory)),
            )

    def _tell(self, tag: bytes, *pairs: tuple[bytes, str | int]) -> None:
        if self._lbm is not None:
            body = b"".join(frames.field(key, str(value).encode()) for key, value in pairs)
            with contextlib.suppress(OSError):  # its end is noticed on the next read
                self._lbm.sendall(frames.pack(tag, body))


def _deliver(leader: int, number: int) -> None:
    """To the whole group what a terminal would send it, to the leader alone what kill(1) would."""
    group_wide = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)
    if number in group_wide:
        _signal_group(leader, number)
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(leader, number)


def _signal_group(leader: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


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
    """The caller's limits, as far as ours allow: a hard limit is only ever lowered, unless root."""
    for number, soft, hard in limits:
        wanted_soft, wanted_hard = (value if value < 1 << 63 else -1 for value in (soft, hard))
        with contextlib.suppress(OSError, ValueError):
            _, own_hard = resource.getrlimit(number)
            if os.geteuid() != 0 and own_hard != -1 and not 0 <= wanted_hard <= own_hard:
                wanted_hard = own_hard
            if wanted_hard != -1 and not 0 <= wanted_soft <= wanted_hard:
                wanted_soft = wanted_hard
            resource.setrlimit(number, (wanted_soft, wanted_hard))


def _become_user(name: str) -> None:
    try:
        entry = pwd.getpwnam(name)
        os.initgroups(name, entry.pw_gid)
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    except KeyError:
        raise CannotStart("user", OSError(0, name)) from None
    except OSError as error:
        raise CannotStart("user", error) from error


def main(argv: list[str]) -> None:
    """argv: the listening socket's descriptor, runtime_dir, auto or off, orphan_s, grace_s."""
    descriptor, runtime_dir, cgroup, orphan_s, grace_s = argv
    listener = socket.socket(fileno=int(descriptor))
    listener.set_inheritable(False)
    containment = Containment(runtime_dir, cgroup == "auto")
    containment.clear_leftovers()
    try:
        Keeper(listener, containment, float(orphan_s), float(grace_s)).run()
    finally:
        containment.close()


if __name__ == "__main__":
    main(sys.argv[1:])
