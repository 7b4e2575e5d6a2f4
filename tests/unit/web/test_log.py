"""Visitors' requests do not fill the page's log, and no line of theirs is in it."""

import asyncio
import logging
import os
import socket
import time
from dataclasses import replace

import pytest

from lbd.config.schema import Config
from lbd.errors import Unavailable
from lbd.web.address import read_address
from lbd.web.guard import Guard
from lbd.web.server import Web
from lbd.web.sessions import User
from tests.unit.web.test_guard import HOSTS, scope


class Page:
    """A running page, signed in to."""

    def __init__(self, port, web):
        now_s = time.monotonic()
        token = web._sessions.link(User(os.geteuid(), "ann"), now_s)
        cookie = f"lbd_session={web._sessions.sign_in(token, now_s)}"
        self.port = port
        self.head = f"Host: 127.0.0.1:{port}\r\nCookie: {cookie}\r\n".encode()

    async def ask(self, request, *, leaves=False):
        """Returns the answer's first line."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request)
        if leaves:
            await writer.drain()
            writer.write_eof()
        found = await reader.readline()
        writer.close()
        return found


@pytest.fixture
async def page(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        web = Web(Config(), read_address(f"127.0.0.1:{port}"), None, tmp_path)
        web._daemons = replace(web._daemons, connect=away)
        stop, ready = asyncio.Event(), asyncio.Event()
        running = asyncio.create_task(web.run(sock, stop, ready.set))
        await ready.wait()
        yield Page(port, web)
        stop.set()
        await running


def away(*_asked):
    raise Unavailable("no lim is running")


FORM = b"Content-Type: application/x-www-form-urlencoded\r\n"


@pytest.mark.parametrize(
    "more",
    [
        FORM + b"Content-Length: 100\r\n\r\ncsrf=1",
        FORM + b"Content-Length: 1\r\n\r\ncsrf=1\x1b[2J forged\r\n",
        FORM + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        FORM + b"Content-Length: 999999999999999999999999\r\n\r\n",
        b"\x1b[2J: forged\r\n\r\n",
        b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    ],
)
async def test_no_request_is_worth_a_traceback_or_a_line(page, caplog, more):
    answer = await page.ask(b"POST /jobs/1/kill HTTP/1.1\r\n" + page.head + more, leaves=True)
    assert answer == b"" or b" 4" in answer
    said = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert [one.getMessage() for one in said if one.name != "asyncio"] == []


async def test_what_fails_all_the_same_is_one_printable_line(caplog):
    async def fails(scope, receive, send):
        raise ValueError("\x1b[2J\nforged: line " + "x" * 5000)

    sent = []

    async def send(message):
        sent.append(message)

    await Guard(fails, HOSTS)(scope(), None, send)
    assert sent[0]["status"] == 500
    (line,) = caplog.records
    assert line.exc_info is None
    assert line.getMessage().isprintable()
    assert "ValueError at web/test_log.py:" in line.getMessage()
    assert len(line.getMessage()) < 400
