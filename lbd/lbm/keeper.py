"""The keeper: a small single-threaded process that forks, becomes the user, execs and waits.

It alone starts jobs, so it alone is their parent: it knows how each ended (wait4) whatever happens
to the LBM. It has no gRPC, no threads and no event loop, so that fork is cheap and safe. One LBM
at a time is connected, over keeper.sock; the frames' fields are below. When the LBM goes away
without a word, the attached jobs lose their streams with it: they are ended (TERM, a grace, KILL),
and after `orphan_after_s` without a new LBM the keeper ends too.

As subreaper it inherits every orphan of its jobs, so nothing escapes to init unseen.
"""

import contextlib
import errno
import gc
import os
import select
import signal
import socket
import struct
import sys
import time

from lbd.lbm import holding
from lbd.lbm.accounts import Gate
from lbd.lbm.ceilings import read_totals
from lbd.lbm.child import ORDER_LIMIT_BYTES, Parent, Spare, fork_spare
from lbd.lbm.containment import Containment
from lbd.lbm.holding import Holding, frame_of, raise_descriptor_limit
from lbd.lbm.limits import KEEPER, LIMIT, OVER, Limits
from lbd.lbm.nursery import SPARES as NURSERY_SPARES
from lbd.lbm.nursery import Nursery
from lbd.lbm.readers import is_read, unpack_wanted
from lbd.lbm.running import Running
from lbd.lbm.signals import deliver, signal_group
from lbd.lbm.spawn_order import CLOSED_FDS, JOB, USER, is_plain
from lbd.rpc import frames
from lbd.rpc.descriptors import receive

# LBM -> keeper
SPAWN = b"S"  # with the command's descriptors attached; fields below
SIGNAL = b"K"  # JOB, NUMBER
END_TREE = b"T"  # JOB: kill all of it now
READ = b"R"  # JOB, WANTED: does one of it wait to read one of these? Comes back with NUMBER
TREAT = b"W"  # JOB, NUMBER: one of treatment.py
TOTALS = b"C"  # what all jobs may use together: ceilings.py
QUIT = b"Q"  # end every job, then this process
# keeper -> LBM
HELLO = b"O"  # KIND (containment), PID, UID
BEGUN = b"B"  # JOB, PID, GROUP
FAILED = b"F"  # JOB, STAGE, NUMBER (errno): nothing ran
STOPPED = b"Z"  # JOB, NUMBER 1 stopped, 0 continued
EXITED = b"X"  # JOB, NUMBER (wait status), USER_US, SYSTEM_US, RSS_KIB, OUT_OF_MEMORY, OVER

PID, UID, GROUP = b"p", b"u", b"g"
KIND, LIMITS = b"k", b"m"
STAGE, WANTED, NUMBER = b"s", b"w", b"n"
USER_US, SYSTEM_US = b"U", b"Y"
RSS_KIB = b"R"
OUT_OF_MEMORY = b"o"

SPARES = 2
QUIET_MS = 10  # nothing to do for this long: time to fork ahead, which keeps a core busy
FEW_SPARES = 2  # with fewer it cannot wait: at once, while the last command is on its way
POLL_ENDING_MS = 5
PR_SET_CHILD_SUBREAPER = 36


