"""The answer to a question that this host cannot answer."""

import asyncio
import contextlib
import errno
import json
import os
import socket
import threading
from pathlib import Path

import pytest

from lbd.console.errors import error_object
from lbd.errors import Unavailable
from lbd.local import client_tags, frames
from lbd.local import json_socket as local
from lbd.local.json_client import JsonClient
from lbd.local.json_socket import Refusal


class Transport(asyncio.Transport):
    def write(self, data):
        pass

    def is_closing(self):
        return False


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/state/notes")


@pytest.mark.parametrize(
    ("fault", "told"),
    [(FULL, "/state/notes: No space left on device"), (TimeoutError(), r"TimeoutError\(\)")],
)
async def test_a_system_error_is_an_answer_too(tmp_path, fault, told):
    async def answer(_question, _caller):
        raise fault

    server = await local.serve_json(tmp_path / "x.sock", answer, 0o600)
    with pytest.raises(Refusal, match=f"^{told}$") as refusal:
        await asyncio.to_thread(local.ask, tmp_path / "x.sock", {"op": "note"}, 5.0)
    assert refusal.value.code == "unavailable"
    server.close()


async def test_a_number_beyond_any_float_is_an_answer_too(tmp_path):
    async def answer(question, _caller):
        return {"said": float(question["patience_s"])}

    server = await local.serve_json(tmp_path / "x.sock", answer, 0o600)
    question = {"op": "wait", "patience_s": 10**400}
    with pytest.raises(Refusal, match=r"^bad request 'wait': OverflowError") as refusal:
        await asyncio.to_thread(local.ask, tmp_path / "x.sock", question, 5.0)
    assert refusal.value.code == "usage"
    server.close()


async def test_a_word_that_is_not_utf_8_is_refused_by_name(tmp_path):
    """`lbctl history --user $'a\\xff'` got Python's words."""

    async def answer(question, _caller):
        return {"bytes": len(question["user"].encode())}

    server = await local.serve_json(tmp_path / "x.sock", answer, 0o600)
    question = {"op": "past", "user": "a\udcff" + "x" * 500}
    with pytest.raises(Refusal, match=r"^'a\\udcffx{98}': text must be UTF-8$") as refusal:
        await asyncio.to_thread(local.ask, tmp_path / "x.sock", question, 5.0)
    assert refusal.value.code == "usage"
    server.close()


@pytest.mark.parametrize("value", [10**400, -1, float("nan"), float("inf"), True, "5", None])
def test_seconds_are_a_number_within_bounds(value):
    with pytest.raises(Refusal, match=r"^patience_s must be a number of seconds from 0 to 1e\+09$"):
        local.bounded_s({"patience_s": value}, "patience_s")
    assert local.bounded_s({}, "patience_s") == 0.0


def test_a_client_that_is_turned_away_at_once_is_told_why(tmp_path):
    """lbm.sock sends it in the frame that commands read, before it knows what is asked."""
    path = tmp_path / "lbm.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def turn_away():
            sock, _ = listener.accept()
            sock.send(frames.pack(client_tags.UNFIT, b"too many\ncommands"))
            sock.recv(1 << 16)
            sock.close()

        door = threading.Thread(target=turn_away)
        door.start()
        with pytest.raises(Unavailable, match=r"^too many\S* ?commands$"):
            local.ask(path, {"op": "status"}, 5.0)
        door.join()


async def test_who_is_cancelled_as_the_answer_comes_is_cancelled():
    """Otherwise the command of a departed client would continue, and be listed for ever."""
    client = JsonClient(Path("/run/lbd/lim.sock"))
    client.connection_made(Transport())
    asking = asyncio.create_task(client.call({"op": "place"}, 20.0))
    await asyncio.sleep(0)
    client.data_received(local.encode({"id": 1, "ok": True}))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


@pytest.fixture
def crowded(tmp_path):
    """A socket that accepts nobody, with a full backlog of waiting clients."""
    path = tmp_path / "lim.sock"
    with contextlib.ExitStack() as held, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)
        with contextlib.suppress(BlockingIOError):
            while True:
                one = held.enter_context(socket.socket(socket.AF_UNIX))
                one.setblocking(False)
                one.connect(str(path))
        yield path, listener


def test_who_cannot_be_accepted_yet_waits_for_it(crowded):
    """The client is not told that nobody listens, nor before the time is over."""
    path, _ = crowded
    with pytest.raises(Unavailable, match=r"^lim did not answer within 0\.05 s$"):
        local.ask(path, {"op": "status"}, 0.05)


async def test_a_daemon_waits_for_it_as_well(crowded):
    path, listener = crowded
    client = JsonClient(path)
    connecting = asyncio.create_task(client.connect())
    accepting = asyncio.create_task(asyncio.to_thread(listener.accept))
    assert await connecting
    client.close()
    (await accepting)[0].close()


async def test_the_advice_for_a_daemon_that_is_not_there_is_a_part_of_its_own():
    """As JSON, the fix ended in a bracket that the message had opened."""
    with pytest.raises(Unavailable) as caught:
        await JsonClient(Path("/none/lim.sock")).call({}, 1.0)
    error = json.loads(error_object("unavailable", str(caught.value)))["error"]
    assert error["message"] == "lim is not running (/none/lim.sock)"
    assert error["fix"] == "see `lbctl doctor`"
