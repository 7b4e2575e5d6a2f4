"""Job numbers are never given twice, not even after a failed start."""

import resource

import pytest

from lbd.errors import ConfigError
from lbd.lbm.paths import IDS_RESERVED, job_numbers


def test_each_start_has_its_own_block(tmp_path):
    assert [next(job_numbers(tmp_path / "state")) for _ in range(2)] == [1, 1 + IDS_RESERVED]


def test_a_start_without_room_on_disk_does_no_harm(tmp_path):
    job_numbers(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(ConfigError, match=r"host\.state_dir .*File too large"):
            job_numbers(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert next(job_numbers(tmp_path)) == 1 + IDS_RESERVED
