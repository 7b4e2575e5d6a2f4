"""The beginning of an LBM that follows another: it takes up what that one left with the keeper.

Streams to other hosts are opened again by their origin (opened_links.py). A stream that is not
requested within `orphan_after_s` is ended. Commands running here are ended too if they are not
described, or not well enough to continue them: a wrong stream would be worse than none.
"""

import ctypes
import logging
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from google.protobuf.message import DecodeError

from lbd.errors import LostContact, PeerError
from lbd.lbm.as_user import ALONE
from lbd.lbm.core import execution_events as e
from lbd.lbm.core.execution import survivor
from lbd.lbm.core.jobs import Claims
from lbd.lbm.core.slots import ONE_SLOT, read_belongings
from lbd.lbm.handover import codec
from lbd.lbm.handover import saving as handover
from lbd.lbm.handover.fds import Given
from lbd.lbm.handover.records import (
    Attached,
    ClientState,
    FarRun,
    LinkFrom,
    LinkTo,
    QueuedAttempt,
    Running,
    StreamState,
    shown_id,
)
from lbd.lbm.inbound.attached_job import AttachedJob
from lbd.lbm.link import wire as tags
from lbd.lbm.link.accepted_links import AcceptedLink, AcceptedLinks
from lbd.lbm.link.conversation import Conversation, Stream
from lbd.lbm.outbound.context import OutboundContext
from lbd.lbm.queue.dispatcher_line import DispatcherLine
from lbd.lbm.session.server import ClientServer
from lbd.lbm.staging.attached_workdir import hold_workdir
from lbd.lbm.staging.workdirs import Workdir
from lbd.lbm.usage.backlog import Unrecorded
from lbd.local.unwanted_descriptors import close_apart
from lbd.model import JobId
from lbd.net.gen import lbm_pb2
from lbd.net.gen.handover_pb2 import Handover, HeldValue
from lbd.process.job_log import JobLog

log = logging.getLogger("lbd.lbm")
job_log = JobLog(log)

TROUBLE = (OSError, ValueError, DecodeError, PeerError)
Record = TypeVar("Record")


@dataclass(slots=True)
class Left:
    """What the LBM before left, as read."""

    links_from: list[LinkFrom]
    links_to: list[LinkTo]
    attached: list[Attached]
    attempts: list[QueuedAttempt]
    jobs: list[JobId]  # all jobs that the keeper has
    listener: int | None  # socket of lbm.sock
    clients: list[ClientState] = field(default_factory=list)
    unrecorded: Unrecorded | None = None  # in the accounting

    @property
    def has_jobs(self) -> bool:
        return bool(self.attached or self.attempts or self.jobs)


def read_left(descriptors: list[int]) -> Left | None:
    """None: there is nothing, or it is not readable. Unused descriptors are closed."""
    if not descriptors:
        return None
    given = Given(descriptors)
    try:
        left = parse(message_of(descriptors[0]), given, len(descriptors) - 1)
    except (PeerError, OSError) as problem:
        log.warning("%s; running commands are ended", problem)
        close_apart(descriptors)
        return None
    given.close()
    return left


def message_of(descriptor: int) -> Handover:
    """Raises PeerError, OSError."""
    if os.fstat(descriptor).st_size > handover.BYTES_MAX:
        raise PeerError("the previous LBM's handover is too long")
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(0)
        try:
            return Handover.FromString(file.read())
        except DecodeError:
            raise PeerError("the previous LBM's handover is not readable") from None


def parse(record: Handover, given: Given, count: int) -> Left:
    """`count`: of the received descriptors. Raises PeerError."""
    if record.needs > handover.VERSION or record.version < handover.NEEDS:
        known = f"this release reads {handover.NEEDS} to {handover.VERSION}"
        raise PeerError(f"the previous LBM's handover has version {record.version}; {known}")
    if record.descriptors != count:
        raise PeerError("the previous LBM was killed during the handover")

    def each(kind: type[Record], values: Iterable[HeldValue]) -> list[Record]:
        return [codec.read(kind, value, given) for value in values]

    left = Left(
        each(LinkFrom, record.links_from),
        each(LinkTo, record.links_to),
        each(Attached, record.attached),
        each(QueuedAttempt, record.attempts),
        list(map(JobId, record.jobs)),
        given.take(record.listener) if record.listener else None,
    )
    for value in record.clients:
        try:
            left.clients += each(ClientState, (value,))
        except PeerError as problem:
            log.warning("dropped a client: %s", problem)
    if record.HasField("unrecorded"):
        try:
            left.unrecorded = codec.read(Unrecorded, record.unrecorded, given)
        except PeerError as problem:
            log.warning("commands are missing in the accounting: %s", problem)
    return left


