"""Orders, from their arrival until their commands run or have failed to start.

    order ──▶ (user database, if needed) ──▶ a spare ──▶ BEGUN
                        └────────────────────────┴──▶ FAILED

Once a spare has the steps, it may belong to its user, who may stop it at any point. So the keeper
never waits for a child: it reacts to events, and kills children it has no use for.
"""

import errno
import fcntl
import os
import select
import time
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from lbd.keeper import user_and_start_steps as steps
from lbd.keeper.child import Parent, Spare
from lbd.keeper.fd_store import frame_of
from lbd.keeper.gate import Gate, as_allowed
from lbd.keeper.job import Running
from lbd.keeper.limits.time_limits import KEEPER
from lbd.keeper.output_holders import OutputHolders
from lbd.keeper.preforked import Spares
from lbd.keeper.protocol import (
    ANSWER,
    ANSWERED,
    BEGUN,
    END_TREE,
    FAILED,
    GROUP,
    HAS,
    KILLED,
    NUMBER,
    PHASE,
    PID,
    READ,
)
from lbd.keeper.spawn_order import BELONGINGS, CLOSED_FDS, JOB, read_order
from lbd.keeper.stdin_watch import ReadLooks
from lbd.keeper.user_lookups import UserLooks, Waiting
from lbd.local import frames
from lbd.process.boot_clock import clock_s

REPLY_BYTES = 4096  # from a child that does not become a command
USUAL_PIPE_BYTES, WIDE_PIPE_BYTES = 1 << 16, 1 << 20


class Loop(Protocol):
    """What this file needs of the keeper."""

    jobs: dict[str, Running]
    quitting: bool

    def report(self, tag: bytes, *pairs: tuple[bytes, str | int]) -> None: ...
    def obey_of_job(self, tag: bytes, body: bytes) -> None: ...
    def forget(self, name: str) -> str: ...


