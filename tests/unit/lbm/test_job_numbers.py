"""Job numbers are never given twice, not even after a failed start."""

import errno
import resource

import pytest

from lbd.errors import ConfigError
from lbd.lbm import paths
from lbd.lbm.paths import IDS_RESERVED, JobNumbers


def clock():
    return 1.8e9


def test_a_block_that_is_used_up_is_followed_by_another(tmp_path):
    """The next LBM gave numbers again that a busy one had given."""
    first = JobNumbers(tmp_path, clock)
    given = {next(first) for _ in range(IDS_RESERVED + 1)}
    assert len(given) == IDS_RESERVED + 1
    assert next(JobNumbers(tmp_path, clock)) == 2 * IDS_RESERVED + 1


def test_where_another_block_cannot_be_had_they_go_on_far_above(tmp_path, monkeypatch):
    first = JobNumbers(tmp_path, clock)
    for _ in range(IDS_RESERVED):
        next(first)

    def fails(*_given):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(paths, "write_whole", fails)
    assert [next(first), next(first)] == [1_800_000_000, 1_800_000_001]


def test_each_start_has_its_own_block(tmp_path):
    assert [next(JobNumbers(tmp_path / "state", clock)) for _ in range(2)] == [1, 1 + IDS_RESERVED]


def test_on_a_full_disk_they_go_on_far_above_all_blocks(tmp_path, monkeypatch):
    """A restart of the LBM failed there, and what ran was ended."""
    JobNumbers(tmp_path, clock)

    def full(*_given):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(paths, "write_whole", full)
        assert next(JobNumbers(tmp_path, clock)) == 1_800_000_000
    assert next(JobNumbers(tmp_path, clock)) == 1 + IDS_RESERVED


def test_a_start_that_cannot_write_does_no_harm(tmp_path):
    JobNumbers(tmp_path, clock)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(ConfigError, match=r"host\.state_dir .*File too large"):
            JobNumbers(tmp_path, clock)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert next(JobNumbers(tmp_path, clock)) == 1 + IDS_RESERVED
