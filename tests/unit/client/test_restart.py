"""lbrun while one LBM is replaced by the next: it waits longer than for an LBM that is stopped."""

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from lbd.local import client_tags as tags
from lbd.local import frames

COMPILED = [str(Path(sys.executable).with_name("lbrun"))]
MAIN = "import sys; sys.argv[0] = 'lbrun'; from lbd.client.lbrun import main; main()"
PYTHON = [sys.executable, "-c", MAIN]


@pytest.fixture
def runtime_dirs(tmp_path):
    """The directories of a restarting and of a stopped LBM; neither answers."""
    with contextlib.ExitStack() as stack:
        found = []
        for name in ("restarting", "stopped"):
            directory = tmp_path / name
            directory.mkdir()
            (directory / "lbd.toml").write_text(f'runtime_dir = "{directory}"\n')
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(directory / "lbm.sock"))
            listener.listen()
            found.append((directory, listener))
        (found[0][0] / "lbm.restarting").touch()
        yield found


def begun(program, directory, *options):
    environment = {**os.environ, "LBD_CONFIG": str(directory / "lbd.toml")}
    words = [*program, *options, "--no-stdin", "echo", "here"]
    return subprocess.Popen(words, env=environment, stdout=-1, stderr=-1, text=True)


@pytest.mark.parametrize("program", [COMPILED, PYTHON], ids=["compiled", "python"])
def test_lbrun_waits_for_the_next_lbm(runtime_dirs, program):
    (restarting, listener), (stopped, _) = runtime_dirs
    patient = begun(program, restarting, "-H", "h2")
    impatient = begun(program, stopped, "-H", "h2")
    assert impatient.communicate(timeout=60)[1].startswith("lbrun: this host's LBM does not")
    done = [(tags.STATUS, b"7"), (tags.REASON, b""), (tags.SIGNAL_NUMBER, b""), (tags.CAUSE, b"x")]
    answer(listener, frames.pack(tags.DONE, frames.pack_fields(done)))
    assert patient.communicate(timeout=60) == ("", "")
    assert patient.returncode == 7


@pytest.mark.parametrize("program", [COMPILED, PYTHON], ids=["compiled", "python"])
def test_the_marker_of_an_lbm_that_never_came_back_is_ignored(runtime_dirs, program):
    (restarting, _), _ = runtime_dirs
    os.utime(restarting / "lbm.restarting", (0, 0))
    found = begun(program, restarting)
    assert found.communicate(timeout=60)[0] == "here\n"


@pytest.mark.parametrize("program", [COMPILED, PYTHON], ids=["compiled", "python"])
def test_what_no_lbm_has_read_runs_here_when_the_lbm_ends(runtime_dirs, program):
    (restarting, listener), (stopped, other) = runtime_dirs
    plain, named = begun(program, restarting), begun(program, stopped, "-H", "h2")
    for one in (listener, other):
        one.settimeout(60)
        sock, _ = one.accept()
        assert sock.recv(1)  # a part of the request is not the request
        sock.close()
    out, said = plain.communicate(timeout=60)
    assert out == "here\n"
    assert said.startswith("lbrun: this host's LBM has ended; nothing was run; ")
    assert named.communicate(timeout=60)[1] == "lbrun: this host's LBM has ended; nothing was run\n"
    assert named.returncode == 125


@pytest.mark.parametrize("program", [COMPILED, PYTHON], ids=["compiled", "python"])
def test_what_an_lbm_has_read_may_have_begun(runtime_dirs, program):
    (directory, listener), _ = runtime_dirs
    command = begun(program, directory)
    listener.settimeout(60)
    sock, _ = listener.accept()
    (size,) = struct.unpack("<I", sock.recv(4, socket.MSG_WAITALL))
    sock.recv(1 + size, socket.MSG_WAITALL)
    command.send_signal(signal.SIGUSR1)
    while not sock.recv(1, socket.MSG_PEEK):
        pass
    sock.close()  # the signal is left unread, and the request is not
    assert command.communicate(timeout=60)[1].startswith("lbrun: lost contact with this host's LBM")
    assert command.returncode == 125


def answer(listener, message):
    """Answers a waiting lbrun as the next LBM does."""
    listener.settimeout(60)
    sock, _ = listener.accept()
    with sock:
        sock.sendall(message)
        while sock.recv(65536):
            pass


@pytest.mark.parametrize("program", [COMPILED, PYTHON], ids=["compiled", "python"])
def test_a_queued_command_learns_why_its_request_was_not_read(tmp_path, program):
    """It was: cannot send the request to the LBM: [Errno 32] Broken pipe; or, by the compiled one,
    Inappropriate ioctl for device."""
    (tmp_path / "lbd.toml").write_text(f'runtime_dir = "{tmp_path}"\n')
    (tmp_path / "input").write_bytes(b"x" * (9 << 20))
    with socket.socket(socket.AF_UNIX) as listener, open(tmp_path / "input", "rb") as given:
        listener.bind(str(tmp_path / "lbm.sock"))
        listener.listen()
        environment = {**os.environ, "LBD_CONFIG": str(tmp_path / "lbd.toml")}
        for says, line in (
            (frames.pack(tags.UNFIT, b"it is too long"), "lbrun: it is too long\n"),
            (b"", "lbrun: the LBM hung up while the request was sent; nothing was queued\n"),
        ):
            given.seek(0)
            client = subprocess.Popen(
                [*program, "-d", "cat"], stdin=given, env=environment, stderr=subprocess.PIPE,
                text=True,
            )  # fmt: skip
            ours, _ = listener.accept()
            with ours:
                ours.recv(100)
                ours.sendall(says)
            assert client.communicate(timeout=60)[1] == line
            assert client.returncode == 125
