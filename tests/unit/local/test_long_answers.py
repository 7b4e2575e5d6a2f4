"""Long answers: made with pauses but otherwise unchanged, and only a few at once for one user."""

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.local import json_socket as local
from lbd.local import long_answers, steps
from lbd.local.long_answers import LongAnswers, OwnTime, encode, in_turns, own_time, timed
from tests.unit.turns import others_turns

ANN, BOB = 1001, 1002
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), VALUES | st.lists(VALUES, max_size=10)))
def test_the_answer_equals_the_one_made_without_pauses(message):
    assert asyncio.run(encode(message)) == local.encode(message)


async def test_others_get_their_turns_meanwhile_however_few_and_long_the_rows_are(monkeypatch):
    """A hundred jobs of a quarter of a million words were encoded in one step."""
    monkeypatch.setattr(steps, "STEP_S", 0.0)
    with others_turns() as turns:
        await encode({"ok": True, "jobs": [[""] * 1000] * 20})
        assert turns() >= 20


async def test_others_get_their_turns_by_time_whatever_an_item_takes(monkeypatch):
    """Five hundred jobs at a time took a millisecond, or half a second where each had a target."""
    now_s, turns, before = 100.0, 0, []
    monkeypatch.setattr(
        long_answers, "time", SimpleNamespace(monotonic=lambda: now_s, thread_time=lambda: now_s)
    )

    async def other():
        nonlocal turns, now_s
        while True:
            turns, now_s = turns + 1, now_s + 1.0
            await asyncio.sleep(0)

    asking = asyncio.create_task(other())
    with own_time() as own:
        async for row in in_turns(range(12)):
            before.append(turns)
            now_s += 0.4 * steps.STEP_S if row < 6 else 1.5 * steps.STEP_S
    assert own.seconds == pytest.approx(now_s - 100.0 - turns)
    assert before == [0, 0, 0, 1, 1, 1, 2, 3, 4, 5, 6, 7]
    asking.cancel()


async def test_one_user_has_only_a_few_at_once_and_others_are_not_delayed():
    answers, inside, end = LongAnswers(at_once=2), [], asyncio.Event()

    async def ask(uid, operation="jobs"):
        async with answers.turn(uid, operation):
            inside.append(uid)
            await end.wait()

    tasks = [asyncio.create_task(ask(ANN)) for _ in range(5)]
    tasks.append(asyncio.create_task(ask(BOB)))
    tasks.append(asyncio.create_task(ask(ANN, "status")))  # a short one
    for _ in range(10):
        await asyncio.sleep(0)
    assert sorted(inside) == [ANN, ANN, ANN, BOB]
    tasks[4].cancel()  # one that waits
    end.set()
    await asyncio.gather(*tasks[:4], *tasks[5:])
    with pytest.raises(asyncio.CancelledError):
        await tasks[4]
    assert len(answers) == 0


async def test_the_own_time_of_work_is_without_that_of_others(monkeypatch):
    now_s, own = [0.0], OwnTime()
    monkeypatch.setattr(long_answers, "time", SimpleNamespace(thread_time=lambda: now_s[0]))

    async def work():
        for _ in range(3):
            now_s[0] += 1.0
            await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.0):
                await asyncio.Event().wait()
        now_s[0] += 1.0
        return "done"

    async def others():
        while True:
            now_s[0] += 100.0
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    assert (await timed(work(), own), own.seconds) == ("done", 4.0)
    cancelled = asyncio.create_task(timed_for_ever(own))
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    beside.cancel()


async def timed_for_ever(own):
    await timed(asyncio.Event().wait(), own)
