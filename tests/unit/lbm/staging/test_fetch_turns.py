"""A host that sends outputs slowly keeps none back but its own."""

import asyncio
import contextlib
import time

import pytest

from lbd.config.schema import Config, HostConfig
from lbd.lbm.staging import fetch_turns
from lbd.lbm.staging.fetch_turns import AT_ONCE, QUICK_BYTES_PER_S, FetchOrder, FetchTurns
from lbd.lbm.staging.pack_store import Note
from lbd.lbm.staging.queued_files import QueuedFiles, names_of
from lbd.net.gen import dispatch_pb2 as pb
from tests.unit.lbm.staging.test_queued_files import no_queue, running
from tests.unit.until import until

ANN, BOB = 1001, 1002


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(fetch_turns, "TURN_S", 0.02)
    monkeypatch.setattr(fetch_turns, "ORDER_S", 0.05)


class Hosts(QueuedFiles):
    """Each host whose name begins with `slow` sends 80 KiB a second, for ever; of the others all
    comes at once, and is put in place."""

    def __init__(self, root):
        super().__init__(Config(host=HostConfig(state_dir=str(root))), None, no_queue())
        self.store.root.mkdir()
        self.begun, self.brought = [], []

    def ended(self, job, host, uid=ANN, fetch="out.%j"):
        note = Note(f"{job:032x}", "", job, 1, uid, 0o022, "/", ["in"], [fetch])
        self._in_hand[job] = note
        self._ended.put_nowait(pb.JobInfo(id=job, attempt=1, host=host, finished=time.time()))

    async def bring(self, note, job, turn):
        self.begun.append(job.id)
        while job.host.startswith("slow"):
            turn.moved(80)
            await asyncio.sleep(0.001)
        await turn.received()
        await self.put_in_place(job)
        self.brought.append(job.id)
        return ""

    async def put_in_place(self, job):
        pass


@contextlib.asynccontextmanager
async def fetching(tmp_path, kind=Hosts):
    files = kind(tmp_path)
    async with running(files):
        yield files


async def test_outputs_of_other_hosts_do_not_wait_for_a_slow_one(tmp_path):
    """For hours: those of all of a user's jobs came one after the other."""
    async with fetching(tmp_path) as files:
        files.ended(1, "slow")
        files.ended(2, "slow")
        files.ended(3, "h3")
        await until(lambda: files.brought == [3])
        assert files.begun == [1, 3]


async def test_nor_for_many_slow_ones(tmp_path, short):
    async with fetching(tmp_path) as files:
        for number in range(4 * AT_ONCE):
            files.ended(number + 1, f"slow{number}")
        files.ended(100, "h3")
        await until(lambda: files.brought == [100])


class Stuck(Hosts):
    """Its user does not let the step end that puts them in place."""

    async def put_in_place(self, job):
        await asyncio.get_running_loop().create_future()


async def test_a_user_has_few_steps_at_once_whatever_these_do(tmp_path, short):
    """Each of them has a file here."""
    async with fetching(tmp_path, Stuck) as files:
        for number in range(4 * AT_ONCE):
            files.ended(number + 1, f"h{number}")
        await until(lambda: len(files.begun) == AT_ONCE)
        await asyncio.sleep(0.1)
        assert len(files.begun) == AT_ONCE


async def test_who_is_not_slow_keeps_its_turn(monkeypatch):
    monkeypatch.setattr(fetch_turns, "TURN_S", 0.01)
    monkeypatch.setattr(fetch_turns, "AT_ONCE", 1)
    turns, began = FetchTurns(), []

    async def next_one():
        async with turns.turn(ANN, 1):
            began.append(ANN)

    async with turns.turn(ANN, 1) as turn:
        waiting = asyncio.create_task(next_one())
        for _ in range(100):
            turn.moved(QUICK_BYTES_PER_S)
            await asyncio.sleep(0.001)
        assert not began
        await until(lambda: began)  # it has sent nothing for a while
        await turn.received()
        turn.end()
        async with turns.turn(ANN, 1):
            pass
    await waiting


async def test_what_a_slow_one_has_sent_is_put_in_place_in_its_turn(short, monkeypatch):
    monkeypatch.setattr(fetch_turns, "AT_ONCE", 1)
    turns = FetchTurns()
    async with turns.turn(ANN, 1) as slow, turns.turn(ANN, 1) as other:
        await other.received()
        received = asyncio.create_task(slow.received())
        await asyncio.sleep(0.05)
        assert not received.done()
        other.end()
        await received


class OneByOne(Hosts):
    """What comes from h2 takes until it is let through."""

    def __init__(self, root):
        super().__init__(root)
        self.through = asyncio.Event()

    async def bring(self, note, job, turn):
        if job.host == "h2":
            await self.through.wait()
        return await super().bring(note, job, turn)


async def test_of_outputs_of_one_name_the_last_ones_stay(tmp_path):
    async with fetching(tmp_path, OneByOne) as files:
        files.ended(1, "h2", fetch="out")
        files.ended(2, "h3", fetch="out")
        files.ended(3, "h4", fetch="out")
        files.ended(4, "h5", fetch="out", uid=BOB)
        files.ended(5, "h6", fetch="other")
        await until(lambda: {*files.brought} == {4, 5})
        assert not {2, 3} & {*files.begun}
        files.through.set()
        await until(lambda: [one for one in files.brought if one < 4] == [1, 2, 3])
        assert not files._turns._order._of
        assert not files._turns._order._last


async def test_they_do_not_wait_for_long_for_a_slow_host(tmp_path, short):
    async with fetching(tmp_path) as files:
        for job in range(1, 2001, 2):  # once for all
            files.ended(job, "slow", fetch="out")
            files.ended(job + 1, "h3", fetch="out")
        await until(lambda: files.brought == [*range(2, 2001, 2)])


async def test_an_earlier_one_that_is_over_holds_up_nobody():
    order = FetchOrder()
    order.ended(1, (ANN, "h2"), 7)
    order.over(1)
    order.ended(2, (ANN, "h3"), 7)
    await order.wait(2)
    order.over(2)
    order.over(2)


@pytest.mark.parametrize(
    ("names", "first", "second", "same"),
    [
        (["out"], {}, {}, True),
        (["out.%j"], {}, {}, False),
        (["%h/out"], {}, {}, False),
        (["out.%a"], {"array_index": 1}, {"array_index": 1}, True),
        (["out.%a"], {"array_index": 0}, {"array_index": 1}, False),
        ([], {}, {}, False),
        (["out"], {"attempt": 0}, {}, False),
    ],
)
def test_jobs_whose_outputs_have_the_same_names(names, first, second, same):
    def number(job, **fields):
        note = Note(f"{job:032x}", "", job, 1, ANN, 0o022, "/", [], names)
        return names_of(note, pb.JobInfo(id=job, **{"attempt": 1} | fields))

    one, other = number(1, **first), number(2, **second)
    assert (one == other and bool(one)) == same
