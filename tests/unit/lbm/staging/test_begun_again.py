"""The outputs of a job that begins again after its end are brought home once more."""

import asyncio

import pytest

from lbd.errors import Unavailable
from lbd.lbm.staging import pack_store
from lbd.lbm.staging.begun_again import begin_again
from lbd.lbm.staging.open_notes import OpenNotes
from lbd.lbm.staging.pack_store import Note, PackStore
from lbd.net.gen import dispatch_pb2 as pb

NAME, LEDGER = "a" * 32, "1ed9e4"


class Queue:
    """A queue that knows jobs with these states, or does not answer."""

    def __init__(self, **states):
        self.states, self.was_asked = states, 0

    async def jobs(self, asked, ledger):
        self.was_asked += 1
        assert (asked.ended_too, asked.by_number, ledger) == (True, True, LEDGER)
        await asyncio.sleep(0)
        if self.states is None:
            raise Unavailable("the dispatcher does not answer")
        (job,) = asked.selectors
        known = self.states.get(f"j{job}")
        return pb.JobsInfo(jobs=[pb.JobInfo(id=int(job), state=known)] if known else [])


class Home:
    """What an LBM has of queued jobs' files, and a queue in which some of them live."""

    def __init__(self, state_dir):
        self.store, self.notes, self.in_hand = PackStore(state_dir), OpenNotes(), set()
        self.queue = Queue(j5="running", j6="starting", j7="done")
        self.store.root.mkdir()
        self.store.write(Note(NAME, LEDGER, 5, 3, 1000, 0o022, "/w", [], ["out.%a"], over=None))

    async def taken(self, job, name=NAME):
        files = self.store, self.notes, self.in_hand
        return await begin_again(files, self.queue, name, job)


@pytest.fixture
def home(tmp_path):
    return Home(str(tmp_path))


def left(home):
    """The jobs that are to end, here and after a restart."""
    (note,) = home.notes.values()
    ((stored,), _) = home.store.resumed()
    assert [*stored.left] == [*note.left]
    return [*note.left]


async def test_a_job_that_lives_again_is_watched_until_its_end(home):
    assert (await home.taken(5), left(home)) == (True, [5])
    assert home.store.memory.left(1000, 0) == 0 != home.store.memory._of_user[1000]
    asked = home.queue.was_asked
    assert (await home.taken(5), left(home)) == (False, [5])  # by another attempt
    assert home.queue.was_asked == asked


async def test_two_jobs_of_an_array_begin_at_once(home):
    await asyncio.gather(home.taken(5), home.taken(6))
    assert left(home) == [5, 6]


@pytest.mark.parametrize("job", [7, 4, 8, 10**17])
async def test_the_word_of_its_host_is_not_enough(home, job):
    """That host could change the outputs that its user has had for days."""
    assert (await home.taken(job), dict(home.notes)) == (False, {})


async def test_a_job_begins_only_when_the_queue_answers(home):
    """Else its outputs would stay where it runs, though they may be all that it is for."""
    home.queue.states = None
    with pytest.raises(Unavailable):
        await home.taken(5)
    assert not home.notes


async def test_who_has_no_outputs_is_not_asked_about(home):
    home.store.write(Note("b" * 32, LEDGER, 5, 1, 1000, 0o022, "/w", ["in"], [], over=None))
    for name in ("b" * 32, "c" * 32, "../../x"):
        await home.taken(5, name)
    assert (dict(home.notes), home.queue.was_asked) == ({}, 0)


async def test_notes_that_are_opened_again_leave_memory_for_others(home, monkeypatch, caplog):
    """A user could otherwise requeue more than the jobs that may wait at one time."""

    def large(job, uid):
        return Note(f"{job:032x}", LEDGER, job, 1, uid, 0o022, "/w", [], ["x" * 10_000], over=None)

    theirs, other = [large(job, 1000) for job in range(30, 50)], large(20, 1001)
    home.queue.states |= {f"j{note.first}": "running" for note in (other, *theirs)}
    monkeypatch.setattr(pack_store, "NOTES_BYTES", 100_000)
    for note in (*theirs, other):
        home.store.write(note)
        await home.taken(note.first, note.name)
    assert other.name in home.notes
    assert 2 < len(home.notes) < 10
    last = caplog.records[-1]
    assert (last.job, "its outputs stay on the host" in last.getMessage()) == ("49", True)


async def test_a_job_that_begins_again_while_its_first_outputs_are_awaited_brings_both(home):
    """The first came at last, and the others never."""
    await home.taken(5)
    assert not await home.taken(5)
    home.in_hand.add(5)  # it has ended, and its host is away
    assert await home.taken(5)
    assert await home.taken(5)  # another attempt
    (note,) = home.notes.values()
    for lefts in ([5], []):
        note.end(5)
        assert [*note.left] == lefts
    assert note.is_over


async def test_a_job_whose_note_is_open_waits_for_none_that_is_read(home):
    """A host may ask for very many long ones."""
    await home.taken(5)
    async with home.store.reopening, asyncio.timeout(20):
        assert not await home.taken(5)
