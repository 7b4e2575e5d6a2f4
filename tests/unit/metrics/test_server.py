"""The listener and its attackers: slow, long and many requests, and other protocols."""

import asyncio
import contextlib
import json
import socket

import pytest

from lbd.cli.daemons.metrics import OwnDaemons
from lbd.config.schema import Config, HostConfig
from lbd.metrics.collector import Collector, why_unready
from lbd.metrics.core.request import HEAD_BYTES_MAX
from lbd.metrics.server import BACKLOG, Limits, MetricsServer
from tests.unit.until import until

HERE = "127.0.0.1"
GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = b"# " + b"x" * (8 << 20)


class Served:
    """A listener, what it serves, and why it is not ready."""

    def __init__(self, limits):
        self.text, self.why = b"lbd_up 1\n# EOF\n", ""
        self.server = MetricsServer(self.page, self.unready, limits=limits)
        self.port = self.server.listen(HERE, 0)

    async def page(self):
        return self.text

    async def unready(self):
        return self.why

    async def ask(self, request):
        reader, writer = await asyncio.open_connection(HERE, self.port)
        with contextlib.suppress(ConnectionError):
            writer.write(request)
            await writer.drain()
        try:
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


@pytest.fixture
async def serve():
    made = []

    def start(**limits):
        made.append(Served(Limits(**limits)))
        return made[-1]

    yield start
    for one in made:
        await one.server.close()


async def test_a_page_has_its_length(serve):
    served = serve()
    answer = await served.ask(GET)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"application/openmetrics-text; version=1.0.0" in head
    assert body == served.text
    assert f"Content-Length: {len(body)}".encode() in head
    head_only = await served.ask(GET.replace(b"GET", b"HEAD"))
    assert head_only == head + b"\r\n\r\n"
    assert served.server.statuses == {"200": 2}


async def test_health_and_readiness(serve):
    served = serve()
    ready = GET.replace(b"/metrics", b"/readyz")
    assert (await served.ask(ready)).startswith(b"HTTP/1.1 200 ")
    served.why = "no answer: lbm"
    answer = await served.ask(ready)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert answer.endswith(b"no answer: lbm\n")
    assert (await served.ask(GET.replace(b"/metrics", b"/healthz"))).endswith(b"ok\n")


@pytest.mark.parametrize("said", [b"\0" * 100 + b"\r\n\r\n", b"EHLO x\r\n\r\n", b"\r\n\r\n"])
async def test_garbage_is_answered_in_a_line(serve, said):
    answer = await serve().ask(said)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.partition(b"\r\n\r\n")[2].count(b"\n") == 1


@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"])
async def test_a_huge_request_is_not_read_to_its_end(serve, end):
    served = serve()
    await served.ask(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * (16 * HEAD_BYTES_MAX) + end)
    assert served.server.statuses == {"431": 1}


async def test_a_request_that_does_not_come_is_given_up(serve):
    served = serve(request_s=0.05)
    assert await served.ask(b"GET /metrics HT") == b""
    assert served.server.statuses == {"408": 1}


async def test_a_client_that_hangs_up_causes_no_error(serve):
    served = serve()
    for said in (b"", b"GET /me"):
        _, writer = await asyncio.open_connection(HERE, served.port)
        writer.write(said)
        writer.close()
        await writer.wait_closed()
    assert (await served.ask(GET)).startswith(b"HTTP/1.1 200 ")
    assert served.server.statuses == {"200": 1}


async def test_a_slow_reader_is_dropped_and_holds_nobody_up(serve):
    served = serve(answer_s=0.2)
    served.text = LARGE
    reader, writer = await asyncio.open_connection(HERE, served.port, limit=1 << 10)
    writer.write(GET)  # and never reads
    await until(lambda: served.server.statuses["200"] == 1)
    served.text = b"small\n"
    assert (await served.ask(GET)).endswith(b"small\n"), "another has the answer meanwhile"
    await until(lambda: served.server.refused["slow-reader"] == 1)
    writer.close()
    del reader


