"""User numbers in a range of /etc/subuid count as the range's owner."""

import asyncio
import os
import pwd
import socket
from types import SimpleNamespace

import pytest

from lbd.config.schema import Config, HostConfig
from lbd.errors import Unavailable
from lbd.lbm.learnt_file import Eligibility
from lbd.lbm.link.user_threads import UserThreads
from lbd.lbm.queue.submit import SubmitOptions, check_options
from lbd.lbm.session.server import ClientServer
from lbd.local import caller as subordinate
from lbd.local import connection_limits
from lbd.local.caller import Caller, Subordinates, read_ranges
from lbd.local.connection_limits import Crowd
from lbd.local.json_socket import Refusal
from lbd.policy.invocation import key_of
from lbd.web.login_socket import Logins
from lbd.web.sessions import Sessions

BIN = pwd.getpwnam("bin").pw_uid
TEXT = """
# who has what
bin:100000:65536
3003:300000:65536
no-such-user:400000:65536
broken
:1:2
bin:x:9
bin:-5:9
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "subuid"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize(
    ("uid", "person"),
    [
        (0, 0), (1000, 1000), (99_999, 99_999), (100_000, BIN), (165_535, BIN), (165_536, 165_536),
        (300_001, 3003), (365_536, 365_536), (400_000, 400_000), (1 << 31, 1 << 31),
    ],
)  # fmt: skip
def test_a_number_of_a_range_belongs_to_its_owner(file, uid, person):
    assert Subordinates(file).person(uid, 0.0) == person


def test_invalid_lines_are_left_out():
    assert [whose for _, _, whose in read_ranges(TEXT)] == ["bin", "3003", "no-such-user"]


def test_a_change_of_the_file_is_seen_within_seconds(file):
    known = Subordinates(file)
    assert known.person(100_000, 0.0) == BIN
    file.write_text("3003:100000:65536\n")
    os.utime(file, ns=(1, 1))
    assert known.person(100_000, subordinate.LOOK_EVERY_S / 2) == BIN
    assert known.person(100_000, subordinate.LOOK_EVERY_S) == 3003
    file.unlink()
    assert known.person(100_000, 2 * subordinate.LOOK_EVERY_S) == 100_000


@pytest.fixture
def of_this_host(file, monkeypatch):
    monkeypatch.setattr(subordinate, "OF_THIS_HOST", Subordinates(file))


def test_a_range_has_the_connections_of_one_user(of_this_host):
    room = Crowd(50, lambda _: False)
    callers = [
        Caller(1, uid, uid, (), subordinate.person_of(uid))
        for uid in (3003, *range(300_000, 300_000 + connection_limits.CONNECTIONS_MAX))
    ]
    refused = [caller for caller in callers if room.why_not(caller)]
    assert refused == callers[-1:]
    assert room.turn_s(callers[0], 1) == room.turn_s(Caller(1, 7, 7), 1) == 0.0
    for caller in callers[:-1]:
        room.left(caller)
    assert not room.why_not(callers[-1])


def test_a_range_has_the_threads_of_one_user(of_this_host):
    threads = UserThreads()
    assert threads.of(300_000) is threads.of(300_001) is threads.of(3003)
    assert threads.of(300_000) is not threads.of(100_000)


async def test_a_range_has_the_places_of_one_user_at_lbm_sock(of_this_host, tmp_path):
    """Processes with four numbers of one range connect: all count as their owner."""
    config = SimpleNamespace(lbm=SimpleNamespace(max_clients=4))
    server = ClientServer(tmp_path / "lbm.sock", SimpleNamespace(config=config), None)
    uids, all_came, ours = iter(range(300_000, 300_004)), asyncio.Event(), []

    def connection(sock):
        ours.append(sock)
        if (uid := next(uids)) == 300_003:
            all_came.set()
        caller = Caller(1, uid, uid, (), subordinate.person_of(uid))
        return SimpleNamespace(caller=caller, serve=asyncio.Event().wait, close=sock.close)

    server.connection = connection
    server.start(None, for_all=False)
    clients = [socket.socket(socket.AF_UNIX) for _ in range(4)]
    for client in clients:
        client.connect(str(tmp_path / "lbm.sock"))
    async with asyncio.timeout(20):
        await all_came.wait()
    assert server._of_user == {3003: 3}
    for task in server._tasks:
        task.cancel()
    await asyncio.gather(*server._tasks, return_exceptions=True)
    descriptor, _ = server.leave()
    server._listener.close()
    assert descriptor >= 0
    for sock in (*clients, *ours):
        sock.close()


async def test_a_range_is_one_users_part_of_what_was_learnt(of_this_host, tmp_path):
    """The users not seen for longest made room for its numbers."""
    config = Config(host=HostConfig(state_dir=str(tmp_path)))
    eligible = Eligibility(config)
    eligible.learn(BIN, "make", 5.0, 0)
    most = config.eligibility.max_users
    for uid in range(300_000, 300_000 + 2 * most):
        eligible.learn(uid, "make", 0.0, 0)
    assert eligible.expected(BIN, key_of([b"make"]))[0] == 5.0
    assert eligible.expected(3003, key_of([b"make"]))[0] == 0.0
    assert eligible.expected(300_001, key_of([b"make"]))[0] == 0.0
    await eligible.close()


def test_nothing_is_queued_for_a_number_of_a_range(of_this_host):
    home = SimpleNamespace(config=Config())
    for uid in (3003, BIN):
        check_options(home, Caller(1, uid, uid), SubmitOptions())
    check_options(home, Caller(1, BIN, BIN, (), 3003), SubmitOptions())  # an account of its own
    with pytest.raises(Unavailable, match="/etc/subuid"):
        check_options(home, Caller(1, 300_001, 1, (), 3003), SubmitOptions())


async def test_no_number_of_a_range_signs_in(of_this_host):
    sessions = Sessions(lambda: "secret")
    logins = Logins(sessions, "http://127.0.0.1:1/", lambda: 0.0, None)
    assert (await logins.handle({"op": "login"}, Caller(1, BIN, BIN, (), 3003)))["url"]
    with pytest.raises(Refusal, match="/etc/subuid"):
        await logins.handle({"op": "login"}, Caller(1, 300_001, 1, (), 3003))
