"""The private directories of commands that bring files: one of each name, limited in number."""

import asyncio
import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from lbd.errors import Unavailable
from lbd.keeper.local_account import LocalUser
from lbd.lbm.as_user import StepFailed
from lbd.lbm.core.jobs import Jobs
from lbd.lbm.staging.workdir_root import WorkdirRoot
from lbd.lbm.staging.workdirs import FilesRefused, Workdirs, is_plain_directory, owner_of
from lbd.net.gen.lbm_pb2 import WorkdirRequest

OWNER = LocalUser("ann", 1000, 1000, (1000,))


class AsUser:
    """Creates directories as soon as it is allowed to."""

    def __init__(self):
        self.may, self.may_clear, self.clears = (asyncio.Event() for _ in range(3))
        self.may_clear.set()
        self.made, self.cleared, self.cleared_as = [], [], []
        self.trouble = None

    def acts_for(self, uid):
        return uid == OWNER.uid

    async def work(self, uid, word, path, limit_s=0.0):
        if word == b"clear":
            self.clears.set()
            await self.may_clear.wait()
            self.cleared.append(path)
            self.cleared_as.append(uid)
            return
        os.mkdir(path)
        os.chown(path, OWNER.uid, OWNER.gid)
        await self.may.wait()
        if self.trouble is not None:
            raise self.trouble
        self.made.append(path)


@pytest.fixture
def as_user():
    return AsUser()


@pytest.fixture
def workdirs(tmp_path, as_user):
    return Workdirs(WorkdirRoot(str(tmp_path), "h2", str(tmp_path)), Jobs(10), as_user)


def request(number=1, user="ann", origin="h1"):
    return WorkdirRequest(id=f"{origin}-{number}", origin=origin, user=user)


@pytest.mark.root
async def test_of_two_requests_with_one_name_one_has_a_directory(workdirs, as_user):
    first = asyncio.create_task(workdirs.make(request(), OWNER))
    await asyncio.sleep(0)
    with pytest.raises(FileExistsError):
        await asyncio.wait_for(workdirs.make(request(), OWNER), 10)
    as_user.may.set()
    await first
    assert [workdirs.get("h1-1").path] == as_user.made
    with pytest.raises(FileExistsError):
        await workdirs.make(request(), OWNER)


@pytest.mark.root
async def test_a_directory_that_could_not_be_made_may_be_requested_again(workdirs, as_user):
    as_user.may.set()
    as_user.trouble = Unavailable("no room")
    with pytest.raises(OSError, match="no room"):
        await workdirs.make(request(), OWNER)
    as_user.trouble = None
    await workdirs.make(request(), OWNER)


@pytest.mark.root
async def test_a_directory_for_which_there_is_no_room_is_refused_with_the_errno(workdirs, as_user):
    as_user.may.set()
    as_user.trouble = StepFailed(os.strerror(errno.ENOSPC), errno.ENOSPC)
    with pytest.raises(FilesRefused, match="No space left") as refused:
        await workdirs.open(request(), OWNER, 8)
    assert (refused.value.phase, refused.value.number) == ("stage", errno.ENOSPC)


@pytest.mark.root
async def test_its_user_may_put_nothing_else_in_its_place(workdirs, as_user, tmp_path):
    """For example another user's directory, to be packed and removed with its owner's rights."""
    as_user.may.set()
    (tmp_path / "h2").mkdir()
    (tmp_path / "h2").chmod(0o1733)
    await workdirs.make(request(), OWNER)
    path = Path(os.fsdecode(workdirs.get("h1-1").path))
    above = [one for one in path.parents if one.is_relative_to(tmp_path)]
    assert path.stat().st_uid == OWNER.uid
    assert [oct(one.stat().st_mode & 0o022) for one in above] == ["0o0"] * len(above)
    workdirs.end("h1-1")
    async with asyncio.timeout(20):
        while any((tmp_path / "h2").iterdir()):  # noqa: ASYNC110  # nobody says so
            await asyncio.sleep(0.01)


@pytest.mark.root
async def test_another_that_is_there_once_it_was_made_is_refused(workdirs, as_user, monkeypatch):
    as_user.may.set()
    monkeypatch.setattr(os, "chown", lambda *_: None)  # so it belongs to somebody else
    with pytest.raises(OSError, match="replaced"):
        await workdirs.make(request(), OWNER)
    assert workdirs.get("h1-1") is None


