"""The end of an LBM whose commands live on: all that it holds goes to the keeper.

1. It accepts nobody any more, and every stream to another LBM comes to rest (conversation.py), so
   that nothing is under way. A stream that is just being resumed continues first. Commands run on
   meanwhile, and their output waits.
2. The keeper holds its reports back for the next LBM (fd_store.py).
3. Between two steps of the event loop, when nothing is half done, everything is written down, and
   given to the keeper with the descriptors. There is no further step: the process ends on the spot,
   without a single `finally`, so that nothing can be read, written or reported twice.

What cannot be written down (files of --send that are on their way, a thread in a system call) is
given up as if this LBM had been stopped.
"""

import asyncio
import errno
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NoReturn

from lbd.errors import EXIT_RESTART
from lbd.lbm.core.execution import ALIVE
from lbd.lbm.handover import codec
from lbd.lbm.handover.fds import Bundle, NotNow
from lbd.lbm.handover.records import LinkFrom, LinkTo, QueuedAttempt, WorkdirHeld, shown_id
from lbd.lbm.inbound.attached_job import AttachedJob
from lbd.lbm.inbound.context import InboundContext
from lbd.lbm.link import wire as tags
from lbd.lbm.link.accepted_links import AcceptedLink, AcceptedLinks
from lbd.lbm.link.conversation import Stream
from lbd.lbm.link.opened_links import PeerLink, PeerLinks
from lbd.lbm.outbound.context import OutboundContext
from lbd.lbm.queue.dispatcher_line import DispatcherLine
from lbd.lbm.session.server import ClientServer
from lbd.lbm.session.session import Connection
from lbd.local.write_all import write_all
from lbd.net.gen.handover_pb2 import Handover
from lbd.process.job_log import JobLog

log = logging.getLogger("lbd.lbm")
job_log = JobLog(log)

# Both change only with the messages of handover.proto; codec.py says how records may change.
VERSION = 1  # of the written record
NEEDS = 1  # a reader must know this version at least
BYTES_MAX = (1 << 31) - 1  # a longer message is not possible
FILES_S = 5.0  # for files that are on their way
REST_S = 3.0  # for the streams to come to rest
SETTLE_S = 3.0  # for half-done work; a thread may get its turn late on a busy host
POLL_S = 0.005
LET_GO_S = 1.0
STREAMS = (socket.AF_INET, socket.AF_INET6)
ROUNDS = 10
UNWRITABLE = (TypeError, ValueError, OverflowError)  # what codec.write raises


async def hand_over(
    links: AcceptedLinks,
    home: OutboundContext,
    clients: ClientServer,
    attempts: DispatcherLine | None,
    release: Callable[[list[int]], None],
) -> None:
    """Does not return, unless the keeper cannot hold the record: then running commands must be
    ended.

    `release` lets go of what the next LBM needs, except the descriptors given to it. The kernel
    does so only when the last thread has ended, and a thread may be in a call that never ends.
    """
    try:
        await leave(links, home, clients, attempts, release)
    except (TimeoutError, OSError, *UNWRITABLE) as problem:
        if home.commands or any(links.host.executions):
            log.warning("running commands cannot be handed over and are ended: %r", problem)
        else:
            log.info("nothing is handed over, and no commands were running: %r", problem)


async def leave(
    links: AcceptedLinks,
    home: OutboundContext,
    clients: ClientServer,
    attempts: DispatcherLine | None,
    release: Callable[[list[int]], None],
) -> NoReturn:
    """Raises TimeoutError, OSError, ValueError."""
    began_s = time.monotonic()
    host = links.host
    host.executions.leaving = True
    listener, connections = clients.leave()
    await until(lambda: not any(client.is_moving_files for client in connections), FILES_S)
    await come_to_rest(links, home.streams)
    await home.eligible.close()
    await host.link.leave()
    home.threads.rest()
    await until(lambda: is_settled(host) and home.threads.are_settled(), SETTLE_S)
    left = attempts.left() if attempts is not None else []
    parts = Parts()
    descriptors = write_down(links, home, listener, connections, left, parts.put)
    host.link.hand_over([parts.descriptor, *descriptors])
    log.info(
        "handed over commands_here=%d clients=%d descriptors=%d after_s=%.3f",
        parts.attached,
        parts.clients,
        len(descriptors),
        time.monotonic() - began_s,
    )
    release(descriptors)
    logging.shutdown()
    os._exit(EXIT_RESTART)


async def come_to_rest(links: AcceptedLinks, opened: PeerLinks | None) -> None:
    """Waits until nothing is under way on any stream, and none is about to be resumed, or a time
    limit.

    A stream that is just being resumed continues first: its other end may have continued already,
    and would take what follows for a broken stream.
    """
    if opened is not None:
        opened.leave()
    await until(lambda: links.are_settled and (opened is None or opened.are_settled), REST_S)
    streams = list(all_streams(links, opened))
    for stream in streams:
        stream.rest()
    await until(lambda: all(stream.confirmed.is_set() for stream in streams), REST_S)


