"""The LBM's link to one keeper after another."""

import asyncio
import contextlib
import itertools
import logging
import socket
from types import SimpleNamespace

import pytest
import uvloop

from lbd.config.schema import Config
from lbd.errors import ConfigError, Unavailable
from lbd.keeper import protocol as keeper
from lbd.keeper.fd_store import frame_of
from lbd.keeper.limits import time_limits
from lbd.keeper.pending_orders import Beginnings
from lbd.keeper.spawn_order import JOB, Order
from lbd.keeper.user_lookups import Waiting
from lbd.lbm import keeper_link
from lbd.lbm.keeper_link import ASKED_AT_ONCE, KeeperLink, SpawnFailed
from lbd.local import frames


def hello(pid, *more):
    kind = (keeper.KIND, "none"), (keeper.LIMITS, ""), (keeper.VERSION, "0.1"), (keeper.UID, 0)
    return frame_of(keeper.HELLO, (keeper.PID, pid), *kind, *more)


@contextlib.asynccontextmanager
async def connected(tmp_path, jobs=b""):
    """Returns a link, and the keeper's end of its connection, which reports `jobs` first."""
    path, link = tmp_path / "keeper.sock", KeeperLink(lambda: None)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.setblocking(False)
        connecting = asyncio.create_task(link.connect(path, Config()))
        connection, _ = await asyncio.get_running_loop().sock_accept(listener)
        connection.send(jobs + hello(7))
        with connection, contextlib.closing(link):
            await asyncio.wait_for(connecting, 5)
            connection.setblocking(False)
            yield link, connection


async def test_a_keeper_whose_processes_are_killed_is_in_the_log_and_says_when_that_is_over(
    tmp_path, caplog
):
    caplog.set_level(logging.INFO)
    said = [frame_of(keeper.KILLED, (keeper.NUMBER, number)) for number in (0, 1)]
    async with connected(tmp_path, said[True]) as (link, connection):
        link.adopted()
        assert link.about.are_killed
        connection.send(said[False])
        async with asyncio.timeout(5):
            while link.about.are_killed:  # noqa: ASYNC110
                await asyncio.sleep(0)
    first, second = caplog.messages
    assert "killed as they begin, so no command can start now" in first
    assert "no longer" in second


async def test_half_a_frame_of_one_keeper_is_not_mixed_with_the_next(tmp_path):
    path, lost = tmp_path / "keeper.sock", asyncio.Event()
    link = KeeperLink(lost.set)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.setblocking(False)

        async def keeper_of(pid, *more, last_words=b""):
            connecting = asyncio.create_task(link.connect(path, Config()))
            connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            connection.send(hello(pid, *more) + last_words)
            return connecting, connection

        connecting, first = await keeper_of(7, last_words=hello(8)[:-4])
        await asyncio.wait_for(connecting, 5)
        assert (link.pid, link.about.version) == (7, "0.1")
        first.close()
        await asyncio.wait_for(lost.wait(), 5)
        connecting, second = await keeper_of(9, (keeper.VERSION, "0.2.0"))
        with second, contextlib.closing(link):
            await asyncio.wait_for(connecting, 5)
            assert (link.pid, link.about.version) == (9, "0.2.0")


def test_a_keeper_that_was_slow_once_is_heard_whenever_there_is_another(tmp_path, monkeypatch):
    """Of a connection without a hello the loop kept the number. The keeper that had that number
    next was not heard, nor was any after it: each time the host took no command for ten seconds."""
    path, lost = tmp_path / "keeper.sock", asyncio.Event()
    link = KeeperLink(lost.set)

    async def one_after_the_other(listener):
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(keeper_link, "HELLO_TIMEOUT_S", 0.1)
        with pytest.raises(ConfigError, match="does not answer"):
            await link.connect(path, Config())
        assert not link.alive
        slow, _ = await loop.sock_accept(listener)
        monkeypatch.setattr(keeper_link, "HELLO_TIMEOUT_S", 5.0)
        for pid in (7, 8, 9):
            lost.clear()
            connecting = asyncio.create_task(link.connect(path, Config()))
            connection, _ = await loop.sock_accept(listener)
            connection.send(hello(pid))
            await connecting
            assert link.pid == pid
            connection.close()
            await asyncio.wait_for(lost.wait(), 5)
        slow.close()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.setblocking(False)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(one_after_the_other(listener))


async def test_no_order_is_lost_with_a_keeper_that_has_not_greeted(tmp_path):
    """The socket of a keeper that is being killed still takes a connection. An order sent there was
    followed for ever, and its job stayed "starting"."""
    path, link = tmp_path / "keeper.sock", KeeperLink(lambda: None)
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.setblocking(False)
        connecting = asyncio.create_task(link.connect(path, Config()))
        dying, _ = await loop.sock_accept(listener)
        order = Order(job="1.1", argv=[b"true"])
        with pytest.raises(Unavailable, match="is not connected"):
            await link.spawn(order, [], lambda _: None)
        dying.close()
        connection, _ = await loop.sock_accept(listener)
        connection.send(hello(7))
        with connection, contextlib.closing(link):
            await asyncio.wait_for(connecting, 5)
            assert link.jobs == []
            await link.spawn(order, [], lambda _: None)
            assert link.jobs == ["1.1"]


