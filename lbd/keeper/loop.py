"""The keeper: a small single-threaded process that forks, becomes the user, execs and waits.

It alone starts jobs, so it is their parent and knows how each ended (wait4) whatever happens to the
LBM. It has no gRPC and no event loop, so that fork is cheap and safe; its only threads close users'
descriptors, which may hang. One LBM at a time is connected, over keeper.sock (protocol.py). When
the LBM disconnects without QUIT, the attached jobs have lost their streams, so they are ended
(TERM, a grace period, KILL); after `orphan_after_s` without a new LBM the keeper ends too.

As subreaper it inherits every orphan of its jobs, so nothing escapes to init unseen.

It serves all users, so no single user may block it; if it is blocked all the same, the warden does
what is most urgent.
"""

import gc
import math
import os
import select
import signal
import socket
import sys
import time

from lbd import __version__
from lbd.keeper.child import Parent
from lbd.keeper.fd_store import Holding, frame_of
from lbd.keeper.gate import Gate
from lbd.keeper.job import Running, exited, next_to_reap, reap
from lbd.keeper.kept_ports import KeptPorts
from lbd.keeper.lbm_connection import LbmLine, peer_uid
from lbd.keeper.limits.ceilings import read_totals
from lbd.keeper.limits.cgroups import Containment, clear_leftovers
from lbd.keeper.limits.portions import PAUSE_S
from lbd.keeper.limits.time_limits import KEEPER, Limits
from lbd.keeper.limits.warden import Warden
from lbd.keeper.pending_orders import Beginnings
from lbd.keeper.preforked import nursery_program
from lbd.keeper.protocol import (
    END_TREE,
    HELLO,
    HOLD,
    HOLDERS,
    KIND,
    LEAVE,
    LIMIT,
    LIMITS,
    NUMBER,
    ORDER_LIMIT_BYTES,
    PID,
    PLACES,
    PORTS,
    QUIT,
    READ,
    SIGNAL,
    SPAWN,
    STOPPED,
    TOTALS,
    TREAT,
    UID,
    VERSION,
    WANTED,
)
from lbd.keeper.spawn_order import JOB
from lbd.keeper.stdin_watch import Question, unpack_wanted
from lbd.keeper.watchdogs import Watchdogs
from lbd.launch.rlimits import raise_descriptor_limit
from lbd.launch.signals import signal_group
from lbd.local import frames
from lbd.local.descriptors import close_connection, is_readable
from lbd.local.unwanted_descriptors import close_apart
from lbd.process.service_manager import ServiceManager
from lbd.process.urgency import Urgency

POLL_ENDING_MS, ALONE_MS, FOR_EVER_MS = int(PAUSE_S * 1e3), 500, (1 << 31) - 1
REAPED_AT_ONCE = 128  # a job can leave more orphans than one turn can reap
LAST_FRAMES = 1024
HANG_S = 5.0  # at shutdown, for what was killed to be gone
LAST_S, LAST_LOOK_S = 2.0, 0.005  # at shutdown, for the killed children to be gone
PR_SET_CHILD_SUBREAPER = 36


class Leaving:
    """When a keeper that is to end does: once its jobs have ended. It leaves behind what hangs in
    the kernel, as a process that was killed does for as long as one that traces it likes."""

    def __init__(self, orphan_s: float, grace_s: float) -> None:
        self.orphan_s = orphan_s  # without an LBM, before it is to end
        self._patience_s = grace_s + HANG_S
        self._since_s = math.inf

    def may_leave(self, now_s: float, *, is_wanted: bool, are_there: bool) -> bool:
        """`are_there`: jobs, or what is left of them."""
        self._since_s = min(self._since_s, now_s) if is_wanted else math.inf
        return is_wanted and (not are_there or now_s > self._since_s + self._patience_s)


