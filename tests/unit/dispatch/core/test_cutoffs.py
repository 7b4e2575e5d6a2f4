"""Cutoffs from history: which jobs count, and when the cutoffs change."""

from dataclasses import replace
from itertools import product
from random import Random

import pytest

from lbd.dispatch.core.cutoffs import (
    START_S,
    PastJob,
    SolverTerms,
    as_spread,
    described,
    expected_now,
    heard,
    judge,
    layouts_of,
    past_jobs,
    recorded,
    tier_order,
)
from lbd.dispatch.core.discipline import HostSlots
from lbd.dispatch.core.ledger_rows import JobRow
from lbd.model import HostId
from lbd.theory.bounded_pareto import BoundedPareto
from lbd.theory.measured_sizes import MeasuredSizes

SIZES = BoundedPareto(0.1, 1000.0, 1.0)
SLOWDOWN = SolverTerms("slowdown", 200, 0.1)
LAYOUTS = {2: (2.0, 2.0), 4: (1.0, 1.0, 1.0, 1.0)}


def past(count=2000, load=0.5, seed=1, sizes=SIZES, **more):
    """Returns Poisson arrivals at four slots."""
    rng, now, jobs = Random(seed), 1e6, []
    rate = load * 4 / sizes.mean_s
    for _ in range(count):
        now += rng.expovariate(rate)
        size = sizes.sample(rng)
        jobs.append(PastJob(size, size, now, **{"may_restart": True, **more}))
    return jobs, now


def verdict(mode="tags", layouts=LAYOUTS, terms=SLOWDOWN, in_force=(), **more):
    return judge(mode, *past(**more), layouts, terms, in_force)


def test_a_few_jobs_settle_nothing():
    found = verdict(count=199, in_force=(1.0,))
    assert (found.cutoffs_s, found.changed) == ((1.0,), False)
    assert found.reason == "199 jobs on record; 200 are needed (tags.solve_jobs)"


def test_the_first_cutoffs_come_from_the_fit():
    found = verdict()
    assert found.changed
    assert found.record.is_fitted
    assert found.record.fit.sizes.alpha == pytest.approx(1.0, abs=0.1)
    assert len(found.cutoffs_s) in (1, 3)
    assert sorted(found.cutoffs_s) == list(found.cutoffs_s)
    assert found.expected.slowdown < found.one_queue
    line = described(found)
    assert line.startswith("cutoffs ")
    for word in ("mean slowdown", "one queue for all", "2000 jobs fitted", "KS 0.0", "load 0."):
        assert word in line


def test_another_sample_of_the_same_traffic_changes_nothing():
    first = verdict()
    for seed in (2, 4):
        again = verdict(seed=seed, in_force=first.cutoffs_s)
        assert (again.changed, again.cutoffs_s) == (False, first.cutoffs_s)


def test_different_traffic_changes_the_cutoffs():
    found = verdict(in_force=verdict().cutoffs_s, sizes=BoundedPareto(10.0, 1e5, 1.0))
    assert found.changed
    assert "instead of" in found.reason


def test_without_hysteresis_the_best_is_taken_each_time():
    first = verdict().cutoffs_s
    again = verdict(seed=2, terms=SolverTerms("slowdown", 200, 0.0), in_force=first)
    assert again.changed


def test_if_all_cutoffs_overload_a_tier_nothing_is_killed():
    found = verdict(load=1.6, in_force=(1.0,))
    assert (found.cutoffs_s, found.changed) == ((), True)
    assert "overloaded whatever the cutoffs" in found.reason
    assert not verdict(load=1.6).changed


def test_sizes_that_are_not_pareto_are_used_as_they_are():
    found = judge("tags", *no_pareto(), LAYOUTS, SLOWDOWN, ())
    assert not found.record.is_fitted
    assert found.changed
    assert "as measured" in described(found)


def no_pareto():
    rng = Random(1)
    jobs, _ = past(load=0.3)
    sizes = [rng.choice((1.0, 500.0)) * rng.uniform(0.9, 1.1) for _ in jobs]
    mean = sum(sizes) / len(sizes)
    return [
        PastJob(size, size, n * mean / 4 / 0.3, may_restart=True) for n, size in enumerate(sizes)
    ], len(jobs) * mean / 4 / 0.3


def test_jobs_all_of_one_size_leave_nothing_to_cut():
    jobs = [PastJob(1.0, 1.0, float(n), may_restart=True) for n in range(300)]
    found = judge("tags", jobs, 300.0, LAYOUTS, SLOWDOWN, ())
    assert (found.cutoffs_s, found.changed) == ((), False)
    assert found.reason.startswith("nothing to cut")