async def test_it_knows_what_the_keeper_still_has_of_an_earlier_lbm(tmp_path):
    jobs = Beginnings.jobs_there(
        SimpleNamespace(
            _keeper=SimpleNamespace(jobs={"h1-1": SimpleNamespace(belongings=b"[2]")}),
            looks=SimpleNamespace(waiting={"7.1": Waiting(Order(belongings=b"x"), [])}),
            spares=SimpleNamespace(are_killed=False),
        )
    )
    async with connected(tmp_path, jobs) as (link, _connection):
        assert link.has == {"h1-1": b"[2]", "7.1": b"x"}
        link.adopted()
        assert link.has == {}


async def test_an_order_that_the_keeper_cannot_read_is_not_sent(tmp_path):
    """The keeper hung up at it, and everybody's commands ended: any host could cause that, by a
    queued job with an environment that fills a message."""
    async with connected(tmp_path) as (link, connection):
        long = Order(job="1.1", argv=[b"true", b"x" * keeper.ORDER_LIMIT_BYTES])
        with pytest.raises(SpawnFailed, match="Argument list too long"):
            await link.spawn(long, [], lambda _: None)
        await link.spawn(Order(job="2.1", argv=[b"true"]), [], lambda _: None)
        assert len(await asyncio.get_running_loop().sock_recv(connection, 1 << 20)) < 1000


@pytest.mark.parametrize("late", [False, True])
async def test_who_asks_and_goes_leaves_no_child_behind(tmp_path, late):
    """A child that looked into a hanging directory stayed for ever, for each lbrun that was killed
    in there, and each host that abandoned its question."""
    async with connected(tmp_path) as (link, connection):
        order = Order(job="as-user.1", argv=[b"/hangs"], look=True)
        asking = asyncio.create_task(link.ask(order, 0.01 if late else 60.0))
        split, heard = frames.Splitter(1 << 20), []
        heard += split.feed(await asyncio.get_running_loop().sock_recv(connection, 1 << 16))
        if not late:
            asking.cancel()
        with pytest.raises(TimeoutError if late else asyncio.CancelledError):
            await asking
        while len(heard) < 2:
            data = await asyncio.wait_for(
                asyncio.get_running_loop().sock_recv(connection, 1 << 16), 5
            )
            heard += split.feed(data)
    assert [tag for tag, _ in heard] == [keeper.SPAWN, keeper.END_TREE]
    assert dict(frames.fields(heard[1][1]))[JOB] == b"as-user.1"


async def test_whose_children_do_not_end_has_a_few_of_them(tmp_path):
    """The kernel cannot end a process whose request a FUSE has read but not answered. Each look
    into such a directory left one child with the keeper, which had ever more of them to kill."""
    async with connected(tmp_path) as (link, connection):
        link.adopted()
        numbers, split, names = itertools.count(1), frames.Splitter(1 << 20), []

        async def look(uid):
            order = Order(job=f"{uid}.{next(numbers)}", user=(uid, uid), look=True)
            with pytest.raises(TimeoutError):
                await link.ask(order, 0.01)

        def begun():
            with contextlib.suppress(BlockingIOError):
                for tag, body in split.feed(connection.recv(1 << 16)):
                    if tag == keeper.SPAWN:
                        names.append(dict(frames.fields(body))[JOB].decode())
            return names

        for _ in range(2 * ASKED_AT_ONCE):
            await look(7)
        assert len(begun()) == ASKED_AT_ONCE
        await look(8)
        assert begun()[-1].startswith("8.")
        usage = (keeper.USER_US, 0), (keeper.SYSTEM_US, 0), (keeper.RSS_KIB, 0)
        how = (keeper.NUMBER, 9), (keeper.OUT_OF_MEMORY, 0), (time_limits.OVER, "")
        connection.send(frame_of(keeper.EXITED, (JOB, names[0]), *usage, *how))
        for _ in range(3):
            await look(7)
        assert len(begun()) == ASKED_AT_ONCE + 2


@pytest.mark.parametrize("jobs", [0, 2])
def test_lost_jobs_are_logged_only_if_there_were_any(jobs, caplog):
    link = KeeperLink(lambda: None)
    link._hello = SimpleNamespace(done=lambda: True)
    link._jobs = {f"h1-{number}": SimpleNamespace(lose=lambda _: None) for number in range(jobs)}
    link._lost()
    assert caplog.messages == (["2 jobs are lost with their keeper"] if jobs else [])
