"""The power fails while the ledger writes: any part of its last transaction may be on the disk."""

import shutil
from random import Random

import pytest

from lbd.dispatch.core.ledger_rows import Wanted
from tests.unit.dispatch.ledger.test_ledger import opened, submission

JOBS = 20


def snapshot(path, where):
    """Copies the files as a crash would leave them now."""
    where.mkdir()
    for name in (path.name, f"{path.name}-wal"):
        shutil.copy(path.with_name(name), where / name)
    return where / f"{path.name}-wal"


async def history(path):
    """Returns acknowledged jobs on disk, and what the next transaction adds to the log."""
    async with opened(path) as ledger:
        for number in range(JOBS):
            await ledger.submit(submission(), float(number))
        before = snapshot(path, path.parent / "before")
        await ledger.submit(submission(count=50), 99.0)
        after = snapshot(path, path.parent / "after")
    return before.read_bytes(), after.read_bytes()


@pytest.mark.parametrize("seed", range(6))
async def test_acknowledged_jobs_are_there_and_of_the_rest_all_or_nothing(tmp_path, seed):
    rng = Random(seed)
    before, after = await history(tmp_path / "ledger.sqlite")
    torn = bytearray(after[: rng.randint(len(before), len(after))])
    if seed % 2:  # a sector of zeros, where the disk wrote out of order
        at = rng.randint(len(before), max(len(before), len(torn) - 512))
        torn[at : at + 512] = bytes(len(torn[at : at + 512]))
    where = tmp_path / "before"
    (where / "ledger.sqlite-wal").write_bytes(torn)
    async with opened(where / "ledger.sqlite") as ledger:
        ids = [row.id for row in await ledger.find(Wanted(ended_too=True, limit=1 << 40))]
        whole = bytes(torn) == after
        assert ids == list(range(1, JOBS + 1 + 50 * whole))
        following = await ledger.submit(submission(), 100.0)
        assert following.first == len(ids) + 1
        assert len(await ledger.live()) == len(ids) + 1
