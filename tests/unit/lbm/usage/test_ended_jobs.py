"""What is counted of ended jobs, whatever the accounting keeps of them."""

from dataclasses import replace

import pytest

from lbd.config.schema import Config, HostConfig, StatsConfig
from lbd.lbm.core.jobs import Job
from lbd.lbm.usage.log import EndedJobs, UsageLog
from lbd.model import HostId, JobId, JobState

H1, H2 = HostId("h1"), HostId("h2")
JOB = Job(
    JobId("1"), (b"cc",), "ann", origin=H1, host=H1, submitted=100.0, started=102.0,
    finished=110.0, state=JobState.DONE, cpu_s=4.0,
)  # fmt: skip
QUEUED = replace(JOB, foreign=True, queued_at=H2, host=H1, origin=H2)


def counted(*jobs):
    counts = EndedJobs()
    for job in jobs:
        counts.note(job)
    return counts.answer()


def observed(answer, name, kind):
    counts = dict(answer[name])[kind]
    return sum(counts["counts"]), counts["sum"]


def test_outcomes_and_picks_of_attached_jobs():
    there = replace(JOB, host=H2)
    answer = counted(
        JOB, there, replace(there, wrong=True), replace(JOB, state=JobState.FAILED),
        replace(JOB, state=JobState.LOST, started=None),
    )  # fmt: skip
    assert answer["jobs_ended"] == [
        ["done", "attached", 3], ["failed", "attached", 1], ["cancelled", "attached", 0],
        ["lost", "attached", 1], ["unknown", "attached", 0],
    ]  # fmt: skip
    assert answer["picks"] == [["here", 2], ["elsewhere", 2]]
    assert answer["wrong_picks"] == 1


def test_times_are_those_that_stats_shows():
    answer = counted(JOB)
    assert observed(answer, "job_waiting_seconds", "attached") == (1, 2.0)
    assert observed(answer, "job_response_seconds", "attached") == (1, 10.0)
    assert observed(answer, "job_slowdown", "attached") == (1, 1.5), "(10 s - 4 s) / 4 s"
    assert answer["job_cpu_seconds"] == [["attached", 4.0], ["queued", 0.0]]


def test_a_queued_job_is_timed_where_it_ran_and_counted_by_the_dispatcher():
    answer = counted(QUEUED)
    assert {count for _, _, count in answer["jobs_ended"]} == {0}
    assert answer["picks"] == [["here", 0], ["elsewhere", 0]]
    assert observed(answer, "job_waiting_seconds", "queued") == (1, 2.0)
    assert observed(answer, "job_waiting_seconds", "attached") == (0, 0.0)


@pytest.mark.parametrize("cpu_s", [None, 0.0, -1.0, float("nan"), float("inf")])
def test_an_impossible_cpu_time_is_left_out(cpu_s):
    answer = counted(replace(JOB, cpu_s=cpu_s))
    assert observed(answer, "job_slowdown", "attached") == (0, 0.0)
    assert answer["job_cpu_seconds"] == [["attached", 0.0], ["queued", 0.0]]


def test_a_clock_that_was_set_back_gives_no_negative_times():
    answer = counted(replace(JOB, started=90.0, finished=95.0))
    assert observed(answer, "job_waiting_seconds", "attached") == (1, 0.0)
    assert observed(answer, "job_response_seconds", "attached") == (1, 0.0)


@pytest.mark.parametrize(
    ("job", "count"),
    [
        (JOB, 1),
        (replace(JOB, foreign=True, origin=H2), 0),  # for its origin to count
        (QUEUED, 1),
        (replace(QUEUED, reason="lost"), 0),  # it restarts
    ],
)
def test_without_accounting_ends_are_counted_all_the_same(tmp_path, job, count):
    host = HostConfig(name="h1", state_dir=str(tmp_path))
    log = UsageLog(Config(host=host, stats=StatsConfig(max_rows=0)))
    log.note(job)
    kinds = log.ended_jobs.answer()["job_waiting_seconds"]
    assert sum(sum(counts["counts"]) for _, counts in kinds) == count
