"""A job whose directory is not there yet on a host that was booted a moment ago."""

import pytest

from lbd.dispatch.core.hosts import HostSlots
from lbd.dispatch.core.records import Begin, Cause, Changed, Ending, Fate
from lbd.dispatch.core.why_waiting import waiting_reason
from lbd.model import JobId, JobState
from tests.unit.dispatch.core.test_lifecycle import H1, H2, OK, Table

MISSING = Ending(Cause.LOST, exit_status=2, reason="/home/ann: No such file or directory")


class Booted(Table):
    """`up_s`: how long h1 has been up by its last heartbeat; h2 has been for days."""

    def __init__(self, up_s):
        super().__init__(host_failures=1)
        self.begun = []
        self.heartbeat(H1, up_s)
        self.heartbeat(H2, 1e6)

    def heartbeat(self, host, up_s):
        self.life.no_longer_held(host, [], "k", up_s, *self.when, is_first=False)

    def submit(self, name, **more):
        return self.note(super().submit(name, **more))

    def note(self, actions):
        self.begun += [one for one in actions if isinstance(one, Begin)]
        return actions

    def refuse(self, phase="chdir"):
        begin = self.begun.pop()
        given = begin.host, begin.job, begin.attempt, phase, MISSING, *self.when
        return self.note(self.life.refused(*given))

    def passes(self, seconds):
        self.now_s += seconds
        self.note(self.life.tick(*self.when))


def failed(actions):
    return [one for one in actions if isinstance(one, Changed) and one.state is JobState.FAILED]


@pytest.mark.parametrize("phase", ["chdir", "directory"])
def test_a_job_bound_to_that_host_waits_a_little_and_starts(phase):
    """It failed for good."""
    table = Booted(up_s=30.0)
    table.submit("1", only=H1)
    assert not failed(table.refuse(phase))
    live = table.life.jobs[JobId("1")]
    assert waiting_reason(table.life, live) == (
        "it may run only on h1 (-H), which refuses it for now: /home/ann: No such file or directory"
    )
    table.passes(14.0)
    assert table.begun == []
    table.passes(1.0)
    (begin,) = table.begun
    assert (begin.host, begin.attempt) == (H1, 2)
    table.life.begun(H1, begin.job, 2)
    (done, _) = table.ended(begin, OK)
    assert done.fate is Fate.DONE


def test_it_fails_with_the_reason_once_the_host_has_been_up_for_long():
    table = Booted(up_s=20.0)
    table.submit("1", only=H1)
    attempts, actions = 0, []
    while not failed(actions):
        attempts += 1
        actions = table.refuse()
        for _ in range(200):
            if table.begun or failed(actions):
                break
            table.passes(1.0)
            table.heartbeat(H1, 20.0 + table.now_s)
    (end,) = failed(actions)
    assert end.ending.reason == "h1: /home/ann: No such file or directory"
    assert 160.0 <= table.now_s < 300.0
    assert attempts < 10
    assert table.life.hosts.aside() == []


def test_a_job_that_may_go_elsewhere_does_so_at_once_and_may_come_back():
    table, job = Booted(up_s=30.0), JobId("1")
    table.life.host_is(HostSlots(H2, 1, load=9.0), *table.when)
    table.submit("1")
    assert table.begun[0].host == H1
    table.refuse()
    (begin,) = table.begun
    assert (begin.host, table.life.jobs[job].barred_now) == (H2, {H1})
    table.passes(15.0)
    assert table.life.jobs[job].job.may_go_to(H1)


@pytest.mark.parametrize(
    ("up_s", "phase"), [(1e5, "chdir"), (0.0, "chdir"), (30.0, "exec"), (30.0, "admission")]
)
def test_otherwise_it_fails_at_once(up_s, phase):
    """A release that does not say how long its host has been up says 0."""
    table = Booted(up_s)
    table.submit("1", only=H1)
    assert failed(table.refuse(phase))
