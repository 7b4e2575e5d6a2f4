"""Jobs that a host refuses for a while, such as those whose files are unavailable: they are tried
again, and what users do meanwhile."""

import errno
import os

import pytest

from lbd.dispatch.core.discipline import HostSlots
from lbd.dispatch.core.lifecycle import LOOKS_MAX
from lbd.dispatch.core.records import Begin, Cause, Ending, Fate, Settle
from lbd.dispatch.core.retry import Pauses, phase_to_go_by
from lbd.model import HostId, JobId, JobState
from tests.unit.dispatch.core.test_lifecycle import H1, H2, Table


def test_a_job_whose_files_are_away_is_held_and_retried_at_growing_intervals():
    table = Table(aside_s=10.0, aside_max_s=30.0)
    (begin,) = table.submit("1")
    away = Ending(Cause.LOST, reason="its files: h9 cannot be asked")
    for number, pause_s in enumerate((10.0, 20.0, 30.0, 30.0), 1):
        held, settle = table.life.refused(begin.host, "1", number, "files", away, *table.when)
        assert (held.state, held.fate, held.crashes) == (JobState.PENDING, Fate.REFUSED, 0)
        assert held.reason.startswith("held for a while: h")
        assert settle == Settle(JobId("1"), number, begin.host)
        table.now_s += pause_s - 1
        assert table.life.tick(*table.when) == []
        table.now_s += 1
        back, begin = table.life.tick(*table.when)
        assert (back.state, begin.attempt) == (JobState.PENDING, number + 1)
    assert not table.life.hosts.aside()  # these hosts are not at fault


def test_a_temporarily_held_job_may_be_held_for_good_or_leave():
    table = Table(aside_s=10.0)
    away = Ending(Cause.LOST, reason="its files: h9 cannot be asked")
    for name in ("1", "2"):
        (begin,) = table.submit(name)
        table.life.refused(begin.host, begin.job, 1, "files", away, *table.when)
    (gone,) = table.life.kill(JobId("1"), 0, *table.when)
    assert gone.state is JobState.CANCELLED
    assert isinstance(table.life.release(JobId("2"), *table.when)[-1], Begin)
    table.now_s = 10.0
    assert table.life.tick(*table.when) == []


def test_a_job_that_a_user_holds_during_a_pause_stays_held_after_it():
    table = Table(aside_s=10.0)
    (begin,) = table.submit("1")
    away = Ending(Cause.LOST, reason="its files: h9 cannot be asked")
    table.life.refused(begin.host, begin.job, 1, "files", away, *table.when)
    (held,) = table.life.hold(begin.job, "held by ann", *table.when)
    assert (held.state, held.reason) == (JobState.PENDING, "held by ann")
    table.now_s = 10.0
    assert table.life.tick(*table.when) == []
    assert isinstance(table.life.release(begin.job, *table.when)[-1], Begin)


def test_pauses_of_jobs_that_have_ended_are_forgotten():
    table, jobs, pauses = Table(aside_s=10.0), {}, Pauses()
    for name in ("1", "2", "3"):
        table.submit(name)
        jobs[JobId(name)] = live = table.life.jobs[JobId(name)]
        live.held = pauses.begin(live, table.life.terms, 0.0)
    pauses.drop(JobId("1"))
    assert pauses.over(jobs, 10.0, 9) == ["2", "3"]
    pauses.drop(JobId("2"))
    assert pauses.over(jobs, 11.0, 9) == []
    assert list(pauses._counts) == ["3"]


def test_what_has_ended_has_no_pause_and_no_bar_any_more():
    table = Table(aside_s=10.0)
    for name, phase in (("1", "files"), ("2", "not-yet")):
        for begin in table.submit(name):
            refused = Ending(Cause.LOST, reason="later", wait_s=600.0)
            table.life.refused(begin.host, begin.job, begin.attempt, phase, refused, *table.when)
        table.life.kill(JobId(name), 0, *table.when)
        for live in list(table.life.leased.values()):  # where else it began
            stopped = Ending(Cause.EXITED, 143, 15)
            table.life.ended(live.lease.host, live.job.id, live.attempt, stopped, *table.when)
    assert not table.life.jobs
    assert (table.life.pauses._counts, table.life.bars._hosts) == ({}, {})


