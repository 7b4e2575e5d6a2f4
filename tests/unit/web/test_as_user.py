import os
import pwd
import signal
import socket
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from lbd.errors import Unavailable
from lbd.local.caller import caller_of
from lbd.web import as_user
from lbd.web import client_uid as whose
from lbd.web.as_user import Connector
from lbd.web.client_uid import can_be_asked, client_uid, kernel_form, uid_asked, uid_in, uid_read

NOBODY = pwd.getpwnam("nobody")
become = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")


@pytest.fixture
def listening():
    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as sock:
        os.chmod(directory, 0o755)
        path = Path(directory) / "x.sock"
        sock.bind(str(path))
        os.chmod(path, 0o666)
        sock.listen()
        sock.settimeout(60)
        yield path, sock


@become
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
        with pytest.raises(Unavailable, match="may not connect"):
            connector.connect(4_000_000, path, 5.0)  # no such account
        path.unlink()
        with pytest.raises(Unavailable, match="not running"):
            connector.connect(0, path, 5.0)
    finally:
        connector.close()


@pytest.fixture
def held_up(listening, monkeypatch):
    """Makes a daemon that has not accepted anybody yet, so that a connecting user waits."""
    path, sock = listening
    sock.listen(0)
    monkeypatch.setattr(as_user, "CONNECT_S", 60.0)
    connector = Connector((path,))
    with socket.socket(socket.AF_UNIX) as first:
        first.connect(str(path))  # the only place
        yield path, sock, connector
    for pid in (*children(connector.pid), connector.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    connector.close()


def children(pid):
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def for_nobody(connector):
    """Returns the process that connects as that user, once it does."""
    give_up_s = time.monotonic() + 60
    while time.monotonic() < give_up_s:
        for pid in children(connector.pid):
            with suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text()
                if status.partition("\nUid:")[2].split(None, 2)[1] == str(NOBODY.pw_uid):
                    return pid
    return pytest.fail("nothing connects")


@become
def test_nobody_stops_what_connects_for_them(held_up):
    """Otherwise all users who have signed in would wait for it."""
    path, sock, connector = held_up
    with ThreadPoolExecutor(1) as asking:
        asked = asking.submit(connector.connect, NOBODY.pw_uid, path, 5.0)
        pid = for_nobody(connector)
        for name in ("STOP", "KILL"):
            stop = ("sh", "-c", f"kill -{name} {pid}")
            done = subprocess.run(stop, user="nobody", extra_groups=(), capture_output=True)
            assert b"not permitted" in done.stderr, name
        sock.accept()[0].close()
        with sock.accept()[0] as theirs:
            assert caller_of(theirs).uid == NOBODY.pw_uid
        asked.result(60).close()


@become
def test_a_connection_that_comes_too_late_is_nobody_elses(held_up, monkeypatch):
    path, sock, connector = held_up
    monkeypatch.setattr(as_user, "PATIENCE_S", 0.1)
    connector._way.settimeout(0.1)
    with pytest.raises(Unavailable, match="cannot ask"):
        connector.connect(NOBODY.pw_uid, path, 5.0)
    monkeypatch.setattr(as_user, "PATIENCE_S", 60.0)
    connector._way.settimeout(60.0)
    accepted = [sock.accept()[0] for _ in range(2)]
    assert caller_of(accepted[1]).uid == NOBODY.pw_uid  # it has been made, for nobody
    with connector.connect(0, path, 5.0) as way:
        way.sendall(b"hello")
        mine, _ = sock.accept()
        assert caller_of(mine).uid == 0
        assert mine.recv(10) == b"hello"
    for one in (*accepted, mine):
        one.close()


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
def test_whose_connection_it_is(port, uid):
    client, server = kernel_form("127.0.0.1", port), kernel_form("127.0.0.1", 9480)
    assert uid_in(TABLE.splitlines(), client, server) == uid


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
def test_the_kernel_says_whose_it_is(family, address):
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
def test_whose_an_ipv4_connection_to_an_ipv6_page_is():
    with (
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server,
        socket.create_connection(("127.0.0.1", server.getsockname()[1])),
        server.accept()[0] as accepted,
    ):
        ends = accepted.getpeername()[:2], accepted.getsockname()[:2]
        assert client_uid(*ends) == uid_read(*ends) == os.geteuid()


def test_no_look_through_all_connections_is_needed(monkeypatch):
    """A user can make very many: reading all of them took the page longer with each."""
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