def test_jobs_that_may_not_restart_add_to_the_load_of_the_last_tier():
    jobs, now = past(load=0.3)
    fixed, _ = past(count=1000, load=0.3, seed=2, may_restart=False)
    free, both = (judge("tags", some, now, LAYOUTS, SLOWDOWN, ()) for some in (jobs, jobs + fixed))
    assert both.record.jobs == 2000
    assert both.record.pinned > 0
    assert both.expected.tiers[-1].load != free.expected.tiers[-1].load
    servers = replace(both.record, pace=0.5, pinned=0.75).tiers((2.0, 4.0)).servers
    assert servers == (1.0, 1.25)
    assert replace(both.record, pace=0.5, pinned=2.5).tiers((2.0, 4.0)).servers == (1.0, 0.0)


def test_the_recorded_figures_match_a_hand_calculation():
    """For half of the time a slot does nothing for its job; one job in five may not restart."""
    jobs = [PastJob(float(n), 2.0 * n, 1000.0 + n, may_restart=n % 5 != 0) for n in range(1, 101)]
    found = recorded(jobs, 1101.0, "slowdown")
    total = sum(range(1, 101))
    fixed = sum(range(5, 101, 5))
    assert (found.jobs, found.rate_per_s, found.pace) == (80, 80 / 100.0, 0.5)
    assert found.mean_s == pytest.approx((total - fixed) / 80)
    assert found.pinned == pytest.approx(fixed / 100.0)
    assert found.sizes.mean_s == pytest.approx(found.mean_s, rel=0.02)
    assert recorded(jobs[:4], 1001.0, "slowdown").rate_per_s == 4.0  # a second at least


def test_a_job_that_stands_for_several_counts_as_they_do():
    jobs, now = past(count=300)
    many = [replace(job, weight=1 + n % 3) for n, job in enumerate(jobs)]
    each = [replace(job, weight=1) for job in many for _ in range(job.weight)]
    one, other = (recorded(some, now, "slowdown") for some in (many, each))
    assert (one.rate_per_s, one.pace, one.jobs) == (other.rate_per_s, other.pace, 300)
    assert one.mean_s == pytest.approx(other.mean_s)
    assert one.fit.sizes.alpha == pytest.approx(other.fit.sizes.alpha)
    assert one.fit.ks_distance == pytest.approx(other.fit.ks_distance)
    measured = [MeasuredSizes([job.size_s for job in many], [job.weight for job in many])]
    measured.append(MeasuredSizes([job.size_s for job in each]))
    for power in (-1.0, 0.0, 1.0, 2.0):
        assert measured[0].moment(power) == pytest.approx(measured[1].moment(power))


SLOTS = {2: (2.0, 2.0), 3: (1.0, 1.0, 2.0), 4: (1.0, 1.0, 1.0, 1.0)}


@pytest.mark.parametrize(
    ("size_s", "count", "objective"),
    [
        *product((START_S, 0.05), (300, 4000), ("slowdown", "waiting")),
        (START_S, 1500, "fairness"),
    ],
)
def test_very_many_short_jobs_of_one_user_take_no_tier_from_others(size_s, count, objective):
    """They come within a minute; an array of them costs its user some seconds."""
    jobs, now = past(count=600, load=0.4, sizes=BoundedPareto(0.2, 200.0, 1.0), user="bob")
    rng, terms = Random(3), SolverTerms(objective, 200, 0.1)
    flood = [
        PastJob(size_s * rng.uniform(1.0, 1.5), 0.1, now - 60.0 * n / count, True, "eve")
        for n in range(count)
    ]
    alone = judge("tags", jobs, now, SLOTS, terms, ())
    beside = judge("tags", jobs + flood, now, SLOTS, terms, alone.cutoffs_s)
    slots = SLOTS[len(beside.cutoffs_s) + 1]
    of_bob = alone.record.tiers(slots).expected_of(beside.cutoffs_s)
    mean = "slowdown" if objective == "fairness" else objective
    assert of_bob.worth(mean) <= 2.0 * alone.expected.worth(mean)