def test_a_pause_until_a_given_time_makes_no_later_one_longer():
    table = Table(aside_s=10.0)
    table.submit("1")
    live, pauses, jobs = table.life.jobs[JobId("1")], Pauses(), table.life.jobs
    live.held = pauses.until(live, 5.0)
    assert (pauses.over(jobs, 4.9, 9), pauses.over(jobs, 5.0, 9)) == ([], ["1"])
    live.held = pauses.begin(live, table.life.terms, 20.0)
    assert (pauses.over(jobs, 29.9, 9), pauses.over(jobs, 30.0, 9)) == ([], ["1"])


class Counted(str):
    """A job's id that counts how often it is looked for."""

    looks = 0
    __slots__ = ()

    def __hash__(self):
        Counted.looks += 1
        return super().__hash__()


@pytest.mark.parametrize("phase", ["files", "not-yet"])
def test_who_has_very_many_jobs_wait_for_a_time_costs_no_look_at_them_all_at_each_tick(phase):
    """A host refuses each of a user's array until an hour that its owner has set, or a host that
    was taken over refuses what it likes: a million of these were gone through at each tick."""
    table, many = Table(aside_s=600.0, aside_max_s=600.0), 300
    for number in range(1, many + 1):
        table.now_s += 0.5
        begins = table.submit(Counted(f"x{number}"))
        while begins:  # by both hosts
            begin = begins.pop()
            refused = Ending(Cause.LOST, reason="later", wait_s=600.0)
            actions = table.life.refused(
                begin.host, begin.job, begin.attempt, phase, refused, *table.when
            )
            begins += [one for one in actions if isinstance(one, Begin)]
    looks = []
    for number in range(20):
        table.now_s = 600.5 + number / 2  # one's time has come
        Counted.looks = 0
        actions = table.life.tick(*table.when)
        looks.append(Counted.looks)
        assert any(isinstance(one, Begin) for one in actions) == (number < 2)
    assert max(looks) < many // 3


@pytest.mark.parametrize("phase", ["files", "not-yet"])
def test_those_whose_time_has_come_together_begin_again_a_number_at_a_time(phase):
    table, many = Table(aside_s=600.0, aside_max_s=600.0), LOOKS_MAX + 100
    for number in range(1, many + 1):
        begins = table.submit(str(number))
        while begins:
            begin = begins.pop()
            refused = Ending(Cause.LOST, reason="later", wait_s=600.0)
            actions = table.life.refused(
                begin.host, begin.job, begin.attempt, phase, refused, *table.when
            )
            begins += [one for one in actions if isinstance(one, Begin)]
    table.now_s = 600.0
    waiting = table.life.queues.lines
    table.life.tick(*table.when)
    first = sum(line.jobs for line in waiting.values())
    for _ in range(3):
        table.life.tick(*table.when)
    assert first < LOOKS_MAX < sum(line.jobs for line in waiting.values()) + 2


@pytest.mark.parametrize(
    ("phase", "number"),
    [
        ("spawn", errno.EAGAIN),
        ("spawn", errno.ENOSPC),
        ("spawn", errno.EMFILE),
        ("user", errno.EAGAIN),  # its user database is slow
        ("user", errno.ETIMEDOUT),
        ("stage", errno.ENOSPC),  # its files cannot be unpacked
        ("stage", errno.EAGAIN),
    ],
)
def test_no_job_fails_because_its_only_host_is_short_of_something(phase, number):
    """Any user can take all processes of a host or fill its disk. Whatever waited for that host
    then failed as soon as it was asked, with exit status 125, though it had never run."""
    table = Table(host_failures=1, aside_s=10.0)
    table.life.host_gone(H2, *table.when)
    table.life.hosts.known.pop(H2)
    short = Ending(Cause.LOST, number, reason=os.strerror(number))
    (begin,) = table.submit("1")
    back, _ = table.life.refused(H1, "1", begin.attempt, phase, short, *table.when)
    assert (back.state, back.fate, back.crashes) == (JobState.PENDING, Fate.REFUSED, 0)
    assert table.life.hosts.aside() == []
    table.now_s = 10.0
    (begin,) = table.life.tick(*table.when)
    assert (begin.host, begin.attempt) == (H1, 2)


