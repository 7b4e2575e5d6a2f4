import os
import pwd
import socket
import tempfile
from pathlib import Path

import pytest

from lbd.errors import Unavailable
from lbd.local.caller import caller_of
from lbd.web.as_user import Connector
from lbd.web.client_uid import client_uid, kernel_form, uid_in

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
            assert client_uid(*ends) == os.geteuid()
            assert client_uid((address, 1), ends[1]) is None
