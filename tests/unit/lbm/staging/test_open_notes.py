"""Notes of packs with unfinished jobs, of which one user can have hundreds of thousands."""

from random import Random
from types import SimpleNamespace

import pytest

from lbd.config.schema import Config, HostConfig
from lbd.lbm.staging.awaited_outputs import AwaitedOutputs
from lbd.lbm.staging.open_notes import OpenNotes
from lbd.lbm.staging.pack_store import Note
from lbd.lbm.staging.queued_files import QueuedFiles
from lbd.net.gen import dispatch_pb2 as pb

OWN = 1002


class NotGoneThrough(OpenNotes):
    def __iter__(self):
        pytest.fail("all notes are looked at")


def note(first, count=1, *, waited_for=False):
    name = f"{first:032x}"
    return Note(name, "", first, count, OWN, 0o022, "/", [], ["out"], waited_for)


def test_a_note_is_found_by_each_of_its_jobs():
    rng, first, there = Random(7), 1, {}
    notes = OpenNotes()
    for _ in range(200):
        first += rng.randrange(1, 4)
        there[first] = note(first, rng.randrange(1, 5))
        first += there[first].count
    for one in rng.sample(list(there.values()), 200):
        notes[one.name] = one
    for one in rng.sample(list(there.values()), 100):
        del notes[one.name], there[one.first]
    of_job = {job: one for one in there.values() for job in one.left}
    jobs = range(first + 5)
    assert [notes.of_job(job) for job in jobs] == [of_job.get(job) for job in jobs]
    some = [job for job in jobs if rng.random() < 0.5]
    found = [(one, job) for one, own in notes.with_jobs(some) for job in own]
    assert found == [(of_job[job], job) for job in some if job in of_job]
    assert set(notes) == {one.name for one in there.values()}
    assert {one.name for one in notes.of_user(OWN)} == set(notes)


def test_a_submission_that_came_twice_has_the_note_that_is_left():
    notes = OpenNotes()
    notes["a"], notes["b"] = note(5), note(5)
    assert notes.of_job(5) is notes["b"]
    del notes["a"]
    assert notes.of_job(5) is notes["b"]
    del notes["b"]
    assert notes.of_job(5) is None


async def test_who_waits_for_a_job_costs_no_look_at_all_submissions():
    """One `lbctl wait` of a user with 100,000 submissions stopped their host's LBM for 0.6 s."""
    awaited = AwaitedOutputs(NotGoneThrough(note(first) for first in range(1, 1000)))
    awaited.keep(7, "h2 is away", delayed=True)
    answer = await awaited.answer(OWN, [pb.JobInfo(id=7)], 0.0)
    assert answer == {"outputs_coming": 1, "outputs_trouble": "7: h2 is away"}


async def test_who_submits_one_costs_no_look_at_all_submissions(tmp_path):
    queue = SimpleNamespace(when_ledger_changes=[])
    files = QueuedFiles(Config(host=HostConfig(state_dir=str(tmp_path))), None, queue)
    files.store.root.mkdir()
    files._open = NotGoneThrough(note(first) for first in range(1, 1000))
    await files.queued(own := note(1000, waited_for=True))
    await files.queued(note(1000))  # the same --idempotency-key again
    assert files.waited_for("", 1000) is own
    assert files.waited_for("", 999) is None