class Keeper:
    """The loop: the LBM's orders in, its children's ends out."""

    def __init__(
        self,
        listener: socket.socket,
        containment: Containment,
        program: bytes,
        orphan_s: float,
        grace_s: float,
        gate: Gate,
    ) -> None:
        self._listener, self._gate = listener, gate
        self._containment = containment
        self._orphan_s, self._grace_s = orphan_s, grace_s
        self._lbm: socket.socket | None = None
        self._split = frames.Splitter(ORDER_LIMIT_BYTES)
        self._descriptors: list[int] = []
        self._jobs: dict[str, Running] = {}
        self._alone_since_s = time.monotonic()
        self._quitting = False
        self._poll = select.poll()
        self._holding, self._limits = Holding(), Limits()
        self._spares: list[Spare] = []
        self._starting: dict[int, tuple[str, socket.socket]] = {}
        self._wake, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._asked_to_quit)
        self._parent = Parent.of_this_process(containment)
        self._parent.libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._nursery = Nursery(self._parent, program) if program else None
        self._spares_wanted = NURSERY_SPARES if program else SPARES

    def _asked_to_quit(self, *_: object) -> None:
        self._quitting = True  # the loop ends all; a signal comes at any moment

    def run(self) -> None:
        """Until told to quit, or left alone for `orphan_s`."""
        self._poll.register(self._listener, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        while not (self._quitting and not self._jobs):
            alone = self._lbm is None and time.monotonic() - self._alone_since_s > self._orphan_s
            if alone and not self._jobs and not self._gate.is_apart:
                break
            if alone or self._quitting:
                self._end_all()
            ready = self._poll.poll(self._limits.sooner_ms(self._poll_ms()))
            for descriptor, _ in ready:
                if descriptor in self._starting:
                    self._hear_start(descriptor)
                elif descriptor == self._listener.fileno():
                    self._accept()
                elif descriptor == self._wake:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake, 4096)
                elif self._lbm is not None and descriptor == self._lbm.fileno():
                    self._receive()
            self._reap()
            self._finish()
            if not ready:
                self._fork_ahead()
        self._drop_spares()
        if self._nursery is not None:
            self._nursery.end()

    def _drop_spares(self) -> None:
        for spare in self._spares:
            spare.socket.close()
            os.waitpid(spare.pid, 0)
            self._containment.forget(spare.group)
        self._spares = []

    def _fork_ahead(self) -> None:
        """In a quiet moment, so that nobody waits for it."""
        if len(self._spares) < self._spares_wanted and not self._quitting:
            with contextlib.suppress(OSError):
                self._spares.append(self._new_spare())

    def _new_spare(self) -> Spare:
        """For a plain order. Raises OSError."""
        if self._nursery is not None:
            with contextlib.suppress(OSError):
                return self._nursery.spare()
        return fork_spare(self._parent)

    def _poll_ms(self) -> int:
        if any(job.ended for job in self._jobs.values()):
            return POLL_ENDING_MS
        due = [at_s for job in self._jobs.values() for at_s in job.due_s()]
        if due:
            return max(0, int((min(due) - time.monotonic()) * 1000)) + 1
        if len(self._spares) < self._spares_wanted:
            return QUIET_MS if len(self._spares) >= FEW_SPARES else 0
        return 500 if self._lbm is None else -1

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # gone again, or no descriptor left: it will try again
            return
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        if not self._gate.takes_orders_of(struct.unpack("3i", credentials)[1]):
            connection.close()
            return
        while self._lbm is not None:  # its last words, and its end
            self._receive() if select.select([self._lbm], [], [], 0)[0] else self._lost()
        self._lbm = connection
        self._split = frames.Splitter(ORDER_LIMIT_BYTES)
        self._poll.register(connection, select.POLLIN)
        us = (PID, os.getpid()), (UID, os.geteuid())
        self._holding.give(connection, HELLO, *us, *self._containment.told(KIND, LIMITS))

    def _lost(self) -> None:
        """The LBM is gone without QUIT: its jobs have lost their streams."""
        assert self._lbm is not None
        self._poll.unregister(self._lbm)
        self._lbm.close()
        self._lbm = None
        self._alone_since_s = time.monotonic()
        self._drop_descriptors()
        if not self._holding.is_complete:
            self._end_all()

    def _end_all(self) -> None:
        self._holding.drop()
        for job in self._jobs.values():
            if job.ended or job.kill_at_s is not None:
                continue
            signal_group(job.pid, signal.SIGTERM)
            signal_group(job.pid, signal.SIGCONT)
            job.kill_at_s = time.monotonic() + self._grace_s

    def _receive(self) -> None:
        assert self._lbm is not None
        try:
            data, descriptors = receive(self._lbm, 1 << 16, 16)
            self._descriptors += descriptors
            received = self._split.feed(data)
        except (OSError, ValueError):
            data, received = b"", []
        if not data:
            self._lost()
            return
        for tag, body in received:
            try:
                self._obey(tag, body)
            except (ValueError, KeyError):
                self._lost()
                return

    def _obey(self, tag: bytes, body: bytes) -> None:
        if tag == SPAWN:
            self._spawn(body)
        elif tag == TOTALS:
            self._containment.ceilings.set_totals(read_totals(body))
            self._drop_spares()  # which would follow the old ones
        elif tag == QUIT:
            self._asked_to_quit()
        elif tag == holding.LEAVE and self._lbm is not None:
            self._holding.leave(self._lbm)
        elif tag == holding.HOLD:
            self._holding.hold(body, self._descriptors)
        else:
            given = dict(frames.fields(body))
            job = self._jobs.get(given.get(JOB, b"").decode())
            if job is None:
                return
            if tag == SIGNAL:
                if not job.ended:  # else its number may be another's by now
                    job.stopping.sent(deliver(job.pid, int(given[NUMBER])))
            elif tag == END_TREE:
                job.kill_at_s = time.monotonic()
            elif tag == LIMIT:
                self._limits.set(given[JOB].decode(), job.pid, job.group, given)
            elif tag == TREAT:
                job.treated.become(int(given[NUMBER]), job.pid, job.group)
            elif tag == READ:
                found = is_read(unpack_wanted(given[WANTED]), job.pid, job.group)
                self._tell(READ, (JOB, given[JOB].decode()), (NUMBER, int(found)))

    def _drop_descriptors(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []

    def _spawn(self, body: bytes) -> None:
        """Hand an order to a spare; `_hear_start` tells what became of it."""
        given = dict(frames.fields(body))
        job, closed_fds = given[JOB].decode(), int(given.get(CLOSED_FDS, b"0")) & 7
        # Two orders may come in one read: each takes just the descriptors that are its own.
        count = 3 - closed_fds.bit_count()
        own, self._descriptors = self._descriptors[:count], self._descriptors[count:]
        try:
            if self._quitting:
                raise OSError(errno.ECANCELED, "the next keeper takes it")
            self._gate.check(given.get(USER, b""))
            plain = is_plain(given) and not self._containment.ceilings.is_joined
            spare = self._take_spare(plain=plain)
            spare.start(body, own)
        except OSError as error:
            stage = "user" if isinstance(error, PermissionError) else "spawn"
            stage = KEEPER if self._quitting else stage
            self._tell(FAILED, (JOB, job), (STAGE, stage), (NUMBER, error.errno or 0))
            return
        finally:
            for descriptor in own:
                os.close(descriptor)
        self._jobs[job] = Running(spare.pid, spare.group, plain)
        self._starting[spare.socket.fileno()] = (job, spare.socket)
        self._poll.register(spare.socket, select.POLLIN)

    def _take_spare(self, *, plain: bool) -> Spare:
        """One that was forked ahead serves, if the order is plain. Raises OSError."""
        if self._spares and (plain or self._nursery is None):
            return self._spares.pop()
        return self._new_spare() if plain else fork_spare(self._parent)

    def _hear_start(self, descriptor: int) -> None:
        """End of file: it has become the command. Anything else says why it could not."""
        job, sock = self._starting.pop(descriptor)
        self._poll.unregister(sock)
        try:
            trouble = sock.recv(256)
        except OSError as error:  # it was killed before it had read all of its order
            trouble = b"spawn %d" % (error.errno or 0)
        sock.close()
        running = self._jobs[job]
        if trouble:
            del self._jobs[job]
            self._limits.ended(job)
            stage, _, number = trouble.decode().partition(" ")
            if not running.ended:
                os.waitpid(running.pid, 0)
            self._containment.forget(running.group)
            self._tell(FAILED, (JOB, job), (STAGE, stage), (NUMBER, number))
            return
        running.begun = True
        self._tell(BEGUN, (JOB, job), (PID, running.pid), (GROUP, running.group))

    def _reap(self) -> None:
        """Collect ended leaders (kept for `_finish`) and adopted orphans (forgotten)."""
        by_pid = {job.pid: (name, job) for name, job in self._jobs.items() if not job.ended}
        spares = {spare.pid: spare for spare in self._spares}
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in spares:
                self._spares.remove(spares[pid])
                spares[pid].socket.close()
                self._containment.forget(spares[pid].group)
            if self._nursery is not None and pid == self._nursery.pid:
                self._nursery.reaped()
            if pid not in by_pid:
                continue
            name, job = by_pid[pid]
            if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
                job.stopping.seen(job.pid, stopped=os.WIFSTOPPED(status))
                if not job.treated.is_still:
                    self._tell(STOPPED, (JOB, name), (NUMBER, int(os.WIFSTOPPED(status))))
            else:
                job.ended = (status, usage)

    def _finish(self) -> None:
        """Push on what is ending; report the jobs of which nothing is left."""
        now_s = time.monotonic()
        for name in self._limits.over():
            self._jobs[name].kill_at_s = now_s
        for name, job in list(self._jobs.items()):
            if not job.ended or not job.begun:
                job.stopping.look(job.pid, job.group)
                if job.kill_at_s is not None and now_s >= job.kill_at_s:
                    self._containment.end_tree(name, job.pid, job.group)
                    signal_group(job.pid, signal.SIGKILL)
                    job.kill_at_s = now_s + 0.1
                continue
            if not self._containment.end_tree(name, job.pid, job.group):
                continue
            del self._jobs[name]
            status, usage = job.ended
            out_of_memory = status != 0 and self._containment.ceilings.was_over(job.group)
            self._tell(
                EXITED,
                (JOB, name),
                (NUMBER, status),
                (USER_US, int(usage.ru_utime * 1e6)),
                (SYSTEM_US, int(usage.ru_stime * 1e6)),
                (RSS_KIB, usage.ru_maxrss),
                (OUT_OF_MEMORY, int(out_of_memory)),
                (OVER, self._limits.ended(name) or (KEEPER if self._quitting else "")),
            )
            self._containment.forget(job.group, beside=not job.plain)
            if not self._jobs:
                kept = {spare.pid for spare in self._spares}
                self._containment.end_strays(
                    kept | ({self._nursery.pid} if self._nursery else set())
                )

    def _tell(self, tag: bytes, *pairs: tuple[bytes, str | int]) -> None:
        frame = frame_of(tag, *pairs)
        if not self._holding.tell_later(frame) and self._lbm is not None:
            with contextlib.suppress(OSError):  # its end is noticed on the next read
                self._lbm.sendall(frame)


def main(argv: list[str]) -> None:
    """argv: the listening descriptor, runtime_dir, auto or off, orphan_s, grace_s, gate."""
    descriptor, runtime_dir, cgroup, orphan_s, grace_s, allowed = argv
    program = os.fsencode(os.path.join(os.path.dirname(__file__), "spare"))
    if not os.access(program, os.X_OK) or os.environ.get("LBD_SPARE") == "python":
        program = b""
    listener = socket.socket(fileno=int(descriptor))
    listener.set_inheritable(False)
    containment = Containment(runtime_dir, cgroup == "auto")
    containment.clear_leftovers()
    raise_descriptor_limit()
    gc.collect()
    gc.freeze()  # what is never collected is never written to: forks go on sharing it
    gc.disable()  # and nothing in here makes cycles
    try:
        limits_s = float(orphan_s), float(grace_s)
        Keeper(listener, containment, program, *limits_s, Gate(allowed)).run()
    finally:
        containment.close()


if __name__ == "__main__":
    main(sys.argv[1:])
