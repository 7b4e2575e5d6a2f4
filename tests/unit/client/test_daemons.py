"""Our programs do not talk to daemons of another user, for example in /tmp/lbd-UID."""

import json
import os
import socket
import threading

import pytest

from lbd.client.calls import Client
from lbd.errors import LbdError, Unavailable
from lbd.local import frames
from lbd.python.cluster_hosts import find_hosts
from lbd.slurm import queue, sinfo

NOBODY = 65534
HOSTS = [{"name": "evil", "state": "up", "slots": {"total": 4}, "cores": 4.0, "index": 0.0}]
REPLY = {"id": 1, "ok": True, "hosts": HOSTS, "jobs": [{"id": "1", "state": "done"}]}


@pytest.fixture(params=["lbm", "lim"])
def heard(request, tmp_path, monkeypatch):
    """Returns what daemons in a directory hear, whoever owns it; each of them answers anything."""
    place, heard = tmp_path / "lbd", []
    place.mkdir()
    monkeypatch.setenv("LBD_CONFIG", str(tmp_path / "lbd.toml"))
    (tmp_path / "lbd.toml").write_text(f'[host]\nruntime_dir = "{place}"\n')
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(place / f"{request.param}.sock"))
    listener.listen()

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5.0)
                heard.append(connection.recv(1 << 16))
                connection.sendall(frames.pack(frames.JSON, json.dumps(REPLY).encode()))

    thread = threading.Thread(target=serve)
    thread.start()
    yield request.param, place, heard
    listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    listener.close()


def ask_all(daemon):
    if daemon == "lbm":
        with pytest.raises(Unavailable, match="no lbm is running here"):
            Client().job("1").details()
        with pytest.raises(queue.SlurmError, match="no lbm is running here"):
            queue.recent()
    else:
        assert "evil" not in {host.name for host in find_hosts(None, ())}
        with pytest.raises(queue.SlurmError, match="no lim is running here"):
            sinfo.hosts()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_nobody_else_is_asked(heard):
    daemon, place, heard = heard
    place.parent.chmod(0o1777)  # as /tmp: anybody may have created what is in it
    os.chown(place, NOBODY, NOBODY)
    ask_all(daemon)
    assert heard == []


def test_daemons_of_this_user_are_asked(heard):
    daemon, _, heard = heard
    if daemon == "lbm":
        assert Client().job("1").state == "done"
    else:
        assert [host.name for host in find_hosts(None, ())] == ["evil"]
        assert sinfo.hosts() == HOSTS
    assert heard


def test_a_daemon_that_does_not_answer_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("LBD_CONFIG", str(tmp_path / "lbd.toml"))
    (tmp_path / "lbd.toml").write_text(f'[host]\nruntime_dir = "{tmp_path}"\n')
    with pytest.raises(
        LbdError, match=r"^no lbm is running here \(looked in .*\); start it with: lbd up"
    ):
        Client().job("1").details()
