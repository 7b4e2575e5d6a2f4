"""One local user at a JSON socket: bounded in every way, and the others do not notice."""

import asyncio
import contextlib
import json
import time

import pytest

from lbd.local import connection_limits as bounds
from lbd.local import frames
from lbd.local import json_socket as local
from lbd.local.connection_limits import Crowd


async def answer(question, _caller):
    if question.get("op") == "wait":
        await asyncio.sleep(3600)
    return {"text": "x" * question.get("size", 0)}


@pytest.fixture
async def path(tmp_path):
    path = tmp_path / "x.sock"
    server = await local.serve_json(path, answer, 0o600, crowd=Crowd(50, lambda _: False))
    yield path
    server.close()


def question(number, **fields):
    body = json.dumps({"id": number, **fields}).encode()
    return frames.pack(frames.JSON, body)


async def replies(reader, count):
    split, found = frames.Splitter(1 << 24), []
    while len(found) < count:
        data = await asyncio.wait_for(reader.read(1 << 16), 20)
        if not data:
            break
        found += [json.loads(body) for _, body in split.feed(data)]
    return found


async def test_a_burst_is_answered_at_once_and_the_excess_later(path):
    reader, writer = await asyncio.open_unix_connection(path)
    began_s = time.monotonic()
    writer.write(b"".join(question(number) for number in range(130)))
    found = await replies(reader, 130)
    assert {reply["id"] for reply in found} == set(range(130))
    assert time.monotonic() - began_s > 0.3  # 100 at once, the others at 50 a second
    writer.close()


async def test_questions_of_a_client_that_does_not_read_are_not_read_either(path):
    """Its own socket stops it; the daemon keeps a few answers for it, not thousands."""
    reader, writer = await asyncio.open_unix_connection(path, limit=1 << 12)
    sent = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            while sent < 10_000:
                writer.write(question(sent, size=100_000))
                await writer.drain()
                sent += 1
    assert sent < 10_000
    other, asking = await asyncio.open_unix_connection(path)
    asking.write(question(1))
    assert len(await replies(other, 1)) == 1
    asking.close()
    writer.transport.abort()  # close() would wait for it to be read
    await asyncio.sleep(0.2)
    del reader


async def test_only_a_few_long_questions_run_at_once(path):
    reader, writer = await asyncio.open_unix_connection(path)
    waiting = [question(number, op="wait") for number in range(bounds.OUTSTANDING_MAX)]
    writer.write(b"".join(waiting) + question(999))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(1), 0.5)
    writer.close()


async def test_long_questions_that_wait_are_fewer(path):
    """As many long ones as short ones were megabytes for each connection."""
    reader, writer = await asyncio.open_unix_connection(path)
    long = question(1, op="wait", x="x" * (bounds.QUESTION_MAX_BYTES - 100))
    sent = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            while sent < bounds.OUTSTANDING_MAX:
                writer.write(long)
                await writer.drain()
                sent += 1
    assert sent < bounds.OUTSTANDING_MAX // 4
    writer.transport.abort()
    del reader


async def test_very_many_questions_are_all_answered(path):
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"".join(question(number, op="wait") for number in range(10)))
    writer.write(b"".join(question(number, x="x" * 10_000) for number in range(10, 120)))
    found = await replies(reader, 110)
    assert [reply["id"] for reply in found] == list(range(10, 120))
    writer.close()


async def test_the_connections_of_a_user_are_limited(path):
    held = [await asyncio.open_unix_connection(path) for _ in range(bounds.CONNECTIONS_MAX)]
    reader, writer = await asyncio.open_unix_connection(path)
    (refusal,) = await replies(reader, 2)
    assert "connections here" in refusal["error"]
    for _, each in (*held, (reader, writer)):
        each.close()
    for _ in range(100):  # and then there is room again
        await asyncio.sleep(0.02)
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(question(1))
        (reply,) = await replies(reader, 1)
        writer.close()
        if reply["ok"]:
            return
    raise AssertionError(reply)


async def test_a_silent_client_is_disconnected(path, monkeypatch):
    monkeypatch.setattr(bounds, "IDLE_S", 0.2)
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(question(1)[:7])  # slowly, and never a whole question
    (refusal,) = await replies(reader, 2)
    assert refusal["error"] == "no request for 0.2 s"
    writer.close()


async def test_a_long_question_is_refused_before_it_is_read(path):
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(question(1, text="x" * bounds.QUESTION_MAX_BYTES)[:1000])
    (reply,) = await replies(reader, 1)
    assert (reply["ok"], reply["error"][:8]) == (False, "a frame ")
    assert await reader.read() == b""
    writer.close()


async def test_a_long_question_takes_several_turns(path):
    """By the cost of reading it: 30 of 64 KiB count as 120 questions."""
    reader, writer = await asyncio.open_unix_connection(path)
    began_s = time.monotonic()
    long = "x" * (bounds.QUESTION_MAX_BYTES - 100)
    for number in range(36):
        writer.write(question(number, text=long))
    assert len(await replies(reader, 36)) == 36
    assert time.monotonic() - began_s > 0.1  # 100 at once, the others at 50 a second
    writer.close()


async def test_few_answers_wait_for_a_client_that_does_not_read_them(tmp_path):
    """Of many questions at once only those are handled whose answers have room."""
    dealt_with = []

    async def answer(question, _caller):
        dealt_with.append(question["id"])
        return {"text": "x" * (4 << 20)}

    path = tmp_path / "y.sock"
    server = await local.serve_json(path, answer, 0o600, crowd=Crowd(50, lambda _: False))
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"".join(question(number) for number in range(40)))
    async with asyncio.timeout(10):
        while not dealt_with:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    for _ in range(20):
        await asyncio.sleep(0.01)
    assert len(dealt_with) <= 3
    writer.transport.abort()
    server.close()
    del reader


async def test_all_users_together_have_a_limited_number_of_connections(monkeypatch):
    monkeypatch.setattr(bounds, "ALL_CONNECTIONS_MAX", 5)
    crowd = Crowd(50, lambda caller: caller.uid == 0)
    users = [local.Caller(1, uid, uid) for uid in range(1, 8)]
    assert [crowd.why_not(user) == "" for user in users] == [True] * 5 + [False] * 2
    assert crowd.why_not(local.Caller(1, 0, 0)) == ""
    crowd.left(users[0])
    assert crowd.why_not(users[6]) == ""
