"""The life of queued jobs: single steps, and random histories in which everything goes wrong."""

import os
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbd.config.dispatch import MODES
from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.hosts import Terms
from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.core.records import (
    Begin,
    Cause,
    Changed,
    Ending,
    Fate,
    Settle,
    Signal,
    StopAsked,
)
from lbd.dispatch.core.shares import Rules
from lbd.errors import LbdError
from lbd.model import CANCEL, HostId, JobId, JobState
from tests.unit.dispatch.world import World

H1, H2 = HostId("h1"), HostId("h2")
OK = Ending(Cause.EXITED, 0, cpu_s=1.0)


class Table:
    """A lifecycle with two hosts of one slot each."""

    def __init__(self, mode="fcfs", **terms):
        self.life = Lifecycle(make(mode, (1.0, 5.0)), Terms(**terms))
        self.now_s = 0.0
        self.rng = Random(1)
        for host in (H1, H2):
            self.life.host_is(HostSlots(host, 1, tiers=(1, 2, 3)), *self.when)

    @property
    def when(self):
        return self.now_s, self.rng

    def submit(self, name, **more):
        return self.life.submitted([QueuedJob(JobId(name), **more)], *self.when)

    def begin(self, name, **more):
        (begin,) = self.submit(name, **more)
        self.life.sending(begin.job, begin.attempt, self.now_s)
        self.life.begun(begin.host, begin.job, begin.attempt)
        return begin

    def ended(self, begin, ending):
        return self.life.ended(begin.host, begin.job, begin.attempt, ending, *self.when)


def test_a_job_starts_ends_and_is_settled():
    table = Table()
    (begin,) = table.submit("1")
    assert isinstance(begin, Begin)
    (running,) = table.life.begun(begin.host, begin.job, 1)
    assert (running.state, running.fate) == (JobState.RUNNING, Fate.RUNNING)
    done, settle = table.ended(begin, OK)
    assert (done.state, done.fate, done.ending) == (JobState.DONE, Fate.DONE, OK)
    assert settle == Settle(begin.job, 1, begin.host)
    assert not table.life.jobs


def test_results_of_an_attempt_that_is_over_are_dropped():
    table = Table(lease_s=10.0)
    begin = table.begin("1")
    table.now_s = table.life.terms.waited_s
    actions = table.life.tick(*table.when)
    again = next(action for action in actions if isinstance(action, Begin))
    assert again.attempt == 2
    assert table.ended(begin, OK) == [Settle(begin.job, 1, begin.host)]
    assert begin.job in table.life.jobs
    _, (order,) = table.life.heartbeat(begin.host, [(begin.job, 1)], table.now_s)
    assert order == Signal(begin.job, 1, begin.host, 9)


def test_a_heartbeat_renews_what_the_host_holds():
    table = Table(lease_s=10.0)
    begin = table.begin("1")
    for _ in range(10):
        table.now_s += 9.0
        renewed, _ = table.life.heartbeat(begin.host, [(begin.job, 1)], table.now_s)
        assert renewed == [(begin.job, 1)]
        assert table.life.tick(*table.when) == []


def test_a_lost_job_that_may_not_restart_is_reported_lost():
    table = Table()
    begin = table.begin("1", may_restart=False)
    lost, _ = table.ended(begin, Ending(Cause.LOST, reason="the keeper has disconnected"))
    assert (lost.state, lost.fate) == (JobState.LOST, Fate.LOST)
    assert "is not restartable" in lost.reason


def test_a_job_that_is_lost_repeatedly_is_held():
    table = Table(crash_limit=2, host_failures=100)
    begin = table.begin("1")
    _, again, _ = table.ended(begin, Ending(Cause.LOST))
    held, _ = table.ended(again, Ending(Cause.LOST))
    assert held.state is JobState.PENDING
    assert held.reason.startswith("held: its attempts were lost 2 times")
    changed, begin = table.life.release(JobId("1"), *table.when)
    assert isinstance(begin, Begin)
    assert changed.crashes == 0


