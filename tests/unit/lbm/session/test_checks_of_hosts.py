"""Another host's questions whether a command could start here: their number is limited, too."""

import asyncio
from types import SimpleNamespace

import pytest

from lbd.config.schema import Config
from lbd.errors import Unavailable
from lbd.keeper.run_as import Admit, LocalUser
from lbd.lbm.session.explain import CHECKS, Checks
from lbd.local.budget import Budget
from lbd.net.gen import lbm_pb2

LONG = 1 << 20
BUDGET = 8 * LONG
ANN, BOB = 1001, 1002


class Keeper:
    """It does not answer yet."""

    def __init__(self):
        self.asked, self.answers = 0, asyncio.Event()
        self.hangs_for = (ANN,)

    async def ask(self, order, timeout_s):
        self.asked += 1
        self.order = order
        if order.user[0] in self.hangs_for:
            await self.answers.wait()


def host():
    async def admit(user, uid, origin):
        return Admit(LocalUser(user, uid, uid, (uid,)))

    config, requests = Config(), Budget(BUDGET, 2 * BUDGET)
    return SimpleNamespace(
        config=config, rules=SimpleNamespace(config=config), admit=admit, requests=requests,
        link=Keeper(),
    )  # fmt: skip


def question(origin, uid=ANN, size=LONG, **more):
    request = lbm_pb2.RunRequest(
        job_id="0", origin=origin, user=f"user{uid}", uid=uid, argv=[b"x" * size], directory=b"/",
        **more,
    )  # fmt: skip
    return request.SerializeToString()


async def test_long_ones_that_wait_are_within_the_budget_of_their_host():
    """Four are examined at once, but any number of them waited, each as long as it liked."""
    here = host()
    checks = Checks(here, None)
    waiting = [asyncio.create_task(checks.for_peer(question("h2"), "h2")) for _ in range(7)]
    async with asyncio.timeout(20):
        while here.link.asked < CHECKS:  # noqa: ASYNC110  # it is told of nothing
            await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="too many long requests at once"):
            await checks.for_peer(question("h2"), "h2")
        other = asyncio.create_task(checks.for_peer(question("h3"), "h3"))
        here.link.answers.set()
        replies = await asyncio.gather(*waiting, other)
    assert all(reply.able for reply in replies)
    assert here.requests.held == 0


async def test_who_looks_into_a_directory_that_hangs_keeps_nobody_else_waiting():
    here = host()
    checks = Checks(here, None)
    hanging = [asyncio.create_task(checks.for_peer(question("h2", ANN, 1), "h2")) for _ in range(9)]
    async with asyncio.timeout(20):
        while here.link.asked < CHECKS:  # noqa: ASYNC110  # it is told of nothing
            await asyncio.sleep(0)
        assert (await checks.for_peer(question("h2", BOB, 1), "h2")).able
        here.link.answers.set()
        await asyncio.gather(*hanging)


async def test_a_question_runs_none_of_our_programs_either():
    """A step of a workdir is not a program, but a child of the keeper packs or unpacks files."""
    here = host()
    step = lbm_pb2.WorkdirStep(step="pack", fetch=[b"x"])
    await Checks(here, None).for_peer(question("h2", BOB, 1, workdir=step), "h2")
    assert here.link.order.check
    assert not here.link.order.worker
