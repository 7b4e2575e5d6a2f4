"""Blobs that the workers of a host share, in a directory of their own."""

import errno
import fcntl
import os
import resource
import socket
import stat
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from lbd.python import host_cache
from lbd.python.host_cache import HostCache
from tests.unit.mounts import mounted

BLOB = b"0123456789abcdef"


def store(cache, data, announced=None, is_own=False):
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    try:
        (cache.store_own if is_own else cache.store)(BLOB, announced or len(data), reader)
    finally:
        os.close(reader)


def test_a_blob_that_one_worker_stores_can_be_read_by_another(tmp_path):
    one, other = (HostCache(tmp_path, "name") for _ in range(2))
    store(one, b"content")
    found = other.open(BLOB)
    assert bytes(found) == b"content"
    found[0:1] = b"C"
    assert bytes(one.open(BLOB)) == b"content"


def test_a_blob_that_arrives_by_a_socket_is_stored_too(tmp_path):
    cache = HostCache(tmp_path, "name")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"content")
        cache.store(BLOB, 7, theirs.fileno())
    assert cache.read(BLOB) == b"content"


def test_a_worker_has_its_own_blob_alone_until_it_shares_it(tmp_path):
    one, other = (HostCache(tmp_path, "name") for _ in range(2))
    store(one, b"content", is_own=True)
    assert one.read(BLOB) == b"content"
    found = one.open(BLOB)
    found[0:1] = b"C"
    assert bytes(one.open(BLOB)) == b"content"
    with pytest.raises(FileNotFoundError):
        other.read(BLOB)
    one.share(BLOB)
    assert one.read(BLOB) == other.read(BLOB) == b"content"
    one.drop(BLOB)
    for cache in (one, other):
        with pytest.raises(FileNotFoundError):
            cache.read(BLOB)


def test_a_blob_that_cannot_be_shared_stays_its_own(tmp_path):
    cache = HostCache(tmp_path, "name")
    store(cache, b"content", is_own=True)
    with files_of_at_most(3), pytest.raises(OSError, match="large"):
        cache.share(BLOB)
    assert list(next(tmp_path.iterdir()).iterdir()) == []
    assert cache.read(BLOB) == b"content"
    cache.drop(BLOB)
    with pytest.raises(FileNotFoundError):
        cache.read(BLOB)


def test_blobs_without_memory_for_them_are_skipped(tmp_path):
    cache = HostCache(tmp_path, "name")
    reader, writer = os.pipe()
    filler = Thread(target=lambda: [os.write(writer, bytes(1 << 20)) for _ in range(512)])
    filler.start()
    old = resource.getrlimit(resource.RLIMIT_AS)
    used_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used_bytes + (32 << 20), old[1]))
    try:
        with pytest.raises(OSError, match="memory"):
            cache.store_own(BLOB, 512 << 20, reader)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, old)
    filler.join()
    os.write(writer, b"next")
    assert os.read(reader, 99) == b"next"
    os.close(reader)
    os.close(writer)


@contextmanager
def files_of_at_most(size):
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


@pytest.mark.parametrize("by", [os.pipe, lambda: [end.detach() for end in socket.socketpair()]])
def test_if_there_is_no_room_the_rest_is_skipped(tmp_path, by):
    cache = HostCache(tmp_path, "name")
    reader, writer = by()
    os.write(writer, b"content" + b"next")
    with files_of_at_most(3), pytest.raises(OSError, match="large"):
        cache.store(BLOB, 7, reader)
    assert os.read(reader, 99) == b"next"
    assert list(next(tmp_path.iterdir()).iterdir()) == []
    os.close(reader)
    os.close(writer)


def test_if_no_file_can_be_made_all_of_it_is_skipped(tmp_path):
    """Any user can take all inodes of a memory file system. What came was read as frames then: the
    worker ended, and so did each that followed it."""
    cache = HostCache(tmp_path, "x")
    cache.path(BLOB).parent.rmdir()
    reader, writer = os.pipe()
    os.write(writer, b"content" + b"next")
    with pytest.raises(FileNotFoundError):
        cache.store(BLOB, 7, reader)
    assert os.read(reader, 99) == b"next"
    os.close(reader)
    os.close(writer)
    cache.close()