def test_a_host_that_fails_is_set_aside_for_longer_each_time():
    table = Table(host_failures=2, aside_s=10.0)
    table.life.host_gone(H2, *table.when)
    begin = table.begin("1")
    refused = Ending(Cause.LOST, reason="no pipes")
    for name in ("2", "3"):
        table.submit(name)
    actions = table.ended(begin, Ending(Cause.LOST))
    second = next(action for action in actions if isinstance(action, Begin))
    actions = table.ended(second, Ending(Cause.LOST))
    assert not [action for action in actions if isinstance(action, Begin)]
    assert table.life.hosts.aside() == [H1]
    table.now_s = 11.0
    (begin,) = table.life.tick(*table.when)
    assert begin.host == H1
    actions = table.life.refused(H1, begin.job, begin.attempt, "keeper", refused, *table.when)
    assert table.life.hosts.aside() == [H1]
    assert table.life.hosts.known[H1].record.aside_until_s == 31.0


def test_a_job_that_cannot_start_anywhere_fails_as_not_found():
    table = Table()
    (begin,) = table.submit("1")
    missing = Ending(Cause.LOST, 2, reason="nosuch: No such file or directory")
    actions = table.life.refused(begin.host, begin.job, 1, "exec", missing, *table.when)
    again = next(action for action in actions if isinstance(action, Begin))
    assert again.host != begin.host
    failed, _ = table.life.refused(again.host, again.job, 2, "exec", missing, *table.when)
    assert (failed.state, failed.ending.exit_status) == (JobState.FAILED, 127)


def test_a_job_that_cannot_start_waits_for_the_other_hosts_of_a_new_dispatcher():
    table = Table()
    table.life.hosts.known.pop(H2)
    table.life.hosts.more_until_s = 5.0
    missing = Ending(Cause.LOST, 2, reason="nosuch: No such file or directory")
    (begin,) = table.submit("1")
    held, _ = table.life.refused(H1, begin.job, 1, "exec", missing, *table.when)
    assert (held.state, held.reason) == (
        JobState.PENDING,
        f"held for a while: h1: {missing.reason}",
    )
    table.life.host_is(HostSlots(H2, 1), *table.when)
    table.now_s = 5.0
    _, begin = table.life.tick(*table.when)
    actions = table.life.refused(begin.host, begin.job, 2, "exec", missing, *table.when)
    again = next(action for action in actions if isinstance(action, Begin))
    assert {begin.host, again.host} == {H1, H2}


def test_a_host_whose_keeper_is_away_is_not_barred_but_set_aside_if_that_lasts():
    table = Table(host_failures=3, aside_s=10.0)
    table.life.host_gone(H2, *table.when)
    table.life.hosts.known.pop(H2)
    away = Ending(Cause.LOST, reason="the keeper has disconnected")
    (begin,) = table.submit("1")
    for number in (1, 2, 3):
        back, settle = table.life.refused(H1, "1", number, "keeper", away, *table.when)
        assert (back.state, back.fate, back.crashes) == (JobState.PENDING, Fate.REFUSED, 0)
        assert settle == Settle(JobId("1"), number, H1)
        assert table.life.hosts.aside() == ([H1] if number == 3 else [])
        begun = table.life.host_is(HostSlots(H1, 1), *table.when)
        assert [begin.attempt for begin in begun] == ([] if number == 3 else [number + 1])
    table.now_s = 10.0
    (begin,) = table.life.tick(*table.when)
    assert (begin.host, begin.attempt) == (H1, 4)


def test_a_user_whom_a_host_does_not_admit_is_no_fault_of_the_host():
    table = Table(host_failures=1)
    (begin,) = table.submit("1")
    closed = Ending(Cause.LOST, reason="h1 takes no commands of alice")
    actions = table.life.refused(begin.host, "1", 1, "admission", closed, *table.when)
    again = next(action for action in actions if isinstance(action, Begin))
    assert again.host != begin.host
    assert not table.life.hosts.aside()


def test_files_that_cannot_be_unpacked_set_no_host_aside():
    """Their user can cause that: `umask 0777` is enough."""
    table = Table(host_failures=1)
    (begin,) = table.submit("1")
    bad = Ending(Cause.LOST, reason="its files: d/e: Permission denied")
    actions = table.life.refused(begin.host, "1", 1, "stage", bad, *table.when)
    again = next(action for action in actions if isinstance(action, Begin))
    assert again.host != begin.host
    table.life.refused(again.host, "1", 2, "stage", bad, *table.when)
    assert JobId("1") not in table.life.jobs
    assert not table.life.hosts.aside()