class Adoption:
    """Takes up everything that was left."""

    def __init__(
        self,
        links: AcceptedLinks,
        home: OutboundContext,
        clients: ClientServer,
        attempts: DispatcherLine | None,
    ) -> None:
        self._links = links
        self._host = links.host
        self._home = home
        self._clients = clients
        self._attempts = attempts
        self._streams: dict[str, Stream] = {}  # streams to other hosts, by token

    def take_up(self, left: Left) -> None:
        links = [(self._restore_link(one), one.stream.unread) for one in left.links_from]
        for attached in left.attached:
            self._restore_attached(attached)
        for link, unread in links:
            try:
                link.hear_again(unread)
            except ValueError as problem:
                give_up("a stream", problem)
            link.await_return()
        for attempt in left.attempts:
            self._restore_attempt(attempt)
        self._streams = {link.stream.token: Stream.restored(link.stream) for link in left.links_to}
        for client in left.clients:
            self._restore_client(client)
        for link_to in left.links_to:
            try:
                self._open_again(link_to)
            except ValueError as problem:
                give_up("a stream", problem)
                lost = LostContact(f"lost contact with {link_to.host}: what it sent makes no sense")
                self._streams[link_to.stream.token].lose(lost)
        self._see_out_rest(left.jobs, is_ending=False)
        running = len(self._host.jobs.running)
        log.info("took over clients=%d jobs=%d", len(left.clients), running)

    def take_up_nothing(self) -> None:
        """Handles the case that the LBM before was killed: its keeper ends what it left."""
        self._see_out_rest((), is_ending=True)

    def _see_out_rest(self, jobs: Iterable[JobId], *, is_ending: bool) -> None:
        """Awaits the end of `jobs`, and of jobs of the keeper that nobody here knows."""
        link = self._host.link
        there = link.has
        for job in {*jobs, *there} - set(link.jobs):
            if not job.startswith(ALONE):  # the keeper ends those in time
                self._end(job, there.get(job, b""), is_ending=is_ending)
        link.adopted()

    # commands of this host's users elsewhere

    def of(self, run: FarRun) -> Conversation:
        """Raises ValueError."""
        if run.token not in self._streams:
            raise ValueError(f"no stream to {run.host} was left")
        talk = self._streams[run.token].converse(run.number)
        if run.ended is not None:
            talk.close()
        return talk

    def _restore_client(self, left: ClientState) -> None:
        sock = socket.socket(fileno=left.socket)
        try:
            connection = self._clients.connection(sock)
            connection.take_up(left, self)
            return self._clients.serve(connection, connection.go_on())
        except TROUBLE as problem:
            sock.detach()
            give_up("a client", problem, left)
        for run in (left.command.run, left.command.workdir) if left.command else ():
            if run is not None and run.token in self._streams:
                self._streams[run.token].conversations.pop(run.number, None)

    def _open_again(self, left: LinkTo) -> None:
        streams, stream = self._home.streams, self._streams[left.stream.token]
        if streams is None:
            return
        for number in set(left.open_numbers) - stream.conversations.keys():
            talk = stream.converse(number)  # nothing continues it here
            talk.put(tags.HANGUP)
            talk.close()
        for message in left.stream.unread:
            for number, tag, body in tags.unpack(message):
                stream.deliver(number, tag, body)
        streams.resume((left.host, left.address), stream, stream.token, left.last_number)

    # commands of other hosts' users here

    def _restore_link(self, left: LinkFrom) -> AcceptedLink:
        link = AcceptedLink(
            self._links, Stream.restored(left.stream), (left.caller, left.stream.token)
        )
        link.last_number = left.last_number
        link.claims.restore(left.claims)
        for held in left.workdirs:
            self._host.workdirs.adopt(held.id, Workdir(held.origin, held.user, held.path))
            talk = link.stream.converse(held.number)
            request = lbm_pb2.WorkdirRequest(id=held.id).SerializeToString()
            link.serve(hold_workdir(self._host, held.id), talk, request, None, held.id)
        return link

    def _restore_attached(self, left: Attached) -> None:
        link = self._links.open.get(left.link) if left.link is not None else None
        if link is None:
            return self._see_out(left)
        talk = link.stream.converse(left.number)
        job = AttachedJob(self._host, talk, link.claims)
        try:
            job.adopt(left)
            link.serve(job.go_on(), talk, left.request, job)
        except TROUBLE as problem:
            give_up("a job", problem, left, shown_id(left.running))
            talk.put(tags.FAILED, b"its lbm was restarted and cannot go on with it")
            talk.close()

    def _see_out(self, left: Attached) -> None:
        """Awaits only the end of a command that nobody waits for, and keeps its slot until then."""
        talk = Stream.restored(StreamState("")).converse(0)
        job = AttachedJob(self._host, talk, Claims(self._host.jobs))
        try:
            job.adopt(left)
            job.feed(e.Resumed())
        except TROUBLE as problem:
            give_up("a job", problem, job=shown_id(left.running))

    def _restore_attempt(self, left: QueuedAttempt) -> None:
        try:
            if self._attempts is not None:
                self._attempts.adopt(left)
        except TROUBLE as problem:
            give_up("an attempt", problem, job=shown_id(left.running))

    def _end(self, job: JobId, belongings: bytes, *, is_ending: bool) -> None:
        try:
            held = read_belongings(belongings)
        except ValueError as problem:
            job_log.warning(job, "%s", problem)
            held = ONE_SLOT
        life = survivor(job, held, is_ending=is_ending)
        request = lbm_pb2.RunRequest(job_id=job).SerializeToString()
        self._see_out(Attached(Running(life, None, held.width, held.grant), request))


def free_unused_memory() -> None:
    """Returns to the system what reading has left free on the heap: as much as was handed over,
    between parts that are still used. Other C libraries than glibc have no malloc_trim."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def give_up(what: str, problem: Exception, left: object = None, job: str = "") -> None:
    """`left`: the record, whose descriptors are closed."""
    job_log.warning(job, "dropped %s of the previous LBM: %r", what, problem)
    if left is not None:
        close_apart(codec.descriptors_of(left))
