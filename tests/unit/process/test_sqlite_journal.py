"""A file system with blocks of 1 KiB, as mkfs.ext4 makes it below 512 MB, that becomes full."""

import contextlib
import os
import sqlite3
import subprocess
import sys

import pytest

from lbd.cli.ctl.backup_placing import place_ledger
from lbd.process.sqlite_journal import set_journal

# Opens the accounting and the ledger as the daemons do, writes to them as far as there is room.
DAEMONS = """
import asyncio, contextlib, sqlite3, sys
from pathlib import Path
from lbd.config.schema import StatsConfig
from lbd.dispatch.core.ledger_rows import LedgerTrouble
from lbd.dispatch.ledger.sqlite import SqliteLedger
from lbd.lbm.usage.store import UsageStore

root = Path(sys.argv[1])

async def ledger():
    with contextlib.suppress(LedgerTrouble):
        ledger = SqliteLedger(root / "ledger.sqlite")
        with contextlib.suppress(LedgerTrouble):
            await ledger.set_counter("tried", 1)
            await ledger.live()
        await ledger.close()

store = UsageStore(root / "usage.sqlite", StatsConfig())
for ask in (store.gaps, lambda: store.note_algorithm("global", 1.0), store.gaps):
    with contextlib.suppress(sqlite3.Error, OSError):
        ask()
store.close()
asyncio.run(ledger())
"""


@pytest.fixture
def disk(tmp_path):
    """A disk of 24 MB."""
    image, root = tmp_path / "image", tmp_path / "disk"
    root.mkdir()
    with image.open("wb") as file:
        file.truncate(24 << 20)
    if os.geteuid() or not (making := made(image, root)):
        pytest.skip("needs to make and mount a file system")
    yield making
    subprocess.run(["umount", "--lazy", root], check=True)


def made(image, root):
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        for command in (
            ["mkfs.ext4", "-q", "-b", "1024", "-m", "0", image],
            ["mount", "-o", "loop", image, root],
        ):
            subprocess.run(command, capture_output=True, check=True)
        return root
    return None


def begin_daemons(disk):
    return subprocess.run([sys.executable, "-c", DAEMONS, disk], capture_output=True, text=True)


def test_daemons_do_not_die_of_a_full_disk_with_small_blocks(disk):
    """SIGBUS: the LBM and the dispatcher were restarted, and died again, until there was room."""
    assert begin_daemons(disk).returncode == 0
    with contextlib.suppress(OSError), (disk / "filler").open("ab", buffering=0) as file:
        while True:
            file.write(bytes(1024))
    size_bytes = (disk / "filler").stat().st_size
    for free_bytes in range(0, 48 << 10, 4 << 10):
        os.truncate(disk / "filler", size_bytes - free_bytes)
        ended = begin_daemons(disk)
        assert (ended.returncode, ended.stderr) == (0, ""), f"with {free_bytes} bytes left"
    (disk / "filler").unlink()
    assert begin_daemons(disk).returncode == 0


def test_a_file_with_a_log_is_taken_over_and_the_log_is_not_lost(tmp_path, monkeypatch):
    path, other = tmp_path / "kept", tmp_path / "moved"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        set_journal(database, path)
        database.executescript("CREATE TABLE jobs (id); INSERT INTO jobs VALUES (1)")
        for beside in ("", "-wal"):
            (tmp_path / f"moved{beside}").write_bytes((tmp_path / f"kept{beside}").read_bytes())
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((1024, 1024, *[0] * 9)))
    opened = [sqlite3.connect(other, isolation_level=None) for _ in range(2)]
    for database in opened:
        set_journal(database, other)
        assert database.execute("PRAGMA journal_mode").fetchone() == ("truncate",)
        assert database.execute("SELECT id FROM jobs").fetchall() == [(1,)]
    opened[0].execute("INSERT INTO jobs VALUES (2)")
    assert opened[1].execute("SELECT count(*) FROM jobs").fetchone() == (2,)
    assert not (tmp_path / "moved-shm").exists()
    for database in opened:
        database.close()


def test_what_was_beside_the_previous_ledger_is_not_applied_to_a_restored_one(tmp_path):
    (tmp_path / "copy").write_text("a ledger")
    beside = [tmp_path / f"ledger.sqlite{one}" for one in ("-wal", "-shm", "-journal")]
    for path in beside:
        path.touch()
    place_ledger(tmp_path / "copy", tmp_path / "ledger.sqlite")
    assert not any(path.exists() for path in beside)
