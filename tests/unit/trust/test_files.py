"""Root writes the files of daemons that are not, in directories where these may put links."""

import os

import pytest

from lbd.errors import ConfigError
from lbd.trust.files import make_private_dir, write_private

LBD = 2001


def test_a_directory_that_has_become_a_link_is_not_written_through(tmp_path):
    """As after `make_private_dir` has looked at it."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "host.pem").write_text("another's")
    make_private_dir(tmp_path / "tls")
    (tmp_path / "tls").rmdir()
    (tmp_path / "tls").symlink_to(elsewhere)
    with pytest.raises(ConfigError, match=r"tls/host\.pem: "):
        write_private(tmp_path / "tls/host.pem", b"key")
    assert (elsewhere / "host.pem").read_text() == "another's"
    assert len(list(elsewhere.iterdir())) == 1


def test_a_dangling_link_is_no_missing_directory(tmp_path):
    (tmp_path / "tls").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="tls: "):
        make_private_dir(tmp_path / "tls")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.root
def test_what_is_made_belongs_to_whoever_owns_what_is_around_it(tmp_path):
    os.chown(tmp_path, LBD, LBD)
    place = tmp_path / "deep/tls"
    make_private_dir(place)
    write_private(place / "host.pem", b"key")
    write_private(place / "host.pem", b"another")
    assert (place / "host.pem").read_bytes() == b"another"
    found = [path.stat() for path in (tmp_path / "deep", place, place / "host.pem")]
    assert [(f.st_uid, f.st_mode & 0o777) for f in found] == [
        (LBD, 0o755), (LBD, 0o700), (LBD, 0o600)
    ]  # fmt: skip
    assert len(list(place.iterdir())) == 1
