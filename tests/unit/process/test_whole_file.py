"""A file is replaced as a whole or not at all, and never through what others put beside it."""

import json
import os
import re
import stat
from pathlib import Path

import pytest

from lbd.cli.ctl.own_config import put_config
from lbd.client.status_file import write_failure
from lbd.lbm.queue.notifications import Notice, NoticeStore
from lbd.lbm.staging.pack_store import Note, PackStore
from lbd.lim.core.messages import Settings
from lbd.lim.settings_file import SettingsFile
from lbd.process.whole_file import write_whole
from lbd.trust.authority import Authority
from lbd.trust.files import write_private
from lbd.trust.ledger import Ledger

WRITERS = {
    "itself": lambda path: write_whole(path, b"ours\n"),
    "--status-file": lambda path: write_failure(str(path), "ours"),
    "lbd.toml": lambda path: put_config(path, "# ours\n"),
    "a key": lambda path: write_private(path, b"ours\n"),
}
# Temporary names beside NAME that are often used.
GUESSES = (f"{{}}.{os.getpid()}.tmp", "{}.new", f"{{}}.{os.getpid()}")


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_links_at_names_that_can_be_guessed_are_not_written_through(writer, tmp_path):
    victims = tmp_path / "what the victim has"
    victims.write_text("precious\n")
    shared = tmp_path / "shared"
    shared.mkdir()
    links = [shared / guess.format("file") for guess in GUESSES]
    for link in links:
        link.symlink_to(victims)
    writer(shared / "file")
    assert "ours" in (shared / "file").read_text()
    assert victims.read_text() == "precious\n"
    assert sorted(shared.iterdir()) == sorted([shared / "file", *links])


def test_the_temporary_file_is_new_each_time_and_never_followed(tmp_path):
    """Observed at the last moment before it takes its place."""
    seen = set()
    for _ in range(2):
        write_whole(tmp_path / "file", b"x", prepare=lambda _: seen.update(os.listdir(tmp_path)))
    unfinished = seen - {"file"}
    assert len(unfinished) == 2
    assert all(re.fullmatch(r"file\.[0-9a-f]{16}\.new", name) for name in unfinished)


def test_a_link_in_its_place_is_replaced_not_followed(tmp_path):
    other = tmp_path / "other"
    other.write_text("as it was")
    (tmp_path / "file").symlink_to(other)
    write_whole(tmp_path / "file", b"new")
    assert (other.read_text(), (tmp_path / "file").read_text()) == ("as it was", "new")
    assert not (tmp_path / "file").is_symlink()


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755])
def test_its_mode_is_as_given_whatever_the_umask(tmp_path, mode):
    before = os.umask(0o077)
    try:
        write_whole(tmp_path / "file", b"", mode)
        write_whole(tmp_path / "plain", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode
    assert stat.S_IMODE((tmp_path / "plain").stat().st_mode) == 0o600


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "file").write_text("before")

    def fails(_):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "file", b"x" * 10, prepare=fails)
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "before"


def test_a_device_is_never_replaced_by_a_file(tmp_path, capfd):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="Not a regular file"):
        write_whole(pipe, b"x")
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, b"x")
    write_failure(str(pipe), "why")
    assert capfd.readouterr().err == f"lbrun: --status-file {pipe}: Not a regular file\n"


def packed(directory):
    store = PackStore(str(directory))
    name, descriptor = store.create()
    store.finish(name, descriptor)
    os.close(descriptor)


DURABLE = {
    "lbd.toml": lambda directory: put_config(directory / "file", "# ours\n"),
    "a key": lambda directory: write_private(directory / "file", b"ours\n"),
    "who is revoked": lambda directory: Authority(directory, 1.0)._save(Ledger("lbd", "h1")),
    "what is set for all hosts": lambda to: SettingsFile(to).keep_settings(Settings(1, "h1")),
    "a queued job's files": packed,
    "what a job is to bring": lambda to: PackStore(str(to)).write(
        Note("0" * 32, "", 1, 1, 0, 0, "/", [], [])
    ),
    "whom to notify": lambda to: NoticeStore(str(to)).write(Notice("", 1, 1, 0, "true", "", 0.0)),
}


@pytest.mark.parametrize("write", DURABLE.values(), ids=DURABLE)
def test_a_durable_file_is_on_disk_before_it_gets_its_name(write, tmp_path, monkeypatch):
    """Then the name is synced, too, or the old file could return after a loss of power."""
    for below in ("files", "notify"):
        (tmp_path / below).mkdir()
    synced, fsync = {}, os.fsync

    def noted(descriptor):
        found = os.fstat(descriptor)
        directory = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if stat.S_ISDIR(found.st_mode):
            synced[found.st_ino] = sorted(directory.iterdir())
        else:
            synced[found.st_ino] = directory
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    write(tmp_path)
    (made,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert synced[made.stat().st_ino] != made
    assert made in synced[made.parent.stat().st_ino]


def test_long_and_relative_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "n" * 255
    write_failure(name, "why")
    assert json.loads(Path(name).read_text())["reason"] == "why"
