"""Runs every scenario of faults from seeds: a whole cluster keeps its promises and reaches its end.

`LBD_FAULT_SEEDS=500` runs so many for each scenario instead of ten, `LBD_FAULT_SEEDS=17:18` the one
that failed.
"""

import os
import re
from collections import Counter
from dataclasses import replace

import pytest

from lbd.dispatch.core.dependencies.conditions import How, conditions_of
from lbd.dispatch.core.gangs.gang import Gangs
from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.records import Lease
from lbd.dispatch.core.shares import Shares
from lbd.dispatch.core.targets.arrays import Targets
from lbd.lbm.core import execution_events as e
from lbd.lbm.core.execution import Execution, Timer
from lbd.lbm.core.journey import Journey
from lbd.lbm.core.slots import SlotLine
from lbd.sim.faults.host import Host
from lbd.sim.faults.ledger import Ledger
from lbd.sim.faults.promises import BrokenPromise, Promises
from lbd.sim.faults.saved_state import handed_over
from lbd.sim.faults.scenarios import SCENARIOS, ClusterRun, drawn

FIRST, _, END = os.environ.get("LBD_FAULT_SEEDS", "10").rpartition(":")
SEEDS = range(int(FIRST or 0), int(END))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_whatever_happens_the_promises_hold(scenario, seed):
    run = ClusterRun(scenario, seed)
    run.run()
    cluster = run.cluster
    assert cluster.moments > 500
    assert len(cluster.promises.callers) > 10
    assert len(cluster.promises.acknowledged) > 5


def test_jobs_wait_for_more_slots_before_and_after_a_dispatcher_is_killed():
    before = after = 0
    for seed in range(6):
        run = ClusterRun("malleable", seed)
        run.run()
        dispatcher = run.cluster.queue.dispatcher
        before += dispatcher.held_out
        after += dispatcher.life.queues.heads.held_out
    assert before > 0
    assert after > 0


def test_gangs_targets_malleable_jobs_and_owners_meet_a_dispatcher_killed_at_a_start():
    """Shows that the scenario contains the events that could break its promises."""
    at_starts = evictions = held_out = 0
    kinds = set()
    for seed in range(8):
        run = ClusterRun("papers", seed)
        run.run()
        dispatcher = run.cluster.queue.dispatcher
        at_starts += run.killed_at_starts
        evictions += run.cluster.promises.evictions
        held_out += dispatcher.held_out + dispatcher.life.queues.heads.held_out
        for row in dispatcher.ledger.jobs.values():
            is_done = row.state == "done"
            kinds.add(
                ("gang", is_done) if row.gang else ("target", row.target is not None, is_done)
            )
    assert at_starts > 2
    assert evictions > 0
    assert held_out > 0
    assert {("gang", True), ("target", True, True), ("target", False, True)} <= kinds


def test_jobs_wait_for_others_under_dispatchers_that_are_killed():
    """Shows that the scenario contains the events that could break its promises."""
    kinds = set()
    for seed in range(16):
        run = ClusterRun("dependencies", seed)
        run.run()
        for row in run.cluster.queue.dispatcher.ledger.jobs.values():
            for one in conditions_of(row.after, row.array_index):
                kinds.add((one.how, one.first < one.last, row.attempt > 0))
            if row.not_before and row.attempt:
                kinds.add("late")
    began = {(how, is_array, True) for how in How for is_array in (False, True)}
    ended = {(how, False, False) for how in How}
    assert kinds >= {"late", *began, *ended}


def test_gpus_are_held_and_waited_for_while_hosts_and_dispatchers_fail():
    """Shows that the scenario contains the events that could break its promises."""
    given, ended = Counter(), Counter()
    for seed in range(4):
        run = ClusterRun("needs", seed)
        run.run()
        for host in run.cluster.hosts.values():
            for job, grant in host.grants.items():
                kind = "attempt" if "." in job else "command"
                given[kind, sum(len(one.indices) for one in grant.resources)] += 1
        rows = run.cluster.queue.dispatcher.ledger.jobs.values()
        ended.update(row.state for row in rows if row.needs)
    assert all(given[kind, count] > 2 for kind in ("attempt", "command") for count in (1, 2))
    assert ended["done"] > 20


def test_gangs_that_need_gpus_are_held_and_given_back():
    """Shows that the scenario contains the events that could break its promises."""
    at_starts, ended = 0, Counter()
    for seed in range(4):
        run = ClusterRun("gangs-needs", seed)
        run.run()
        at_starts += run.killed_at_starts
        rows = run.cluster.queue.dispatcher.ledger.jobs.values()
        ended.update((row.state, row.attempt > 1) for row in rows if row.gang and row.needs)
    assert at_starts > 2
    assert ended["done", False] > 5
    assert ended["done", True] > 5


def test_a_run_follows_from_its_seed():
    runs = [ClusterRun("everything", 3) for _ in range(2)]
    for run in runs:
        run.run()
    assert runs[0].cluster.moments == runs[1].cluster.moments
    assert runs[0].cluster.events == runs[1].cluster.events


