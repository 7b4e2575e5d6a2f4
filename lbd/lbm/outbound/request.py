"""What goes along with a command that leaves this host."""

import asyncio
import functools

from lbd.config.schema import Config
from lbd.launch.directory_stamp import Stamp
from lbd.launch.terminal_modes import pack_modes, pack_size
from lbd.lbm.core.environment import REMEMBERED_BYTES, DenyList, names_shown, outgoing
from lbd.lbm.core.jobs import Job
from lbd.lbm.core.next_host_after_refusal import Bounds
from lbd.lbm.session.peer_process import Limit, PeerProcess
from lbd.lbm.session.request import ClientRequest
from lbd.local import client_tags as tags
from lbd.local.turns import Turns
from lbd.model import HostId, JobId
from lbd.net.gen import lbm_pb2
from lbd.text.needs_words import needs_text

SORTED_AT_ONCE = Turns(1)  # large environments of one user, in a thread that all others need, too


def bounds_of(config: Config, *, has_peers: bool) -> Bounds:
    """The limits that this host sets now."""
    limits = config.lim.hold_limit_s, config.lbm.sent_away_wait_s
    return Bounds(HostId(config.host.name), *limits, has_peers=has_peers)


def new_job(
    job: JobId, request: ClientRequest, caller: tuple[str, int], origin: HostId, unix_s: float
) -> Job:
    """A job that has no host yet. `caller`: user and uid."""
    user, uid = caller
    command, nowhere = tuple(request.argv), HostId("")
    job_is = Job(job, command, user, origin, nowhere, unix_s, request.name, uid=uid)
    job_is.directory, job_is.slots = request.directory, request.slots[0]
    return job_is


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
        may_restart=request.may_restart,
        slots=request.slots[0] if request.slots[1] > 1 else 0,
        slots_most=request.slots[1] if request.slots[1] > 1 else 0,
        needs=needs_text(request.needs),
        excluded=sorted(request.excluded) if request.may_restart else (),
    )
    made.MergeFromString(packed_limits(traits.limits))
    return made


@functools.lru_cache(maxsize=64)
def packed_limits(limits: tuple[Limit, ...]) -> bytes:
    """Returns a RunRequest with only the limits. They are the same for most commands, and to make
    sixteen messages again for each takes a thirtieth of a short command's whole time."""
    found = [
        lbm_pb2.ResourceLimit(resource=number, soft=soft, hard=hard)
        for number, soft, hard in limits
    ]
    return lbm_pb2.RunRequest(limits=found).SerializeToString()


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


async def leaving(denied: DenyList, request: ClientRequest, uid: int) -> tuple[list[bytes], str]:
    """Returns the variables that go along and, for -v, a line on those that do not, if any."""
    environment, let_through = request.environment, request.let_through
    if sum(map(len, environment)) > REMEMBERED_BYTES:  # 0.3 s for 8 MB, also of few variables
        async with SORTED_AT_ONCE.turn(uid):
            found, names = await asyncio.to_thread(outgoing, environment, denied, let_through)
    else:
        found, names = denied.outgoing(environment, let_through)
    line = f"variables withheld (environment.deny): {names_shown(names)}"
    return found, line if names else ""


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
        seen_ns=stamp.seen_ns,
    )