class Parts:
    """What is written down, a part at a time, so that no more than one is there twice. The parts of
    a message, one after the other, are the message."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("lbm-handover", os.MFD_CLOEXEC)
        self.attached = self.clients = 0
        self._bytes = 0

    def put(self, part: Handover) -> None:
        """Raises OSError."""
        data = part.SerializeToString()
        self.attached += len(part.attached)
        self.clients += len(part.clients)
        self._bytes += len(data)
        if self._bytes > BYTES_MAX:
            raise OSError(errno.EFBIG, "too many bytes in flight")
        write_all(self.descriptor, data)


async def until(condition: Callable[[], bool], limit_s: float) -> None:
    """Waits for the condition, at most `limit_s`."""
    deadline_s = time.monotonic() + limit_s
    for _ in range(ROUNDS):  # lets woken tasks do what they were woken for
        await asyncio.sleep(0)
    while not condition():
        if time.monotonic() > deadline_s:
            return
        await asyncio.sleep(POLL_S)


def all_streams(links: AcceptedLinks, opened: PeerLinks | None) -> Iterator[Stream]:
    for incoming in links.open.values():
        yield incoming.stream
    for outgoing in opened.all if opened is not None else ():
        yield outgoing.stream


def is_settled(host: InboundContext) -> bool:
    """Whether nothing that takes only a moment is half done."""
    return host.link.is_idle and host.executions.are_settled


def write_down(
    links: AcceptedLinks,
    home: OutboundContext,
    listener: int,
    connections: list[Connection],
    attempts: list[QueuedAttempt],
    put: Callable[[Handover], None],
) -> list[int]:
    """Writes everything down; no further step of the event loop follows. What cannot be written
    down is lost alone: who has caused that must not end others' commands. Returns the descriptors.
    Raises what `put` raises."""
    bundle, host = Bundle(), links.host
    head = Handover(version=VERSION, needs=NEEDS, listener=bundle.add(listener))
    for connection in connections:
        part = Handover()
        try:
            if (client := connection.left()) is not None:
                codec.write(client, bundle, part.clients.add())
                put(part)
        except (NotNow, *UNWRITABLE) as problem:
            command = connection.command
            job_log.info(command.job.id if command else "", "dropped a client: %r", problem)
            if command is not None:
                command.let_go()

    def write(field: str, record: object, what: str, job: str = "") -> bool:
        part = Handover()
        try:
            codec.write(record, bundle, getattr(part, field).add())
        except UNWRITABLE as problem:
            job_log.warning(job, "%s cannot be handed over and is lost: %r", what, problem)
            return False
        put(part)
        return True

    for peer in home.streams.all if home.streams is not None else ():
        write("links_to", link_to(peer), f"the stream to {peer.host}")
    for link in links.open.values():
        left = link_from(host, link, lambda job, held: write("attached", held, "a command", job))
        write("links_from", left, f"a stream from {link.key[0]}")
    for live in host.executions:
        if isinstance(live, AttachedJob) and live.is_alone and live.execution.phase in ALIVE:
            with suppress(NotNow):
                if (mine := live.left(None)) is not None:
                    write("attached", mine, "a command", live.id)
    for attempt in attempts:
        write("attempts", attempt, "an attempt", shown_id(attempt.running))
    head.jobs.extend(host.link.jobs)
    if (unrecorded := home.usage.finish()) is not None:  # else the next LBM reads from a file
        try:
            codec.write(unrecorded, bundle, head.unrecorded)
        except UNWRITABLE as problem:
            head.ClearField("unrecorded")
            log.warning("ended commands that are still to be recorded are lost: %r", problem)
    head.descriptors = len(bundle.descriptors)
    put(head)
    return bundle.descriptors


def link_to(peer: PeerLink) -> LinkTo:
    numbers = tuple(peer.stream.conversations)
    return LinkTo(peer.host, peer.address, peer.stream.left(), peer.last_number, numbers)


def link_from(
    host: InboundContext, link: AcceptedLink, write: Callable[[str, object], bool]
) -> LinkFrom:
    """`write` gets its commands that have begun; the others' requests are read again."""
    again, workdirs = [], []
    for number, serving in link.jobs.items():
        job, request = serving.job, serving.request
        if serving.task.done() or (job is not None and job.is_done):
            continue
        if job is None:
            if (made := host.workdirs.get(name := serving.workdir)) is not None:
                workdirs.append(WorkdirHeld(number, name, made.origin, made.user, made.path))
            else:
                again.append(tags.pack(number, tags.WORKDIR, request))
            continue
        try:
            held = job.left(link.key)
        except NotNow:
            serving.talk.put(tags.FAILED, b"its lbm was restarted as the command began")
            continue
        if held is None:  # it waits for a slot, or is being examined
            again.append(tags.pack(number, tags.RUN, request))
            link.claims.give_back(job.id)
        elif not write(job.id, held):
            serving.talk.put(tags.FAILED, b"its lbm was restarted and cannot go on with it")
    caller, token = link.key
    stream, claims = link.stream.left(), tuple(link.claims.ids)
    stream = replace(stream, token=token, unread=(*again, *stream.unread))
    return LinkFrom(caller, stream, link.last_number, claims, tuple(workdirs))


def let_go(report: Callable[[], None], locks: list[int], kept: list[int]) -> None:
    """Lets go of the locks, and of all sockets except those `kept`; then `report` is called. This
    process does nothing afterwards but end.

    The descriptors of a process are closed when its last thread has ended. A thread in a system
    call on a user's file may never end. So what others must see as closed is closed by hand.
    """
    for lock in locks:
        os.close(lock)
    thread = threading.Thread(target=_let_go, args=(frozenset(kept),), daemon=True)
    thread.start()
    thread.join(LET_GO_S)  # a user's socket may hang, too
    report()


def _let_go(kept: frozenset[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            is_socket = os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
            if is_socket and int(name) > 2 and int(name) not in kept:
                _end(int(name))


def _end(descriptor: int) -> None:
    """Raises OSError."""
    duplicate = os.dup(descriptor)  # another close by its number only closes the number
    with socket.socket(socket.AF_UNIX, fileno=duplicate) as sock:
        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) in STREAMS:
            sock.shutdown(socket.SHUT_RDWR)  # no close: gRPC's threads use it by its number
            return
    os.close(descriptor)
