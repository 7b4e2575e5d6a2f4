"""Output on disk: bounded, keeping its beginning and its end, and readable from any position."""

import ctypes
import errno
import fcntl
import os
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from lbd.lbm.queue import spool as spool_module
from lbd.lbm.queue.output_file import Leased, remove
from lbd.lbm.queue.spool import PIECE_BYTES, Spool
from lbd.process.disk_space import FULL_BYTES

LIMIT_BYTES = 1 << 20


def write(spool, data, name="out"):
    descriptor = spool.open("7", 1, name)
    os.write(descriptor, data)
    return descriptor


def read_all(spool, name="out"):
    at, pieces, dropped = 0, [], 0
    while True:
        piece = spool.read("7", 1, name, at)
        dropped += piece.dropped_bytes
        if not piece.data:
            return b"".join(pieces), dropped
        pieces.append(piece.data)
        at = piece.next_at


def test_output_is_read_in_pieces(tmp_path):
    spool = Spool(str(tmp_path), LIMIT_BYTES)
    data = os.urandom(PIECE_BYTES + 5)
    os.close(write(spool, data))
    assert spool.read("7", 1, "out", 3).data == data[3 : 3 + PIECE_BYTES]
    assert read_all(spool) == (data, 0)
    assert spool.exists("7", 1)
    assert not spool.exists("7", 2)


def test_nobody_else_can_read_it(tmp_path):
    spool = Spool(str(tmp_path), LIMIT_BYTES)
    os.close(write(spool, b"secret"))
    assert (tmp_path / "spool").stat().st_mode & 0o777 == 0o700


def test_the_middle_of_excessive_output_is_dropped_and_its_space_returned(tmp_path):
    spool = Spool(str(tmp_path), LIMIT_BYTES)
    first, rest, last = b"first\n", b"x" * (4 * LIMIT_BYTES), b"last\n"
    descriptor = write(spool, first + rest)
    spool.trim("7", 1)
    os.write(descriptor, last)
    os.close(descriptor)
    path = tmp_path / "spool/0/7.1.out"
    assert path.stat().st_blocks * 512 <= LIMIT_BYTES
    kept, dropped = read_all(spool)
    assert kept.startswith(first)
    assert kept.endswith(last)
    assert len(kept) + dropped == len(first + rest + last)
    assert len(kept) <= LIMIT_BYTES
    spool.trim("7", 1)
    assert read_all(spool) == (kept, dropped)


def test_output_that_keeps_growing_is_trimmed_again(tmp_path):
    spool = Spool(str(tmp_path), LIMIT_BYTES)
    descriptor = write(spool, b"")
    for _ in range(8):
        os.write(descriptor, b"y" * LIMIT_BYTES)
        spool.trim("7", 1)
    os.close(descriptor)
    kept, dropped = read_all(spool)
    assert (len(kept) + dropped, set(kept)) == (8 * LIMIT_BYTES, {ord("y")})
    assert (tmp_path / "spool/0/7.1.out").stat().st_blocks * 512 <= LIMIT_BYTES


def test_where_no_hole_can_be_punched_everything_is_kept_and_read(tmp_path):
    tried = []

    def cannot(*where):
        tried.append(where)
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    spool = Spool(str(tmp_path), LIMIT_BYTES, cannot)
    data = os.urandom(2 * LIMIT_BYTES)
    os.close(write(spool, data))
    with pytest.raises(OSError, match="not supported"):
        spool.trim("7", 1)
    assert read_all(spool) == (data, 0)
    spool.trim("7", 1)
    assert len(tried) == 1, "it says so once"


def test_if_the_disk_fills_while_the_hole_is_noted_everything_can_be_read(tmp_path):
    spool = Spool(str(tmp_path), LIMIT_BYTES)
    data = os.urandom(2 * LIMIT_BYTES)
    os.close(write(spool, data))
    (tmp_path / "spool/0/7.1.out.new").mkdir()
    with pytest.raises(OSError, match="directory"):
        spool.trim("7", 1)
    assert read_all(spool) == (data, 0)


