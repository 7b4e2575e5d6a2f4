"""Connections of which the client has not read the last answer."""

import asyncio
import contextlib
import socket

import pytest

from lbd.local import json_socket, unix_transport, unread_answers
from lbd.local.unread_answers import LOOKS, UnreadAnswers, unread_bytes
from tests.unit.until import until

ANN, BOB = 52001, 52002
ANSWER = b"x" * 5000


@pytest.fixture
def pairs():
    with contextlib.ExitStack() as stack:

        def pair():
            ours, theirs = socket.socketpair(socket.AF_UNIX)
            stack.enter_context(theirs)
            stack.callback(ours.close)
            return ours, theirs

        yield pair


def is_open(sock):
    return sock.fileno() >= 0


async def test_one_is_closed_once_all_was_read(pairs, monkeypatch):
    monkeypatch.setattr(unread_answers, "LOOK_S", 0.01)
    ours, theirs = pairs()
    ours.send(ANSWER)
    answers = UnreadAnswers()
    answers.close(ANN, ours, socket.socket.close)
    assert is_open(ours)
    with pytest.raises(BrokenPipeError):  # or it could wait for ever for us to read its question
        theirs.send(b"x")
    assert theirs.recv(1 << 16) == ANSWER
    assert theirs.recv(1) == b"", "it sees the end although we keep it"
    await until(lambda: not is_open(ours))
    assert answers._timer is None
    assert not answers._count


async def test_one_without_anything_unread_or_without_a_client_is_closed_at_once(pairs):
    answers = UnreadAnswers()
    read, gone = pairs(), pairs()
    gone[0].send(ANSWER)
    gone[1].close()
    for ours in (read[0], gone[0]):
        answers.close(ANN, ours, socket.socket.close)
        assert not is_open(ours)


async def test_who_leaves_much_unread_gets_nothing_more_until_it_is_read(pairs, monkeypatch):
    """It is memory of the daemon, which the kernel ended for it."""
    answers, theirs = UnreadAnswers(), []
    monkeypatch.setattr(unread_answers, "BYTES_MAX", 3 * len(ANSWER))
    while not answers.is_full(ANN):
        ours, other = pairs()
        theirs.append(other)
        ours.send(ANSWER)
        answers.close(ANN, ours, socket.socket.close)
    assert 1 < len(theirs) <= 3
    assert not answers.is_full(BOB)
    for other in theirs:
        other.recv(1 << 16)
    assert not answers.is_full(ANN)
    answers._timer.cancel()


async def test_many_small_answers_are_too_much_as_well(pairs):
    answers = UnreadAnswers()
    answers._most = LOOKS * 2
    for number in range(answers._most):
        assert not answers.is_full(ANN), number
        ours, _ = pairs()
        ours.send(b"x")
        answers.close(ANN, ours, socket.socket.close)
    assert answers.is_full(ANN)
    answers._timer.cancel()


async def test_a_daemon_keeps_what_was_not_read_and_hears_no_more_of_that_user(
    tmp_path, monkeypatch
):
    answers, kept = UnreadAnswers(), []
    monkeypatch.setattr(unix_transport, "UNREAD", answers)
    monkeypatch.setattr(unread_answers, "BYTES_MAX", 3 * len(ANSWER))

    async def answer(_request, _caller):
        return {"ok": True, "x": "x" * len(ANSWER)}

    path = tmp_path / "daemon.sock"
    server = await json_socket.serve_json(path, answer, 0o600)

    async def is_answered():
        """Asks in a connection of its own, and leaves the answer unread."""
        client = socket.socket(socket.AF_UNIX)
        kept.append(client)
        client.connect(str(path))
        client.setblocking(False)
        with contextlib.suppress(OSError):
            client.send(json_socket.encode({"id": 1, "op": "x"}))
            client.shutdown(socket.SHUT_WR)
        await until(lambda: seen(client) is not None)
        await asyncio.sleep(0.05)  # by then it is closed, and kept
        return bool(seen(client))

    try:
        while await is_answered():
            assert len(kept) <= 4
        for client in kept:
            client.close()
        assert await is_answered()
    finally:
        server.close()
        kept[-1].close()
        answers._look_at_all()
        assert answers._timer is None


def seen(client):
    """What it could read now; b"" if it was closed without an answer."""
    try:
        return client.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return None
    except ConnectionError:
        return b""


def test_what_counts_is_the_memory_that_it_takes(pairs):
    ours, theirs = pairs()
    assert unread_bytes(ours) == 0
    ours.send(b"x")
    assert unread_bytes(ours) > 100
    theirs.recv(1)
    assert unread_bytes(ours) == 0