def test_a_host_that_begins_nothing_keeps_no_job():
    """It takes attempts and says that it holds them, or refuses a gang for now; all end well."""
    kept = refused = elsewhere = 0
    for seed in range(4):
        run = ClusterRun("hoarders", seed)
        run.run()
        attempts = run.cluster.queue.dispatcher.ledger.attempts
        for (job, number), one in attempts.items():
            kept += (is_kept := "did not begin it" in one.reason)
            refused += one.reason.endswith("not now")
            following = attempts.get((job, number + 1))
            elsewhere += is_kept and following is not None and following.host != one.host
    assert kept > 10
    assert refused > 5
    assert elsewhere > kept // 2


def test_a_host_that_may_keep_what_it_does_not_begin(monkeypatch):
    monkeypatch.setattr(Lease, "is_given_up", lambda self, lease_s, now_s: False)
    assert re.search(r"h\d keeps job \d+, which it has not begun", broken("hoarders"))


def test_ten_seeds_have_every_fault_of_a_scenario():
    names = ClusterRun("calm", 0).cluster.names
    for scenario, kinds in SCENARIOS.items():
        if scenario == "everything":
            continue
        found = {fault.kind for seed in range(10) for fault in drawn(scenario, seed, names)}
        assert found == set(kinds)


@pytest.mark.parametrize("seed", range(3))
def test_wall_clocks_affect_no_decision(seed):
    stepped, calm = ClusterRun("clocks", seed), ClusterRun("calm", seed)
    for run in (stepped, calm):
        run.run()
    events = [event for event in stepped.cluster.events if "clock step" not in event]
    assert events[-20:] == list(calm.cluster.events)[-20:]
    assert stepped.cluster.queue.wall_offset_s != 0.0


def test_owners_who_come_and_go_make_jobs_move_under_either_rule():
    """A dispatcher is killed meanwhile; nothing is lost and nothing runs twice."""
    moved = {}
    for seed in range(8):
        run = ClusterRun("owners-queue", seed)
        run.run()
        rule = run.cluster.owners.rule
        moved[rule] = moved.get(rule, 0) + run.cluster.promises.evictions
    assert moved.keys() == {"evict", "decide"}
    assert min(moved.values()) > 0


def test_owners_who_come_back_make_whole_gangs_start_again():
    """Even while a dispatcher is killed: in the end all of a gang has ended, or starts again."""
    moved = done = 0
    for seed in range(8):
        run = ClusterRun("owners-gangs", seed)
        run.run()
        ledger = run.cluster.queue.dispatcher.ledger
        gangs = {row.id for row in ledger.jobs.values() if row.gang}
        begun_again = {
            int(key[0])
            for key, one in ledger.attempts.items()
            if one.fate == "evicted" and int(key[0]) in gangs
        }
        moved += len(begun_again)
        done += sum(ledger.jobs[job].state == "done" for job in begun_again)
    assert moved > 3
    assert done > 0


def test_more_tasks_at_once_than_their_array_allows(monkeypatch):
    monkeypatch.setattr(Shares, "bars", lambda self, job: False)
    assert re.search(r"2 tasks of array \d+ run, of 1", broken("calm", "dispatcher"))


def test_a_job_that_may_not_restart_and_moves(monkeypatch):
    monkeypatch.setattr(Lifecycle, "may_move", lambda self, job: True)
    assert re.search(r"evicted job \d+, which may not restart", broken("owners", "owners-queue"))


def test_a_start_that_a_keeper_reads_after_its_lease_is_not_carried_out(monkeypatch):
    """Its LBM hangs, too, and the dispatcher has started another attempt by then."""
    monkeypatch.setitem(SCENARIOS, "hung", ("keeper paused", "LBM paused", "cut"))
    ClusterRun("hung", 33).run()


# Whether the checks work: a fault in the deciding code breaks a promise


def broken(*scenarios, seeds=20):
    """The message of the first run that breaks a promise."""
    for seed in range(seeds):
        for scenario in scenarios:
            try:
                ClusterRun(scenario, seed).run()
            except BrokenPromise as problem:
                return str(problem)
    raise AssertionError("all promises hold")


def test_an_expired_lease_that_is_ignored(monkeypatch):
    due = Execution._due
    passed_over = lambda self, timer, now_s: [] if timer is Timer.LEASE else due(self, timer, now_s)  # noqa: E731
    monkeypatch.setattr(Execution, "_due", passed_over)
    assert re.search(r"attempt \d of job \d+ begins on h\d without a lease", broken("network"))


def test_a_dispatcher_that_waits_only_for_the_leases_that_it_grants_itself(monkeypatch):
    """As it once was: seed 2 of `leases` breaks."""
    restored = Lifecycle.restored

    def forgets(self, *job):
        self.terms = replace(self.terms, inherited_s=0.0)
        return restored(self, *job)

    monkeypatch.setattr(Lifecycle, "restored", forgets)
    twice = r"two runs of job \d+ are alive|job \d+ has ended as lost, and lives on h\d"
    assert re.search(twice, broken("leases"))


