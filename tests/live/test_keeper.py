"""A keeper by itself, at the end of a line of ours."""

import asyncio
from dataclasses import replace

import pytest

from lbd.config import Config, HostConfig
from lbd.lbm import keeper_protocol as keeper
from lbd.lbm.limits import KEEPER
from lbd.lbm.link import KeeperLink, NotStarted
from lbd.lbm.orders import stage_of
from lbd.lbm.spawn_order import Order
from lbd.model import JobId

GRACE_S = 60.0
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")


@pytest.fixture
async def link(tmp_path):
    config = Config(host=HostConfig(name="h1", runtime_dir=str(tmp_path)))
    lbm, users = replace(config.lbm, kill_grace_s=GRACE_S), replace(config.users, allow_root=True)
    config = replace(config, lbm=lbm, users=users)
    gone = asyncio.Event()
    link = KeeperLink(gone.set)
    await link.connect(tmp_path / "keeper.sock", config)
    link.adopted()
    yield link
    for job in link.jobs:
        await link.tell(keeper.END_TREE, job)
    await link.tell(keeper.QUIT)
    await asyncio.wait_for(gone.wait(), 20)


def sh(job, script):
    words = [b"sh", b"-c", script]
    return Order(job=job, argv=words, environment={b"PATH": b"/usr/bin:/bin"}, closed_fds=7)


async def begin(link, order):
    spawned = await link.spawn(order, [], lambda _: None)
    await asyncio.wait_for(spawned.begun, 10)
    return spawned


async def test_one_that_is_told_to_end_takes_nothing_new(link, tmp_path):
    deaf = tmp_path / "deaf"
    script = b"trap '' TERM; : >%s; while :; do sleep 1; done" % str(deaf).encode()
    first = await begin(link, sh("1.1", script))
    while not deaf.exists():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await link.tell(keeper.QUIT)
    spawned = await link.spawn(sh("2.1", b"exit 0"), [], lambda _: None)
    with pytest.raises(NotStarted) as refused:
        await asyncio.wait_for(spawned.begun, 10)
    assert (refused.value.stage, stage_of(refused.value)) == (KEEPER, "late")
    assert link.jobs == [JobId("1.1")]
    await link.tell(keeper.END_TREE, JobId("1.1"))
    ended = await asyncio.wait_for(first.exited, 10)
    assert ended.over == KEEPER
