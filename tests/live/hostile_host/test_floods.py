"""Floods are slowed down or refused with one line, while honest hosts and users are still
served."""

import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import grpc
from cluster import FAST, Lab
from rogue import Peer, connect, place_of, run_request

from lbd.lbm.link import wire as tags
from lbd.lim.core import messages as m

RATES = ("lim.peer_rate=40", "lbm.max_rate=40")


LAB = partial(Lab.up, 2, settings=(*FAST, *RATES))


def assert_served(lab):
    lab.assert_all_served()
    assert set(lab.states("h1").values()) == {"up"}


def test_a_host_that_sends_too_many_messages(lab):
    with Peer(lab, "h1", name="h9") as peer, ThreadPoolExecutor(100) as threads:
        outcomes = [threads.submit(outcome, peer) for _ in range(600)]
        assert_served(lab)
        said = {outcome.result() for outcome in outcomes}
    refused = "h9 sends more than 40 messages a second (lim.peer_rate)"
    assert said == {"", refused}
    assert lab.ask("h1", "lim", "counters")["messages_refused"] > 0


def outcome(peer):
    try:
        peer.deliver(m.Ping(), cluster="lbd")
    except grpc.RpcError as problem:
        return problem.details()
    return ""


def test_a_host_that_sends_too_many_commands(lab):
    """The commands are taken as fast as the rate allows; every one of them gets an answer."""
    messages = [
        tags.pack(n, tags.RUN, run_request(f"h9-{n}", "true", origin="h9")) for n in range(1, 201)
    ]
    with Peer(lab, "h1", name="h9") as peer:
        answered, began_s = set(), time.monotonic()
        for number, tag, _ in peer.converse(messages):
            if tag in (tags.ENDED, tags.REFUSED):
                answered.add(number)
            if number == 100:
                assert_served(lab)
            if len(answered) == len(messages):
                break
        assert len(answered) == len(messages)
        assert time.monotonic() - began_s > 2.0  # 80 at once, then 40 a second


def test_a_user_with_many_commands_at_once_only_waits(lab):
    """As with `make -j200`: each command runs, and none is refused."""
    script = "seq 200 | xargs -P64 -I{} lbrun echo ran"
    result = lab.run("h1", "sh", "-c", script, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "ran\n" * 200


def test_connections_that_say_nothing(lab):
    """Silent connections are held for a while, bounded in number, then closed; nobody else
    notices."""
    address, *ports = place_of(lab, "h1")
    held = [socket.create_connection((address, port), 10) for port in ports * 100]
    held += [connect(lab, "h1", name) for name in ("lim", "lbm") * 100]
    try:
        for _ in range(3):
            assert_served(lab)
        for sock in held[:200]:  # no longer than the limit of a handshake
            sock.settimeout(30)
            while sock.recv(1 << 16):
                pass
    finally:
        for sock in held:
            sock.close()
    assert_served(lab)


def test_a_peer_that_freezes(lab):
    """Half-open: the peer's kernel takes what we send, and nothing ever comes back."""
    with lab.popen("h1", "lbrun", "-H", "h2", "sleep", "60", stderr=subprocess.PIPE) as command:
        lab.wait_until(lab.jobs_alive, "it runs")
        pids = lab.pids()["h2"]
        for part in ("lbm", "lim"):
            lab.kill("h2", part, "STOP")
        try:
            _, stderr = command.communicate(timeout=120)
            assert command.returncode == 125
            assert b"lost contact with h2" in stderr
            assert lab.run("h1", "lbrun", "echo", "here").stdout == "here\n"
        finally:
            for part in ("lbm", "lim"):
                lab.kill("h2", part, "CONT")
        assert lab.pids()["h2"] == pids
    lab.wait_until(lambda: not lab.jobs_alive(), "the job has ended there, too", 20)
    lab.wait_until(lambda: set(lab.states("h1").values()) == {"up"}, "h2 is back", 20)
