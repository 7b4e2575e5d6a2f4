"""What the keeper does as another user for the LBM, which has no privilege itself.

Each task is a child of the keeper that becomes the user, does it and exits, without a command.
"""

import asyncio
import errno
import itertools
import os
import weakref
from collections.abc import Awaitable, Callable, Hashable

from lbd.errors import LbdError, Unavailable
from lbd.keeper.limits.time_limits import limit_frame
from lbd.keeper.local_account import ROOT_REFUSED, ROOT_UID, LocalUser
from lbd.keeper.spawn_order import Order
from lbd.launch.directory_stamp import Stamp, read_stamp
from lbd.lbm.keeper_link import KeeperLink, Spawned, SpawnFailed
from lbd.lbm.staging.step import COMPLAINT_BYTES, SIGNALLED, outcome_of_step, run_worker
from lbd.process.boot_clock import clock_s

ANSWER_S = 2.0
STEP_S, STEPS_AT_ONCE = 60.0, 4  # of one user, for each kind of step
ALONE = "alone."  # prefix of the names of commands that the next LBM lets run on
Lookup = Callable[[str | int, Hashable], Awaitable[LocalUser | None]]


class StepFailed(Unavailable):
    """A step did not do its work. `number`: the errno behind that, 0 if there is none."""

    def __init__(self, reason: str, number: int = 0) -> None:
        super().__init__(reason)
        self.number = number


class AsUser:
    def __init__(self, link: KeeperLink, look_up_user: Lookup) -> None:
        self._link = link
        self._look_up_user = look_up_user
        self._numbers = itertools.count(os.getpid() << 32)  # unused by an LBM before us
        self._turns = weakref.WeakValueDictionary[tuple[int, bytes], asyncio.Semaphore]()

    @property
    def is_needed(self) -> bool:
        """Whether the keeper can do what we cannot."""
        return self._link.uid != os.geteuid()

    def acts_for(self, uid: int) -> bool:
        """Whether the keeper makes and removes that user's directories. It does for an LBM that is
        root, too: its user may move there what is not theirs."""
        return uid != os.geteuid() and (self.is_needed or os.geteuid() == ROOT_UID)

    async def look(self, uid: int, directory: bytes) -> Stamp:
        """Returns the stamp of a directory. Raises Unavailable."""
        order = Order(argv=[directory], look=True)
        await self._address(uid, order)
        try:
            return read_stamp((await self._link.ask(order, ANSWER_S)).encode())
        except SpawnFailed as answer:
            is_root_refused = uid == ROOT_UID and answer.number == errno.EPERM
            why = ROOT_REFUSED if is_root_refused else os.strerror(answer.number)
            raise Unavailable(why) from None
        except (TimeoutError, ValueError, LbdError) as problem:
            raise Unavailable(str(problem) or "its file server does not answer") from None

    async def work(self, uid: int, *words: bytes, limit_s: float = STEP_S) -> None:
        """Runs a step of file_worker.py. Its user may keep it from ending, so the keeper ends it
        after `limit_s`, and only a few steps of one kind run at once for each user. Raises
        Unavailable."""
        order = Order(argv=list(words))
        await self._address(uid, order)
        turn = self._turns.setdefault((uid, words[0]), asyncio.Semaphore(STEPS_AT_ONCE))
        async with turn:
            try:
                limit = limit_frame(order.job, clock_s() + limit_s, 0.0)
                ended = await run_worker(self._link, order, [], limit)
            except SpawnFailed as problem:
                raise StepFailed(str(problem), problem.number) from None
            except LbdError as problem:
                raise StepFailed(str(problem), errno.EAGAIN) from None
        if ended.over:
            raise StepFailed(f"it did not end within {limit_s:g} s")
        if ended.status:
            number = ended.status if ended.status < SIGNALLED else 0
            raise StepFailed(os.strerror(number) if number else "it was killed", number)

    async def begin(self, uid: int, order: Order, limit_s: float) -> Spawned:
        """Starts a command of the user's and returns once it has begun. The command reads and
        prints nothing, and the keeper ends it after `limit_s`, even if we are gone by then. Raises
        Unavailable, SpawnFailed."""
        if uid != self._link.uid:
            await self._address(uid, order)
        order.job = f"{ALONE}{next(self._numbers)}"
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            order.closed_fds = 0
            limit = limit_frame(order.job, clock_s() + limit_s, 0.0)
            spawned = await self._link.spawn(order, [null] * 3, lambda _: None, limit)
        finally:
            os.close(null)
        try:
            await asyncio.shield(spawned.begun)
            return spawned
        finally:
            del spawned  # breaks the cycle of its exception, the traceback, this frame and it

    async def step(
        self,
        uid: int,
        order: Order,
        files: tuple[int | None, int | None],
        said_bytes: int = COMPLAINT_BYTES,
    ) -> tuple[str, str]:
        """Runs a step of file_worker.py with these files as stdin and stdout, which stay ours.
        Returns why it failed, "" if it did not; and what it says then, at most so much. Raises
        Unavailable."""
        if uid == self._link.uid:
            order.job = f"as-user.{next(self._numbers)}"
        else:
            await self._address(uid, order)
        complaint, _, said = await outcome_of_step(self._link, order, *files, said_bytes)
        return complaint, said

    async def _address(self, uid: int, order: Order) -> None:
        """Fills in the job and the user of an order. Raises Unavailable."""
        account = await self._look_up_user(uid, uid)
        if account is None:
            raise Unavailable(f"uid {uid} is not in the user database")
        order.job = f"as-user.{next(self._numbers)}"
        order.user = (account.uid, account.gid, *sorted(account.groups))
        order.closed_fds = 7
