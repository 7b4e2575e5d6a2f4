"""What the LBM has the keeper do as another user, having no privilege itself.

Each is a child of the keeper that becomes the user, does it and ends, without a command.
"""

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable

from lbd.errors import LbdError, Unavailable
from lbd.lbm import keeper_protocol as keeper
from lbd.lbm import spawn_order
from lbd.lbm.link import KeeperLink, NotStarted
from lbd.lbm.spawn_order import Order
from lbd.lbm.stage_step import run_step
from lbd.lbm.stamp import Stamp, read_stamp
from lbd.lbm.users import LocalUser
from lbd.model import JobId

ANSWER_S = 2.0
Lookup = Callable[[str | int], Awaitable[LocalUser | None]]


class AsUser:
    def __init__(self, link: KeeperLink, look_up_user: Lookup) -> None:
        self._link = link
        self._look_up_user = look_up_user
        self._numbers = itertools.count(os.getpid() << 32)  # others than those of an LBM before us

    @property
    def is_needed(self) -> bool:
        """Is the keeper able to do what we are not?"""
        return self._link.uid != os.geteuid()

    async def look(self, uid: int, directory: bytes) -> Stamp:
        """What is there. Raises Unavailable."""
        found = await self._do(uid, Order(argv=[directory], look=True))
        try:
            return read_stamp(found.removeprefix(spawn_order.SEEN).replace(",", " ").encode())
        except ValueError:
            raise Unavailable(f"the keeper says {found}") from None

    async def work(self, uid: int, *words: bytes) -> None:
        """A step of stage_worker.py. Raises Unavailable."""
        order = Order(argv=list(words), worker=True)
        await self._address(uid, order)
        try:
            spawned = await self._link.spawn(order, [], lambda _: None)
            await spawned.begun
            ended = await spawned.exited
        except LbdError as problem:
            raise Unavailable(str(problem)) from None
        if ended.status:
            raise Unavailable(os.strerror(ended.status) if ended.status < 128 else "it was killed")

    async def step(self, uid: int, order: Order, files: tuple[int | None, int | None]) -> str:
        """A step of stage_worker.py with these files as stdin and stdout, which stay ours: why it
        failed, "" if it did not. Raises Unavailable."""
        if uid == self._link.uid:
            order.job = f"as-user.{next(self._numbers)}"
        else:
            await self._address(uid, order)
        return await run_step(self._link, order, *files)

    async def _do(self, uid: int, order: Order) -> str:
        """What it says, which is no errno. Raises Unavailable."""
        await self._address(uid, order)
        try:
            spawned = await self._link.spawn(order, [], lambda _: None)
            await asyncio.wait_for(asyncio.shield(spawned.begun), ANSWER_S)
        except NotStarted as answer:
            if answer.number:
                raise Unavailable(os.strerror(answer.number)) from None
            return answer.stage
        except (TimeoutError, LbdError) as problem:
            await self._link.tell(keeper.END_TREE, JobId(order.job))
            raise Unavailable(str(problem) or "its file server does not answer") from None
        raise AssertionError("it has begun to run")

    async def _address(self, uid: int, order: Order) -> None:
        """Raises Unavailable."""
        account = await self._look_up_user(uid)
        if account is None:
            raise Unavailable(f"uid {uid} is not in the user database")
        order.job = f"as-user.{next(self._numbers)}"
        order.user = (account.uid, account.gid, *sorted(account.groups))
        order.closed_fds = 7
