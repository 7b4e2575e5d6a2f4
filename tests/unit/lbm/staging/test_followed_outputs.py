"""Files of tasks that an `lbrun -q` waits for, some of them on a host that sends them slowly."""

import asyncio
from types import SimpleNamespace

import pytest

from lbd.lbm.queue.follow import FollowedJobs
from lbd.lbm.queue.followed_array import KILL
from lbd.lbm.staging import followed_outputs
from lbd.lbm.staging.followed_outputs import FollowedOutputs
from lbd.lbm.staging.pack_store import Note
from lbd.net.gen import dispatch_pb2 as pb
from tests.unit.until import until


class Dribbling:
    """Files of which those on h2 come for ever."""

    def waited_for(self, ledger, job):
        return Note(str(job), "", job, 1, 1000, 0o022, "/", [], ["out"])

    async def place(self, note, job, turn):
        if job.host == "h2":
            await asyncio.get_running_loop().create_future()
        return "", ""

    async def done(self, note, job, *, write):
        pass


def ended(job, host):
    return pb.JobInfo(id=job, state="done", host=host, exit_status=0)


@pytest.fixture
async def fetching():
    """An array of four tasks, of which two have ended on h2."""

    async def send(tag, data):
        pass

    async def act(asked):
        pass

    queue = SimpleNamespace(act=act)
    followed = FollowedJobs(queue, Dribbling(), "ann", 1000, "1ed9e4", "1", "1-4", send, "pack")
    for job in (1, 2):
        await followed._heard(ended(job, "h2"))
    await asyncio.sleep(0.05)
    yield followed
    await followed._outputs.stop()


@pytest.mark.parametrize("number", [15, KILL])
async def test_a_signal_ends_the_wait_for_files_that_do_not_come(monkeypatch, fetching, number):
    """A host that sends 64 KiB a second kept `lbrun -q` for hours for each of its tasks."""
    monkeypatch.setattr(followed_outputs, "END_S", 0.02)
    assert fetching._ended.left == 4
    fetching._act_soon(number)
    fetching._act_soon(number)
    await asyncio.wait_for(fetching._outputs.all_here(), 10)
    assert fetching._ended.left == 2
    assert fetching._ended.first.reason == (
        "--fetch h2 did not send the files within 0.02 s after a signal; "
        "the command itself exited with 0"
    )
    await fetching._heard(ended(3, "h3"))
    await asyncio.wait_for(fetching._outputs.all_here(), 10)
    assert (fetching._ended.states["failed"], fetching._ended.states["done"]) == (2, 1)


async def test_files_of_tasks_on_other_hosts_do_not_wait_for_a_slow_one(fetching):
    """For up to 4.5 hours for each task of the slow one."""
    await fetching._heard(ended(3, "h3"))
    await fetching._heard(ended(1, "h2"))  # once more, as after a lost connection
    await until(lambda: fetching._ended.left == 3)
    assert fetching._ended.states == {"done": 1}
    assert not fetching._ended.awaits(3)


async def test_ended_tasks_are_not_kept_in_any_number(monkeypatch):
    monkeypatch.setattr(followed_outputs, "WAITING_MAX", 2)
    outputs = FollowedOutputs(Dribbling(), "", "pack", None)
    for job in (1, 2):
        await outputs.fetch(ended(job, "h2"), None)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(outputs.fetch(ended(3, "h2"), None), 0.05)
    await outputs.stop()


async def test_who_waits_for_all_hears_that_the_client_is_gone():
    async def send(tag, data):
        raise BrokenPipeError

    async def place(note, job, turn):
        return "", "it was put aside"

    files = Dribbling()
    files.place = place
    outputs = FollowedOutputs(files, "", "pack", send)
    await outputs.fetch(ended(1, "h3"), None)
    with pytest.raises(BrokenPipeError):
        await asyncio.wait_for(outputs.all_here(), 10)
    await outputs.stop()