def test_what_a_user_may_have_arranged_sets_a_host_aside_for_others_only_if_several_have_it():
    """One job that could not begin within its own limits took each host from everybody."""
    table = Table(host_failures=3, aside_s=10.0)
    table.life.host_gone(H2, *table.when)
    table.life.hosts.known.pop(H2)
    short = Ending(Cause.LOST, errno.ENOMEM, reason=os.strerror(errno.ENOMEM))
    (begin,) = table.submit("1", user="mallory")
    kept_s = []
    for _ in range(4):
        table.life.refused(H1, "1", begin.attempt, "spawn", short, *table.when)
        assert table.life.hosts.aside() == []
        began_s = table.now_s
        while not (begun := [a for a in table.life.tick(*table.when) if isinstance(a, Begin)]):
            table.now_s += 1.0
        (begin,) = begun
        kept_s.append(table.now_s - began_s)
    assert kept_s == [10.0, 20.0, 40.0, 80.0]
    table.life.refused(H1, "1", begin.attempt, "spawn", short, *table.when)
    (begin,) = table.submit("2", user="ann")
    table.life.refused(H1, "2", begin.attempt, "spawn", short, *table.when)
    assert table.life.hosts.aside() == [H1], "two users: it is the host's"


def test_a_job_whose_files_have_no_room_goes_elsewhere_and_is_asked_about_less_and_less_often():
    """Each time its files are sent to that host again."""
    table = Table(host_failures=1, aside_s=10.0)
    full = Ending(Cause.LOST, errno.ENOSPC, reason="its files: big: No space left on device")
    (begin,) = table.submit("1")
    tries, first = [], begin.host
    for _ in range(3):
        actions = table.life.refused(begin.host, "1", begin.attempt, "stage", full, *table.when)
        begins = [one for one in actions if isinstance(one, Begin)]
        while not begins:
            assert table.now_s < 100.0
            table.now_s += 1.0
            begins = [one for one in table.life.tick(*table.when) if isinstance(one, Begin)]
        (begin,) = begins
        tries.append((begin.host, table.now_s))
    other = H2 if first == H1 else H1
    assert tries == [(other, 0.0), (first, 10.0), (other, 20.0)]


def test_files_that_their_user_may_not_write_make_a_job_fail():
    table = Table()
    table.life.host_gone(H2, *table.when)
    table.life.hosts.known.pop(H2)
    (begin,) = table.submit("1")
    for number in (errno.EDQUOT, errno.EACCES):
        assert phase_to_go_by("stage", number, in_gang=False) == "stage"
    over = Ending(Cause.LOST, errno.EDQUOT, reason="its files: big: Disk quota exceeded")
    table.life.refused(begin.host, "1", begin.attempt, "stage", over, *table.when)
    assert JobId("1") not in table.life.jobs


def test_a_job_whose_host_was_frozen_until_its_lease_was_over_does_not_fail():
    """Its keeper refuses to begin it, with ETIME: any user can load a host so much."""
    table = Table(host_failures=1)
    table.life.host_gone(H2, *table.when)
    table.life.hosts.known.pop(H2)
    late = Ending(Cause.LOST, errno.ETIME, reason="spawn: Timer expired")
    (begin,) = table.submit("1")
    back, _ = table.life.refused(H1, "1", begin.attempt, "spawn", late, *table.when)
    assert (back.state, back.fate, back.crashes) == (JobState.PENDING, Fate.REFUSED, 0)
    assert not table.life.hosts.aside()
    (begin,) = table.life.host_is(HostSlots(H1, 1), *table.when)
    assert begin.attempt == 2


def test_a_job_too_large_for_the_hosts_that_have_not_refused_it_fails():
    table = Table()
    table.life.host_is(HostSlots(H1, 4), *table.when)
    (begin,) = table.submit("1", slots=4)
    missing = Ending(Cause.LOST, 2, reason="nosuch: not found")
    failed, _ = table.life.refused(H1, begin.job, 1, "exec", missing, *table.when)
    assert (failed.state, failed.ending.exit_status) == (JobState.FAILED, 127)
    assert failed.reason == "h1: nosuch: not found; no other host has what it needs"


def test_a_job_that_waits_only_for_a_host_that_is_removed_ends():
    """It was barred from the one that had refused it for ever: "all hosts are excluded"."""
    table = Table()
    table.life.host_gone(H2, *table.when)
    (begin,) = table.submit("1")
    missing = Ending(Cause.LOST, 2, reason="nosuch: not found")
    table.life.refused(H1, begin.job, 1, "exec", missing, *table.when)
    assert "1" in table.life.jobs
    assert table.life.hosts_removed([HostId("h9")], *table.when) == []
    (again,) = table.life.hosts_removed([H2], *table.when)
    failed, _ = table.life.refused(H1, again.job, 2, "exec", missing, *table.when)
    assert (failed.state, failed.reason) == (JobState.FAILED, "h1: nosuch: not found")