@pytest.mark.root
async def test_whose_it_is_does_not_change_whatever_its_user_mounts_there(workdirs, as_user):
    """A user's own file system (FUSE) reports any owner, and files were packed as that user."""
    as_user.may.set()
    await workdirs.make(request(), OWNER)
    path = workdirs.get("h1-1").path
    os.chown(path, 4711, 4711)  # as stat would find it
    assert owner_of(path) == OWNER.uid
    workdirs.end("h1-1")
    async with asyncio.timeout(20):
        while not as_user.cleared_as:  # noqa: ASYNC110  # nobody says so
            await asyncio.sleep(0.01)
    assert as_user.cleared_as == [OWNER.uid]


def test_what_is_mounted_there_is_not_asked(tmp_path):
    (tmp_path / "plain").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "plain")
    own = os.geteuid()
    assert is_plain_directory(os.fsencode(tmp_path / "plain"), own)
    assert not is_plain_directory(os.fsencode(tmp_path / "plain"), own + 1)
    assert not is_plain_directory(os.fsencode(tmp_path / "link"), own)
    assert not is_plain_directory(b"/proc", 0)


def test_what_the_daemons_did_not_make_is_nobodys(tmp_path):
    with pytest.raises(OSError, match="not a working directory"):
        owner_of(os.fsencode(tmp_path / "lost+found" / "files"))


@pytest.mark.root
async def test_a_directory_whose_origin_hangs_up_during_its_creation_is_removed(workdirs, as_user):
    making = asyncio.create_task(workdirs.make(request(), OWNER))
    await asyncio.sleep(0)
    making.cancel()
    async with asyncio.timeout(20):
        while not as_user.cleared:  # noqa: ASYNC110  # nobody says so
            await asyncio.sleep(0.01)
    assert workdirs.get("h1-1") is None


def known(workdirs, count, **fields):
    for number in range(count):
        asked = request(number, **fields)
        workdirs.adopt(asked.id, SimpleNamespace(origin=asked.origin, user=asked.user, path=b"/"))


def test_there_are_no_more_directories_than_places(workdirs):
    known(workdirs, 3, origin="h1")
    known(workdirs, 3, origin="h3", user="bob")
    known(workdirs, 2, origin="h4", user="eve")
    assert "too many" in workdirs.why_full(request(9, origin="h5", user="zoe"), 8)
    assert workdirs.why_full(request(9, origin="h5", user="zoe"), 9) == ""


def test_no_user_has_them_all(workdirs):
    known(workdirs, 3, origin="h1")
    known(workdirs, 3, origin="h3")
    assert "commands of ann" in workdirs.why_full(request(9, origin="h4"), 8)
    assert workdirs.why_full(request(9, origin="h4", user="bob"), 8) == ""


def test_nor_has_a_host_by_users_of_many_names(workdirs):
    for number in range(6):
        asked = request(number, user=f"user{number}")
        workdirs.adopt(asked.id, SimpleNamespace(origin="h1", user=asked.user, path=b"/"))
    assert "commands from h1" in workdirs.why_full(request(9), 8)
    assert workdirs.why_full(request(9, origin="h3"), 8) == ""


@pytest.mark.root
async def test_directories_being_created_count(workdirs):
    making = asyncio.create_task(workdirs.make(request(), OWNER))
    await asyncio.sleep(0)
    assert "too many" in workdirs.why_full(request(2, origin="h3", user="bob"), 1)
    making.cancel()


@pytest.mark.root
async def test_those_that_do_not_go_count(workdirs, as_user):
    """Their user may keep the step that removes them from ending."""
    as_user.may.set()
    await workdirs.make(request(), OWNER)
    as_user.may_clear.clear()
    workdirs.end("h1-1")
    await as_user.clears.wait()
    assert "too many" in workdirs.why_full(request(2, origin="h3", user="bob"), 1)
    as_user.may_clear.set()
    async with asyncio.timeout(60):
        while workdirs.why_full(request(2), 1):  # noqa: ASYNC110  # nobody says so
            await asyncio.sleep(0.01)
