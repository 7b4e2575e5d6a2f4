"""Ports that are reserved for an account: who else may bind them."""

import contextlib
import os
import socket

import pytest

from lbd.keeper.kept_ports import PORTS_MAX, KeptPorts, pack_places

OWNER, STRANGER = 60001, 60002
ANY = "0.0.0.0"  # noqa: S104
OPTIONS = [(), (socket.SO_REUSEADDR,), (socket.SO_REUSEPORT,),
           (socket.SO_REUSEADDR, socket.SO_REUSEPORT)]  # fmt: skip


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


@contextlib.contextmanager
def kept(address, port, owner):
    ports = KeptPorts(pack_places(address, (port,)), owner)
    yield ports
    ports.close()


def listens(address, port, options):
    """Returns whether the port can be bound."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as sock:
        for option in options:
            sock.setsockopt(socket.SOL_SOCKET, option, 1)
        with contextlib.suppress(OSError):
            sock.bind((address, port))
            sock.listen()
            return True
    return False


def as_user(uid, *arguments):
    pid = os.fork()
    if pid == 0:
        os.setresuid(uid, uid, uid)
        os._exit(int(listens(*arguments)))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1


@pytest.mark.root
@pytest.mark.parametrize("address", ["127.0.0.1", ANY])
def test_only_its_owner_binds_a_port_that_is_kept(address):
    port = free_port()
    with kept(address, port, OWNER):
        for place in ("127.0.0.1", ANY, "::"):
            for options in OPTIONS:
                assert not as_user(STRANGER, place, port, options)
        assert as_user(OWNER, address, port, (socket.SO_REUSEADDR, socket.SO_REUSEPORT))
    assert as_user(STRANGER, address, port, (socket.SO_REUSEADDR,))


def test_nobody_can_connect_to_the_process_that_reserves_it():
    port = free_port()
    with kept("127.0.0.1", port, os.geteuid()), pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_an_address_that_this_host_gets_later_is_reserved():
    port = free_port()
    with kept("192.0.2.1", port, os.geteuid()):
        assert not listens(ANY, port, ())


def test_a_port_in_use_is_reserved_once_it_is_free():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        ports = KeptPorts(pack_places("127.0.0.1", (port,)), os.geteuid())
        ports.keep()
    ports.keep()  # not so soon
    assert listens("127.0.0.1", port, ())
    ports.next_s = 0.0
    ports.keep()
    assert not listens("127.0.0.1", port, ())
    ports.close()


@pytest.mark.root
def test_a_host_that_joins_later_gets_the_ports_reserved_from_then_on():
    first, second = free_port(), free_port()
    with kept("127.0.0.1", first, OWNER) as ports:
        ports.become(pack_places("127.0.0.1", (first, second)))
        for port in (first, second):
            assert not as_user(STRANGER, "127.0.0.1", port, (socket.SO_REUSEPORT,))
        ports.become(pack_places("127.0.0.1", (second,)))
        assert as_user(STRANGER, "127.0.0.1", first, (socket.SO_REUSEPORT,))
        assert not as_user(STRANGER, "127.0.0.1", second, (socket.SO_REUSEPORT,))
        ports.become("")
        assert as_user(STRANGER, "127.0.0.1", second, (socket.SO_REUSEPORT,))


def test_a_host_on_its_own_reserves_none_and_continues():
    ports = KeptPorts("", os.getuid())
    ports.keep()
    ports.close()


def test_of_the_requested_ports_some_are_reserved_but_no_privileged_ones():
    ports = KeptPorts(
        pack_places("127.0.0.1", (22, 0, 1 << 16, *range(40_000, 40_100))), os.getuid()
    )
    assert len(ports._sockets) + len(ports._missing) == PORTS_MAX
    with pytest.raises(ValueError, match="invalid literal"):
        ports.become("127.0.0.1 x")
    ports.close()


@pytest.mark.parametrize("address", ["a" * 70, "..", "\ufffd", "x\0y", "127.0.0.1.5"])
def test_an_invalid_address_does_not_end_the_keeper(address):
    """Nor does it later, when missing ports are tried again."""
    with kept("127.0.0.1", port := free_port(), os.geteuid()) as ports:
        ports.become(pack_places(address, (port,)))
        ports.next_s = 0.0
        ports.keep()
        ports.become(pack_places("127.0.0.1", (port,)))
        assert not listens("127.0.0.1", port, ())