def test_on_a_full_disk_the_hole_makes_room_for_its_note(tmp_path, monkeypatch):
    real, full = Path.write_text, [True]

    def write_text(path, text):
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(path, text)

    def punch(*where):
        full.clear()
        spool_module.punch_hole(*where)

    monkeypatch.setattr(Path, "write_text", write_text)
    spool = Spool(str(tmp_path), LIMIT_BYTES, punch)
    os.close(write(spool, b"x" * (4 * LIMIT_BYTES)))
    assert not spool.trim("7", 1)
    kept, dropped = read_all(spool)
    assert (len(kept) + dropped, set(kept)) == (4 * LIMIT_BYTES, {ord("x")})
    assert (tmp_path / "spool/0/7.1.out").stat().st_blocks * 512 <= LIMIT_BYTES


@pytest.mark.parametrize("printed_bytes", [100, 4 * LIMIT_BYTES])
def test_who_takes_more_of_the_disk_than_they_print_gives_it_back_and_is_known(
    tmp_path, printed_bytes
):
    spool = Spool(str(tmp_path), LIMIT_BYTES)
    descriptor = write(spool, b"x" * printed_bytes)
    assert not spool.trim("7", 1)
    keep_size, size_bytes = ctypes.c_int(1), ctypes.c_longlong(8 * LIMIT_BYTES)
    if ctypes.CDLL(None).fallocate(descriptor, keep_size, ctypes.c_longlong(0), size_bytes):
        pytest.skip("no fallocate here")
    assert spool.trim("7", 1)
    assert (tmp_path / "spool/0/7.1.out").stat().st_blocks * 512 <= LIMIT_BYTES
    assert not spool.trim("7", 1)
    os.close(descriptor)
    kept, dropped = read_all(spool)
    assert (len(kept) + dropped, set(kept)) == (printed_bytes, {ord("x")})


def test_old_output_is_swept_but_not_that_of_running_jobs(tmp_path):
    spool = Spool(str(tmp_path), LIMIT_BYTES)
    for job in ("1", "2", "3"):
        os.close(spool.open(job, 1, "out"))
    old_s = time.time() - 10 * 86400
    for job in ("1", "2"):
        os.utime(tmp_path / f"spool/0/{job}.1.out", (old_s, old_s))
    sweep(spool, 7.0, {"2.1"})
    assert sorted(path.name for path in (tmp_path / "spool/0").iterdir()) == ["2.1.out", "3.1.out"]


ANN, BEN = 2001, 2002


def both(spool, job, uid=ANN):
    return [spool.open(job, 1, name, uid) for name in ("out", "err")]


def sweep(spool, keep_days, running):
    for paths in spool.old(keep_days, running).values():
        remove(paths)


def inodes(descriptors):
    return {os.fstat(descriptor).st_ino for descriptor in descriptors}


def close(descriptors):
    for descriptor in descriptors:
        os.close(descriptor)


def test_empty_files_are_reused_by_later_attempts(tmp_path):
    spool = Spool(str(tmp_path), LIMIT_BYTES)
    first = both(spool, "7")
    used = inodes(first)
    close(first)
    spool.ended("7", 1)
    second = both(spool, "8")
    assert inodes(second) == used
    os.write(second[0], b"of eight")
    close(second)
    assert [spool.exists(job, 1) for job in "78"] == [False, True]
    assert [spool.was_silent(job, 1) for job in "78"] == [True, False]
    with pytest.raises(FileNotFoundError):
        spool.read("7", 1, "out", 0)
    assert b"of eight" in {spool.read("8", 1, name, 0).data for name in ("out", "err")}
    another = Spool(str(tmp_path), LIMIT_BYTES)
    assert [another.was_silent(job, 1) for job in "79"] == [True, False]


