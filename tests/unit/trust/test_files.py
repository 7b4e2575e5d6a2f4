"""Root writes files for daemons that are not root, in directories where these may put links."""

import os
import tracemalloc

import pytest

from lbd.config.schema import Config, HostConfig, TlsConfig
from lbd.errors import ConfigError, PeerError
from lbd.trust import files as files_module
from lbd.trust.files import (
    BEGIN_OF_CERTIFICATE,
    END_OF_KEY,
    HostFiles,
    authority_dir,
    first_certificate,
    host_files,
    make_private_dir,
    opened,
    read,
    write_private,
)
from lbd.trust.revocations import Revocations

LBD = 2001


def test_a_directory_that_has_become_a_link_is_not_written_through(tmp_path):
    """It became one after `make_private_dir` checked it."""
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


def test_a_dangling_link_is_not_a_missing_directory(tmp_path):
    (tmp_path / "tls").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="tls: "):
        make_private_dir(tmp_path / "tls")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.root
def test_a_new_file_belongs_to_the_owner_of_its_directory(tmp_path):
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


def test_an_unreadable_file_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"none: No such file or directory$"):
        read(tmp_path / "none")
    files = HostFiles(tmp_path / ("n" * 300))
    with pytest.raises(ConfigError, match="File name too long"):
        files.exist()
    assert not HostFiles(tmp_path / "none").exist()


def test_what_is_no_file_is_not_waited_for(tmp_path):
    """Anybody who may write in the directory can put a pipe there that never ends."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="pipe: not a file"):
        read(tmp_path / "pipe")


def test_reading_a_small_file_reserves_little_memory(tmp_path):
    """A daemon reads some of them each second."""
    (tmp_path / "file").write_bytes(b"x" * 100)
    tracemalloc.start()
    try:
        assert read(tmp_path / "file") == b"x" * 100
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_no_more_is_read_of_a_file_than_any_of_these_files_has(tmp_path, monkeypatch):
    monkeypatch.setattr(files_module, "READ_BYTES_MAX", 10)
    (tmp_path / "file").write_bytes(b"x" * 100)
    assert read(tmp_path / "file") == b"x" * 10


def test_a_list_of_revocations_that_is_no_text_is_reported(tmp_path):
    files = HostFiles(tmp_path)
    files.revoked.write_bytes(b"signature\n\xff")
    with pytest.raises(PeerError, match="not a list of revoked hosts"):
        files.read_revocations()


def test_revocations_are_what_follows_the_signature(tmp_path):
    files = HostFiles(tmp_path)
    assert files.read_revocations() == Revocations()
    files.revoked.write_bytes(b"signature\n" + b'{"number": 3, "lowest": {"h2": 1}}')
    assert files.read_revocations() == Revocations(3, {"h2": 1})


@pytest.mark.parametrize("data", [b"", b"one", b"key\n-----BEGIN CERTIFICATE-----\n", b"\xff"])
def test_neither_key_nor_certificate(tmp_path, data):
    files = HostFiles(tmp_path)
    files.credentials.write_bytes(data)
    with pytest.raises(ConfigError, match="not a key and its certificate; join again"):
        files.read_credentials()


def test_where_the_authority_was(tmp_path):
    files = HostFiles(tmp_path)
    assert files.read_home() == ("", "")
    files.home.write_text("h1")
    assert files.read_home() == ("", "")
    files.home.write_text("h1 10.0.0.1:7901 what a later release adds\n")
    assert files.read_home() == ("h1", "10.0.0.1:7901")


@pytest.mark.parametrize(
    "pem", [b"", b"-----END CERTIFICATE-----\n", b"-----BEGIN CERTIFICATE-----\n"]
)
def test_a_file_without_a_certificate(pem):
    with pytest.raises(ConfigError, match="no certificate in it"):
        first_certificate(pem)


def test_credentials_without_a_key_or_a_certificate(tmp_path):
    files = HostFiles(tmp_path)
    for text in (END_OF_KEY, f"key{END_OF_KEY}chain", f"key\n{BEGIN_OF_CERTIFICATE}"):
        files.credentials.write_text(text)
        with pytest.raises(ConfigError, match="join again"):
            files.read_credentials()


def test_a_directory_is_made_private_again(tmp_path):
    with opened(tmp_path) as directory:
        assert os.fstat(directory).st_ino == tmp_path.stat().st_ino
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(directory)


def test_an_existing_directory_is_made_private(tmp_path):
    (tmp_path / "tls").mkdir(mode=0o755)
    make_private_dir(tmp_path / "tls")
    assert (tmp_path / "tls").stat().st_mode & 0o777 == 0o700


def test_files_stay_where_an_earlier_release_put_them(tmp_path):
    files = HostFiles(tmp_path)
    found = (files.credentials, files.authority, files.revoked, files.home)
    assert [path.name for path in found] == [
        "host.pem", "authority.pem", "revoked", "authority-host"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("tls", "places"),
    [
        (TlsConfig(), ("/x/tls", "/x-authority")),
        (TlsConfig(dir="/d", authority_dir="/a"), ("/d", "/a")),
    ],
)
def test_where_trust_is_kept(tls, places):
    for state_dir in ("/x", "/x/"):
        config = Config(host=HostConfig(state_dir=state_dir), tls=tls)
        assert (str(host_files(config).root), str(authority_dir(config))) == places