class Keeper:
    """The loop: takes the LBM's orders and reports its children's ends. It waits for events only:
    not for a child, which may be a user's; not for the LBM; not for the user database."""

    def __init__(
        self,
        listener: socket.socket,
        containment: Containment,
        times_s: tuple[float, float, float],
        gate: Gate,
        ports: KeptPorts,
    ) -> None:
        """`times_s`: alone, before it ends; from TERM to KILL; silent, before it counts as hung (0:
        never)."""
        self._listener, self._gate, self._ports = listener, gate, ports
        self._containment = containment
        orphan_s, self._grace_s, silent_s = times_s
        self._lbm: LbmLine | None = None
        self.jobs: dict[str, Running] = {}
        self._busy: dict[str, Running] = {}  # those to which something is to be done
        self.quitting, self._alone_since_s = False, time.monotonic()
        self._holding, self._leaving = Holding(), Leaving(orphan_s, self._grace_s)
        self._limits, self._urgency = Limits(), Urgency()
        self._poll = select.poll()
        self._wake, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._asked_to_quit)
        parent = Parent.of_this_process(containment)
        parent.libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._warden = Warden(parent, silent_s)
        self._beginnings = Beginnings(self, self._poll, parent, nursery_program(), gate)
        containment.others = lambda: self._beginnings.leaders | {self._warden.pid}
        self._watchdogs = Watchdogs(self._warden, silent_s, ServiceManager(os.environ))

    def _asked_to_quit(self, *_: object) -> None:
        self.quitting = True  # a signal comes at any moment, so the loop does the work

    def run(self) -> None:
        """Runs until told to quit, or left alone for too long."""
        self._poll.register(self._listener, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        while not self._is_left(now_s := time.monotonic()):
            self._watchdogs.feed(now_s)
            answers_due_s = self._beginnings.due_s()
            ready = self._poll.poll(self._limits.sooner_ms(self._poll_ms(answers_due_s)))
            for descriptor, events in ready:
                self._hear(descriptor, events)
            if answers_due_s:
                self._beginnings.end_late()
            if not ready:
                self._reap()
            self._finish()
            self._containment.go_on()
            if not ready and not self.quitting:
                self._ports.keep()
                self._warden.stand_by()
                self._beginnings.spares.fork_ahead()
        self._listener.close()  # from now on, connecting fails, so an LBM starts another keeper
        self._beginnings.spares.end()
        self._warden.end()
        until_s = time.monotonic() + LAST_S
        while self._beginnings.spares.pids and time.monotonic() < until_s:
            self._reap()
            time.sleep(LAST_LOOK_S)

    def _is_left(self, now_s: float) -> bool:
        """Has all jobs end if this process is to, or is alone. Returns whether it may leave."""
        alone = self._lbm is None and now_s - self._alone_since_s > self._leaving.orphan_s
        if alone or self.quitting:
            self._end_all()
        wanted = self.quitting or (alone and not self._gate.is_apart)
        there = bool(self.jobs or self._containment.has_strays)
        return self._leaving.may_leave(now_s, is_wanted=wanted, are_there=there)

    def _hear(self, descriptor: int, events: int) -> None:
        if descriptor == self._wake:
            os.read(self._wake, 4096)  # nobody else drains it
            self._reap()  # perhaps SIGCHLD has come
        elif self._lbm is not None and descriptor == self._lbm.socket.fileno():
            if events & select.POLLOUT:
                self._lbm.go_on()
                self._watch_lbm()
            if events & ~select.POLLOUT:
                self._receive()
        elif descriptor == self._listener.fileno():
            self._accept()
        else:
            self._beginnings.hear(descriptor, events)

    def _poll_ms(self, answers_due_s: list[float]) -> int:
        busy, now_s = self._busy.values(), time.monotonic()
        if self._containment.has_strays or [j for j in busy if j.ended and not j.hangs(now_s)]:
            return POLL_ENDING_MS
        due = answers_due_s + self._watchdogs.due_s()
        due += [at_s for job in busy for at_s in job.due_s(now_s)]
        wait_ms = max(0, int((min(due) - now_s) * 1000)) + 1 if due else FOR_EVER_MS
        if (quiet_ms := self._beginnings.spares.quiet_ms()) < 0 or self.quitting:
            return min(wait_ms, ALONE_MS) if self._lbm is None else wait_ms
        return min(wait_ms, quiet_ms)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # gone again, or no descriptor left: the LBM retries
            return
        if not self._gate.takes_orders_of(peer_uid(connection)):
            return connection.close()
        for _ in range(LAST_FRAMES):  # the old LBM's last frames, and its end
            if self._lbm is not None and is_readable(self._lbm.socket):
                self._receive()
        self._lost()
        self._lbm = LbmLine(connection, ORDER_LIMIT_BYTES)
        us = (PID, os.getpid()), (UID, os.geteuid()), (VERSION, __version__)
        jobs, kind = self._beginnings.jobs_there(), self._containment.described(KIND, LIMITS)
        self._holding.give(self._lbm, jobs, HELLO, *us, *kind)
        self._watch_lbm()

    def _watch_lbm(self) -> None:
        if self._lbm is not None:
            behind = select.POLLOUT if self._lbm.is_behind else 0
            self._poll.register(self._lbm.socket, select.POLLIN | behind)

    def _lost(self) -> None:
        """Handles an LBM that is gone without QUIT: its jobs have lost their streams."""
        if self._lbm is None:
            return
        self._poll.unregister(self._lbm.socket)
        close_apart(self._lbm.descriptors + close_connection(self._lbm.socket))
        self._lbm, self._alone_since_s = None, time.monotonic()
        if not self._holding.is_complete:
            self._end_all()

    def _end_all(self) -> None:
        self._holding.drop()
        self._beginnings.refuse_waiting()
        for name, job in self.jobs.items():
            if not job.ended and job.kill_at_s is None:
                job.ask_to_end(time.monotonic() + self._grace_s)
                self._busy[name] = job

    def _receive(self) -> None:
        assert self._lbm is not None
        if (received := self._lbm.hear()) is None:
            return self._lost()
        for tag, body in received:
            try:
                self._obey(self._lbm, tag, body)
            except (ValueError, KeyError, OverflowError):
                return self._lost()

    def _obey(self, lbm: LbmLine, tag: bytes, body: bytes) -> None:
        if tag == SPAWN:
            lbm.descriptors = self._beginnings.take(body, lbm.descriptors)
        elif tag == TOTALS:
            self._containment.ceilings.set_totals(read_totals(body))
            self._beginnings.spares.drop()  # spares were made under the old totals
        elif tag == PORTS:
            self._ports.become(dict(frames.fields(body))[PLACES].decode())
        elif tag == HOLDERS:
            self._beginnings.holders.obey(body, self._gate.lbm_uid)
        elif tag == QUIT:
            self._asked_to_quit()
        elif tag == LEAVE:
            self._holding.leave(lbm)
        elif tag == HOLD:
            self._holding.hold(body, lbm.descriptors)
        else:
            self.obey_of_job(tag, body)

    def obey_of_job(self, tag: bytes, body: bytes) -> None:
        given = dict(frames.fields(body))
        name = given.get(JOB, b"").decode()
        job = self.jobs.get(name)
        if self._beginnings.is_waiting(name):
            self._beginnings.hear_later(name, tag, body)
        elif job is None:
            return
        elif tag == SIGNAL:
            self._busy[name] = job
            job.signal(int(given[NUMBER]))
        elif tag == END_TREE:
            self._busy[name], job.kill_at_s = job, time.monotonic()
        elif tag == LIMIT:
            until_s = self._limits.set(name, job.pid, job.group, given)
            self._warden.lease(job.pid, until_s, job.uid, job.group)
        elif tag == TREAT and (job.group or not job.ended):
            self._busy[name] = job
            job.treated.become(int(given[NUMBER]), job.pid, job.group)
        elif tag == READ:
            wanted = frozenset(unpack_wanted(given[WANTED]))
            self._beginnings.reads.ask(name, Question(job.pid, job.group, job.uid, wanted))

    def _reap(self) -> None:
        """Collects ended leaders (kept for `_finish`) and adopted orphans (forgotten)."""
        by_pid = {job.pid: (name, job) for name, job in self.jobs.items() if not job.ended}
        for _ in range(REAPED_AT_ONCE):
            if not (child := next_to_reap()):
                return
            if child in by_pid and not by_pid[child][1].is_leased:
                by_pid[child][1].note_ignored()
            # pid 0: it has stopped and continued in between
            pid, status, usage = reap(child, () if child in by_pid else self.jobs.values())
            if pid and not (os.WIFSTOPPED(status) or os.WIFCONTINUED(status)):
                self._beginnings.spares.reaped(pid)
                if pid == self._warden.pid:
                    self._warden.reaped()
            if pid not in by_pid:
                continue
            name, job = by_pid[pid]
            if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
                job.stopping.seen(job.pid, stopped=os.WIFSTOPPED(status))
                if not job.treated.is_still and job.kill_at_s is None:
                    frame = frame_of(STOPPED, (JOB, name), (NUMBER, int(os.WIFSTOPPED(status))))
                    self._say(frame, name)
            else:
                self._busy[name], job.ended = job, (status, usage)
        signal.raise_signal(signal.SIGCHLD)  # there may be more

    def _finish(self) -> None:
        """Advances ending jobs; reports those of which nothing is left."""
        now_s = time.monotonic()
        for name in self._limits.over():
            self._busy[name], self.jobs[name].kill_at_s = self.jobs[name], now_s
        if self._busy or self._urgency.is_raised:
            self._urgency.become(urgent=any(job.is_urgent(now_s) for job in self._busy.values()))
        for name, job in list(self._busy.items()):
            if job.is_left_alone:
                del self._busy[name]
                continue
            job.treated.go_on()
            if not job.ended or not job.begun:
                job.stopping.look(job.pid, job.group)
                if job.kill_at_s is not None and now_s >= job.kill_at_s:
                    self._containment.end_tree(name, job.pid, job.group, job.uid)
                    if self._containment.is_between_portions(name):
                        job.kill_at_s = now_s + PAUSE_S
                    else:
                        signal_group(job.pid, signal.SIGKILL)
                        job.killed(now_s)
                continue
            if now_s < job.look_at_s:
                continue
            was_over = self._containment.ceilings.was_over(job.group)  # known until it is removed
            is_removed = not job.reads_group and self._containment.removes(name, job.group)
            if not is_removed and not self._containment.end_tree(name, job.pid, job.group, job.uid):
                if not self._containment.is_between_portions(name):
                    job.left(now_s)
                continue
            over = self.forget(name) or (KEEPER if self.quitting else "")
            self._say(exited(name, job, over, out_of_memory=was_over))
            if not is_removed or job.beside:
                self._containment.forget(job.group, beside=job.beside)
            if not self.jobs:
                self._containment.end_strays()

    def forget(self, name: str) -> str:
        """Drops a job that ended or did not start. Returns the limit that ended it, else ""."""
        self._busy.pop(name, None)
        self._warden.ended(self.jobs.pop(name).pid)
        return self._limits.ended(name)

    def report(self, tag: bytes, *pairs: tuple[bytes, str | int]) -> None:
        self._say(frame_of(tag, *pairs))

    def _say(self, frame: bytes, key: str = "") -> None:
        is_kept = self._holding.report_later(frame, key)
        if not is_kept and self._lbm is not None and self._lbm.say(frame, key):
            self._watch_lbm()


def main(argv: list[str]) -> None:
    """argv: the listening descriptor, runtime_dir, auto or off, three times in seconds, gate, ports
    to reserve, the directory of outputs."""
    descriptor, runtime_dir, cgroup, orphan_s, grace_s, silent_s, allowed, places, spool = argv
    listener = socket.socket(fileno=int(descriptor))
    listener.set_inheritable(False)
    gate = Gate(allowed, spool)
    containment = Containment(runtime_dir, cgroup == "auto", gate.lbm_gid)
    clear_leftovers(containment)
    raise_descriptor_limit()
    ports = KeptPorts(places, gate.lbm_uid)
    # the keeper's own manager, made in Keeper, feeds its watchdog
    ServiceManager(dict(os.environ)).ready("takes orders")
    gc.collect()
    gc.freeze()  # objects never collected are never written to, so forks keep sharing them
    gc.disable()  # nothing in here makes cycles
    try:
        times_s = float(orphan_s), float(grace_s), float(silent_s)
        Keeper(listener, containment, times_s, gate, ports).run()
    finally:
        containment.close()
        ports.close()


if __name__ == "__main__":
    main(sys.argv[1:])
