"""The end of an LBM whose commands are to live on: all that it holds goes to the keeper.

1. It accepts nobody any more, and every stream to another LBM comes to rest (conversation.py):
   nothing is under way then. Its commands go on meanwhile, and what they print waits.
2. The keeper keeps what it has to tell for the next LBM (holding.py).
3. Between two steps of the event loop, when nothing is half done, all is written down, and given to
   the keeper with the descriptors. There is no further step: the process ends on the spot, without
   a single `finally`, so that nothing can be read, written or told to anybody twice.

What cannot be written down (files of --send that are on their way, a thread in a system call) is
given up as if this LBM had been stopped.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

from lbd.errors import EXIT_RESTART
from lbd.lbm.adopted_client import AdoptedConnection
from lbd.lbm.adopted_command import AdoptedCommand
from lbd.lbm.adopted_job import AdoptedJob
from lbd.lbm.agent import ForeignJob
from lbd.lbm.attempts import Attempts
from lbd.lbm.bundle import Bundle, NotNow
from lbd.lbm.client_server import ClientServer
from lbd.lbm.clients import Connection
from lbd.lbm.conversation import Stream
from lbd.lbm.home import Home
from lbd.lbm.host import Host
from lbd.lbm.incoming import Incoming
from lbd.lbm.peer_streams import PeerStream
from lbd.model import JobId
from lbd.rpc import job_stream as tags
from lbd.rpc.gen import dispatch_pb2, handover_pb2, lbm_pb2

log = logging.getLogger("lbd.lbm")

VERSION = 1  # of what is written
NEEDS = 1  # whoever reads it must know this much
FILES_S = 5.0  # for files that are on their way
REST_S = 3.0  # for the streams to come to rest
SETTLE_S = 1.0  # for what is half done
POLL_S = 0.005
ROUNDS = 10


async def hand_over(
    host: Host,
    home: Home,
    clients: ClientServer,
    attempts: Attempts | None,
    release: Callable[[list[int]], None],
) -> None:
    """Does not return, unless the keeper cannot hold it: then what runs is to be ended.

    `release` lets go of what the next LBM needs, but for the descriptors it is given: the kernel
    does that only when the last thread has ended, and one may be in a call that never ends.
    """
    try:
        await leave(host, home, clients, attempts, release)
    except (TimeoutError, OSError) as problem:
        log.warning("the keeper cannot hold what runs, so it is ended: %r", problem)


async def leave(
    host: Host,
    home: Home,
    clients: ClientServer,
    attempts: Attempts | None,
    release: Callable[[list[int]], None],
) -> NoReturn:
    """Raises TimeoutError, OSError."""
    began_s = time.monotonic()
    host.leaving = True
    listener, connections = clients.leave()
    await until(lambda: not any(is_moving_files(c) for c in connections), FILES_S)
    streams = list(all_streams(host, home))
    if home.streams is not None:
        home.streams.leaving = True
    for stream in streams:
        stream.rest()
    await until(lambda: all(stream.confirmed.is_set() for stream in streams), REST_S)
    await home.eligible.close()
    await host.link.leave()
    home.threads.rest()
    await until(lambda: is_settled(host) and home.threads.are_settled(), SETTLE_S)
    saved = attempts.save() if attempts is not None else []
    record, descriptors = write_down(host, home, listener, connections, saved)
    host.link.hand_over([in_memory(record.SerializeToString()), *descriptors])
    log.info(
        "handed over commands_here=%d clients=%d descriptors=%d after_s=%.3f",
        sum(len(incoming.jobs) for incoming in record.incoming),
        len(record.clients),
        len(descriptors),
        time.monotonic() - began_s,
    )
    home.usage.finish()
    release(descriptors)
    logging.shutdown()
    os._exit(EXIT_RESTART)


def in_memory(data: bytes) -> int:
    descriptor = os.memfd_create("lbm-handover", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    return descriptor


async def until(condition: Callable[[], bool], limit_s: float) -> None:
    """Or until the time is over."""
    deadline_s = time.monotonic() + limit_s
    for _ in range(ROUNDS):  # whoever was woken has done what it was woken for
        await asyncio.sleep(0)
    while not condition():
        if time.monotonic() > deadline_s:
            return
        await asyncio.sleep(POLL_S)


def all_streams(host: Host, home: Home) -> Iterator[Stream]:
    for incoming in host.incoming.values():
        yield incoming.stream
    for outgoing in home.streams.all if home.streams is not None else ():
        yield outgoing.stream


def is_moving_files(connection: Connection) -> bool:
    command = connection.command
    return command is not None and AdoptedCommand.is_moving_files(command)


def is_settled(host: Host) -> bool:
    """Is nobody in the middle of something that is over in a moment?"""
    jobs = [s.job for i in host.incoming.values() for s in i.jobs.values() if s.job is not None]
    return host.link.is_idle and not any(job.is_busy for job in jobs)


def write_down(
    host: Host,
    home: Home,
    listener: int,
    connections: list[Connection],
    attempts: list[handover_pb2.HeldAttempt],
) -> tuple[handover_pb2.Handover, list[int]]:
    """From here on there is no further step of the event loop."""
    bundle = Bundle()
    record = handover_pb2.Handover(version=VERSION, needs=NEEDS, listener=bundle.add(listener))
    for connection in connections:
        try:
            client = AdoptedConnection.save(connection, bundle)
        except NotNow:
            client = None
            if connection.command is not None:
                connection.command.let_go()
        if client is not None:
            record.clients.append(client)
    if home.streams is not None:
        record.outgoing.extend(save_outgoing(stream) for stream in home.streams.all)
    left: dict[JobId, ForeignJob] = dict(host.ending)
    for incoming in host.incoming.values():
        record.incoming.append(save_incoming(host, incoming, left, bundle))
    record.ending.extend(save_ending(job) for job in left.values())
    record.attempts.extend(attempts)
    saved = {job.job for incoming in record.incoming for job in incoming.jobs}
    starts = (dispatch_pb2.Start.FromString(item.start) for item in attempts)
    saved |= {f"{start.job}.{start.attempt}" for start in starts}
    for name in set(host.link.jobs) - saved - set(left):  # what else it is, nobody will know
        request = lbm_pb2.RunRequest(job_id=name).SerializeToString()
        record.ending.add(job=name, request=request, kill_at_s=time.monotonic())
    record.descriptors = len(bundle.descriptors)
    return record, bundle.descriptors


def save_outgoing(peer: PeerStream) -> handover_pb2.HeldOutgoing:
    stream = peer.stream
    return handover_pb2.HeldOutgoing(
        host=peer.host,
        address=peer.address,
        token=peer.token,
        last_number=peer.last_number,
        sent=stream.outbox.count,
        received=stream.received,
        unsent=stream.outbox.held(),
        unread=[message for talk in stream.conversations.values() for message in talk.unread()],
    )


def save_incoming(
    host: Host, incoming: Incoming, left: dict[JobId, ForeignJob], bundle: Bundle
) -> handover_pb2.HeldIncoming:
    """What cannot be saved stays in `left`, to be ended."""
    caller, token = incoming.key
    held = handover_pb2.HeldIncoming(caller=caller, token=token)
    for number, serving in incoming.jobs.items():
        if serving.task.done():
            continue
        job = serving.job
        try:
            if job is None:
                save_stage(host, number, serving.request, held)
            else:
                save_job(job, serving.request, incoming, held, bundle)
                left.pop(job.id, None)
        except NotNow:
            serving.talk.put(tags.FAILED, b"its lbm was restarted as the command began")
            if job is not None:
                left[job.id] = job
            continue
        held.unread.extend(serving.talk.unread())
    held.last_number = incoming.last_number
    held.claims.extend(incoming.claims.ids)
    held.sent, held.received = incoming.stream.outbox.count, incoming.stream.received
    held.unsent.extend(incoming.stream.outbox.held())
    return held


def save_job(
    job: ForeignJob,
    request: bytes,
    incoming: Incoming,
    held: handover_pb2.HeldIncoming,
    bundle: Bundle,
) -> None:
    """Raises NotNow."""
    saved = AdoptedJob.save(job, bundle)
    if saved is None:  # it waits for a slot, or is being looked at
        held.unread.append(tags.pack(job.talk.number, tags.RUN, request))
        incoming.claims.give_back(job.id)
    else:
        held.jobs.append(saved)


def save_stage(host: Host, number: int, request: bytes, held: handover_pb2.HeldIncoming) -> None:
    name = lbm_pb2.StageRequest.FromString(request).id
    stage = host.stages.get(name)
    if stage is None:
        held.unread.append(tags.pack(number, tags.STAGE, request))
        return
    held.stages.add(number=number, id=name, origin=stage.origin, user=stage.user, path=stage.path)


def save_ending(job: ForeignJob) -> handover_pb2.HeldJob:
    held = AdoptedJob.save_without_ends(job)
    held.kill_at_s = held.kill_at_s or time.monotonic()
    return held