async def test_of_too_many_connections_the_oldest_makes_room(serve):
    served = serve(connections=3, request_s=60.0)
    idle = [await asyncio.open_connection(HERE, served.port) for _ in range(3)]
    await until(lambda: len(served.server.open) == 3)
    assert (await served.ask(GET)).startswith(b"HTTP/1.1 200 ")
    assert served.server.refused == {"too-many": 1}
    assert await idle[0][0].read() == b"", "the oldest is closed"
    idle[2][1].write(GET)
    assert (await idle[2][0].read()).startswith(b"HTTP/1.1 200 "), "and the newest is not"
    for _, writer in idle:
        writer.close()


async def test_who_has_asked_is_not_the_first_to_make_room(serve):
    """A user of the host who kept connecting pushed out one scrape in fifteen."""
    served, asked, made = serve(connections=3, request_s=60.0), asyncio.Event(), asyncio.Event()

    async def slow():
        asked.set()
        await made.wait()
        return served.text

    served.server._page = slow
    scrape = asyncio.create_task(served.ask(GET))
    await asked.wait()
    idle = [await asyncio.open_connection(HERE, served.port) for _ in range(4)]
    assert await idle[0][0].read() == b""
    made.set()
    assert (await scrape).startswith(b"HTTP/1.1 200 ")
    for _, writer in idle:
        writer.close()


async def test_of_many_that_come_at_once_each_is_answered(serve):
    """All connections were accepted before the first of them was read."""
    served = serve(connections=16)
    clients = []
    for _ in range(BACKLOG):
        clients.append(socket.create_connection((HERE, served.port)))
        clients[-1].sendall(GET)
    answers = [await asyncio.to_thread(client.recv, 100) for client in clients]
    for client in clients:
        client.close()
    assert sum(answer.startswith(b"HTTP/1.1 200 ") for answer in answers) == BACKLOG


async def test_nothing_is_left_of_a_connection(serve):
    served = serve()
    await asyncio.gather(*(served.ask(GET) for _ in range(50)))
    await until(lambda: not served.server.open)


async def test_a_taken_port_is_an_error_for_the_caller(serve):
    with pytest.raises(OSError, match="in use"):
        MetricsServer(None, None).listen(HERE, serve().port)


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


async def test_a_page_is_made_once_a_second_however_often_it_is_asked_for(tmp_path):
    made, clock = [], Clock()

    def own():
        made.append(1)
        return {}

    collector = Collector(tmp_path, lambda: ("lim",), own, clock)
    pages = await asyncio.gather(*(collector.page() for _ in range(100)))
    assert len(set(pages)) == len(made) == 1
    assert b'lbd_up{daemon="lim"} 0.0' in pages[0], "there is nobody on that socket"
    clock.now_s += 0.9
    await collector.page()
    assert len(made) == 1
    clock.now_s += 0.2
    await collector.page()
    assert len(made) == 2
    assert await collector.unready() == "no answer: lim"
    await collector.close()


def test_a_dispatcher_without_its_ledger_is_not_ready():
    """/readyz said `ready`, and no metric but the missing leader told of it."""
    waits = {"waits": "the disk of its ledger is full"}
    said = "dispatcher waits: the disk of its ledger is full"
    assert why_unready({"lim": {}, "lbm": {}, "dispatcher": waits}) == said
    assert why_unready({"lim": None, "lbm": None, "dispatcher": waits}) == (
        f"no answer: lim, lbm; {said}"
    )
    assert why_unready({"lim": {}, "dispatcher": {}}) == ""


def test_a_dispatcher_that_should_run_here_is_missed_when_it_does_not(tmp_path):
    config = Config(host=HostConfig(name="h1", state_dir=str(tmp_path)))
    daemons = OwnDaemons(config)
    assert daemons() == ("lim", "lbm")
    for hosts, found in (("h1", ("lim", "lbm", "dispatcher")), ("h2", ("lim", "lbm"))):
        saved = {"dispatch.host": json.dumps(hosts)}
        (tmp_path / "settings.json").write_text(json.dumps({"schema": 1, "saved": saved}))
        assert daemons() == found
