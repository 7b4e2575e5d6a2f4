"""A pack that another host keeps, fetched whole into a file without a name."""

import asyncio
import os
from typing import BinaryIO

from lbd.config.schema import StageConfig
from lbd.errors import Unavailable
from lbd.lbm.queue.dispatcher_client import DispatcherClient
from lbd.net.gen import dispatch_pb2 as pb

HEAD_BYTES = 1 << 12  # more than the name of a file takes as a rule
END_BYTES = 1 << 12
PATIENCE_S, SLOWEST_BYTES_PER_S = 20.0, 1 << 16  # by whoever is slower, others would be held up


async def receive_pack(
    client: DispatcherClient,
    host: str,
    request: pb.FilesRequest,
    directory: str,
    limits: StageConfig,
) -> BinaryIO:
    """To be closed by the caller; it is on the disk of `directory`. Raises Unavailable, NotKept,
    OSError."""
    limit_bytes = limits.max_bytes + HEAD_BYTES * limits.max_files + END_BYTES
    os.makedirs(directory, mode=0o700, exist_ok=True)
    import tempfile  # with all that it imports, for those who fetch files

    file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115  # the caller's
    try:
        size = 0
        async with asyncio.timeout(PATIENCE_S) as deadline:
            async for data in client.files(host, request):
                size += len(data)
                if size > limit_bytes:
                    raise Unavailable(f"more than {limits.max_bytes} bytes (stage.max_bytes)")
                await asyncio.to_thread(file.write, data)
                deadline.reschedule((deadline.when() or 0.0) + len(data) / SLOWEST_BYTES_PER_S)
        file.flush()
        file.seek(0)
    except TimeoutError:
        file.close()
        raise Unavailable(f"{host} sends fewer than {SLOWEST_BYTES_PER_S} bytes a second") from None
    except BaseException:
        file.close()
        raise
    return file