def test_an_attempt_of_whose_files_only_one_is_reused_has_output(tmp_path):
    spool = Spool(str(tmp_path), LIMIT_BYTES)
    output, error = both(spool, "7")
    os.write(error, b"kept")
    close([output, error])
    spool.ended("7", 1)
    close(both(spool, "8"))
    assert not os.path.exists(spool.output("7", 1))
    assert spool.exists("7", 1)
    assert spool.read("7", 1, "err", 0).data == b"kept"


def test_no_file_passes_from_one_account_to_another(tmp_path):
    """A process of the first may have kept an O_PATH descriptor of it, of which no lease knows."""
    spool = Spool(str(tmp_path), LIMIT_BYTES)
    first = both(spool, "7", ANN)
    used = inodes(first)
    close(first)
    spool.ended("7", 1)
    others, nobodys = both(spool, "8", BEN), [spool.open("9", 1, "out")]
    assert not inodes((*others, *nobodys)) & used
    again = both(spool, "10", ANN)
    assert inodes(again) == used
    close((*others, *nobodys, *again))


def opens_again_as(uid, descriptor):
    """Returns whether a process of that user that has the descriptor can open the file again."""
    who = ("setpriv", "--reuid", str(uid), "--clear-groups")
    shell = f"exec 3<>/proc/self/fd/{descriptor} && echo yes"
    done = subprocess.run(
        [*who, "sh", "-c", shell], pass_fds=(descriptor,), capture_output=True, text=True
    )
    return done.stdout == "yes\n"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")
def test_only_its_own_account_opens_it_again(tmp_path):
    """A job that prints to /dev/stdout does so."""
    spool = Spool(str(tmp_path), LIMIT_BYTES)
    first = both(spool, "7", ANN)
    assert [opens_again_as(uid, first[0]) for uid in (ANN, BEN)] == [True, False]
    assert os.fstat(first[0]).st_uid == os.geteuid()  # otherwise its owner could lock us out
    spool.mark_cut("7", 1)
    assert [opens_again_as(uid, first[0]) for uid in (ANN, BEN)] == [True, False]
    close(first)
    pack = spool.open("7", 1, "pack")
    assert [opens_again_as(uid, pack) for uid in (ANN, BEN)] == [False, False]
    os.close(pack)


def test_a_file_that_some_process_still_has_open_is_left_alone(tmp_path):
    """Its writer may have escaped, or a reader may be about to read."""
    spool = Spool(str(tmp_path), LIMIT_BYTES)
    first = both(spool, "7")
    spool.ended("7", 1)
    second = both(spool, "8")
    assert not inodes(first) & inodes(second)
    os.write(first[0], b"late")
    assert spool.read("7", 1, "out", 0).data == b"late"
    close((*first, *second))


def test_who_opens_it_while_it_is_looked_at_ends_nobody(tmp_path):
    """They break our lease, which the kernel reports by SIGIO; that signal ends a process unless
    another one is requested."""
    path, heard = tmp_path / "file", []
    path.touch()
    own = os.open(path, os.O_WRONLY)
    before = {
        number: signal.signal(number, lambda number, _: heard.append(number))
        for number in (signal.SIGIO, signal.SIGURG)
    }
    try:
        with Leased(own, fcntl.F_WRLCK) as is_ours_alone:
            if not is_ours_alone:
                pytest.skip("no leases here")
            with pytest.raises(BlockingIOError):
                os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        assert heard == [signal.SIGURG]
    finally:
        os.close(own)
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_blank_has_its_new_name_before_anybody_can_open_it(tmp_path, monkeypatch):
    """Renaming takes its lock, which a process that has opened it may hold for ever."""
    spool = Spool(str(tmp_path), LIMIT_BYTES)
    close(both(spool, "7"))
    spool.ended("7", 1)
    opened = []

    def rename(old, new):
        with pytest.raises(BlockingIOError):
            os.open(old, os.O_RDONLY | os.O_NONBLOCK)
        opened.append(old)
        os.replace(old, new)

    monkeypatch.setattr(spool_module.os, "rename", rename)
    close(both(spool, "8"))
    assert len(opened) == 2


