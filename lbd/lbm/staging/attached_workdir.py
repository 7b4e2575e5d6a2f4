"""The workdir of an attached command of another host, which lasts as long as its conversation.

Its files are what steps of their own read and write (attached_files.py).
"""

import asyncio
from collections.abc import Callable

from google.protobuf.message import DecodeError

from lbd.keeper.local_account import Refuse
from lbd.lbm.inbound.context import InboundContext
from lbd.lbm.inbound.request import JOB_ID, is_job_of
from lbd.lbm.link import wire as tags
from lbd.lbm.link.conversation import Conversation
from lbd.lbm.staging.workdirs import FilesRefused, check_allowed
from lbd.net.gen import lbm_pb2
from lbd.net.parsing import parsed

NO_SLOT = "slot"


async def serve_workdir(
    host: InboundContext,
    talk: Conversation,
    message: memoryview,
    caller: str,
    made: Callable[[str], None],
) -> None:
    """Serves a workdir until the origin hangs up, which cancels us. `made` is told its id."""
    try:
        name = await open_workdir(host, bytes(message), caller)
        made(name)
    except FilesRefused as trouble:
        refused = lbm_pb2.Refused(reason=str(trouble), try_another=True)
        refused.phase = "stage" if trouble.phase == "stage" else "admission"
        refused.full = trouble.phase == NO_SLOT
        talk.put(tags.REFUSED, refused.SerializeToString())
        return
    talk.put(tags.STARTED, lbm_pb2.Started(host=host.config.host.name).SerializeToString())
    await hold_workdir(host, name)


async def open_workdir(host: InboundContext, message: bytes, caller: str) -> str:
    """Makes a workdir and returns its id. Raises FilesRefused."""
    try:
        request = parsed(lbm_pb2.WorkdirRequest, message)
    except DecodeError:
        raise FilesRefused("the request is not a WorkdirRequest") from None
    if caller not in ("", request.origin):
        raise FilesRefused(f"{caller} asks in the name of {request.origin}")
    if not JOB_ID.fullmatch(request.id) or not is_job_of(request.origin, request.id):
        raise FilesRefused(f"the request lacks an id of {request.origin}'s")
    admitted = await host.admit(request.user, request.uid, request.origin)
    if isinstance(admitted, Refuse):
        raise FilesRefused(admitted.reason)
    check_allowed(host.config.stage)
    if not request.forced and not host.slots.has_room(request.user, max(1, request.slots)):
        raise FilesRefused("no free slot", NO_SLOT)
    await host.workdirs.open(request, admitted.run_as, host.slots.places)
    return request.id


async def hold_workdir(host: InboundContext, name: str) -> None:
    """Keeps the workdir until the origin hangs up."""
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        host.workdirs.end(name)
