"""What goes along with a command that leaves this host."""

import functools

from lbd.lbm.caller import Limit, PeerProcess
from lbd.lbm.modes import pack_modes, pack_size
from lbd.lbm.request import ClientRequest
from lbd.lbm.stamp import Stamp
from lbd.lbm.state import Job
from lbd.model import HostId, JobId
from lbd.rpc import client_tags as tags
from lbd.rpc.gen import lbm_pb2

SHOWN = 8


def new_job(
    job: JobId, request: ClientRequest, caller: tuple[str, int], origin: HostId, unix_s: float
) -> Job:
    """It is nowhere yet. `caller`: user and uid."""
    user, uid = caller
    command, nowhere = tuple(request.argv), HostId("")
    return Job(job, command, user, origin, nowhere, unix_s, request.name, uid=uid)


def make_request(
    job: Job,
    request: ClientRequest,
    environment: list[bytes],
    uid: int,
    peer: PeerProcess,
    stamp: Stamp | None,
) -> lbm_pb2.RunRequest:
    """`uid`, `peer`: the client's; `stamp`: what its directory must be. Raises Unavailable."""
    traits = peer.traits()
    made = lbm_pb2.RunRequest(
        job_id=job.id,
        origin=job.origin,
        user=job.user,
        uid=uid,
        argv=request.argv,
        environment=environment,
        directory=request.directory,
        umask=request.umask,
        wants_stdin=not request.has(tags.FLAG_NO_STDIN),
        closed_fds=request.closed_fds,
        null_outputs=request.null_outputs,
        timeout_s=request.timeout_s,
        memory_bytes=request.memory_bytes,
        hops=request.depth,
        name=request.name,
        forced=request.mode == "host",
        nice=traits.nice,
        ignored_signals=request.ignored_signals,
        no_new_privileges=traits.no_new_privileges,
        directory_stamp=stamp_message(stamp),
        terminal=terminal_message(request),
        joined_outputs=request.has(tags.FLAG_JOINED),
        may_restart=may_restart(request),
        slots=request.slots[0] if request.slots[1] > 1 else 0,
        slots_most=request.slots[1] if request.slots[1] > 1 else 0,
    )
    made.MergeFromString(packed_limits(traits.limits))
    return made


@functools.lru_cache(maxsize=64)
def packed_limits(limits: tuple[Limit, ...]) -> bytes:
    """A RunRequest of nothing else. They are the same for most commands, and sixteen messages made
    anew for each command take a thirtieth of what a short one takes altogether."""
    found = [
        lbm_pb2.ResourceLimit(resource=number, soft=soft, hard=hard)
        for number, soft, hard in limits
    ]
    return lbm_pb2.RunRequest(limits=found).SerializeToString()


def may_restart(request: ClientRequest) -> bool:
    """Might another host begin it anew? Not where the user has named the host, or said no."""
    fixed = request.mode == "host" or request.is_staged or request.terminal is not None
    return not fixed and not request.has(tags.FLAG_NO_RESTART)


def terminal_message(request: ClientRequest) -> lbm_pb2.Terminal | None:
    if request.terminal is None:
        return None
    return lbm_pb2.Terminal(
        size=pack_size(request.terminal),
        modes=pack_modes(request.modes) if request.modes else b"",
        background=request.has(tags.FLAG_BACKGROUND),
        stderr_apart=request.has(tags.FLAG_STDERR_APART),
        ends_lines=request.has(tags.FLAG_ENDS_LINES),
    )


def kept_back(names: list[str]) -> str:
    """For -v: what a command may miss there."""
    if not names:
        return ""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"; kept back: {', '.join(sorted(names)[:SHOWN])}{more}"


def stamp_message(stamp: Stamp | None) -> lbm_pb2.DirectoryStamp | None:
    if stamp is None:
        return None
    return lbm_pb2.DirectoryStamp(
        kernel=stamp.kernel,
        device=stamp.device,
        inode=stamp.inode,
        born_ns=stamp.born_ns,
        changed_ns=stamp.changed_ns,
        file_system=stamp.file_system,
    )
