"""Files come back into a directory where others may write, and so rename what is in it."""

import errno
import io
import os
import stat
import sys

import pytest

from lbd.pack import unpack
from lbd.pack.pack import Allowance, BadPack, Packer
from lbd.pack.places import note
from lbd.pack.unpack import FRESH, OLD, Fetching, hold

NOBODY = 65534


def packed(root, paths):
    output = io.BytesIO()
    with output:
        os.chdir(root)
        Packer(output, Allowance(1 << 20, 100), noted=note(paths)).pack(paths)
        return output.getvalue()


class Meanwhile(io.BytesIO):
    """A pack of which the last part comes only after `act`."""

    def __init__(self, data, act):
        super().__init__(data)
        self._act, self._at = act, len(data) - 5

    def read(self, size=-1):
        if self._act is not None and self.tell() + size > self._at:
            act, self._act = self._act, None
            act()
        return super().read(size)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A working directory with another one of its user's in it."""
    there = tmp_path / "there"
    (there / "out").mkdir(parents=True, mode=0o755)
    (there / "out/new").write_text("new")
    data = packed(there, [b"out"])
    here = tmp_path / "here"
    (here / "private").mkdir(parents=True, mode=0o700)
    (here / "private/secret").write_text("secret")
    monkeypatch.chdir(here)
    return here, data


def fetch(source):
    Fetching([], [b"out"], 7).unpack(source, Allowance(1 << 20, 100), all_there=True)


def swapped(here):
    """Another user puts a directory of ours where what arrives is made."""
    (made,) = here.glob(".lbd-*")
    made.rename(here / "gone")
    (here / "private").rename(made)
    return made


def test_what_another_user_puts_in_its_place_meanwhile_is_neither_opened_nor_removed(project):
    """Its mode became that of the directory that came back, under whose name all could read it."""
    here, data = project
    places = []
    fetch(Meanwhile(data, lambda: places.append(swapped(here))))
    assert (here / "out/new").read_text() == "new"
    assert (places[0] / "secret").read_text() == "secret"
    assert stat.S_IMODE(places[0].stat().st_mode) == 0o700


def test_nor_is_it_removed_when_nothing_can_come_back(project):
    """It was emptied as what was left of the transfer."""
    here, data = project
    places = []

    def act():
        places.append(swapped(here))
        (here / "out").mkdir()
        (here / "out/in the way").touch()

    with pytest.raises(BadPack, match="directory is not empty"):
        fetch(Meanwhile(data, act))
    assert (places[0] / "secret").read_text() == "secret"
    assert not list((here / "gone").iterdir())
    Fetching([], [b"out"], 7).clear()
    assert (places[0] / "secret").read_text() == "secret", "another try"


def test_what_is_replaced_at_once_is_not_used(project, monkeypatch):
    here, _ = project
    mkdir = os.mkdir

    def act(name, mode, *, dir_fd):
        mkdir(name, mode, dir_fd=dir_fd)
        swapped(here)

    monkeypatch.setattr(unpack.os, "mkdir", act)
    here_fd = os.open(here, os.O_RDONLY)
    with pytest.raises(BadPack, match="somebody has replaced it"):
        hold(here_fd, b".lbd-7-0")
    os.close(here_fd)