def test_very_many_short_jobs_of_two_users_set_nobodys_cutoffs():
    """What each of them may count for at most was as much as all others, and the other one."""
    jobs, now = past(count=600, load=0.4, sizes=BoundedPareto(0.2, 200.0, 1.0))
    jobs = [replace(job, user=f"u{n % 5}") for n, job in enumerate(jobs)]
    flood = [PastJob(START_S, 0.1, now - n / 10, True, f"eve{n % 2}") for n in range(2000)]
    alone = judge("tags", jobs, now, SLOTS, SLOWDOWN, ())
    beside = judge("tags", jobs + flood, now, SLOTS, SLOWDOWN, alone.cutoffs_s)
    of_others = alone.record.tiers(SLOTS[len(beside.cutoffs_s) + 1]).expected_of(beside.cutoffs_s)
    assert of_others.worth("slowdown") <= 2.0 * alone.expected.worth("slowdown")


def test_users_who_are_alike_have_the_cutoffs_of_one_user():
    jobs, now = past()
    shared = [replace(job, user=f"u{n % 5}") for n, job in enumerate(jobs)]
    one, many = (judge("tags", some, now, LAYOUTS, SLOWDOWN, ()) for some in (jobs, shared))
    assert (many.cutoffs_s, many.record.is_fitted) == (one.cutoffs_s, True)


@pytest.mark.parametrize(
    ("parts", "heard_of_each"),
    [
        ([8, 1], [1, 1]),
        ([8, 4, 1], [5, 4, 1]),
        ([8, 8, 2, 1], [3, 3, 2, 1]),
        ([90, 9, 3, 2, 1], [3, 3, 3, 2, 1]),
        ([4, 3, 3, 3, 3], [4, 3, 3, 3, 3]),
        ([9] * 5, [9] * 5),
    ],
)
def test_no_user_is_heard_for_more_than_a_quarter_or_what_few_users_allow(parts, heard_of_each):
    jobs = [PastJob(1.0, 1.0, 1.0, True, f"u{n}", part) for n, part in enumerate(parts)]
    assert heard(jobs, "waiting") == pytest.approx(heard_of_each)


def test_nobody_is_heard_more_than_all_others_together():
    eve = PastJob(0.5, 0.5, 1.0, may_restart=True, user="eve", weight=30)
    bob = PastJob(1.0, 1.0, 1.0, may_restart=True, user="bob", weight=20)
    ann = replace(bob, user="ann", weight=10)
    assert heard([eve, bob, ann], "slowdown") == [15.0, 20.0, 10.0]
    assert heard([eve, bob, ann], "waiting") == [30, 20, 10]
    assert heard([eve, eve], "slowdown") == [30, 30], "who is alone counts in full"


def test_sita_e_cuts_the_work_in_proportion_to_the_slots():
    found = verdict("sita-e")
    assert len(found.cutoffs_s) == 3
    jobs, _ = past()
    total = sum(job.size_s for job in jobs)
    small = sum(job.size_s for job in jobs if job.size_s <= found.cutoffs_s[0])
    assert small / total == pytest.approx(0.25, abs=0.08)
    again = verdict("sita-e", in_force=found.cutoffs_s)
    assert (found.changed, again.changed) == (True, False)
    for off in (0.1, 10.0):
        assert verdict("sita-e", in_force=tuple(off * s for s in found.cutoffs_s)).changed


def test_the_load_that_would_do_is_that_of_the_best_layout():
    one, other = {2: (2.0, 2.0)}, {3: (1.0, 1.0, 2.0)}
    jobs, now = past(load=1.6)
    said = [
        float(judge("tags", jobs, now, layouts, SLOWDOWN, ()).reason.split(" below ")[1][:4])
        for layouts in (one, other, one | other)
    ]
    assert said[2] == max(said)
    assert said[0] != said[1]


def hosts(*slots):
    return [HostSlots(HostId(f"h{n}"), count) for n, count in enumerate(slots, 1)]


def test_layouts():
    order = ["h1", "h2", "h3"]
    assert layouts_of(hosts(1, 1, 2), order, ()) == {2: (2.0, 2.0), 3: (1.0, 1.0, 2.0)}
    assert layouts_of(hosts(4), ["h1"], ()) == {}
    given = ("h1:1", "h2:1,2", "h3:3")
    assert layouts_of(hosts(1, 1, 2), order, given) == {3: (1.5, 0.5, 2.0)}
    assert layouts_of(hosts(1, 1), order, given) == {}, "nobody serves the third tier now"
    assert layouts_of(hosts(1, 3), order, ("h1:1", "h2:3,2,1")) == {3: (2.0, 1.0, 1.0)}
    assert tier_order(["h9"], ["h2", "h9", "h1"]) == ["h9", "h1", "h2"]


