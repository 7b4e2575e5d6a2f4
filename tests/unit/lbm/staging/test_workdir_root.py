"""Where workdirs are, also when somebody else has made the directory of that name first."""

import os

import pytest

from lbd.lbm.core.jobs import Jobs
from lbd.lbm.staging.workdir_root import WorkdirRoot
from lbd.lbm.staging.workdirs import Workdirs
from lbd.net.gen.lbm_pb2 import WorkdirRequest
from tests.unit.mounts import mounted

EVE = 2001
pytestmark = pytest.mark.root


class OwnUserOnly:
    def acts_for(self, _uid):
        return False


@pytest.fixture
def shared(tmp_path):
    (tmp_path / "state").mkdir()
    place = tmp_path / "tmp"
    place.mkdir()
    place.chmod(0o1777)
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


def test_what_a_user_has_mounted_there_is_not_used(shared):
    (shared / "stage").mkdir()
    with mounted(shared / "stage"):  # as a user's FUSE, which can say that root owns it
        assert made(shared).parent != shared / "stage"


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
