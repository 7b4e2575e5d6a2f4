"""When outputs of queued commands have arrived here, for users who wait for them."""

import asyncio

from lbd.lbm.staging.awaited_outputs import AwaitedOutputs
from lbd.lbm.staging.open_notes import OpenNotes
from lbd.lbm.staging.pack_store import Note
from lbd.net.gen import dispatch_pb2 as pb

OTHER, OWN = 1001, 1002


def array(first, uid=OWN, *, fetch="out.%a", waited_for=False):
    return Note(
        f"{first:032x}", "", first, 5, uid, 0o022, "/", ["in"], [fetch] * bool(fetch), waited_for
    )


def outputs(*notes):
    return AwaitedOutputs(OpenNotes(notes))


def test_only_outputs_that_a_user_is_to_get_here_are_awaited():
    awaited = outputs(array(10), array(20, OTHER), array(30, waited_for=True), array(40, fetch=""))
    assert awaited.coming(OWN, [11, 12, 21, 31, 41]) == [11, 12]


async def test_they_are_awaited_until_they_are_here_or_can_no_longer_arrive():
    own = array(10)
    awaited = outputs(own)
    waiting = asyncio.create_task(awaited.wait(OWN, [11, 12]))
    await asyncio.sleep(0)
    own.end(11)
    awaited.settle(11)
    awaited.keep(12, "out.2 is not empty", delayed=False)
    async with asyncio.timeout(20):
        await waiting
    ended = [pb.JobInfo(id=10 + n, array_id=10, array_index=n) for n in (1, 2)]
    answer = {"outputs_coming": 0, "outputs_trouble": "10_2: out.2 is not empty"}
    assert await awaited.answer(OWN, ended, 60.0) == answer


async def test_outputs_on_a_host_that_is_away_are_awaited_too():
    """`lbctl wait` ended with 0 while the outputs had not come."""
    own = array(10)
    awaited = outputs(own)
    awaited.keep(12, "h2 is away", delayed=True)
    ended = [pb.JobInfo(id=12, array_id=10, array_index=2)]
    answer = {"outputs_coming": 1, "outputs_trouble": "10_2: h2 is away"}
    assert await awaited.answer(OWN, ended, 0.0) == answer
    awaited.keep(12, "out.2 is not empty", delayed=False)  # h2 is back
    answer = {"outputs_coming": 0, "outputs_trouble": "10_2: out.2 is not empty"}
    assert await awaited.answer(OWN, ended, 60.0) == answer
    awaited.keep(12, "h2 is away", delayed=True)
    own.end(12)
    awaited.settle(12)
    assert await awaited.answer(OWN, ended, 60.0) == {"outputs_coming": 0, "outputs_trouble": ""}


async def test_one_that_is_here_costs_no_look_at_all_that_are_not(monkeypatch):
    """Four clients that waited for an array of 100,000 tasks took all of an LBM's time."""
    own, looks = Note("1" * 32, "", 1, 1000, OWN, 0o022, "/", [], ["out"]), []
    awaited, is_left = outputs(own), Note.is_left
    monkeypatch.setattr("lbd.lbm.staging.awaited_outputs.PAUSE_S", 0.0)
    monkeypatch.setattr(Note, "is_left", lambda *given: looks.append(1) or is_left(*given))
    waiting = asyncio.create_task(awaited.wait(OWN, range(1, 1001)))
    for job in range(1, 101):
        await asyncio.sleep(0)
        own.end(job)
        awaited.settle(job)
    assert len(looks) < 2000
    waiting.cancel()


async def test_an_answer_does_not_wait_longer_than_requested():
    awaited = outputs(array(10))
    answer = await awaited.answer(OWN, [pb.JobInfo(id=12), pb.JobInfo(id=11)], 0.0)
    assert answer == {"outputs_coming": 2, "outputs_trouble": ""}
