"""What commands of this host's own users need, and take without the keeper."""

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from lbd.lbm.core.execution_events import Kind, Spec
from lbd.lbm.core.slots import Granted, ResourcePool, Slots
from lbd.lbm.inbound.executions import Executions
from lbd.lbm.keeper_link import KeeperLink
from lbd.lbm.own_resources import Notes, OwnNeeds
from lbd.load import process_table
from lbd.load.process_table import mark_of
from lbd.model import JobId, Needs

GPU = Needs(resources=(("gpu", 1),))
US = SimpleNamespace(pid=os.getpid(), pidfd=os.pidfd_open(os.getpid()), is_there=True)
MARK = mark_of(US.pid, US.pidfd)
KEEPER = SimpleNamespace(pid=17, lost_pid=0)


def lbm(
    directory: Path, gpus: int = 1, changed: Callable[[], None] = lambda: None
) -> tuple[OwnNeeds, ResourcePool]:
    """Starts one LBM after another in that directory."""
    executions = Executions(Slots(4, pool=ResourcePool(("linux",), {"gpu": gpus})))
    own = OwnNeeds(executions, changed, KEEPER, Notes(directory / "needs"))
    return own, executions.line.slots.pool


@pytest.fixture
def process():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process


def of(process: "subprocess.Popen[bytes]") -> SimpleNamespace:
    return SimpleNamespace(pid=process.pid, pidfd=os.pidfd_open(process.pid), is_there=True)


async def test_resources_given_by_a_killed_lbm_are_taken_until_its_process_has_ended(
    tmp_path, process
):
    own, _ = lbm(tmp_path)
    assert own.take(JobId("h1-1"), GPU, of(process)).grant
    changed = asyncio.Event()
    following, pool = lbm(tmp_path, changed=changed.set)  # nothing was handed over
    following.take_up()
    refused = following.take(JobId("h1-2"), GPU, US)
    assert (refused.grant, refused.later) == (None, True)
    process.communicate()
    async with asyncio.timeout(60):
        while pool.held:
            await changed.wait()
            changed.clear()
    assert following.take(JobId("h1-2"), GPU, US).grant
    last, pool = lbm(tmp_path)
    last.take_up()
    assert list(pool.held) == ["h1-2"]
    last.leave()


@pytest.mark.skipif(type(MARK) is int, reason="needs Linux 6.9")
async def test_of_a_holder_nothing_is_read_that_it_can_hold_up(tmp_path, monkeypatch):
    """The stat of one whose exec is under way would hold up the LBM."""
    monkeypatch.setattr(process_table, "task_of", lambda pid: pytest.fail(f"reads {pid}"))
    own, _ = lbm(tmp_path)
    assert own.take(JobId("h1-1"), GPU, US).grant
    following, pool = lbm(tmp_path)
    following.take_up()
    assert list(pool.held) == ["h1-1"]
    following.leave()


async def test_resources_given_by_an_ending_lbm_stay_noted_but_freed_ones_do_not(tmp_path, process):
    own, _ = lbm(tmp_path, gpus=2)
    own.take(JobId("h1-1"), GPU, of(process))
    own.take(JobId("h1-2"), GPU, of(process))
    own.free(JobId("h1-2"))
    own.leave()
    own.free(JobId("h1-1"))  # its connection is closed with the LBM
    following, pool = lbm(tmp_path, gpus=2)
    following.take_up()
    assert list(pool.held) == ["h1-1"]
    following.leave()


@pytest.mark.parametrize(
    "change",
    [
        lambda note: note.write_text(note.read_text()[:-9]),
        lambda note: note.write_text("[" * 100_000),
        lambda note: note.write_text(note.read_text().replace('["', '["another boot ', 1)),
        lambda note: note.write_text(note.read_text().replace(f"{os.getpid()}, ", "1, ")),
        lambda note: note.write_text('["", -1, 0, ""]'),
        lambda note: note.write_text('["", {}, 0, [1]]'),
        lambda note: note.unlink(),
        lambda note: (note.unlink(), note.mkdir()),
    ],
)
async def test_a_damaged_note_or_one_of_another_process_holds_nothing(tmp_path, change):
    own, _ = lbm(tmp_path)
    own.take(JobId("h1-1"), GPU, US)
    change(tmp_path / "needs" / "h1-1")
    following, pool = lbm(tmp_path)
    following.take_up()
    assert not pool.held


def test_resources_that_cannot_be_noted_are_not_given(tmp_path):
    (tmp_path / "needs").write_text("no directory")
    own, pool = lbm(tmp_path)
    refused = own.take(JobId("h1-1"), GPU, US)
    assert (refused.grant, refused.later) == (None, False)
    assert "cannot record who has what: File exists" in refused.why
    assert not pool.held
    memory = Needs(counted_bytes=1 << 20)
    assert own.take(JobId("h1-1"), memory, US).grant  # nothing has to wait for that


def test_resources_of_a_command_of_a_lost_keeper_are_not_taken_before_it_has_ended(tmp_path):
    slots = Slots(4, pool=ResourcePool(("linux",), {"gpu": 1}))
    executions, link = Executions(slots), KeeperLink(lambda: None)
    link.pid = 17
    own = OwnNeeds(executions, lambda: None, link, Notes(tmp_path))
    executions.line.ask(Spec(JobId("h2-1"), Kind.ATTACHED, "ann", 1.0, needs=GPU))
    assert own.take(JobId("h1-1"), GPU, US).grant is None
    link.lost_pid, link.pid = 17, 0  # its slot is free at once, but its tree may live
    executions.free(JobId("h2-1"))
    for pid in (0, 17):  # none yet, and the same one, which lives and is to be replaced
        link.pid = pid
        taken = own.take(JobId("h1-1"), GPU, US)
        assert (taken.grant, taken.later) == (None, True)
        assert not slots.pool.held
    link.pid = 18
    granted = own.take(JobId("h1-1"), GPU, US).grant
    assert granted is not None
    assert granted.resources == (Granted("gpu", 1, (0,)),)


def test_a_need_that_never_exists_is_reported_at_once_whatever_the_keeper_does(tmp_path):
    executions = Executions(Slots(4, pool=ResourcePool(("linux",))))
    keeper = SimpleNamespace(pid=0, lost_pid=17)
    own = OwnNeeds(executions, lambda: None, keeper, Notes(tmp_path))
    taken = own.take(JobId("h1-1"), GPU, US)
    assert (taken.grant, taken.later) == (None, False)
