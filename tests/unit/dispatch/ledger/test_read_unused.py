"""Looking into a ledger that no dispatcher uses, such as the one used last."""

import contextlib
import os
import sqlite3
import tempfile
from pathlib import Path

import pytest

from lbd.dispatch.ledger.sqlite import has_open_jobs, open_jobs
from lbd.process.reading_child import become, read_in_child


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another account")
@pytest.mark.parametrize(
    ("beside", "seen"), [("", b"1 True"), ("-wal", b"0 True"), ("-journal", b"0 True")]
)
def test_jobs_are_seen_where_nobody_may_write_beside_the_ledger(beside, seen):
    """A unit may only read outside its own directories: a new queue began, as if there were
    none. Beside one of these the file alone is not the whole ledger."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        os.chmod(directory, 0o755)
        path = Path(directory, "ledger.sqlite")
        with contextlib.closing(sqlite3.connect(path)) as ledger:
            ledger.execute("PRAGMA journal_mode = WAL")
            ledger.execute("CREATE TABLE jobs (state, finished)")
            ledger.execute("INSERT INTO jobs VALUES ('pending', NULL)")
            ledger.commit()
        path.with_name(f"ledger.sqlite{beside}").touch()

        def look(descriptor):
            become(12345, 12345, ())
            os.write(descriptor, f"{open_jobs(path)} {has_open_jobs(path)}".encode())
            return 0

        said = []
        assert read_in_child(look, said.append, 30.0).status == 0
        assert b"".join(said) == seen