def test_hosts_are_named_in_the_order_of_the_tiers():
    order = tier_order(["h2", "h10"], ["a"])
    assert as_spread(["gone", "a", "h10", "h2"], order) == ["h2", "h10", "a", "gone"]


def row(**more):
    values = {
        "id": 1, "submission": 1, "user": "u", "uid": 1000, "origin": "h1", "name": "",
        "command": b"x", "slots": 2, "may_restart": True, "only": "", "barred": (), "slots_most": 2,
        "slots_held": None, "priority": 0, "array_index": None,
        "state": "done", "tier": 1, "attempt": 1, "crashes": 0, "reason": "", "host": "h1",
        "submitted": 5.0, "started": 10.0, "finished": 12.0, "cpu_s": 1.5, "exit_status": 0,
        "signal": 0, "cause": "exited", "requeued": None,
    }  # fmt: skip
    return JobRow(**{**values, **more})


def test_only_complete_jobs_count():
    assert past_of(row()) == [PastJob(1.5, 4.0, 5.0, may_restart=True, user="u")]
    assert past_jobs([(row(), 3)], 0.0, by_uid=True)[0].user == "uid 1000"
    assert past_of(*(row(cause=cause) for cause in ("timeout", "memory", "lost", ""))) == []
    assert past_of(row(cpu_s=None), row(started=None), row(submitted=1.0), since=2.0) == []


def test_a_job_that_is_shorter_than_its_start_says_nothing_about_where_to_cut():
    assert past_of(row(cpu_s=0.0), row(cpu_s=0.9 * START_S)) == []
    assert len(past_of(row(cpu_s=START_S))) == 1


def past_of(*rows, since=0.0):
    return past_jobs([(one, 1) for one in rows], since, by_uid=False)


@pytest.mark.parametrize("cause", ["exited", "signalled", "killed", "timeout"])
def test_a_job_that_ended_or_was_ended_is_counted_by_its_cause(cause):
    assert bool(past_of(row(cause=cause))) is (cause in ("exited", "signalled"))


def test_if_the_hosts_do_not_form_two_tiers_nothing_changes():
    found = verdict(layouts={}, in_force=(1.0,))
    assert (found.cutoffs_s, found.changed) == ((1.0,), False)
    assert found.reason == "too few hosts for two tiers at present"
    assert described(found) == "cutoffs 1 s: too few hosts for two tiers at present"


def test_the_load_is_that_of_all_hosts_even_if_not_all_form_a_tier():
    found = verdict(layouts={2: (2.0, 2.0), 3: (1.0, 1.0, 1.0)})
    assert found.load == verdict(layouts={2: (2.0, 2.0)}).load


@pytest.mark.parametrize(
    ("objective", "said"),
    [("slowdown", "mean slowdown "), ("waiting", "mean waiting "), ("fairness", "unfairness ")],
)
def test_the_expectation_is_stated_in_terms_of_the_objective(objective, said):
    found = verdict(terms=SolverTerms(objective, 200, 0.1))
    assert found.reason.startswith(f"{said}{found.expected.worth(objective):.3g} ")


@pytest.mark.parametrize("objective", ["slowdown", "waiting", "fairness"])
def test_cutoffs_change_if_the_gain_reaches_the_configured_one(objective):
    best = verdict(terms=SolverTerms(objective, 200, 0.1))
    in_force = tuple(0.6 * s for s in best.cutoffs_s)
    now = expected_now(best.record, LAYOUTS, in_force)
    gain = 1.0 - best.expected.worth(objective) / now.worth(objective)
    assert 0 < gain < 1
    for asked, changes in ((gain * 0.99, True), (gain + 0.01 * (1 - gain), False)):
        found = verdict(terms=SolverTerms(objective, 200, asked), in_force=in_force)
        assert found.changed is changes
        assert found.cutoffs_s == (best.cutoffs_s if changes else in_force)
        expected = best.expected if changes else now
        assert found.expected.worth(objective) == pytest.approx(expected.worth(objective))
    traffic = best.record.tiers(LAYOUTS[2])
    assert best.load == pytest.approx(traffic.load)
    alone = replace(traffic, servers=(sum(traffic.servers),)).expected([0.0, traffic.sizes.width])
    assert best.one_queue == pytest.approx(alone.worth(objective))


def test_cutoffs_for_an_impossible_number_of_tiers_have_no_expectation():
    record = verdict().record
    assert expected_now(record, LAYOUTS, ()) is None
    assert expected_now(record, LAYOUTS, (1.0, 2.0)) is None
    assert expected_now(record, LAYOUTS, (1.0,)).cutoffs_s == (1.0,)
