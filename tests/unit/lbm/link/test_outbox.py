"""Messages for another LBM: small ones are sent together, and there are no needless wake-ups."""

import asyncio

from lbd.lbm.link.conversation import NOTICES_MAX, Outbox

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
