"""Which accounts listen on a port, according to the kernel's table."""

import os
import socket
from contextlib import ExitStack

import pytest

from lbd.net.listeners import count_listeners, unpack_words
from lbd.net.transport import packed_address

ANY = "0.0.0.0"  # noqa: S104


@pytest.mark.parametrize(
    ("theirs", "address", "count"),
    [
        ("127.0.0.1", "127.0.0.1", 1),
        ("127.0.0.1", "127.0.0.2", 0),
        ("127.0.0.1", ANY, 1),
        (ANY, "127.0.0.1", 1),
        ("::1", "::1", 1),
        ("::1", "127.0.0.1", 0),
        ("::", "127.0.0.1", 1),
        ("::ffff:127.0.0.1", "127.0.0.1", 1),
    ],
)
def test_a_listener_at_an_address_is_counted(theirs, address, count):
    with socket.socket(socket.AF_INET6 if ":" in theirs else socket.AF_INET) as sock:
        sock.bind((theirs, 0))
        port = sock.getsockname()[1]
        assert count_listeners(packed_address(address), port) == 0
        sock.listen()
        assert count_listeners(packed_address(address), port) == count


def test_each_of_several_listeners_counts_and_no_connection_does():
    with ExitStack() as stack:
        socks = [stack.enter_context(socket.socket()) for _ in range(2)]
        for sock in socks:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            sock.bind(("127.0.0.1", socks[0].getsockname()[1]))
        place = socks[0].getsockname()
        for number, sock in enumerate(socks, 1):
            sock.listen()
            stack.enter_context(socket.create_connection(place))
            assert count_listeners(packed_address("127.0.0.1"), place[1]) == number


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a socket another account's")
@pytest.mark.parametrize(("theirs", "address"), [("::", "127.0.0.1"), ("::1", "::1")])
def test_who_is_of_another_account_does_not_count(theirs, address):
    """Anybody may bind the port for IPv6 alone beside a listener on IPv4."""
    with socket.socket(socket.AF_INET6) as sock:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        os.fchown(sock.fileno(), 64001, -1)
        sock.bind((theirs, 0))
        sock.listen()
        assert count_listeners(packed_address(address), sock.getsockname()[1]) == 0


def test_the_notation_of_the_kernel_is_converted_to_an_address():
    loopback = "0100007F" if memoryview(b"\1\0").cast("H")[0] == 1 else "7F000001"
    assert unpack_words(loopback) == bytes((127, 0, 0, 1))
