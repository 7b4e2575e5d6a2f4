"""A daemon survives whatever arrives at its sockets, answers others and retains none of it."""

import contextlib
import os
import random
import socket
import tomllib

import pytest
from cluster import FAST, Lab
from contract import assert_one_line

ENDS = ("lim", "lbm", "lim_port", "lbm_port")
LIMIT = 65536  # of the messages of this lab, so that one too large is quickly made
ROUGH = random.Random(20)

GARBAGE = {
    "nothing": b"",
    "one byte": b"\x05",
    "zeros": bytes(4096),
    "ones": b"\xff" * 4096,
    "noise": ROUGH.randbytes(10_000),
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + ROUGH.randbytes(500),
    "http2 and noise": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + ROUGH.randbytes(3000),
    "http2 without end": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0" * 500,
    "truncated": (1000).to_bytes(4, "little") + b'J{"op": "sta',
    "no json": (9).to_bytes(4, "little") + b"Jnot json",
    "deep json": (20_001).to_bytes(4, "little") + b"J" + b"[" * 20_000,
    "no such operation": (14).to_bytes(4, "little") + b'J{"op":"frob"}',
    "no operation": (3).to_bytes(4, "little") + b"J{}",
    "wrong kinds": (14).to_bytes(4, "little") + b'J{"op":[1,{}]}',
    "says it is huge": b"\xff\xff\xff\x7fJ" + bytes(LIMIT),
    "is huge": (4 * LIMIT).to_bytes(4, "little") + b"J" + b" " * 4 * LIMIT,
}


@pytest.fixture(scope="module")
def lab():
    sizes = (f"lim.max_message_bytes={LIMIT}", f"lbm.max_request_bytes={LIMIT}")
    lab = Lab.up(2, settings=(*FAST, *sizes))
    lab.assert_all_served()
    lab.run("h1", "lbctl", "stats", check=True)  # opens the file of the accounting for good
    yield lab
    lab.down()


def connect(lab, end):
    if end.endswith("_port"):
        row = tomllib.loads(lab.paths("h1").config.read_text())["cluster"]["hosts"][0]
        return socket.create_connection((row["address"], row[end]), 10)
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(10)
    sock.connect(str(lab.paths("h1").socket(end)))
    return sock


def send(sock, data):
    with contextlib.suppress(OSError):  # the daemon may have hung up already
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)


def read_to_the_end(sock):
    with contextlib.suppress(ConnectionError):
        while sock.recv(65536):
            pass


def assert_others_are_served(lab):
    lab.assert_all_served()
    assert {row["state"] for row in lab.lbctl_json("h1", "status")["hosts"]} == {"up"}
    assert set(lab.states("h2").values()) == {"up"}


def descriptors(pids):
    return {part: len(os.listdir(f"/proc/{pid}/fd")) for part, pid in pids.items()}


@pytest.fixture(autouse=True)
def unharmed(lab):
    """Checks that the same processes run with no more descriptors and no traceback in their
    logs."""
    assert_others_are_served(lab)
    pids = lab.pids()["h1"]
    before = descriptors(pids)
    yield
    assert_others_are_served(lab)
    assert lab.pids()["h1"] == pids
    lab.wait_until(
        lambda: all(now <= before[part] + 3 for part, now in descriptors(pids).items()),
        f"descriptors as before: {before}", 30, lambda: descriptors(pids),
    )  # fmt: skip
    assert "Traceback" not in lab.logs(1000)
    assert "never retrieved" not in lab.logs(1000)


@pytest.mark.parametrize("end", ENDS)
def test_garbage(lab, end):
    for data in GARBAGE.values():
        for _ in range(3):
            with connect(lab, end) as sock:
                send(sock, data)
                read_to_the_end(sock)  # it hangs up, or has said why not


@pytest.mark.parametrize("end", ENDS)
def test_garbage_from_clients_that_do_not_wait(lab, end):
    for data in GARBAGE.values():
        for _ in range(3):
            with connect(lab, end) as sock:
                send(sock, data)


@pytest.mark.parametrize("end", ENDS)
def test_slow_senders_hold_nobody_up(lab, end):
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(connect(lab, end)) for _ in range(60)]
        for byte in GARBAGE["truncated"]:
            for sock in socks:
                with contextlib.suppress(ConnectionError):
                    sock.send(bytes([byte]))
        for _ in range(3):
            assert_others_are_served(lab)


@pytest.mark.parametrize("end", ["lim", "lbm"])
def test_a_client_that_reads_no_answers(lab, end):
    """The client keeps asking and never takes an answer."""
    request = b'J{"op":"status"}'
    request = (len(request) - 1).to_bytes(4, "little") + request
    with connect(lab, end) as sock:
        sock.settimeout(0.5)
        with contextlib.suppress(TimeoutError, ConnectionError):
            for _ in range(20_000):
                sock.sendall(request)
        for _ in range(3):
            assert_others_are_served(lab)


@pytest.mark.parametrize("options", [("-H", "h2"), ("--remote",)])
def test_a_request_that_is_too_large(lab, options, tmp_path):
    words = ("lbrun", *options, "sh", "-c", f"touch {tmp_path}/ran")
    for more, env in ((("x" * 100_000,), {}), ((), {"BIG": "x" * 100_000})):
        result = lab.run("h1", *words, *more, env=env)
        assert (result.returncode, result.stdout) == (125, "")
        assert_one_line(result.stderr, "lbrun")
        assert list(tmp_path.iterdir()) == []


def test_a_request_that_is_too_large_runs_here_if_it_may(lab):
    for options in ((), ("--local",)):
        result = lab.run("h1", "lbrun", *options, "sh", "-c", "echo ran; exit 3", "x" * 100_000)
        assert (result.returncode, result.stdout) == (3, "ran\n")
        assert result.stderr.count("\n") <= 1
