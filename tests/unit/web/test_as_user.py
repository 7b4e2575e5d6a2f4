import os
import pwd
import socket
import tempfile
from pathlib import Path

import pytest

from lbd.errors import Unavailable
from lbd.local.caller import caller_of
from lbd.web import client_uid as whose
from lbd.web.as_user import Connector
from lbd.web.client_uid import can_be_asked, client_uid, kernel_form, uid_asked, uid_in, uid_read

NOBODY = pwd.getpwnam("nobody")


@pytest.fixture
def listening():
    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as sock:
        os.chmod(directory, 0o755)
        path = Path(directory) / "x.sock"
        sock.bind(str(path))
        os.chmod(path, 0o666)
        sock.listen()
        sock.settimeout(10)
        yield path, sock


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_connection_is_the_users(listening):
    path, sock = listening
    connector = Connector((path,))
    try:
        for uid in (NOBODY.pw_uid, 0):
            with connector.connect(uid, path, 5.0) as way:
                server, _ = sock.accept()
                with server:
                    caller = caller_of(server)
                    assert caller.uid == uid
                    assert 0 not in caller.groups or uid == 0
                    way.sendall(b"hello")
                    assert server.recv(10) == b"hello"
        with pytest.raises(Unavailable, match="may not ask"):
            connector.connect(4_000_000, path, 5.0)  # no such account
        path.unlink()
        with pytest.raises(Unavailable, match="not running"):
            connector.connect(0, path, 5.0)
    finally:
        connector.close()


def test_it_connects_nowhere_else(listening, tmp_path):
    connector = Connector((listening[0],))
    try:
        with pytest.raises(ValueError, match=r"."):
            connector.connect(0, tmp_path / "other.sock", 5.0)
    finally:
        connector.close()


TABLE = """\
   0: 0100007F:2508 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0
   1: 0100007F:C350 0100007F:2508 01 00000000:00000000 00:00000000 00000000  1000        0 2 1 0
   2: 0100007F:C351 0100007F:2508 06 00000000:00000000 00:00000000 00000000     0        0 3 1 0
"""


@pytest.mark.parametrize(("port", "uid"), [(50000, 1000), (50001, None), (50002, None)])
def test_whose_a_connection_is(port, uid):
    client, server = kernel_form("127.0.0.1", port), kernel_form("127.0.0.1", 9480)
    assert uid_in(TABLE.splitlines(), client, server) == uid


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
def test_the_kernel_says_whose(family, address):
    with socket.socket(family) as server:
        try:
            server.bind((address, 0))
        except OSError:
            pytest.skip(f"no {address} here")
        server.listen()
        with socket.create_connection(server.getsockname()[:2]) as way:
            ends = way.getsockname()[:2], way.getpeername()[:2]
            assert client_uid(*ends) == uid_read(*ends) == os.geteuid()
            for unknown in (((address, 1), ends[1]), (ends[0], (address, 1)), (("x", 1), ends[1])):
                assert client_uid(*unknown) is None


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_whose_an_ipv4_connection_is_to_a_page_of_ipv6():
    with (
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server,
        socket.create_connection(("127.0.0.1", server.getsockname()[1])),
        server.accept()[0] as accepted,
    ):
        ends = accepted.getpeername()[:2], accepted.getsockname()[:2]
        assert client_uid(*ends) == uid_read(*ends) == os.geteuid()


def test_no_look_through_all_connections_is_needed(monkeypatch):
    """A user can make very many: to read of them all took the page longer with each."""
    if not can_be_asked():
        pytest.skip("this kernel cannot be asked about one connection (CONFIG_INET_DIAG)")
    monkeypatch.setattr(whose, "TABLES", ())
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as way:
            ends = way.getsockname(), way.getpeername()
            assert client_uid(*ends) == os.geteuid()
        assert uid_asked(*ends) is None  # it is closed


def test_of_a_kernel_that_cannot_be_asked_so_much_is_read_and_no_more(tmp_path, monkeypatch):
    table = tmp_path / "tcp"
    table.write_text(TABLE)
    monkeypatch.setattr(whose, "TABLES", (table,))
    monkeypatch.setattr(whose, "can_be_asked", lambda: False)
    ends = ("127.0.0.1", 50000), ("127.0.0.1", 9480)
    assert client_uid(*ends) == 1000
    monkeypatch.setattr(whose, "TABLE_BYTES_MAX", TABLE.index("\n") + 10)
    assert client_uid(*ends) is None
