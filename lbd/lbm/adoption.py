"""The beginning of an LBM that follows another: what that has left with the keeper is taken up.

Streams to other hosts are opened again by their origin (peer_streams.py); what is not asked for
within `orphan_after_s` is ended. A job of which something cannot be taken up is ended, too: a wrong
stream would be worse than none.
"""

import logging
import socket
import time

from google.protobuf.message import DecodeError

from lbd.errors import PeerError
from lbd.lbm import handover
from lbd.lbm.adopted_client import AdoptedConnection
from lbd.lbm.adopted_job import AdoptedJob
from lbd.lbm.attempts import Attempts
from lbd.lbm.bundle import Given
from lbd.lbm.client_server import ClientServer
from lbd.lbm.conversation import Conversation, Stream
from lbd.lbm.home import Home
from lbd.lbm.host import Host
from lbd.lbm.incoming import Incoming, hold_stage
from lbd.lbm.stages import Stage
from lbd.lbm.state import Claims
from lbd.model import JobId
from lbd.rpc import job_stream as tags
from lbd.rpc.gen import handover_pb2 as held
from lbd.rpc.gen import lbm_pb2

log = logging.getLogger("lbd.lbm")

TROUBLE = (OSError, KeyError, ValueError, DecodeError)


def read_record(descriptors: list[int]) -> held.Handover | None:
    """The first of them. None: there is nothing, or it cannot be read here."""
    if not descriptors:
        return None
    try:
        return parse(descriptors)
    except (PeerError, OSError) as problem:
        log.warning("%s; what ran is ended", problem)
        Given(descriptors).close()
        return None


def parse(descriptors: list[int]) -> held.Handover:
    """Raises PeerError, OSError."""
    with open(descriptors[0], "rb", closefd=False) as file:
        file.seek(0)
        text = file.read()
    try:
        record = held.Handover.FromString(text)
    except DecodeError:
        raise PeerError("what the lbm before left is not readable") from None
    if record.needs > handover.VERSION:
        raise PeerError(
            f"what the lbm before left is of version {record.version}; we know {handover.VERSION}"
        )
    if record.descriptors != len(descriptors) - 1:
        raise PeerError("the lbm before was killed as it left")
    return record


def has_jobs(record: held.Handover) -> bool:
    return bool(record.ending or record.attempts) or any(
        incoming.jobs for incoming in record.incoming
    )


class Adoption:
    """Of all that one record tells of."""

    def __init__(
        self,
        host: Host,
        home: Home,
        clients: ClientServer,
        attempts: Attempts | None,
        given: Given,
    ) -> None:
        self._host = host
        self._home = home
        self._clients = clients
        self._attempts = attempts
        self._given = given
        self._outgoing: dict[str, Stream] = {}

    def take_up(self, record: held.Handover) -> int | None:
        """The listening socket of lbm.sock, if there was one."""
        for outgoing in record.outgoing:
            self._restore_stream(outgoing)
        for incoming in record.incoming:
            self._restore_incoming(incoming)
        for job in record.ending:
            self._restore_ending(job)
        if self._attempts is not None:
            for attempt in record.attempts:
                self._attempts.adopt(attempt)
        for client in record.clients:
            self._restore_client(client)
        for outgoing in record.outgoing:
            self._open_again(outgoing)
        listener = self._given.take_any(record.listener)
        self._given.close()
        self._host.link.adopted()
        running = len(self._host.jobs.running)
        log.info("took over clients=%d jobs=%d", len(record.clients), running)
        return listener

    # commands of this host's users elsewhere

    def _restore_stream(self, left: held.HeldOutgoing) -> None:
        self._outgoing[left.token] = Stream.restored(
            left.token, left.sent, left.received, list(left.unsent)
        )

    def of(self, run: held.HeldRun) -> Conversation:
        """Raises KeyError."""
        return self._outgoing[run.token].converse(run.number)

    def _restore_client(self, left: held.HeldClient) -> None:
        sock = socket.socket(fileno=self._given.take(left.socket))
        try:
            connection = AdoptedConnection(sock, self._home, self._clients.answer)
            if left.HasField("command"):
                connection.restore(left, self, self._given)
                self._clients.serve(connection, connection.go_on())
            else:
                connection.start_again(left, self._given)
                self._clients.serve(connection, connection.serve())
        except TROUBLE as problem:
            log.warning("a client of the lbm before is given up: %r", problem)
            sock.close()

    def _open_again(self, left: held.HeldOutgoing) -> None:
        streams, stream = self._home.streams, self._outgoing[left.token]
        if streams is None:
            return
        for message in left.unread:
            for number, tag, body in tags.unpack(message):
                stream.deliver(number, tag, body)
        streams.resume((left.host, left.address), stream, left.token, left.last_number)

    # commands of other hosts' users here

    def _restore_incoming(self, left: held.HeldIncoming) -> None:
        stream = Stream.restored(left.token, left.sent, left.received, list(left.unsent))
        incoming = Incoming(self._host, stream, (left.caller, left.token))
        incoming.last_number = left.last_number
        incoming.claims.restore(map(JobId, left.claims))
        for job in left.jobs:
            self._restore_job(incoming, job)
        for stage in left.stages:
            self._restore_stage(incoming, stage)
        incoming.hear_again(left.unread)
        incoming.await_return()

    def _restore_job(self, incoming: Incoming, left: held.HeldJob) -> None:
        job = AdoptedJob(
            self._host, incoming.stream.converse(left.number), incoming.key[0], incoming.claims
        )
        try:
            job.restore(left, self._given)
        except TROUBLE as problem:
            log.warning("a job of the lbm before is given up: %r", problem)
            job.talk.put(tags.FAILED, b"its lbm was restarted and cannot go on with it")
            job.talk.close()
            self._restore_ending(left)
            return
        incoming.serve(job.go_on(), job.talk, left.request, job)

    def _restore_stage(self, incoming: Incoming, left: held.HeldStage) -> None:
        self._host.stages.adopt(left.id, Stage(left.origin, left.user, left.path))
        talk = incoming.stream.converse(left.number)
        request = lbm_pb2.StageRequest(id=left.id).SerializeToString()
        incoming.serve(hold_stage(self._host, left.id), talk, request, None)

    def _restore_ending(self, left: held.HeldJob) -> None:
        """Nobody waits for it: only its end is awaited, and its slot kept until then."""
        talk = Stream.restored("", 0, 0, []).converse(0)
        job = AdoptedJob(self._host, talk, "", Claims(self._host.jobs))
        left.ClearField("ends")
        left.kill_at_s = left.kill_at_s or time.monotonic()
        try:
            job.restore(left, self._given)
        except TROUBLE as problem:
            log.warning("a job of the lbm before has left nothing to end it by: %r", problem)
