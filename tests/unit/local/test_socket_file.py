"""A socket's name: only its intended user can use it, at every moment."""

import os
import shutil
import socket
import tempfile

import pytest

from lbd.local.socket_file import bind_at, give
from lbd.process.service_manager import NotifySocket, ServiceManager

ANN, MALLORY = 2001, 2002


@pytest.fixture
def sock():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        yield made


def test_an_existing_socket_is_replaced_and_the_mode_is_as_requested(tmp_path, sock):
    path = tmp_path / "some.sock"
    path.write_text("old")
    mask = os.umask(0)
    try:
        bind_at(sock, str(path), 0o600)
    finally:
        os.umask(mask)
    assert path.is_socket()
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.root
def test_it_is_given_to_its_user(tmp_path, sock):
    bind_at(sock, str(tmp_path / "some.sock"), 0o600, ANN)
    assert (tmp_path / "some.sock").stat().st_uid == ANN


@pytest.mark.root
@pytest.mark.parametrize("kind", ["file", "symbolic link", "second name"])
def test_a_file_put_in_its_place_is_not_given_away(tmp_path, sock, kind):
    """A process that may write in the directory does so between bind and chown."""
    victim, path = tmp_path / "victim", tmp_path / "some.sock"
    if kind == "second name":  # of another socket of root's
        sock.bind(str(victim))
    else:
        victim.write_text("root's")
    if kind == "symbolic link":
        path.symlink_to(victim)
    else:
        path.hardlink_to(victim)
    with pytest.raises(OSError, match="not the socket"):
        give(str(path), ANN)
    assert victim.stat().st_uid == 0


def as_user(uid, work):
    """Returns whether it succeeds in a child that runs as this user."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.root
def test_only_the_daemons_can_notify_lbd_up(short_place):
    """Messages of others take no room there, and no time."""
    path = f"{short_place}/up.notify"
    notices = NotifySocket(path, ANN)

    def send():
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"WATCHDOG=1", path)

    try:
        assert not as_user(MALLORY, send)
        assert as_user(ANN, send)
        assert as_user(ANN, lambda: ServiceManager(notices.environment(1.0)).notify("READY=1"))
        assert [lines for _, lines in notices.received()] == [{"WATCHDOG=1"}, {"READY=1"}]
    finally:
        notices.close()


@pytest.fixture
def short_place(tmp_path_factory):
    """Makes a directory that everybody may enter."""
    place = tempfile.mkdtemp(prefix="lbd-t-")
    os.chmod(place, 0o755)
    yield place
    shutil.rmtree(place)
