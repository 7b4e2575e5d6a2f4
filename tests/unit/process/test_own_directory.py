"""Whose directory a daemon may use, and a client trust."""

import os

import pytest

from lbd.errors import ConfigError
from lbd.process.own_directory import RUNTIME, fault_of, make_own, why_not_believed
from tests.unit.mounts import mounted

ANN, MALLORY = 2001, 2002
ROOT = pytest.mark.root


@pytest.fixture
def make(tmp_path):
    def make(mode, owner=None):
        path = tmp_path / "run"
        path.mkdir()
        path.chmod(mode)
        if owner is not None:
            os.chown(path, owner, owner)
        return path

    return make


@pytest.mark.parametrize(
    ("mode", "owner", "fault"),
    [
        pytest.param(0o755, 0, "", marks=ROOT),
        pytest.param(0o775, 0, "", marks=ROOT),  # root's permission for the daemons' group
        pytest.param(0o777, 0, "writable by others", marks=ROOT),
        pytest.param(0o1777, 0, "writable by others", marks=ROOT),
        pytest.param(0o755, ANN, "", marks=ROOT),
        pytest.param(0o775, ANN, "writable by others", marks=ROOT),
        pytest.param(0o757, ANN, "writable by others", marks=ROOT),
        pytest.param(0o700, MALLORY, f"is owned by user {MALLORY}", marks=ROOT),
    ],
)
def test_who_may_own_and_write_it(make, mode, owner, fault):
    found = fault_of(make(mode, owner), {0, ANN})
    assert fault in found
    assert bool(found) == bool(fault)


def test_one_of_our_own_is_made_and_used(tmp_path):
    path = tmp_path / "deep/run"
    make_own(path, RUNTIME)
    make_own(path, RUNTIME)
    # a process that lists it would hold its lock meanwhile
    assert path.stat().st_mode & 0o777 == 0o711
    path.chmod(0o777)
    with pytest.raises(ConfigError, match=r"^host\.runtime_dir .*/deep/run: .*chmod go-w"):
        make_own(path, RUNTIME)


def test_a_file_in_its_place_is_reported(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(ConfigError, match=r"host\.runtime_dir .*/run: "):
        make_own(tmp_path / "run", RUNTIME)
    assert "Not a directory" in fault_of(tmp_path / "run")


def test_our_link_to_our_directory_is_as_good(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    assert fault_of(tmp_path / "link") == ""
    tmp_path.chmod(0o777)
    assert "writable by others" in fault_of(tmp_path / "link")


@pytest.mark.root
def test_a_link_of_another_user_is_not_followed(tmp_path):
    """It may lead to a directory of ours today, and elsewhere tomorrow."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    os.lchown(link, MALLORY, MALLORY)
    with pytest.raises(ConfigError, match=f"a link owned by user {MALLORY}"):
        make_own(link, RUNTIME)


@pytest.mark.root
def test_which_directories_a_client_trusts(make, tmp_path):
    assert why_not_believed(tmp_path / "missing") == ""
    path = make(0o755)
    assert why_not_believed(path) == ""
    os.chown(path, MALLORY, MALLORY)
    assert f"is owned by user {MALLORY}" in why_not_believed(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
def test_a_file_system_that_a_user_may_have_mounted_is_nobodys(tmp_path):
    place = tmp_path / "run"
    place.mkdir()
    with mounted(place):
        assert fault_of(place) == why_not_believed(place) == ""
        tmp_path.chmod(0o1777)
        assert "a file system of its own" in fault_of(place)
        assert "a file system of its own" in why_not_believed(place)
