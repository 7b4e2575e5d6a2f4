"""Where workdirs are, also when somebody else has made the directory of that name first."""

import os
import subprocess
import time
from contextlib import contextmanager

import pytest

from lbd.lbm.core.jobs import Jobs
from lbd.lbm.staging import workdir_root
from lbd.lbm.staging.workdir_root import WorkdirRoot
from lbd.lbm.staging.workdirs import FilesRefused, Workdirs
from lbd.net.gen.lbm_pb2 import WorkdirRequest
from tests.unit.mounts import mounted

EVE = 2001
pytestmark = pytest.mark.root


class OwnUserOnly:
    def acts_for(self, _uid):
        return False


@contextmanager
def silent_mount(place):
    """A user's file system (FUSE) that does not answer."""
    fuse = os.open("/dev/fuse", os.O_RDWR) if os.path.exists("/dev/fuse") else -1
    options = f"fd={fuse},rootmode=40000,user_id={EVE},group_id={EVE},allow_other"
    mounting = ("mount", "-i", "-t", "fuse", "-o", options, "eve", place)
    try:
        passed = (fuse,) if fuse >= 0 else ()
        if subprocess.run(mounting, pass_fds=passed, capture_output=True).returncode:
            pytest.skip("needs to mount a file system")
        try:
            yield
        finally:
            subprocess.run(["umount", "-i", "--lazy", place], check=True)
    finally:
        if fuse >= 0:
            os.close(fuse)


@pytest.fixture
def shared(tmp_path, monkeypatch):
    (tmp_path / "state").mkdir()
    place = tmp_path / "tmp"
    place.mkdir()
    place.chmod(0o1777)
    monkeypatch.setattr("lbd.process.written_disks.SHARED_WORKDIRS", str(place / "stage"))
    return place


def root(shared):
    """As the next LBM knows it."""
    return WorkdirRoot(str(shared / "stage"), "h1", str(shared.parent / "state"))


def made(shared):
    found = root(shared)
    found.make()
    return found.path


def directory_of_eve(path):
    path.mkdir()
    os.chown(path, EVE, EVE)
    return path


def link_of_eve(path):
    path.symlink_to("/")
    os.lchown(path, EVE, EVE)


def file_of_eve(path):
    path.write_text("")
    os.chown(path, EVE, EVE)


def test_it_is_made_before_anybody_else_can_and_users_pass_through(shared, caplog):
    assert made(shared) == shared / "stage/h1"
    assert {(shared / one).stat().st_mode & 0o777 for one in ("stage", "stage/h1")} == {0o711}
    assert made(shared) == shared / "stage/h1"
    assert caplog.messages == []


@pytest.mark.parametrize("taken", [directory_of_eve, link_of_eve, file_of_eve])
def test_where_another_user_was_first_one_of_an_unknown_name_beside_it_is_used(
    shared, taken, caplog
):
    taken(shared / "stage")
    path = made(shared)
    above = path.parent
    assert (above.parent, path.name) == (shared, "h1")
    assert above.name.startswith("stage.")
    assert [one.stat().st_mode & 0o777 for one in (path, above)] == [0o711, 0o711]
    assert caplog.messages == [
        f"stage.root: {shared / 'stage'} is owned by user {EVE}; working directories are in "
        f"{path} instead"
    ]
    assert made(shared) == path
    path.rmdir()
    above.rmdir()
    directory_of_eve(above)  # its name can be seen by now
    assert made(shared) not in (path, shared / "stage/h1")


def test_what_a_user_has_mounted_there_is_not_used(shared, monkeypatch):
    (shared / "stage").mkdir()
    with mounted(shared / "stage"):  # as a user's FUSE, which can say that root owns it
        for kind in ("fuse", "fuse.sshfs", "fuseblk", ""):
            monkeypatch.setattr(workdir_root, "file_system", lambda *_, kind=kind: kind)
            assert made(shared).parent != shared / "stage"


def test_a_disk_that_the_administrator_has_mounted_there_is_used(shared, caplog):
    (shared / "stage").mkdir()
    with mounted(shared / "stage"):
        assert made(shared) == shared / "stage/h1"
        assert os.path.isdir(shared / "stage/h1")
    assert caplog.messages == []


def test_a_link_leads_to_the_file_system_that_is_asked_about(shared, monkeypatch):
    """Or that of the link itself would vouch for what a user has mounted where it leads."""
    (shared / "eves").mkdir()
    (shared / "stage").symlink_to(shared / "eves")
    kinds, file_system = [], workdir_root.file_system
    monkeypatch.setattr(
        workdir_root, "file_system", lambda *one: kinds.append(file_system(*one)) or "fuse"
    )
    with mounted(shared / "eves"):
        assert made(shared).parent != shared / "stage"
    assert kinds == ["tmpfs"]


