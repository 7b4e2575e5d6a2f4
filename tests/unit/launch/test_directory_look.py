"""What is reported of files and directories, compared with the real ones."""

import ctypes
import errno
import os

import pytest

from lbd.launch import directory_look
from lbd.launch.directory_look import file_system, find_program, kernel_id, look
from lbd.launch.directory_stamp import is_same

LIBC = ctypes.CDLL(None)


@pytest.mark.parametrize("cached", [False, True])
def test_a_stamp_contains_what_stat_says(tmp_path, cached):
    stamp = look(os.fsencode(tmp_path), kernel_id(), LIBC, cached=cached)
    found = tmp_path.stat()
    assert (stamp.device, stamp.inode) == (found.st_dev, found.st_ino)
    assert stamp.changed_ns == found.st_mtime_ns
    assert stamp.kernel == kernel_id()


def test_the_type_of_a_file_system():
    assert look(b"/proc", "k", LIBC).file_system == "proc"
    assert file_system(-1, "0:999999") == ""
    assert file_system(1 << 40, "0:1") == ""


@pytest.mark.parametrize("end", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_a_mount_point_that_a_user_has_named_is_no_end_of_a_line(end, monkeypatch):
    """Nobody on that host could have a command run elsewhere: `b` is no number of a mount."""
    table = (
        f"36 35 0:30 / /home/ann/a{end}b rw - fuse.mine x rw\n37 35 0:31 / /tmp rw - tmpfs x rw\n"
    )
    monkeypatch.setattr(directory_look, "mounts", lambda _: table.encode())
    assert (file_system(36, ""), file_system(37, "")) == ("fuse.mine", "tmpfs")


def test_without_statx_less_is_known(tmp_path):
    stamp = look(os.fsencode(tmp_path), kernel_id(), object())
    assert stamp.born_ns == 0
    assert is_same(stamp, look(os.fsencode(tmp_path), kernel_id(), LIBC))


def test_a_missing_directory(tmp_path):
    with pytest.raises(FileNotFoundError):
        look(os.fsencode(tmp_path / "none"), "k", LIBC)


def test_programs_are_found_as_exec_would_find_them(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "a/plain").write_text("x")
    (tmp_path / "b/tool").write_text("x")
    (tmp_path / "b/tool").chmod(0o755)
    (tmp_path / "a/sub").mkdir()
    path = os.fsencode(f"{tmp_path}/none:{tmp_path}/a:{tmp_path}/b")
    assert find_program(b"tool", path) == 0
    assert find_program(b"none", path) == errno.ENOENT
    assert find_program(b"plain", path) == errno.EACCES
    assert find_program(b"sub", path) == errno.EACCES
    assert find_program(os.fsencode(tmp_path / "b/tool"), b"") == 0
    assert find_program(os.fsencode(tmp_path / "b/none"), b"") == errno.ENOENT
    monkeypatch.chdir(tmp_path / "b")
    assert find_program(b"tool", b"/none:") == 0
    assert find_program(b"./tool", b"/none") == 0
