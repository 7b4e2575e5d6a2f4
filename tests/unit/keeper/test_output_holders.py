"""Processes of a user that write on to outputs of attempts that have ended."""

import contextlib
import os
import subprocess
import time
from pathlib import Path

import pytest

from lbd.keeper.output_holders import OutputHolders
from lbd.local import subordinate_ids

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users"),
]

ANN, BOB, DAEMONS = 64001, 64002, 64003
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
    """A process of theirs that has it, and waits."""
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
    path = tmp_path / "7.1.out"
    path.write_bytes(b"x")
    os.chown(path, DAEMONS, -1)
    descriptor = os.open(path, os.O_RDWR)
    yield path, descriptor
    os.close(descriptor)


def ended(path, *, uid=ANN, owner=DAEMONS):
    """By one order; returns once whoever looks for them has ended."""
    holders = OutputHolders()
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
        ended(path)
        assert theirs.wait(60) == -9
        assert (bobs.poll(), anns.poll()) == (None, None)


def test_who_has_it_under_a_number_of_their_range_ends(output, tmp_path, monkeypatch):
    """As by newuidmap(1)."""
    path, descriptor = output
    ranges = tmp_path / "subuid"
    ranges.write_text(f"{ANN}:70000:10\n{BOB}:70010:10\n")
    monkeypatch.setattr(subordinate_ids, "OF_THIS_HOST", subordinate_ids.Subordinates(ranges))
    with holder(70003, descriptor) as anns, holder(70013, descriptor) as bobs:
        ended(path)
        assert anns.wait(60) == -9
        assert bobs.poll() is None


def test_a_file_that_is_gone_and_a_link_above_it_keep_nobody_from_being_found(output, tmp_path):
    path, descriptor = output
    (tmp_path / "link").symlink_to(tmp_path)
    with holder(ANN, descriptor) as theirs:
        ended(f"{tmp_path}/none\0{tmp_path}/link/{path.name}")
        assert theirs.wait(60) == -9


@pytest.mark.parametrize(("uid", "owner"), [(ANN, BOB), (0, DAEMONS), (DAEMONS, DAEMONS)])
def test_no_lbm_has_other_processes_ended(output, uid, owner):
    """Such as hold files of others, root's, or those of the daemons."""
    path, descriptor = output
    with holder(uid, descriptor) as process:
        ended(path, uid=uid, owner=owner)
        assert process.poll() is None
