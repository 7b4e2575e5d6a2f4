import asyncio
import threading

import pytest

from lbd.errors import Unavailable
from lbd.local import frames
from lbd.local.json_socket import ANSWER_LIMIT_BYTES, Refusal
from lbd.web import memory
from lbd.web.memory import (
    OBJECTS_BYTES,
    PIECE_BYTES,
    SENT_BYTES,
    SHORT_BYTES,
    Kept,
    Sending,
    Turns,
)
from lbd.web.site import JSON_TYPE, InPieces


def test_newer_pages_take_the_room_of_older_ones():
    kept = Kept(100)
    for number in range(50):
        kept.put(number, str(number), 25, now_s=0.0, known_s=10.0)
        assert kept.bytes <= 100
    assert [kept.get(number, 0.0) for number in range(50)] == [None] * 46 + ["46", "47", "48", "49"]
    kept.put(49, "again", 10, 0.0, 10.0)
    assert (kept.get(49, 0.0), kept.bytes) == ("again", 85)
    kept.put("long", "too long", 26, 0.0, 10.0)
    assert (kept.get("long", 0.0), kept.bytes) == (None, 85)


def test_what_is_out_of_date_goes():
    kept = Kept(100)
    kept.put("a", "a", 20, now_s=0.0, known_s=10.0)
    kept.put("b", "b", 20, now_s=0.0, known_s=1.0)
    assert kept.get("a", 1.0) == "a"
    assert (len(kept), kept.bytes) == (1, 20)
    assert kept.get("b", 1.0) is None
    kept.put("c", "c", 20, 10.0, 0.0)
    assert (len(kept), kept.bytes) == (0, 0)
    kept.put("d", "d", 20, 10.0, 1.0)
    kept.clear()
    assert (kept.get("d", 10.0), kept.bytes) == (None, 0)


def test_one_page_at_a_time_is_made_from_long_answers(monkeypatch):
    monkeypatch.setattr(memory, "TURN_S", 0.01)
    turns = Turns()
    with turns.page() as long, turns.page() as other:
        for _ in range(4):
            long.admit(SHORT_BYTES)
        other.admit(SHORT_BYTES)
        with pytest.raises(Unavailable, match="other long pages"):
            other.admit(1)
    with turns.page() as other:
        other.admit(SHORT_BYTES + 1)


def test_who_waits_for_the_turn_has_it_next():
    turns, admitted = Turns(), threading.Event()

    def wait():
        with turns.page() as reading:
            reading.admit(SHORT_BYTES + 1)
            admitted.set()

    waiting = threading.Thread(target=wait)
    with turns.page() as reading:
        reading.admit(SHORT_BYTES + 1)
        waiting.start()
        assert not admitted.is_set()
    waiting.join(20)
    assert admitted.is_set()


def test_what_becomes_objects_and_what_is_read_at_all_is_bounded():
    with Turns().page() as reading:
        body = b'{"a":"' + b"x" * (OBJECTS_BYTES // 2) + b'"}'
        assert len(reading.decode(frames.JSON, body)["a"]) == OBJECTS_BYTES // 2
        with pytest.raises(Refusal, match="too long for a page"):
            reading.decode(frames.JSON, body)
    with Turns().page() as reading:
        reading.admit(ANSWER_LIMIT_BYTES)
        with pytest.raises(Refusal, match="too long for a page"):
            reading.admit(1)


def test_who_does_not_read_has_half_of_what_may_be_unread():
    sending = Sending()
    sending.take(1, SENT_BYTES // 2)
    with pytest.raises(Unavailable, match="not been read"):
        sending.take(1, 1)
    sending.take(2, SENT_BYTES // 2)
    with pytest.raises(Unavailable, match="not been read"):
        sending.take(3, 1)
    sending.give_back(1, SENT_BYTES // 2)
    sending.take(1, 1)


async def test_long_json_is_sent_as_it_is_read():
    text, sending, sent = "x" * (3 * PIECE_BYTES + 1), Sending(), []
    answer = InPieces(text, sending, 1)
    assert answer.media_type == JSON_TYPE
    reads = asyncio.Event()

    async def send(message):
        sent.append(message.get("body", b""))
        await reads.wait()

    async def receive():
        await asyncio.Event().wait()

    scope = {"type": "http", "asgi": {"spec_version": "2.4"}}
    answering = asyncio.create_task(answer(scope, receive, send))
    await asyncio.sleep(0)
    assert len(sent) == 1
    reads.set()
    await answering
    assert b"".join(sent) == text.encode()
    assert max(map(len, sent)) == PIECE_BYTES
    sending.take(1, SENT_BYTES // 2)  # what is read no longer counts