def test_what_would_have_to_wait_is_not_read_at_once(tmp_path, monkeypatch):
    spool = Spool(str(tmp_path), LIMIT_BYTES)
    descriptor = spool.open("7", 1, "out")
    os.write(descriptor, b"some")
    os.close(descriptor)
    assert spool.read("7", 1, "out", 1, waits=False).data == b"ome"

    for number in (errno.EAGAIN, errno.EOPNOTSUPP):
        busy = Mock(side_effect=OSError(number, os.strerror(number)))
        monkeypatch.setattr(spool_module.os, "preadv", busy)
        with pytest.raises(BlockingIOError):
            spool.read("7", 1, "out", 1, waits=False)
    assert spool.read("7", 1, "out", 1).data == b"ome"


def test_a_file_with_contents_is_left_alone(tmp_path):
    spool = Spool(str(tmp_path), LIMIT_BYTES)
    first = both(spool, "7")
    for descriptor in first:
        os.write(descriptor, b"kept")
    close(first)
    spool.ended("7", 1)
    close(both(spool, "8"))
    assert [spool.read("7", 1, name, 0).data for name in ("out", "err")] == [b"kept"] * 2


def test_a_file_that_was_swept_meanwhile_is_created_again(tmp_path):
    spool = Spool(str(tmp_path), LIMIT_BYTES)
    close(both(spool, "7"))
    spool.ended("7", 1)
    sweep(spool, -1.0, set())
    close(both(spool, "8"))
    assert spool.exists("8", 1)


def test_an_attempt_that_ran_while_the_disk_was_full_is_marked_for_good(tmp_path, monkeypatch):
    """Even if it printed nothing, or nothing that was stored."""
    spool = Spool(str(tmp_path), LIMIT_BYTES)
    close(both(spool, "7"))
    close(both(spool, "8"))
    with monkeypatch.context() as full:
        full.setattr(spool_module.os, "statvfs", disk_with(free_bytes=4096))
        assert "may be incomplete" in spool.ended("7", 1)
    assert spool.ended("8", 1) == ""
    assert [spool.read(job, 1, "out", 0).cut for job in "78"] == [True, False]
    spool.mark_cut(*spool.to_mark.pop())  # as SpoolCare does
    again = Spool(str(tmp_path), LIMIT_BYTES)
    assert [again.read(job, 1, "out", 0).cut for job in "78"] == [True, False]
    close(both(spool, "9"))  # as the blanks of 8
    close(both(spool, "10"))
    assert again.read("7", 1, "out", 0).cut
    assert [again.read(job, 1, "out", 0).cut for job in ("9", "10")] == [False, False]


def test_a_temporarily_full_disk_is_remembered(tmp_path):
    spool = Spool(str(tmp_path), LIMIT_BYTES)
    close(both(spool, "7"))
    spool.mark_cut("7", 1)
    assert "may be incomplete" in spool.ended("7", 1)


def test_output_to_files_of_its_own_is_not_marked(tmp_path, monkeypatch):
    spool = Spool(str(tmp_path), LIMIT_BYTES)
    close(both(spool, "7"))
    monkeypatch.setattr(spool_module.os, "statvfs", disk_with(free_bytes=0))
    assert spool.ended("7", 1, spooled=False) == ""
    assert not spool.read("7", 1, "out", 0).cut


@pytest.mark.parametrize(
    ("blocks", "free_bytes", "full"),
    [(1000, 0, True), (1000, FULL_BYTES, False), (0, 0, False)],  # the last reports no size
)
def test_a_full_disk(tmp_path, monkeypatch, blocks, free_bytes, full):
    monkeypatch.setattr(spool_module.os, "statvfs", disk_with(free_bytes, blocks))
    assert Spool(str(tmp_path), LIMIT_BYTES).is_full() == full


def disk_with(free_bytes, blocks=1000):
    return lambda _: SimpleNamespace(f_blocks=blocks, f_bavail=free_bytes // 4096, f_frsize=4096)
