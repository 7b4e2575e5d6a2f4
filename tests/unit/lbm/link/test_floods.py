"""Floods of messages from one host: other hosts are served meanwhile."""

import asyncio
import time

import pytest

from lbd.lbm.link import wire as tags
from lbd.lbm.link.accepted_links import (
    ANSWERS_MAX,
    RESTING_MAX,
    AcceptedLink,
    AcceptedLinks,
    serve_stream,
)
from lbd.lbm.link.conversation import Stream
from lbd.lbm.link.opened_links import Resumes
from lbd.local.budget import Budget
from lbd.local.rate_limit import Rates
from lbd.net.gen import lbm_pb2
from tests.unit.lbm.inbound.test_attached_job import Wire, exits, host_of
from tests.unit.until import until

FOR_EVER_S, LONG_S = 1e9, 1e6


async def never(*_):
    await asyncio.get_running_loop().create_future()


class Context:
    """A call whose host sends these messages and then nothing."""

    def __init__(self, *messages):
        self._messages = list(messages)
        self.read_all = asyncio.Event()

    def invocation_metadata(self):
        return ((tags.STREAM_HEADER, "stream"),)

    async def send_initial_metadata(self, _metadata):
        pass

    async def write(self, _message):
        pass

    async def read(self):
        if self._messages:
            return self._messages.pop(0)
        self.read_all.set()
        await never()


def run_message(number):
    request = lbm_pb2.RunRequest(
        job_id=f"h2-{number}", origin="h2", user="ann", argv=[b"true"], directory=b"/",
        closed_fds=7, forced=True,
    )  # fmt: skip
    return tags.pack(number, tags.RUN, request.SerializeToString())


def links_of(host):
    host.requests, host.rates = Budget(1 << 20, 1 << 20), Rates(1e9, 1e9)
    return AcceptedLinks(host)


async def test_no_stream_of_a_host_that_has_used_its_share_is_read():
    host = host_of()
    links = links_of(host)
    links.shares.turn_s("h2", time.monotonic(), FOR_EVER_S, LONG_S)
    context = Context(run_message(1))
    stream = asyncio.create_task(serve_stream(links, context, "h2"))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not host.jobs.running
    assert not context.read_all.is_set()
    stream.cancel()
    await asyncio.gather(stream, return_exceptions=True)


async def test_its_messages_count_and_another_host_is_served():
    host = host_of()
    links, spent = links_of(host), []
    spending = links.shares.spending
    links.shares.spending = lambda who: (spent.append(who), spending(who))[1]
    links.shares.turn_s("h2", time.monotonic(), FOR_EVER_S, LONG_S)
    context = Context(run_message(1).replace(b"h2", b"h3"))
    stream = asyncio.create_task(serve_stream(links, context, "h3"))
    await until(context.read_all.is_set)
    assert spent == ["h3"]
    assert host.jobs.running
    await until(lambda: host.link.spawned)
    exits(host)
    stream.cancel()
    await asyncio.gather(stream, return_exceptions=True)


async def test_a_command_of_many_words_counts_as_many():
    """However short they are: each word takes us longer than its bytes."""
    host = host_of()
    wire = Wire(host)
    host.rates = Rates(10.0, 1.0)
    request = lbm_pb2.RunRequest(
        job_id="h1-1", origin="h1", user="ann", argv=[b""] * 5000, directory=b"/", closed_fds=7
    )
    wire.link.hear(tags.pack(1, tags.RUN, request.SerializeToString()))
    assert wire.link.ahead_s > (5000 - 1000) / 32 / 10 - 1
    wire.link.hear(tags.pack(1, tags.HANGUP, b"\0"))
    await until(lambda: not wire.link.jobs)


async def test_nor_is_a_stream_read_that_carries_commands_of_our_users():
    resumes, stream = Resumes(), Stream(never)
    talk = stream.converse(1)
    message = tags.pack(1, tags.STARTED)
    await resumes.heard("h3", stream, message)
    assert len(await talk.read()) == 1
    resumes.shares.turn_s("h2", time.monotonic(), FOR_EVER_S, LONG_S)
    hearing = asyncio.create_task(resumes.heard("h2", stream, message))
    for _ in range(100):
        await asyncio.sleep(0)
    assert talk.unread() == []
    hearing.cancel()
    await asyncio.gather(hearing, return_exceptions=True)


async def test_a_peer_that_reads_no_answers_is_not_read_any_more():
    """Each answer was kept for it, as long as the stream existed."""
    wire = Wire(host_of())
    wire.link.stream.outbox._write = never
    for number in range(1, ANSWERS_MAX + 1):
        wire.link.hear(tags.pack(number, b"j"))
    with pytest.raises(ValueError, match="is not read"):
        wire.link.hear(tags.pack(ANSWERS_MAX + 1, b"j"))


async def test_an_unknown_message_is_reported_once():
    host = host_of()
    wire = Wire(host)
    wire.run(1)
    await until(lambda: any(tag == tags.STARTED for tag, _ in wire.said))
    for _ in range(1000):
        wire.link.hear(tags.pack(1, b"j"))
    exits(host)
    await until(lambda: not wire.link.jobs)
    assert [tag for tag, _ in wire.said].count(tags.UNKNOWN) == 1


async def test_of_streams_that_a_host_leaves_to_be_resumed_few_are_kept():
    """Each was once kept until `lbm.orphan_after_s`, hundreds a second."""
    links = links_of(host_of())

    async def left(sender, token):
        link = AcceptedLink(links, Stream(never), (sender, token))
        link.hear(tags.pack(0, tags.PAUSE))
        await link.broken(link.stream._write)
        return link

    others = await left("h3", "0")
    for number in range(RESTING_MAX):
        await left("h2", f"{number}")
    links.open["h2", "0"].go_on(never)
    for number in range(3 * RESTING_MAX):
        await left("h2", f"later {number}")
    resting = [key for key, link in links.open.items() if link.stream.rests]
    assert len(resting) == RESTING_MAX + 1
    assert others.key in resting
    assert ("h2", "0") in links.open
    for link in list(links.open.values()):
        link.close()
    assert not links._resting
