"""Messages for another LBM: small ones are sent together, and there are no needless wake-ups."""

import asyncio

from lbd.lbm.link import wire as tags
from lbd.lbm.link.conversation import Stream
from lbd.lbm.link.outbox import NOTICES_MAX, Outbox

LINGER_S = 3600.0


async def test_a_message_that_may_wait_goes_with_the_next_and_leaves_no_timer(monkeypatch):
    loop, sent, timers = asyncio.get_running_loop(), [], []
    call_later = loop.call_later

    def timed(*order):
        timers.append(call_later(*order))
        return timers[-1]

    async def write(data):
        sent.append(data)

    monkeypatch.setattr(loop, "call_later", timed)
    outbox = Outbox(write)
    outbox.put(b"a" * 9, LINGER_S)
    outbox.put(b"b" * 9, LINGER_S)
    assert len(timers) == 1
    outbox.put(b"c" * 9)
    await outbox.flush()
    assert len(sent) == 1
    assert [sent[0].count(letter) for letter in (b"a", b"b", b"c")] == [9, 9, 9]
    assert timers[0].cancelled()


async def test_a_message_that_may_wait_is_sent_alone_eventually():
    sent = []

    async def write(data):
        sent.append(data)

    outbox = Outbox(write)
    outbox.put(b"a", 0.001)
    await asyncio.wait_for(outbox.flush(), 20)
    outbox.put(b"b", 0.001)
    await asyncio.wait_for(outbox.flush(), 20)
    assert sent == [b"a", b"b"]


async def test_to_who_reads_nothing_it_is_said_a_few_times_that_all_has_come():
    outbox = Outbox(never)
    for _ in range(1000):
        outbox.rest(b"all has come")
    await asyncio.sleep(0)
    assert len(outbox._notices) <= NOTICES_MAX


async def never(_message):
    await asyncio.get_running_loop().create_future()


async def test_messages_that_are_queued_but_not_taken_are_counted():
    outbox = Outbox(never)
    for _ in range(9):
        outbox.put(b"a")
    await asyncio.sleep(0)
    assert outbox.waiting == 9
    outbox.close()
    assert outbox.waiting == 0


async def test_a_request_that_was_not_sent_yet_is_dropped_with_its_conversation():
    """Of a host that reads nothing the requests of all who had given up were kept for ever."""
    stream = Stream(never)
    stream.converse(1).put(tags.RUN, b"under way")
    await asyncio.sleep(0)
    for number in range(2, 1000):
        talk = stream.converse(number)
        talk.put(tags.RUN, bytes(1 << 16))
        talk.put(tags.STDIN, b"input")
        talk.hang_up(0)
        talk.close()
    assert stream.outbox.waiting == 1
    assert stream.outbox.count == 1
    assert list(stream.conversations) == [1]


async def test_of_a_command_that_was_asked_for_only_the_end_is_left_to_say():
    sent, go_on = [], asyncio.Event()

    async def write(message):
        sent.extend(tags.unpack(message))
        await go_on.wait()

    stream = Stream(write)
    talk, other = stream.converse(1), stream.converse(2)
    talk.put(tags.RUN, b"request")
    await asyncio.sleep(0)
    talk.put(tags.STDIN, b"input")
    other.put(tags.RUN, b"other")
    flushed = asyncio.create_task(other.flush())
    talk.hang_up(2)
    go_on.set()
    await flushed
    await stream.outbox.flush()
    said = [(number, tag, bytes(body)) for number, tag, body in sent]
    assert said == [
        (1, tags.RUN, b"request"), (2, tags.RUN, b"other"), (1, tags.HANGUP, b"\2")
    ]  # fmt: skip
    assert (stream.outbox.count, stream.outbox.waiting) == (3, 0)


async def test_what_waits_for_the_next_stream_is_dropped_too():
    stream = Stream(never)
    stream.rest()
    talk = stream.converse(1)
    talk.put(tags.RUN, b"request")
    assert stream.outbox.held()
    talk.hang_up(0)
    assert not stream.outbox.held()
