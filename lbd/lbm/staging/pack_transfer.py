"""The transfer of a whole pack from the host that keeps it to one that asks for it."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import grpc
from google.protobuf.message import DecodeError

from lbd.config.schema import StageConfig
from lbd.errors import Unavailable
from lbd.lbm.inbound.request import QUEUED_ID
from lbd.lbm.queue.other_spools import OtherSpools
from lbd.lbm.queue.spool import Spool
from lbd.lbm.staging.pack_store import PackStore
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.parsing import parsed
from lbd.process.disk_space import shortage_of

if TYPE_CHECKING:
    from lbd.lbm.queue.logs import CheckReader, Context

PIECE_BYTES = 1 << 18
HEAD_BYTES = 1 << 12  # more than the name of a file usually takes
END_BYTES = 1 << 12
# slower transfers would hold up the others of that host
PATIENCE_S, SLOWEST_BYTES_PER_S = 20.0, 1 << 16


async def receive_pack(
    spools: OtherSpools,
    host: str,
    request: pb.FilesRequest,
    directory: str,
    limits: StageConfig,
    moved: Callable[[int], None] = lambda _: None,
) -> BinaryIO:
    """Receives a pack into a file on the disk of `directory`, which the caller closes. `moved` is
    told how many bytes have come. Raises Unavailable, NotKept, OSError."""
    limit_bytes = limits.max_bytes + HEAD_BYTES * limits.max_files + END_BYTES
    os.makedirs(directory, mode=0o700, exist_ok=True)
    import tempfile  # imported here with all its dependencies, only for fetched files

    file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115  # the caller's
    try:
        size = 0
        async with asyncio.timeout(PATIENCE_S) as deadline:
            async for data in spools.files(host, request):
                size += len(data)
                moved(len(data))
                if size > limit_bytes:
                    raise Unavailable(f"more than {limits.max_bytes} bytes (stage.max_bytes)")
                await asyncio.to_thread(write, file, data, directory)
                deadline.reschedule((deadline.when() or 0.0) + len(data) / SLOWEST_BYTES_PER_S)
        file.flush()
        file.seek(0)
    except TimeoutError:
        file.close()
        raise Unavailable(f"{host} sends less than {SLOWEST_BYTES_PER_S} bytes a second") from None
    except BaseException:
        file.close()
        raise
    return file


def write(file: BinaryIO, data: bytes, directory: str) -> None:
    """Writes data, but leaves the last of the disk to jobs. Raises Unavailable, OSError."""
    short = shortage_of(Path(directory))
    if short.wanted_bytes and short.room_bytes < len(data):
        raise Unavailable(f"the disk of {directory} has no room for them")
    file.write(data)


async def serve_files(
    check: "CheckReader",
    store: PackStore,
    spool: Spool,
    takes: Callable[[str, int], Awaitable[None]],
    data: bytes,
    context: "Context",
) -> None:
    """Sends one whole pack. A pack that a job takes along has a name that only its hosts know;
    `takes` is told of the job first; it raises Unavailable if the job cannot begin now."""
    try:
        asked = parsed(pb.FilesRequest, data)
        if not QUEUED_ID.fullmatch(asked.job):
            raise DecodeError
    except DecodeError:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not a FilesRequest")
    try:
        if asked.name:
            await takes(asked.name, int(asked.job))
        else:
            await check(context)
        path = store.path(asked.name) if asked.name else spool.pack(asked.job, asked.attempt)
        file = await asyncio.to_thread(path.open, "rb", buffering=0)
    except Unavailable as problem:
        await context.abort(grpc.StatusCode.UNAVAILABLE, str(problem))
    except OSError:
        trouble = "these files are not stored here, or no longer"
        await context.write(pb.FilesPiece(trouble=trouble).SerializeToString())
        return
    with file:
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            await context.write(pb.FilesPiece(data=piece).SerializeToString())
