"""Processes of a user that keep writing to outputs of attempts that have ended."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lbd.config.access import UsersConfig
from lbd.keeper.gate import Gate, pack_gate
from lbd.keeper.output_holders import OutputHolders
from lbd.local import caller

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users"),
]

ANN, BOB, DAEMONS, SERVICE = 52001, 52002, 52003, 61000
WAYS = {
    "open": "input()",
    "hidden": "ctypes.CDLL(None).prctl(4, 0); input()",  # PR_SET_DUMPABLE
    "mapped": "m = mmap.mmap({fd}, 1); os.close({fd}); input()",
    "in a thread": "import threading; got = threading.Event(); wait = threading.Event().wait; "
    "take = lambda: (ctypes.CDLL(None).unshare(0x400), got.set(), wait()); "  # CLONE_FILES
    "threading.Thread(target=take, daemon=True).start(); got.wait(); os.close({fd}); input()",
    "on its way": "import socket; a, b = socket.socketpair(); "
    "socket.send_fds(a, [b'x'], [{fd}]); os.close({fd}); input()",
    "in a ring": "call = ctypes.CDLL(None).syscall; "
    "ring = call(425, 4, ctypes.create_string_buffer(120)); "  # io_uring_setup
    "call(427, ring, 2, (ctypes.c_int * 1)({fd}), 1); os.close({fd}); input()",  # its files
}
RING_OFF = Path("/proc/sys/kernel/io_uring_disabled")


@contextlib.contextmanager
def holder(uid, descriptor, way="open"):
    """Starts a process of this user that holds the descriptor and waits."""
    script = f"import ctypes, mmap, os; {WAYS[way]}".format(fd=descriptor)
    script = script.replace("input()", "print(flush=True); input()")
    become = ["setpriv", "--reuid", str(uid), "--clear-groups"]
    with subprocess.Popen(
        [*become, "/usr/bin/python3", "-IS", "-c", script],
        pass_fds=(descriptor,), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def output(tmp_path):
    path = tmp_path / "spool" / "0" / "7.1.out"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x")
    os.chown(path, DAEMONS, -1)
    descriptor = os.open(path, os.O_RDWR)
    yield path, descriptor
    os.close(descriptor)


def ended(path, state_dir, *, uid=ANN, owner=DAEMONS):
    """Ends the holders by one order; returns once the search for them has ended."""
    gate = Gate(pack_gate(UsersConfig(), owner), f"{state_dir}/spool")
    holders = OutputHolders(gate)
    holders.end(uid, os.fsencode(path), owner)
    while not holders._is_free():
        time.sleep(0.01)


@pytest.mark.parametrize("way", WAYS)
def test_who_has_it_ends_and_nobody_else(output, tmp_path, way):
    path, descriptor = output
    if way == "in a ring" and (not RING_OFF.exists() or RING_OFF.read_text().strip() != "0"):
        pytest.skip("no io_uring for users here")
    with (
        open(tmp_path / "other", "wb") as other,
        holder(ANN, descriptor, way) as theirs,
        holder(BOB, descriptor) as bobs,
        holder(ANN, other.fileno()) as anns,
    ):
        ended(path, tmp_path)
        assert theirs.wait(60) == -9
        assert (bobs.poll(), anns.poll()) == (None, None)


def test_who_has_it_under_a_number_of_their_range_ends(output, tmp_path, monkeypatch):
    """As mapped by newuidmap(1)."""
    path, descriptor = output
    ranges = tmp_path / "subuid"
    ranges.write_text(f"{ANN}:70000:10\n{BOB}:70010:10\n")
    monkeypatch.setattr(caller, "OF_THIS_HOST", caller.Subordinates(ranges))
    with holder(70003, descriptor) as anns, holder(70013, descriptor) as bobs:
        ended(path, tmp_path)
        assert anns.wait(60) == -9
        assert bobs.poll() is None


OPENER = """
import os, socket, sys
sock = socket.socket(fileno=int(sys.argv[1]))
socket.send_fds(sock, [b"x"], [os.open(sys.argv[2], os.O_RDWR)])
sock.recv(1)
"""


def test_who_has_it_from_an_lbm_whose_mounts_are_gone_is_found(output, tmp_path):
    """systemd gives an LBM mounts of its own. Once it was restarted, /proc showed an output that
    somebody had from before by another path, and they could keep the disk of outputs full."""
    path, _ = output
    ours, theirs = socket.socketpair()
    bound = f'mount --bind {tmp_path} {tmp_path} && exec "$@"'
    words = ["unshare", "-m", "sh", "-c", bound, "sh", sys.executable, "-c", OPENER]
    with ours, theirs:
        lbm = subprocess.Popen([*words, str(theirs.fileno()), path], pass_fds=(theirs.fileno(),))
        _, (descriptor,), *_ = socket.recv_fds(ours, 1, 1)
        ours.send(b"x")
        assert lbm.wait() == 0
    shown = f"/proc/self/fd/{descriptor}"
    until_s = time.monotonic() + 20
    while os.readlink(shown) == str(path):  # until the kernel has taken the mounts away
        assert time.monotonic() < until_s
        time.sleep(0.01)
    with holder(ANN, descriptor) as anns, holder(BOB, descriptor) as bobs:
        os.close(descriptor)
        ended(path, tmp_path)
        assert anns.wait(60) == -9
        assert bobs.poll() is None


def test_a_file_that_is_gone_and_a_link_above_it_keep_nobody_from_being_found(output, tmp_path):
    path, descriptor = output
    (tmp_path / "link").symlink_to(path.parent)
    with holder(ANN, descriptor) as theirs:
        ended(f"{tmp_path}/spool/none\0{tmp_path}/link/{path.name}", tmp_path)
        assert theirs.wait(60) == -9


@pytest.mark.parametrize(
    ("uid", "owner"),
    [(ANN, BOB), (0, DAEMONS), (DAEMONS, DAEMONS), (SERVICE, DAEMONS), (7, DAEMONS)],
)
def test_no_lbm_has_other_processes_ended(output, tmp_path, uid, owner):
    """For example processes with files of others, of root, of the daemons or of services."""
    path, descriptor = output
    with holder(uid, descriptor) as process:
        ended(path, tmp_path, uid=uid, owner=owner)
        assert process.poll() is None


def test_no_lbm_has_processes_ended_by_files_that_are_no_outputs(output, tmp_path):
    """It could name any file of its own, and lead there by a link in its directories."""
    _, descriptor = output
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    own = elsewhere / "lib"
    own.write_bytes(b"x")
    os.chown(own, DAEMONS, -1)
    (tmp_path / "spool" / "1").symlink_to(elsewhere)
    with (
        open(own, "rb") as file,
        holder(ANN, file.fileno()) as reads,
        holder(ANN, descriptor) as has,
    ):
        for name in ("elsewhere/lib", "spool/1/lib", "spool/../elsewhere/lib"):
            ended(tmp_path / name, tmp_path)
        os.rename(tmp_path / "spool", tmp_path / "old")
        (tmp_path / "spool").symlink_to(tmp_path / "old")
        ended(tmp_path / "spool/0/7.1.out", tmp_path)
        assert (reads.poll(), has.poll()) == (None, None)


def test_a_file_of_which_the_name_begins_like_an_outputs_is_another(output, tmp_path):
    """As shown in /proc/PID/maps."""
    path, _ = output
    longer = path.with_name(f"{path.name}.more")
    longer.write_bytes(b"x")
    with open(longer, "r+b") as file, holder(ANN, file.fileno(), "mapped") as maps:
        ended(path, tmp_path)
        assert maps.poll() is None
