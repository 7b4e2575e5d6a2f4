"""What the dispatcher logs of a job at each step, under the id that users know."""

import gc
import logging
import time
from types import SimpleNamespace

import pytest

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.records import Begin, Cause, Changed, Ending, Fate, Live, Signal, changed
from lbd.dispatch.job_lines import change_phrase, say
from lbd.model import HostId, JobId, JobState
from lbd.process.job_log import RECENT

JOB, H3 = JobId("987654321"), HostId("h3")
TASK = QueuedJob(JOB, array=987654320, array_index=1)
EXITED = Ending(Cause.EXITED, 2)


def change(state, fate=None, ending=None, host=None, attempt=1, reason=""):
    return Changed(JOB, state, 1, attempt, host, fate, ending, 0, reason, frozenset())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (change(JobState.RUNNING, Fate.RUNNING, host=H3), "attempt 1 running on h3"),
        (change(JobState.FAILED, Fate.FAILED, EXITED), "attempt 1 failed, exit 2"),
        (change(JobState.PENDING, Fate.LOST, Ending(Cause.LOST, reason="its lease has expired")),
         "attempt 1 lost; pending: its lease has expired"),
        (change(JobState.PENDING, attempt=0, reason="held by ann"), "pending: held by ann"),
        (change(JobState.CANCELLED, attempt=0), "cancelled"),
    ],
)  # fmt: skip
def test_a_change_says_what_happened_to_which_attempt_and_why(given, said):
    assert change_phrase(given) == said


def test_a_line_that_is_kept_keeps_no_list_of_hosts():
    """4,000 lines, each with a list of a thousand hosts, took 400 MB."""
    barred = frozenset(HostId(f"h{number}") for number in range(1000))
    live = Live(QueuedJob(JobId("55000001"), barred=barred))
    made = changed(live, JobState.CANCELLED)
    assert made.barred is barred
    count = len(gc.get_referrers(barred))
    say(SimpleNamespace(jobs={}), [made])
    (line,), _ = RECENT.of("55000001", time.time())
    assert line.text == "cancelled"
    assert len(gc.get_referrers(barred)) == count


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.EVICTED])
def test_what_is_lost_or_moved_is_in_the_journal(fate, caplog):
    caplog.set_level(logging.INFO, "lbd.dispatch")
    life = SimpleNamespace(jobs={JOB: Live(TASK)})
    say(life, [change(JobState.RUNNING, Fate.RUNNING, host=H3)])
    assert not caplog.records
    say(life, [change(JobState.PENDING, fate, Ending(Cause.LOST, reason="contact was lost"))])
    (record,) = caplog.records
    assert (record.levelname, record.job) == ("INFO", JOB)
    assert record.getMessage() == f"attempt 1 {fate.value}; pending: contact was lost"


def test_every_line_carries_the_id_that_users_know():
    life = SimpleNamespace(jobs={JOB: Live(TASK)})
    ended = Changed(JOB, JobState.DONE, 1, 1, None, Fate.DONE, None, 0, "", frozenset(),
                    shown=TASK.shown)  # fmt: skip
    say(life, [
        Begin(JOB, 1, H3, 1, None, array=TASK.array, array_index=TASK.array_index),
        Signal(JOB, 1, H3, 15), Signal(JOB, 1, H3, 0, "cancel"), ended,
    ])  # fmt: skip
    lines, _ = RECENT.of(TASK.shown, time.time())
    assert [(line.job, line.text) for line in lines] == [
        (TASK.shown, "attempt 1 goes to h3"),
        (TASK.shown, "attempt 1 on h3 is sent signal 15"),
        (TASK.shown, "attempt 1 on h3 is asked to end (cancel)"),
        (TASK.shown, "attempt 1 done"),
    ]