class Beginnings:
    def __init__(
        self, keeper: Loop, poll: "select.poll", parent: Parent, program: bytes, gate: Gate
    ) -> None:
        """`program`: the compiled spare.c; b"" without."""
        self._keeper, self._poll, self._gate = keeper, poll, gate
        parent.lbm_uid = gate.lbm_uid
        self._parent, self._containment = parent, parent.containment
        self.spares = Spares(parent, program, self._say_killed)
        self.looks = UserLooks(parent, gate)
        self.reads = ReadLooks(poll, self._say_read)
        self.holders = OutputHolders(gate)
        self._starting: dict[int, tuple[str, Spare]] = {}

    @property
    def pids(self) -> set[int]:
        """Children that are not jobs."""
        return self.spares.pids | self.looks.pids | self.holders.pids | self.reads.pids

    @property
    def leaders(self) -> set[int]:
        """Session leaders: those children, and the jobs."""
        return self.pids | {job.pid for job in self._keeper.jobs.values()}

    def hear(self, descriptor: int, events: int) -> None:
        if descriptor in self._starting:
            self._hear_start(descriptor, events)
        elif descriptor in self.looks.descriptors:
            self._hear_look(descriptor)
        elif self.reads.is_ours(descriptor):
            self.reads.hear()

    def take(self, body: bytes, descriptors: list[int]) -> list[int]:
        """Starts an order, or has the user database asked first. The order's descriptors come
        first; returns the rest. Raises ValueError, KeyError."""
        try:
            given = read_order(body)
        except ValueError:
            return self._refuse_malformed(body, descriptors)
        name, user = given.job, given.user
        # Two orders may come in one read: each takes only its own descriptors.
        count = 3 - (given.closed_fds & 7).bit_count()
        if name in self._keeper.jobs or self.is_waiting(name):  # the existing job continues
            for descriptor in descriptors[:count]:
                os.close(descriptor)
            self._fail(name, steps.OTHER_PHASE, errno.EEXIST)
            return descriptors[count:]
        order = Waiting(given, descriptors[:count])
        now_s = time.monotonic()
        verdict = self._gate.verdict(user, now_s)
        if verdict is None:
            self.looks.waiting[name] = order
        if verdict is None or self._gate.is_aging(user, now_s):
            try:
                if (looking := self.looks.look(user)) is not None:
                    self._poll.register(looking, select.POLLIN)
            except OSError as error:
                self._refuse(name, error.errno or errno.EAGAIN)
        if verdict is not None:
            self._spawn(name, order, verdict)
        return descriptors[count:]

    def _refuse_malformed(self, body: bytes, descriptors: list[int]) -> list[int]:
        """Fails the order alone: the LBM may have received it from another host, so it is not to
        blame."""
        given = dict(frames.fields(body, len(body)))  # perhaps it has too many fields
        count = 3 - (int(given.get(CLOSED_FDS, b"0")) & 7).bit_count()
        for descriptor in descriptors[:count]:
            os.close(descriptor)
        self._fail(given[JOB].decode(), steps.OTHER_PHASE, errno.EBADMSG)
        return descriptors[count:]

    def is_waiting(self, name: str) -> bool:
        """Returns whether the order waits for the user database."""
        return name in self.looks.waiting

    def jobs_there(self) -> bytes:
        """Packs the known jobs for another LBM; they hold their share of the host until the keeper
        reports their end. Packs also that spares are killed, if they are."""
        known = {name: job.belongings for name, job in self._keeper.jobs.items()}
        known |= {name: one.order.belongings for name, one in self.looks.waiting.items()}
        killed = frame_of(KILLED, (NUMBER, 1)) if self.spares.are_killed else b""
        return killed + b"".join(
            frames.pack(HAS, frames.pack_fields([(JOB, name.encode()), (BELONGINGS, held)]))
            for name, held in known.items()
        )

    def hear_later(self, name: str, tag: bytes, body: bytes) -> None:
        """Handles a message about an order that waits: ends it, or keeps the message for later."""
        if tag == END_TREE:
            self._refuse(name, errno.ECANCELED)
        else:
            self.looks.waiting[name].later.append((tag, body))

    def due_s(self) -> list[float]:
        """Returns when to call `end_late`, on the monotonic clock."""
        return self.looks.due_s() + self.reads.due_s()

    def end_late(self) -> None:
        for descriptor in self.looks.late():
            self._hear_look(descriptor)
        if any(time.monotonic() >= at_s for at_s in self.reads.due_s()):
            self.reads.hear()

    def _hear_look(self, descriptor: int) -> None:
        """Handles what the user database says of a user, or that it did not answer in time."""
        self._poll.unregister(descriptor)
        user = self.looks.hear(descriptor)
        verdict = self._gate.verdict(user, time.monotonic())
        for name in [name for name, one in self.looks.waiting.items() if one.order.user == user]:
            if verdict is None:
                self._refuse(name, errno.ETIMEDOUT)
                continue
            order = self.looks.waiting.pop(name)
            self._spawn(name, order, verdict)
            for later in order.later:
                self._keeper.obey_of_job(*later)

    def refuse_waiting(self) -> None:
        for name in list(self.looks.waiting):
            self._refuse(name, errno.ECANCELED)

    def _refuse(self, name: str, number: int) -> None:
        order = self.looks.waiting.pop(name, None)
        if order is not None:
            for descriptor in order.descriptors:
                os.close(descriptor)
            phase = KEEPER if self._keeper.quitting else "user"
            self._fail(name, phase, number)

    def _spawn(self, name: str, waiting: Waiting, verdict: str) -> None:
        """Hands the steps of an order to a spare; `_hear_start` learns the result."""
        order = waiting.order
        user, fault = as_allowed(order.user, verdict)
        if user != order.user:
            order = replace(order, user=user)
        try:
            if self._keeper.quitting:
                raise steps.Refused(KEEPER, errno.ECANCELED)
            if fault:
                raise steps.Refused(fault, errno.EPERM)
            if order.start_by_ms and clock_s() * 1e3 > order.start_by_ms:
                raise steps.Refused(steps.OTHER_PHASE, errno.ETIME)
            spare = self.spares.take(plain=order.is_plain)
            try:
                frame, group, beside = self._parent.steps_of(order, spare.group)
                give_room(waiting.descriptors)
                spare.start(frame, waiting.descriptors)
            except (steps.Refused, OSError):
                spare.socket.close()
                self.spares.dismiss(spare.pid, spare.group)
                raise
        except steps.Refused as refused:
            self._fail(name, refused.phase, refused.number)
            return
        except OSError as error:
            self._fail(name, steps.OTHER_PHASE, error.errno or 0)
            return
        finally:
            for descriptor in waiting.descriptors:
                os.close(descriptor)
        uid = order.user[0] if order.user else os.geteuid()
        self._keeper.jobs[name] = Running(
            spare.pid, group, uid, beside, order.belongings, bool(order.start_by_ms)
        )
        self._starting[spare.socket.fileno()] = (name, spare)
        self._watch(spare)

    def _watch(self, spare: Spare) -> None:
        behind = select.POLLOUT if spare.unsent else 0
        self._poll.register(spare.socket, select.POLLIN | behind)

    def _hear_start(self, descriptor: int, events: int) -> None:
        """Handles a spare's reply. End of file: it has become the command. Anything else is the
        reason why it could not."""
        name, spare = self._starting[descriptor]
        if events & select.POLLOUT and spare.unsent:
            spare.go_on()
            self._watch(spare)
        if not events & ~select.POLLOUT:
            return
        del self._starting[descriptor]
        self._poll.unregister(spare.socket)
        try:
            reply = spare.socket.recv(REPLY_BYTES)
        except OSError as error:  # killed before it had read all its steps
            reply = steps.failed(b"\0", error.errno or 0)
        else:
            self.spares.lived()
        spare.socket.close()
        running = self._keeper.jobs[name]
        if not reply:
            running.begun = True
            known = (PID, running.pid), (GROUP, running.group)
            self._keeper.report(BEGUN, (JOB, name), *known)
            return
        self._keeper.forget(name)
        self._containment.ended(name)
        if running.ended:
            self._containment.forget(running.group)
        else:
            self.spares.dismiss(running.pid, running.group)
        if reply.startswith(steps.ANSWER):
            answer = reply.removeprefix(steps.ANSWER).decode(errors="replace")
            self._keeper.report(ANSWERED, (JOB, name), (ANSWER, answer))
            return
        self._fail(name, *steps.read_failure(reply))

    def _say_read(self, name: str, is_read: bool) -> None:
        self._keeper.report(READ, (JOB, name), (NUMBER, int(is_read)))

    def _say_killed(self, are_killed: bool) -> None:
        self._keeper.report(KILLED, (NUMBER, int(are_killed)))

    def _fail(self, name: str, phase: str, number: int) -> None:
        self._keeper.report(FAILED, (JOB, name), (PHASE, phase), (NUMBER, number))


def give_room(descriptors: list[int]) -> None:
    """Lets pipes that are smaller than usual hold as much as an LBM lets one hold that is in need
    of it. To an LBM without privileges the kernel gives small ones, and no larger ones, once all
    those that it has made hold too much; and a user's commands may enlarge theirs, and leave them
    with processes that keep them."""
    for descriptor in descriptors:
        with suppress(OSError):  # no pipe, or we have no privileges either
            if fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ) < USUAL_PIPE_BYTES:
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, WIDE_PIPE_BYTES)
