"""What the LBM believes about the process at the other end of a socket, and about which process."""

import contextlib
import os
import resource
import socket
import subprocess
import sys

import pytest

from lbd.errors import Unavailable
from lbd.lbm.session import peer_process as module
from lbd.lbm.session.peer_process import PeerProcess, Traits
from lbd.local.caller import Caller, caller_of

CONNECT = """
import ctypes, os, socket, sys
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # no_new_privs
with socket.socket(socket.AF_UNIX) as sock:
    sock.connect(sys.argv[1])
    print("connected", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def connected(path, *prefix):
    """Yields a process that has connected, and our end."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        process = subprocess.Popen(
            [*prefix, sys.executable, "-c", CONNECT, str(path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert process.stdout.readline() == b"connected\n"
            sock, _ = listener.accept()
            with sock:
                yield process, sock
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()


@pytest.fixture(params=["by the socket", "by pidfd_open"])
def way(request, monkeypatch):
    """As on newer and on older kernels."""
    if request.param == "by pidfd_open":
        monkeypatch.setattr(module, "SO_PEERPIDFD", 9999)


def failing(*_):
    raise OSError("not here")


@pytest.mark.usefixtures("way")
def test_the_properties_of_the_process_are_read(tmp_path):
    limited = ("prlimit", "--cpu=9:77")
    with connected(tmp_path / "s", *limited) as (_, sock):
        peer = PeerProcess(sock, caller_of(sock))
        traits = peer.traits()
        peer.close()
    assert traits.no_new_privileges
    assert (resource.RLIMIT_CPU, 9, 77) in traits.limits


@pytest.mark.usefixtures("way")
def test_nothing_is_read_of_a_process_that_has_ended(tmp_path):
    """It was confined, and has left its socket to a process that is not."""
    with connected(tmp_path / "s") as (process, sock):
        peer = PeerProcess(sock, caller_of(sock))
        process.stdin.close()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # not even reaped
        for _ in range(2):
            assert not peer.is_there
            with pytest.raises(Unavailable, match="has ended"):
                peer.traits()
            process.wait()
        peer.close()


@pytest.mark.usefixtures("way")
def test_nothing_is_read_of_a_process_that_had_ended_before(tmp_path):
    with connected(tmp_path / "s") as (process, sock):
        process.kill()
        process.wait()
        peer = PeerProcess(sock, caller_of(sock))
        with pytest.raises(Unavailable, match="has ended"):
            peer.traits()
        peer.close()


def test_what_was_read_while_it_ended_does_not_count(tmp_path, monkeypatch):
    """Its pid may have belonged to another process in between."""
    with connected(tmp_path / "s") as (process, sock):
        peer = PeerProcess(sock, caller_of(sock))

        def too_late(pid):
            process.kill()
            process.wait()
            return Traits(no_new_privileges=False)

        monkeypatch.setattr(module, "traits_of", too_late)
        with pytest.raises(Unavailable):
            peer.traits()
        peer.close()


def test_a_pid_that_belongs_to_another_user_by_now_counts_as_nobody(monkeypatch):
    """Where the kernel provides no pidfd of the peer."""
    monkeypatch.setattr(module, "SO_PEERPIDFD", 9999)
    ours, _theirs = socket.socketpair()
    with ours, _theirs:
        peer = PeerProcess(ours, Caller(os.getpid(), os.geteuid() + 1, 0))
        with pytest.raises(Unavailable):
            peer.traits()
        peer.close()


def test_for_an_invisible_process_the_least_is_assumed(monkeypatch):
    """In a sibling PID namespace its pid is 0."""
    monkeypatch.setattr(module, "SO_PEERPIDFD", 9999)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        peer = PeerProcess(ours, Caller(0, os.geteuid(), 0))
        assert peer.traits() == Traits((), 0, True)
        peer.close()


def test_for_a_process_hidden_from_us_the_least_is_assumed(tmp_path, monkeypatch):
    with connected(tmp_path / "s") as (_, sock):
        peer = PeerProcess(sock, caller_of(sock))
        monkeypatch.setattr(module, "read_small", failing)
        assert peer.traits() == Traits((), 0, True)
        peer.close()


def test_its_descriptor_is_closed_on_exec(tmp_path):
    with connected(tmp_path / "s") as (_, sock):
        peer = PeerProcess(sock, caller_of(sock))
        assert not os.get_inheritable(peer.pidfd)
        peer.close()
