"""Orders, from the moment they come until their commands run, or cannot.

    order ──▶ (who may be run as that user?) ──▶ a spare ──▶ BEGUN
                        └────────────────────────┴──▶ FAILED

From the spare on a child may be its user's, who may stop it at any point. So nobody waits for one:
the keeper is told by events, and ends what it has no use for.
"""

import errno
import os
import select
import time
from typing import Protocol

from lbd.lbm.accounts import Gate
from lbd.lbm.child import Parent, Spare
from lbd.lbm.keeper_protocol import BEGUN, END_TREE, FAILED, GROUP, NUMBER, PID, STAGE
from lbd.lbm.limits import KEEPER
from lbd.lbm.running import Running
from lbd.lbm.spares import Spares
from lbd.lbm.spawn_order import CLOSED_FDS, JOB, USER, is_plain
from lbd.lbm.user_looks import UserLooks, Waiting
from lbd.rpc import frames


class Loop(Protocol):
    """The keeper."""

    jobs: dict[str, Running]
    quitting: bool

    def tell(self, tag: bytes, *pairs: tuple[bytes, str | int]) -> None: ...
    def obey_of_job(self, tag: bytes, body: bytes, said_s: float) -> None: ...
    def forget(self, name: str) -> str: ...


class Beginnings:
    def __init__(
        self, keeper: Loop, poll: "select.poll", parent: Parent, program: bytes, gate: Gate
    ) -> None:
        """`program`: spare.c, compiled; b"" without."""
        self._keeper, self._poll, self._gate = keeper, poll, gate
        parent.lbm_uid = gate.lbm_uid
        self._containment = parent.containment
        self.spares = Spares(parent, program)
        self.looks = UserLooks(parent, gate)
        self._starting: dict[int, tuple[str, Spare]] = {}

    @property
    def pids(self) -> set[int]:
        """Children that are no jobs."""
        return self.spares.pids | self.looks.pids

    def hear(self, descriptor: int, events: int) -> bool:
        """Whether that was one of ours."""
        if descriptor in self._starting:
            self._hear_start(descriptor, events)
        elif descriptor in self.looks.descriptors:
            self._hear_look(descriptor)
        else:
            return False
        return True

    def take(self, body: bytes, descriptors: list[int]) -> list[int]:
        """Begin it, or have somebody ask first whether it may. Its own of the descriptors come
        first; returns the rest. Raises ValueError, KeyError."""
        given = dict(frames.fields(body))
        name, closed_fds = given[JOB].decode(), int(given.get(CLOSED_FDS, b"0")) & 7
        user = tuple(map(int, given.get(USER, b"").split()))
        # Two orders may come in one read: each takes just the descriptors that are its own.
        count = 3 - closed_fds.bit_count()
        order = Waiting(user, body, descriptors[:count])
        now_s = time.monotonic()
        verdict = self._gate.verdict(user, now_s)
        if verdict is None:
            self.looks.waiting[name] = order
        if verdict is None or self._gate.is_aging(user, now_s):
            try:
                if (descriptor := self.looks.look(user)) is not None:
                    self._poll.register(descriptor, select.POLLIN)
            except OSError as error:
                self._refuse(name, error.errno or errno.EAGAIN)
        if verdict is not None:
            self._spawn(name, order, verdict)
        return descriptors[count:]

    def is_waiting(self, name: str) -> bool:
        """For the user database."""
        return name in self.looks.waiting

    def hear_later(self, name: str, tag: bytes, body: bytes, said_s: float) -> None:
        """What is said of one that waits."""
        if tag == END_TREE:
            self._refuse(name, errno.ECANCELED)
        else:
            self.looks.waiting[name].later.append((tag, body, said_s))

    def end_late(self) -> None:
        for descriptor in self.looks.late():
            self._hear_look(descriptor)

    def _hear_look(self, descriptor: int) -> None:
        """What the user database says of somebody, or that it says nothing in time."""
        self._poll.unregister(descriptor)
        user = self.looks.hear(descriptor)
        verdict = self._gate.verdict(user, time.monotonic())
        for name in [name for name, one in self.looks.waiting.items() if one.user == user]:
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
            stage = KEEPER if self._keeper.quitting else "user"
            self._keeper.tell(FAILED, (JOB, name), (STAGE, stage), (NUMBER, number))

    def _spawn(self, name: str, order: Waiting, fault: str) -> None:
        """Hand an order to a spare; `_hear_start` tells what became of it."""
        body = order.body
        if order.user:  # the last one counts: what was checked, as one parser has read it
            body += frames.field(USER, b" ".join(b"%d" % number for number in order.user))
        try:
            if self._keeper.quitting:
                raise OSError(errno.ECANCELED, "the next keeper takes it")
            if fault:
                raise PermissionError(errno.EPERM, "not to be run as that user")
            plain = is_plain(dict(frames.fields(body)))
            plain = plain and not self._containment.ceilings.is_joined
            spare = self.spares.take(plain=plain)
            try:
                spare.start(body, order.descriptors)
            except OSError:
                spare.socket.close()
                self.spares.dismiss(spare.pid, spare.group)
                raise
        except OSError as error:
            stage = fault or ("user" if isinstance(error, PermissionError) else "spawn")
            stage = KEEPER if self._keeper.quitting else stage
            told = (STAGE, stage), (NUMBER, error.errno or 0)
            self._keeper.tell(FAILED, (JOB, name), *told)
            return
        finally:
            for descriptor in order.descriptors:
                os.close(descriptor)
        uid = order.user[0] if order.user else os.geteuid()
        self._keeper.jobs[name] = Running(spare.pid, spare.group, uid, plain)
        self._starting[spare.socket.fileno()] = (name, spare)
        self._watch(spare)

    def _watch(self, spare: Spare) -> None:
        behind = select.POLLOUT if spare.unsent else 0
        self._poll.register(spare.socket, select.POLLIN | behind)

    def _hear_start(self, descriptor: int, events: int) -> None:
        """End of file: it has become the command. Anything else says why it could not."""
        name, spare = self._starting[descriptor]
        if events & select.POLLOUT and spare.unsent:
            spare.go_on()
            self._watch(spare)
        if not events & ~select.POLLOUT:
            return
        del self._starting[descriptor]
        self._poll.unregister(spare.socket)
        try:
            trouble = spare.socket.recv(256)
        except OSError as error:  # it was killed before it had read all of its order
            trouble = b"spawn %d" % (error.errno or 0)
        spare.socket.close()
        running = self._keeper.jobs[name]
        if not trouble:
            running.begun = True
            known = (PID, running.pid), (GROUP, running.group)
            self._keeper.tell(BEGUN, (JOB, name), *known)
            return
        self._keeper.forget(name)
        if running.ended:
            self._containment.forget(running.group)
        else:
            self.spares.dismiss(running.pid, running.group)
        stage, _, number = trouble.decode(errors="replace").partition(" ")
        told = (STAGE, stage), (NUMBER, number if number.isdecimal() else 0)
        self._keeper.tell(FAILED, (JOB, name), *told)
