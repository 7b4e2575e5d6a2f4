"""The keeper's child that does a step of file_worker.py, its files given to it as they are."""

import asyncio
import os

from lbd.errors import LbdError
from lbd.keeper import protocol as keeper
from lbd.keeper.spawn_order import Order
from lbd.lbm.keeper_link import KeeperLink, Spawned
from lbd.model import JobId
from lbd.text.one_line import one_line

COMPLAINT_BYTES = 4096
LEFT: "set[asyncio.Task[None]]" = set()  # the loop itself keeps only weak references


async def run_step(link: KeeperLink, order: Order, source: int | None, output: int | None) -> str:
    """Why it failed, "" if it did not. The descriptors stay the caller's; cancelled, it ends."""
    said = os.memfd_create("complaint", os.MFD_CLOEXEC)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    order.worker, order.closed_fds = True, 0
    spawned: Spawned | None = None
    try:
        ends = [null if source is None else source, null if output is None else output, said]
        spawned = await link.spawn(order, ends, lambda _: None)
        await asyncio.shield(spawned.begun)
        ended = await asyncio.shield(spawned.exited)
        if ended.status == 0:
            return ""
        text = os.pread(said, COMPLAINT_BYTES, 0).decode(errors="replace").strip()
        return one_line(text) or f"ended with {ended.status}"
    except LbdError as problem:
        return str(problem)
    finally:
        os.close(said)
        os.close(null)
        end_left(link, order, spawned)


def end_left(link: KeeperLink, order: Order, spawned: Spawned | None) -> None:
    """Ends a step whose waiter has gone before it was over."""
    if spawned is not None and not spawned.exited.done():
        task = asyncio.create_task(link.send(keeper.END_TREE, JobId(order.job)))
        LEFT.add(task)
        task.add_done_callback(LEFT.discard)