def test_a_full_host_is_not_asked_again_until_its_next_heartbeat():
    table = Table()
    table.life.host_gone(H2, *table.when)
    (begin,) = table.submit("1")
    full = Ending(Cause.LOST, reason="no free slot")
    back, _ = table.life.refused(H1, begin.job, 1, "slot", full, *table.when)
    assert (back.state, back.crashes) == (JobState.PENDING, 0)
    (again,) = table.life.host_is(HostSlots(H1, 1), *table.when)
    assert again.attempt == 2


def test_a_pending_job_is_cancelled_at_once_a_running_one_when_it_has_ended():
    table = Table()
    running = [table.begin(name) for name in ("1", "2")]
    assert table.submit("3") == []
    (cancelled,) = table.life.kill(JobId("3"), 0, *table.when)
    assert cancelled.state is JobState.CANCELLED
    order = Signal(JobId("1"), 1, running[0].host, 0, CANCEL)
    assert table.life.kill(JobId("1"), 0, *table.when) == [StopAsked(JobId("1"), 1, CANCEL), order]
    assert table.life.kill(JobId("1"), 0, *table.when) == [order]
    over, _ = table.ended(running[0], Ending(Cause.SIGNALLED, 143, 15))
    assert (over.state, over.ending.exit_status) == (JobState.CANCELLED, 143)
    with pytest.raises(LbdError, match="has ended"):
        table.life.kill(JobId("1"), 0, *table.when)


def test_after_a_checkpoint_stop_it_continues_in_the_next_tier_even_if_it_may_not_restart():
    table = Table("tags")
    stopped = Ending(Cause.CHECKPOINT, 85, cpu_s=0.9)
    begin = table.begin("1")
    changed, again, _ = table.ended(begin, stopped)
    assert (changed.state, changed.fate) == (JobState.PENDING, Fate.CHECKPOINT)
    assert (again.attempt, again.tier) == (2, 2)
    begin = table.begin("2", may_restart=False)
    _, again, _ = table.ended(begin, stopped)
    assert (again.attempt, again.tier) == (2, 3), "the last, as before"


def test_a_job_evicted_by_an_owner_starts_elsewhere_and_does_not_count_as_crashed():
    table = Table("tags", crash_limit=1)
    begin = table.begin("1")
    table.life.host_gone(begin.host, *table.when)  # it accepts nothing while its owner is there
    evicted = Ending(Cause.EVICTED, None, 9, 2.0, "h1's owner came back at 14:02; moves")
    changed, again, _ = table.ended(begin, evicted)
    assert (changed.state, changed.fate) == (JobState.PENDING, Fate.EVICTED)
    assert (changed.crashes, changed.ending.reason) == (0, evicted.reason)
    assert (again.attempt, again.tier) == (2, 1)
    assert again.host != begin.host


def test_a_job_that_may_not_restart_is_lost_whatever_its_host_says_of_its_owner():
    table = Table()
    begin = table.begin("1", may_restart=False)
    assert not table.life.may_move(begin.job)
    changed, _ = table.ended(begin, Ending(Cause.EVICTED, reason="its owner is back"))
    assert changed.state is JobState.LOST


def test_which_jobs_may_be_moved():
    table = Table()
    table.begin("1")
    table.begin("2", only=H2)
    assert [table.life.may_move(JobId(job)) for job in "123"] == [True, False, False]


def test_a_suspended_job_says_why_until_it_continues():
    table = Table()
    begin = table.begin("1")
    which = begin.host, begin.job, begin.attempt
    (still,) = table.life.stopped(*which, True, 0.0, "h1's owner is back")
    assert (still.state, still.reason) == (JobState.SUSPENDED, "h1's owner is back")
    (goes_on,) = table.life.stopped(*which, False, 0.0)
    assert (goes_on.state, goes_on.reason) == (JobState.RUNNING, "")


def test_suspended_time_is_not_run_time():
    table = Table()
    begin = table.begin("1")
    which = begin.host, begin.job, begin.attempt
    table.life.stopped(*which, True, 10.0)
    table.life.stopped(*which, False, 70.0)
    assert table.life.queues.registry.entries[begin.job].ran_s(80.0) == 20.0


def test_a_job_that_stops_at_checkpoints_forever_is_held():
    table = Table(attempts_max=3)
    begin = table.begin("1")
    for _ in range(2):
        actions = table.ended(begin, Ending(Cause.CHECKPOINT, 85))
        begin = next(action for action in actions if isinstance(action, Begin))
        table.life.begun(begin.host, begin.job, begin.attempt)
    changed, _ = table.ended(begin, Ending(Cause.CHECKPOINT, 85))
    assert (changed.state, changed.fate) == (JobState.PENDING, Fate.CHECKPOINT)
    assert changed.reason == "held: it stopped at a checkpoint again in attempt 3"
    (again,) = [a for a in table.life.release(begin.job, *table.when) if isinstance(a, Begin)]
    assert again.attempt == 4


