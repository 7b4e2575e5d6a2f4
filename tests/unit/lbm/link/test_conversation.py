"""One job's share of a stream: read by a waiting task, or handled as messages arrive."""

import asyncio

import pytest

from lbd.errors import LostContact
from lbd.lbm.link.conversation import MESSAGE_BYTES, Stream
from lbd.lbm.link.outbox import Outbox
from lbd.lbm.link.wire import RESIZE, SIGNAL


async def nowhere(_message):
    pass


def conversation():
    return Stream(nowhere, Outbox(nowhere)).converse(1)


async def test_earlier_messages_are_handled_first_and_then_each_as_it_arrives():
    talk, heard = conversation(), []
    talk.hear((b"a", memoryview(b"1")))
    talk.follow(lambda tag, body: heard.append((tag, bytes(body))), heard.append)
    assert heard == [(b"a", b"1")]
    talk.hear((b"b", memoryview(b"2")))
    assert heard == [(b"a", b"1"), (b"b", b"2")]
    assert talk.unread() == []


async def test_a_listener_is_told_once_that_the_stream_is_broken():
    before, after, lost = conversation(), conversation(), []
    before.lose(problem := LostContact("cut off"))
    before.follow(lambda *_: None, lost.append)
    after.follow(lambda *_: None, lost.append)
    after.lose(problem)
    assert lost == [problem, problem]


async def test_messages_that_are_handled_at_once_do_not_count_as_sent_ahead():
    talk, heard = conversation(), []
    talk.ahead_bytes = 2 * MESSAGE_BYTES
    assert [talk.hear((b"a", memoryview(b""))) for _ in range(3)] == [True, True, False]
    talk = conversation()
    talk.ahead_bytes = 2 * MESSAGE_BYTES
    talk.follow(lambda *_: heard.append(1), heard.append)
    assert all(talk.hear((b"a", memoryview(b""))) for _ in range(9))
    assert len(heard) == 9


async def test_of_what_only_the_latest_matters_the_latest_is_kept():
    """Who resizes a window while a command waits sends hundreds, and the command was lost."""
    talk = conversation()
    talk.ahead_bytes = 4 * MESSAGE_BYTES
    assert all(talk.hear((RESIZE, memoryview(b"%d" % number))) for number in range(100))
    assert talk.hear((SIGNAL, memoryview(b"\2")))
    assert talk.hear((RESIZE, memoryview(b"last")))
    read = [(tag, bytes(body)) for tag, body in await talk.read()]
    assert read == [(SIGNAL, b"\2"), (RESIZE, b"last")]


async def test_a_reader_waits_for_the_next_message():
    talk = conversation()
    reading = asyncio.create_task(talk.read())
    await asyncio.sleep(0)
    talk.hear((b"a", memoryview(b"1")))
    assert [(tag, bytes(body)) for tag, body in await reading] == [(b"a", b"1")]


async def test_a_reader_need_not_wait_for_ever_and_may_read_again():
    talk = conversation()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(talk.read(0.01), 20)
    talk.hear((b"a", memoryview(b"1")))
    assert await talk.read(0.01) == [(b"a", memoryview(b"1"))]


async def test_what_is_not_known_is_said_once():
    """A peer that read no answers, and kept sending these, filled the other end's memory."""
    talk = conversation()
    assert [talk.is_news(tag) for tag in (b"j", b"j", b"k", b"j")] == [True, False, True, False]