def test_a_lost_task_of_an_array_with_a_target_that_is_not_counted_again(monkeypatch):
    monkeypatch.setattr(Targets, "lost", lambda self, job, now_s: None)
    assert re.search(r"of array \d+ run, not", broken("targets"))


def test_a_restart_that_forgets_what_runs_of_an_array_with_a_target(monkeypatch):
    found = Queues.found_running

    def forgets(self, job, *place):
        found(self, job._replace(target=None), *place)

    monkeypatch.setattr(Queues, "found_running", forgets)
    assert re.search(r"of array \d+ (run|are left), not", broken("targets"))


def test_the_end_of_an_earlier_attempt_taken_for_that_of_the_last_one(monkeypatch):
    monkeypatch.setattr(Lifecycle, "holder", lambda self, name, job, attempt: self.leased.get(job))
    wrong = r"two runs of job \d+ are alive|has ended as \w+, and (lives|begins again)"
    wrong += r"|\d tasks of array \d+ run, of 1"  # since an attempt is taken to have ended
    assert re.search(wrong, broken("network", "everything"))


def test_a_slot_that_is_never_freed(monkeypatch):
    monkeypatch.setattr(Execution, "_free_slot", lambda self: [])
    assert re.search(r"the slots of h\d belong to", broken("calm"))


def test_a_slot_that_is_freed_but_stays_on_the_list(monkeypatch):
    monkeypatch.setattr(SlotLine, "free", lambda self, job: [])
    assert re.search(r"the slots of h\d belong to", broken("calm"))


def test_a_slot_that_is_freed_twice(monkeypatch):
    monkeypatch.setattr(Execution, "_free_slot", lambda self: [e.FreeSlot(), e.FreeSlot()])
    assert re.search(r"frees its slot of h\d a second time", broken("calm"))


def test_an_lbm_that_forgets_commands_its_keeper_still_ends(monkeypatch):
    monkeypatch.setattr(Host, "_see_out", Host.go_on)
    assert re.search(r"two of h\d have the same: used", broken("needs-crashes"))


def test_the_eviction_of_a_command_that_has_written(monkeypatch):
    treat = Execution._treat
    blind = lambda self, event, now_s: treat(self, replace(event, untouched=True), now_s)  # noqa: E731
    monkeypatch.setattr(Execution, "_treat", blind)
    assert "which had read or written" in broken("owners", "owners-queue")


def test_an_evicted_command_that_starts_again_although_it_has_written(monkeypatch):
    treat, ended = Execution._treat, Journey._has_ended
    blind = lambda self, event, now_s: treat(self, replace(event, untouched=True), now_s)  # noqa: E731
    again = lambda self, event, now_s: ended(self, replace(event, untouched=True), now_s)  # noqa: E731
    monkeypatch.setattr(Execution, "_treat", blind)
    monkeypatch.setattr(Journey, "_has_ended", again)
    monkeypatch.setattr(Promises, "reported", lambda self, host, command, action: None)
    assert "had read or written before it was evicted, and runs again" in broken(
        "owners", "owners-queue", seeds=60
    )


def test_an_acknowledged_job_that_is_not_on_the_ledger(monkeypatch):
    def forgetful(self, sent, unix_s):
        accepted = submit(self, sent, unix_s)
        del self.jobs[accepted.first]
        return accepted

    submit = Ledger.submit
    monkeypatch.setattr(Ledger, "submit", forgetful)
    assert re.search(r"job \d+ was acknowledged, and is not on the ledger", broken("calm"))


def test_a_caller_that_hears_about_the_end_twice(monkeypatch):
    fail = Journey._fail
    twice = lambda self, *a, **more: (fail(self, *a, **more)[:1]) + fail(self, *a, **more)  # noqa: E731
    monkeypatch.setattr(Journey, "_fail", twice)
    assert re.search(r"command c\d+ ends twice for its caller", broken("network"))


def test_a_task_of_a_gang_that_is_released_as_soon_as_it_is_ready(monkeypatch):
    alone = lambda self, live: self._release(self.of(live.job), (live,))  # noqa: E731
    monkeypatch.setattr(Gangs, "ready", alone)
    assert re.search(r"job \d+ begins, and job \d+ of its gang is not held", broken("gangs"))


def test_a_host_that_holds_nothing_for_a_gang(monkeypatch):
    monkeypatch.setattr(Execution, "_ready", Execution._spawn)
    assert re.search(r"job \d+ begins, and job \d+ of its gang is not held", broken("gangs"))


def test_a_restart_hands_over_only_plain_values():
    with pytest.raises(TypeError, match="a restart cannot hand over function"):
        handed_over({"job": [print_nothing]})
    host = ClusterRun("calm", 0).cluster.hosts["h1"]
    copied = handed_over(host.lbm)
    assert copied == host.lbm
    assert copied.line.slots is not host.lbm.line.slots


def print_nothing():
    pass
