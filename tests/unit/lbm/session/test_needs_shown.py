"""What `lbctl job --json` shows of a job's needs."""

import pytest

from lbd.lbm.session.job_records import needs_json
from lbd.lbm.session.queue_questions import queued_json
from lbd.net.gen import dispatch_pb2 as pb

NEEDS = {
    "resources": {"gpu": 2}, "features": ["big"], "not_features": ["slow"], "memory_bytes": 1024,
}  # fmt: skip


def test_a_job_says_what_it_needs():
    assert queued_json(pb.JobInfo(id=12, needs="gpu=2 +big -slow memory=1024"))["needs"] == NEEDS
    assert queued_json(pb.JobInfo(id=12))["needs"] is None


@pytest.mark.parametrize("text", ["gpu=0", "+" + "x" * 99, "a=1 " * 99])
def test_impossible_needs_from_a_dispatcher_are_left_out(text):
    assert needs_json(text) is None
