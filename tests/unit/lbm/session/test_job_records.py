"""Jobs as --json prints them."""

import os
import signal
import subprocess
from types import SimpleNamespace

import pytest

from lbd.lbm.core.jobs import Job
from lbd.lbm.session.job_records import given_json, job_json, job_record
from lbd.lbm.session.queue_questions import queued_json
from lbd.load import process_table
from lbd.model import JobId, JobState
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.gen import lbm_pb2


@pytest.mark.parametrize(
    ("shown", "array", "index"),
    [("12_7", "12", 7), ("12", None, None), ("h1-26", None, None), ("12_7x", None, None)],
)
def test_the_accounting_of_a_task_names_its_array_and_its_index(shown, array, index):
    found = job_json(lbm_pb2.JobRecord(id=shown))
    assert (found.get("array_id"), found["array_index"]) == (array, index)


def test_a_task_of_the_queue_has_an_index_and_an_array_has_none():
    task = queued_json(pb.JobInfo(id=18, array_id=12, array_index=7))
    assert (task["id"], task["array_id"], task["array_index"]) == ("12_7", "12", 7)
    array = pb.JobInfo(id=12, array_id=12)
    array.array.indexes = "1-9"
    assert "array_index" not in queued_json(array)


def test_a_key_that_lbrun_generated_is_not_shown():
    keys = [
        given_json(pb.GivenInfo(key=key))["idempotency_key"] for key in ("night", "", "lbrun:1f")
    ]
    assert keys == ["night", None, None]


def test_no_host_and_no_dispatcher_has_more_of_a_command_shown_than_people_read():
    found = queued_json(pb.JobInfo(id=12, command=[b"true"] + [b""] * 240_000))["command"]
    assert (len(found), found[0], found[-1]) == (1001, "true", "…")


def test_of_a_command_that_stays_nothing_is_read_that_it_can_hold_up(monkeypatch):
    """The stat of one whose exec was under way held up the LBM: its user listed their commands."""
    monkeypatch.setattr(process_table, "task_of", lambda pid: pytest.fail(f"reads {pid}"))
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        job = Job(JobId("h1-1"), (b"cat",), "ann", "h1", "h1", 0.0, pid=process.pid)
        record = job_record(job, {job.id: SimpleNamespace(pid=process.pid)}, {})
        process.send_signal(signal.SIGCONT)
    assert record.state == JobState.SUSPENDED.value