def test_what_a_killed_transfer_has_left_is_removed(project):
    here, data = project
    left = here / ".lbd-7-0" / os.fsdecode(FRESH)
    left.mkdir(parents=True)
    (left / "half").touch()
    fetch(io.BytesIO(data))
    assert sorted(path.name for path in here.iterdir()) == ["out", "private"]


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
@pytest.mark.parametrize("is_sent", [False, True])
def test_a_directory_that_nobody_may_write_to_comes_back(project, is_sent):
    """A directory can be moved into another one only by who may write to it."""
    here, _ = project
    there = here.parent / "there"
    (there / "out").chmod(0o555)
    data = packed(there, [b"out"])
    os.chdir(here)
    if is_sent:
        (here / "out").mkdir()
        (here / "out/old").touch()
        (here / "out").chmod(0o555)
        os.chown(here / "out", NOBODY, NOBODY)
    here.chmod(0o777)  # the child stays in it, and needs no way there
    child = os.fork()
    if not child:
        try:
            os.setresuid(NOBODY, NOBODY, NOBODY)
            sent = [b"out"] if is_sent else []
            Fetching(sent, [b"out"], 7).unpack(
                io.BytesIO(data), Allowance(1 << 20, 100), all_there=True
            )
        except BaseException as problem:
            sys.stderr.write(repr(problem))
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert stat.S_IMODE((here / "out").stat().st_mode) == 0o555
    assert os.listdir(here / "out") == ["new"]
    assert not list(here.glob(".lbd-*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another group")
def test_what_comes_back_gets_the_group_of_a_setgid_directory(project):
    """It got the group of its user, and others of the project could not read it."""
    here, data = project
    os.chown(here, 0, NOBODY)
    here.chmod(0o2775)
    modes = []
    act = lambda: modes.extend(path.stat().st_mode for path in here.glob(".lbd-*"))  # noqa: E731
    fetch(Meanwhile(data, act))
    assert [(here / name).stat().st_gid for name in ("out", "out/new")] == [NOBODY, NOBODY]
    assert [stat.S_IMODE(mode) for mode in modes] == [0o2700]


@pytest.fixture
def no_exchange(project, monkeypatch):
    """A directory in the place of what comes back, where two cannot change places in one step, and
    the moves into that place: each may be made to fail."""
    here, data = project
    (here / "out").mkdir()
    (here / "out/old").touch()
    move, moves = unpack.move, []

    def act(name, source, moved, target, **how):
        if name.startswith(FRESH):
            moves.append(moved)
            if len(moves) == 2:
                if (here / "taken").exists():
                    (here / "taken").rename(here / "out")
                raise OSError(errno.EIO, "no such luck")
        move(name, source, moved, target, **how)

    monkeypatch.setattr(unpack.ctypes, "CDLL", lambda _, **__: None)
    monkeypatch.setattr(unpack, "move", act)
    return here, data


def test_a_directory_that_cannot_be_replaced_stays(no_exchange):
    """It had been moved away to be removed, and was."""
    here, data = no_exchange
    with pytest.raises(BadPack, match="no such luck"):
        Fetching([b"out"], [b"out"], 7).unpack(
            io.BytesIO(data), Allowance(1 << 20, 100), all_there=True
        )
    assert os.listdir(here / "out") == ["old"]
    assert not list(here.glob(".lbd-*"))


def test_it_stays_beside_what_has_got_its_name_meanwhile(no_exchange):
    here, data = no_exchange
    (here / "taken").mkdir()
    (here / "taken/theirs").touch()
    with pytest.raises(BadPack, match="no such luck"):
        Fetching([b"out"], [b"out"], 7).unpack(
            io.BytesIO(data), Allowance(1 << 20, 100), all_there=True
        )
    assert os.listdir(here / "out") == ["theirs"]
    assert os.listdir(here / ("out" + os.fsdecode(OLD))) == ["old"]


def test_paths_of_one_directory_are_held_together(project):
    """Each took two descriptors until all had arrived: of 1024, some 500 paths."""
    here, _ = project
    there = here.parent / "there"
    paths = [b"%s%d" % (place, number) for place in (b"", b"sub/") for number in range(9)]
    (there / "sub").mkdir()
    for path in paths:
        (there / os.fsdecode(path)).write_bytes(path)
    data = packed(there, paths)
    os.chdir(here)
    held = []

    def act():
        held.extend((len(list(here.rglob(".lbd-*-*/"))), len(os.listdir("/proc/self/fd"))))

    before = len(os.listdir("/proc/self/fd"))
    Fetching([], paths, 7).unpack(Meanwhile(data, act), Allowance(1 << 20, 100), all_there=True)
    assert held == [2, before + 4]
    assert [path for path in paths if (here / os.fsdecode(path)).read_bytes() != path] == []
    assert not list(here.rglob(".lbd-*"))
    assert len(os.listdir("/proc/self/fd")) == before