def test_after_a_cutoff_it_continues_in_the_next_tier():
    table = Table("tags")
    begin = table.begin("1")
    assert begin.cutoff_s == 1.0
    actions = table.ended(begin, Ending(Cause.CUT, 137, 9))
    changed, again, _ = actions
    assert (changed.fate, changed.tier) == (Fate.CUT, 2)
    assert (again.tier, again.cutoff_s, again.attempt) == (2, 5.0, 2)


def test_an_attempt_starts_under_a_full_lease_however_long_the_disk_took():
    table = Table(lease_s=10.0)
    (begin,) = table.submit("1")
    table.now_s = 5.0
    assert table.life.sending(begin.job, 1, table.now_s)
    assert table.life.jobs[begin.job].lease.until_s == 5.0 + table.life.terms.waited_s
    table.life.kill(begin.job, 0, *table.when)
    assert not table.life.sending(begin.job, 1, table.now_s)


def test_changes_name_what_to_record():
    table = Table()
    begin = table.begin("1")
    done = table.ended(begin, OK)[0]
    assert isinstance(done, Changed)
    assert (done.job, done.attempt, done.crashes) == (JobId("1"), 1, 0)


EVENTS = (
    ("submit", 8), ("commit", 60), ("wait", 25), ("long_wait", 1), ("deliver_up", 80),
    ("deliver_down", 80), ("beat", 40), ("connect", 20), ("cut", 4), ("crash", 1), ("end", 6),
    ("restart_lbm", 1), ("lose_keeper", 1),
    ("restart", 1), ("torn", 1), ("stall", 1), ("disk", 1), ("kill", 1),
    ("hold", 1), ("release", 1), ("requeue", 1),
)  # fmt: skip

RULES = (
    Rules(),
    Rules(user_slots=2, backfill="learnt", backfill_risk=0.4),
    Rules(fair_share_s=20.0, priorities=True),
    Rules(user_slots=3, fair_share_s=20.0),
)


def happen(world, name):
    host = world.rng.choice(list(world.hosts.values()))
    if name == "submit":
        world.submit(world.rng.random() < 0.8, world.rng.choice((1, 1, 3, 8)))
    elif name in ("wait", "long_wait"):
        world.wait(world.rng.uniform(0.0, 15.0 if name == "long_wait" else 2.0))
    elif name.startswith("deliver"):
        world.deliver(host, upwards=name == "deliver_up")
    elif name == "beat":
        if host.connected:
            host.heartbeat()
    elif name in ("connect", "cut", "crash", "restart_lbm", "lose_keeper"):
        getattr(world, name)(host)
    elif name == "end":
        world.end_one(host, world.rng.choice((0, 0, 1)))
    elif name == "stall":
        world.stall(world.rng.uniform(0.0, 15.0))
    elif name == "disk":
        world.disk_full = not world.disk_full
    elif name in ("commit", "restart", "torn"):
        getattr(world, name)()
    else:
        world.act(name)


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=25, deadline=None)
@given(
    names=st.lists(st.sampled_from([name for name, _ in EVENTS]), max_size=200),
    seed=st.integers(0, 99),
    rules=st.sampled_from(RULES),
)
def test_no_history_has_two_attempts_alive_or_forgets_a_job(mode, names, seed, rules):
    world = World(mode, seed, rules=rules)
    for name in names:
        happen(world, name)
        world.check()
    world.finish()


@pytest.mark.parametrize("mode", ["fcfs", "tags", "shortest-queue"])
@pytest.mark.parametrize("seed", range(int(os.environ.get("LBD_SIM_SEEDS", "4"))))
def test_long_histories(mode, seed):
    """A run replays from its seed, which is all it depends on. LBD_SIM_SEEDS=999 runs so many."""
    limit, widest = (1000, 2)[seed % 2], (2, 1)[seed // 2 % 2]
    world = World(mode, seed, rules=RULES[seed % len(RULES)], crash_limit=limit, widest=widest)
    names, weights = zip(*EVENTS, strict=True)
    for _ in range(3000):
        (name,) = world.rng.choices(names, weights)
        happen(world, name)
        world.check()
    world.finish()
