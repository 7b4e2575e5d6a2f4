"""A keeper by itself, connected to this test."""

import asyncio
import errno
from dataclasses import replace
from pathlib import Path

import pytest

from lbd.config.schema import Config, HostConfig
from lbd.keeper import protocol as keeper
from lbd.keeper.limits.time_limits import KEEPER
from lbd.keeper.spawn_order import Order
from lbd.launch.directory_stamp import Stamp, read_stamp
from lbd.lbm.inbound.refusal_text import phase_of
from lbd.lbm.keeper_link import KeeperLink, SpawnFailed
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
        await link.send(keeper.END_TREE, job)
    await link.send(keeper.QUIT)
    await asyncio.wait_for(gone.wait(), 20)


def sh(job, script):
    words = [b"sh", b"-c", script]
    return Order(job=job, argv=words, environment={b"PATH": b"/usr/bin:/bin"}, closed_fds=7)


async def begin(link, order):
    spawned = await link.spawn(order, [], lambda _: None)
    await asyncio.wait_for(spawned.begun, 30)
    return spawned


async def test_a_keeper_told_to_end_takes_no_new_orders(link, tmp_path):
    deaf = tmp_path / "deaf"
    script = b"trap '' TERM; : >%s; while :; do sleep 1; done" % str(deaf).encode()
    first = await begin(link, sh("1.1", script))
    while not deaf.exists():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await link.send(keeper.QUIT)
    spawned = await link.spawn(sh("2.1", b"exit 0"), [], lambda _: None)
    with pytest.raises(SpawnFailed) as refused:
        await asyncio.wait_for(spawned.begun, 30)
    assert (refused.value.phase, phase_of(refused.value.phase)) == (KEEPER, "late")
    assert link.jobs == [JobId("1.1")]
    await link.send(keeper.END_TREE, JobId("1.1"))
    ended = await asyncio.wait_for(first.exited, 30)
    assert ended.over == KEEPER


async def test_a_question_is_answered_and_nothing_runs(link, tmp_path):
    place = Order(job="1.1", argv=[bytes(tmp_path)], look=True, closed_fds=7)
    found = read_stamp((await link.ask(place, 10)).encode())
    assert found.inode == tmp_path.stat().st_ino
    mark = tmp_path / "mark"
    order = sh("2.1", b": >%b" % bytes(mark))
    order.check = True
    assert await link.ask(order, 10) == ""
    order.job, order.argv = "3.1", [b"lbd-no-such"]
    with pytest.raises(SpawnFailed) as refused:
        await link.ask(order, 10)
    assert (refused.value.phase, refused.value.number) == ("exec", errno.ENOENT)
    assert not mark.exists()
    assert link.jobs == []


async def test_an_order_that_cannot_be_read_is_refused_alone(link):
    """The text of a directory stamp comes from another host."""
    order = sh("1.1", b"exit 0")
    order.stamp = Stamp("two words", 1, 2)
    with pytest.raises(SpawnFailed) as refused:
        await begin(link, order)
    assert (refused.value.phase, refused.value.number) == ("spawn", errno.EBADMSG)
    ended = await asyncio.wait_for((await begin(link, sh("2.1", b"exit 3"))).exited, 30)
    assert ended.status == 3


@pytest.mark.parametrize("is_plain", [True, False])
async def test_where_memory_runs_out_commands_end_before_the_daemons(link, tmp_path, is_plain):
    """When small commands had the daemons' own OOM score, many of them outlived an LBM."""
    found = tmp_path / "score"
    script = b"cat /proc/self/oom_score_adj > %s; mv %s %s.whole" % ((bytes(found),) * 3)
    order = sh("1.1", script)
    if not is_plain:
        order = replace(order, allowed=("/*",))  # the keeper's own child looks at that
    assert order.is_plain is is_plain
    await begin(link, order)
    whole = found.with_suffix(".whole")
    while not whole.exists():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    own = Path("/proc/self/oom_score_adj").read_text()
    keepers = Path(f"/proc/{link.pid}/oom_score_adj").read_text()
    assert keepers == own
    assert int(whole.read_text()) == min(int(own) + 200, 1000)