async def test_what_a_user_has_mounted_there_is_not_waited_for(shared, monkeypatch):
    monkeypatch.setattr(workdir_root, "LOOK_S", 0.2)
    (shared / "stage").mkdir()
    with silent_mount(shared / "stage"):
        workdirs = Workdirs(root(shared), Jobs(1), OwnUserOnly())
        began_s = time.monotonic()
        assert workdirs.prepare() == ""
        workdirs.sweep(0.0)
        await workdirs.make(WorkdirRequest(id="h2-1", origin="h2", user="ann"), None)
        await workdirs.close()
        assert time.monotonic() - began_s < 10


@pytest.mark.parametrize("taken", [directory_of_eve, link_of_eve, file_of_eve])
async def test_while_another_is_used_the_wanted_one_is_not_looked_at(shared, taken, monkeypatch):
    taken(shared / "stage")
    workdirs = Workdirs(root(shared), Jobs(1), OwnUserOnly())
    assert workdirs.prepare() == ""
    looked = []
    fault_of = workdir_root.fault_of
    monkeypatch.setattr(
        workdir_root, "fault_of", lambda path, *rest: looked.append(path) or fault_of(path, *rest)
    )
    await workdirs.make(WorkdirRequest(id="h2-1", origin="h2", user="ann"), None)
    workdirs.sweep(0.0)
    assert looked
    assert not [path for path in looked if path.is_relative_to(shared / "stage")]


@pytest.mark.parametrize("taken", [directory_of_eve, link_of_eve, file_of_eve])
async def test_where_another_user_has_the_set_place_commands_with_files_are_refused(shared, taken):
    taken(shared / "set")
    chosen = WorkdirRoot(str(shared / "set"), "h1", str(shared.parent / "state"))
    workdirs = Workdirs(chosen, Jobs(1), OwnUserOnly())
    why = f"{shared / 'set'} is owned by user {EVE}"
    assert workdirs.prepare() == why
    for number in range(2):
        request = WorkdirRequest(id=f"h2-{number}", origin="h2", user="ann")
        with pytest.raises(FilesRefused, match=f"^stage.root: {why}$"):
            await workdirs.open(request, None, 8)
    assert [one.name for one in shared.iterdir()] == ["set"]
    assert list((shared.parent / "state").iterdir()) == []


async def test_a_set_place_that_does_not_answer_is_used_once_it_does(shared, monkeypatch):
    monkeypatch.setattr(workdir_root, "LOOK_S", 0.2)
    (shared / "set").mkdir()
    chosen = WorkdirRoot(str(shared / "set"), "h1", str(shared.parent / "state"))
    with silent_mount(shared / "set"):
        for _ in range(3):
            with pytest.raises(TimeoutError, match="set/h1 does not answer"):
                chosen.make()
        assert list(chosen.entries()) == []
    for thread in chosen._looks._threads.values():
        thread.join(20)
    chosen.make()
    assert os.path.isdir(shared / "set/h1")


def test_the_one_of_this_host_may_be_taken_as_well(shared):
    (shared / "stage").mkdir()
    (shared / "stage").chmod(0o1777)
    directory_of_eve(shared / "stage/h1")
    assert made(shared).parent == shared / "stage"
    assert made(shared).name.startswith("h1.")


def test_once_it_is_free_again_the_named_one_is_used(shared):
    eves = directory_of_eve(shared / "stage")
    elsewhere = made(shared)
    (elsewhere / "left").mkdir()
    eves.rmdir()
    assert made(shared) == shared / "stage/h1"
    assert list(root(shared).entries()) == [os.fsencode(elsewhere / "left")]


def test_nothing_in_another_users_is_taken_for_left_by_us(shared):
    (directory_of_eve(shared / "stage") / "h1").mkdir()
    (shared / "stage/h1/left").mkdir()
    assert list(root(shared).entries()) == []


async def test_commands_with_files_are_taken_there(shared):
    directory_of_eve(shared / "stage")
    workdirs = Workdirs(root(shared), Jobs(1), OwnUserOnly())
    assert workdirs.prepare() == ""
    await workdirs.make(WorkdirRequest(id="h2-1", origin="h2", user="ann"), None)
    path = workdirs.get("h2-1").path
    assert path.startswith(os.fsencode(made(shared)))
    assert os.path.isdir(path)
