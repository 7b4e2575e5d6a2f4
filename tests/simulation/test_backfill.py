"""Backfill on a recorded trace: the queue decides as EASY does, and earlier runs may serve as
limits.

SDSC SP2's trace is looked for in $LBD_TRACES, or in ../shared/traces beside the repository.
"""

import gzip
import os
from dataclasses import replace
from pathlib import Path

import pytest

from lbd.sim.queueing.backfill import batch_jobs, easy_waits_s, effect, waits_s

ROOT = Path(__file__).resolve().parents[2]
TRACES = Path(os.environ.get("LBD_TRACES", ROOT.parent / "shared/traces"))
SDSC, PROCESSORS = "SDSC-SP2-1998-4.2-cln.swf.gz", 128


@pytest.fixture(scope="module")
def jobs():
    path = TRACES / SDSC
    if not path.exists():
        pytest.skip(f"{SDSC} is not in {TRACES} (LBD_TRACES)")
    with gzip.open(path) as file:
        return batch_jobs(file, 3000)


def test_with_time_limits_every_job_starts_when_easy_would_start_it(jobs):
    strict = waits_s(jobs, PROCESSORS, "off")
    filled = waits_s(jobs, PROCESSORS, "limit")
    assert filled == easy_waits_s(jobs, PROCESSORS)
    gain, was = effect(jobs, filled, strict), effect(jobs, strict, strict)
    assert gain.mean_wait_s < 0.7 * was.mean_wait_s
    assert 0 < gain.later < 0.2  # some pay for it
    assert was.later == 0


def test_without_limits_earlier_runs_help(jobs):
    unlimited = [replace(job, limit_s=0.0) for job in jobs]
    strict = waits_s(unlimited, PROCESSORS, "off")
    learnt = waits_s(unlimited, PROCESSORS, "learnt", 0.1)
    assert effect(jobs, learnt, strict).mean_wait_s < effect(jobs, strict, strict).mean_wait_s
