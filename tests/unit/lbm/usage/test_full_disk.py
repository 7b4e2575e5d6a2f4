"""On a disk that has no free byte the accounting can still be read; only writing waits."""

import contextlib
import shutil
import sqlite3
import time

import pytest

from lbd.config.schema import Config, HostConfig, StatsConfig
from lbd.errors import Unavailable
from lbd.lbm.usage import store as usage_store
from lbd.lbm.usage.log import UsageLog
from lbd.lbm.usage.store import PastJobs, UsageStore
from tests.unit.lbm.usage.test_log import run_jobs
from tests.unit.lbm.usage.test_store import usage
from tests.unit.mounts import mounted

NOW = time.time()


@pytest.fixture
def disk(tmp_path):
    """A disk of 1 MB."""
    with mounted(tmp_path, "size=1m"):
        yield tmp_path


def fill(disk):
    with contextlib.suppress(OSError), (disk / "filler").open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))


@pytest.mark.parametrize("in_log", [False, True])
def test_what_is_on_record_can_be_read(disk, in_log):
    """It "cannot be read: disk I/O error", which is what a broken disk says."""
    path = disk / "usage.sqlite"
    store = UsageStore(path, StatsConfig())
    store.add([usage()])
    if in_log:  # as if the LBM had been killed
        (disk / "killed").mkdir()
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", disk / "killed")
    store.close()
    store = UsageStore(disk / "killed/usage.sqlite" if in_log else path, StatsConfig())
    fill(disk)
    with pytest.raises((sqlite3.Error, OSError)):
        store.note_algorithm("global", NOW)
    total, groups = store.summary(0.0, "")
    assert (total.jobs, list(groups["user"])) == (1, ["ann"])
    assert store.kept_since() <= time.time()
    assert (store.gaps(), store.algorithms(9)) == ([], [])
    assert len(store.latest(PastJobs(5))[0]) == len(store.page(0.0, 0, 5)) == 1
    store.answered()
    fill(disk)  # there may be some room now, where the log was
    with pytest.raises((sqlite3.Error, OSError)):
        store.add([usage()])
    assert store.summary(0.0, "")[0].jobs == 1
    store.answered()
    (disk / "filler").unlink()
    other = UsageStore(disk / "killed/usage.sqlite" if in_log else path, StatsConfig())
    other.add([usage()])  # as the next LBM does
    assert store.summary(0.0, "")[0].jobs == 2
    other.close()
    store.close()


async def test_it_is_said_what_is_not_recorded_yet_and_why(disk):
    config = Config(host=HostConfig(name="h1", state_dir=str(disk)))
    before = UsageLog(config)
    run_jobs(before, "a")
    await before.close()
    fill(disk)
    log = UsageLog(config)
    log.begin()
    run_jobs(log, "bcd")
    found = await log.ask(lambda store: (store.summary(0.0, "")[0].jobs, log.gaps(), log.trouble))
    jobs, (gap,), trouble = found
    assert (jobs, gap.commands, gap.not_yet, trouble) == (1, 3, True, "its disk is full")
    (disk / "filler").unlink()
    assert await log.ask(lambda store: store.summary(0.0, "")[0].jobs) == 4
    assert (await log.ask(lambda _: log.gaps()), log.trouble) == ([], "")
    await log.close()


async def test_what_cannot_be_read_there_is_said_with_the_cause(disk, monkeypatch):
    def in_use(_):
        raise sqlite3.OperationalError("database is locked")

    config = Config(host=HostConfig(name="h1", state_dir=str(disk)))
    before = UsageLog(config)
    run_jobs(before, "a")
    await before.close()
    fill(disk)
    monkeypatch.setattr(usage_store, "open_to_read", in_use)
    log = UsageLog(config)
    with pytest.raises(Unavailable, match="h1's accounting cannot be read now: its disk is full"):
        await log.ask(lambda store: store.gaps())
    await log.close()