def test_where_no_directory_can_be_made_the_place_for_temporary_files_will_do(
    tmp_path, monkeypatch
):
    """With all inodes of the memory file system taken by another user, no worker started."""
    full, temporary = tmp_path / "full", tmp_path / "tmp"
    full.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    lock = host_cache.lock

    def lock_with_room(directory):
        if directory.parent == full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return lock(directory)

    monkeypatch.setattr(host_cache, "lock", lock_with_room)
    cache = HostCache(full, "x")
    assert cache.path(BLOB).parent.parent == temporary
    store(cache, b"data")
    assert cache.read(BLOB) == b"data"
    cache.leave()
    cache.close()
    assert not list(temporary.iterdir())


def test_the_last_worker_removes_the_directory(tmp_path):
    one, other = (HostCache(tmp_path, "name") for _ in range(2))
    store(one, b"content")
    one.leave()
    assert len(list(tmp_path.iterdir())) == 1
    other.close()
    one.leave()
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_killed_workers_are_removed_by_the_next(tmp_path):
    dead = HostCache(tmp_path, "dead")
    store(dead, b"content")
    dead.close()
    HostCache(tmp_path, "next")
    assert [path.name for path in tmp_path.iterdir()] == [f"lbd-python-{os.getuid()}-next"]


@pytest.mark.parametrize("is_own", [True, False])
def test_an_incomplete_blob_does_not_count(tmp_path, is_own):
    cache = HostCache(tmp_path, "name")
    with pytest.raises(EOFError):
        store(cache, b"half", announced=8, is_own=is_own)
    with pytest.raises(FileNotFoundError):
        cache.open(BLOB)


def test_a_directory_that_others_can_enter_is_not_used(tmp_path):
    place = tmp_path / f"lbd-python-{os.getuid()}-name"
    place.mkdir(mode=0o700)
    (place / "file").touch()
    place.chmod(0o755)
    held = os.open(place, os.O_RDONLY)  # so that it is not taken for a leftover
    fcntl.flock(held, fcntl.LOCK_SH)
    cache = HostCache(tmp_path, "name")
    assert cache.path(BLOB).parent != place
    cache.leave()
    cache.close()
    os.close(held)


@pytest.mark.parametrize("name", ["", "../x", "a/b", "x" * 201])
def test_its_name_is_not_a_path(tmp_path, name):
    with pytest.raises(ValueError, match="name"):
        HostCache(tmp_path, name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
@pytest.mark.parametrize("mode", [0o700, 0o777, None])
def test_who_makes_the_directory_first_keeps_no_worker_from_having_one(tmp_path, mode):
    """Its name can be read while it exists, and it is created again for the next worker."""
    theirs = tmp_path / f"lbd-python-{os.getuid()}-x"
    if mode is None:
        theirs.symlink_to(tmp_path)
    else:
        theirs.mkdir()
        theirs.chmod(mode)
    os.lchown(theirs, 65534, 65534)
    cache = HostCache(tmp_path, "x")
    own = cache.path(b"\1" * 16).parent
    assert own != theirs
    found = own.stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (os.getuid(), 0o700)
    cache.leave()
    assert theirs.lstat().st_uid == 65534
    assert not own.exists()
    cache.close()


def test_what_others_leave_without_end_in_the_place_for_all_is_not_looked_through(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(host_cache, "LOOKED_AT_MAX", 10)
    for number in range(100):
        (tmp_path / f"lbd-python-{os.getuid()}-{number}").touch()
    real, opened = os.open, []

    def counted(path, flags):
        opened.append(path)
        return real(path, flags)

    monkeypatch.setattr(os, "open", counted)
    cache = HostCache(tmp_path, "name")
    assert len(opened) == 10 + 1  # its own
    cache.leave()
    cache.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
def test_a_file_system_that_a_user_may_have_mounted_in_its_place_is_passed_over(tmp_path):
    tmp_path.chmod(0o1777)
    theirs = tmp_path / f"lbd-python-{os.getuid()}-name"
    theirs.mkdir()
    with mounted(theirs, "mode=700"):
        cache = HostCache(tmp_path, "name")
        assert cache.path(BLOB).parent != theirs
        cache.leave()


@pytest.mark.parametrize(("mode", "is_used"), [(0o700, True), (0o1777, True), (0o777, False)])
def test_a_place_where_others_can_rename_what_is_ours_is_not_used(
    tmp_path, monkeypatch, mode, is_used
):
    tmp_path.chmod(mode)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert (host_cache.temporary() == tmp_path) is is_used
