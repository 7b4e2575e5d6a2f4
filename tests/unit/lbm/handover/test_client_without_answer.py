"""A client that waits for its first answer while one LBM is replaced by another."""

import socket
from types import SimpleNamespace

import pytest

from lbd.config.schema import Config
from lbd.lbm.link.user_threads import UserThreads
from lbd.lbm.session.session import Connection
from lbd.local import client_tags as tags
from lbd.local import frames
from lbd.local.budget import Budget


@pytest.fixture
async def ends():
    """Yields the client's socket and the LBM's connection."""
    client, ours = socket.socketpair()
    home = SimpleNamespace(
        config=Config(), threads=UserThreads(), long_requests=Budget(1 << 20, 1 << 20)
    )
    ours.setblocking(False)
    client.setblocking(False)
    connection = Connection(ours, home, None)
    with client:
        yield client, connection
        connection.close()


def answer(client):
    try:
        return client.recv(100)
    except BlockingIOError:
        return b""


async def test_a_client_that_asked_to_run_a_command_is_told_that_it_was_read(ends):
    client, connection = ends
    connection._run_body = b"the request"
    left = connection.left()
    assert left.received == frames.pack(tags.RUN, b"the request")
    assert answer(client) == frames.pack(tags.TAKEN)


async def test_this_holds_even_if_the_request_was_still_to_be_checked(ends):
    client, connection = ends
    connection._unheard = [(tags.SIGNAL, b"\x02"), (tags.RUN, b"the request")]
    connection.left()
    assert answer(client) == frames.pack(tags.TAKEN)


def of_a_host_that_was_asked(connection, *, stays):
    """The command has been sent to a host, where it waits for room; or it `stays` here."""
    connection._run_body, connection._stays = b"the request", stays
    connection.stdio.left = lambda: None
    connection.command = SimpleNamespace(
        remote=None, journey=SimpleNamespace(is_irrevocable=not stays), left=lambda: None
    )


async def test_this_holds_even_if_the_command_waits_on_another_host(ends):
    client, connection = ends
    of_a_host_that_was_asked(connection, stays=False)
    connection.left()
    assert answer(client) == frames.pack(tags.TAKEN)


async def test_a_client_that_has_become_its_command_is_told_nothing(ends):
    client, connection = ends
    of_a_host_that_was_asked(connection, stays=True)
    connection.left()
    assert answer(client) == b""


@pytest.mark.parametrize("early", [[], [(frames.JSON, b"{}")], [(tags.LOCAL, b"")]])
async def test_nor_is_a_client_that_asked_nothing_or_something_else(ends, early):
    client, connection = ends
    connection._unheard = early
    connection.left()
    assert answer(client) == b""


async def test_a_client_that_has_left_meanwhile_is_not_handed_over(ends):
    """The list of clients is made before everything comes to rest, which takes a while."""
    client, connection = ends
    client.close()
    connection.close()
    assert connection.left() is None
