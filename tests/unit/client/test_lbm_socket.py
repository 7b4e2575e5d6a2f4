"""Where `lbrun` looks for its LBM, and whom it trusts."""

import os
import socket

import pytest

from lbd.client.lbm_socket import connect

NOBODY = 65534


@pytest.fixture
def directory(tmp_path):
    """Makes a runtime directory of this user with an LBM in it."""
    path = tmp_path / "lbd"
    path.mkdir()
    with socket.socket(socket.AF_UNIX) as lbm:
        lbm.bind(str(path / "lbm.sock"))
        lbm.listen()
        yield path


def can_connect(path):
    sock = connect([str(path)])
    if sock is not None:
        sock.close()
    return sock is not None


def test_our_own_directory_and_our_link_to_it_are_trusted(directory, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(directory)
    assert can_connect(directory)
    assert can_connect(link)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_nothing_of_another_user_is_trusted(directory, tmp_path):
    tmp_path.chmod(0o1777)  # as /tmp: anybody may have created what is in it
    link = tmp_path / "run" / "link"  # a part of the path called "run" makes no difference
    link.parent.mkdir()
    link.parent.chmod(0o1777)
    link.symlink_to(directory)
    os.lchown(link, NOBODY, NOBODY)
    assert not can_connect(link)
    os.chown(directory, NOBODY, NOBODY)
    assert not can_connect(directory)
