"""The order of a line is found without a look at arrays and flows whose turn does not come."""

from heapq import merge
from random import Random, SystemRandom

import pytest

from lbd.dispatch.core.discipline import ONLY_LINE, HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.heaps import in_order, merged
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.shares import Rules
from lbd.dispatch.core.targets.arrays import Targets
from lbd.dispatch.core.waiting_line import LAST, Group, Waiter, Waiting, waiter_of
from lbd.model import HostId, JobId
from tests.unit.dispatch.core.test_queues import Table

H1 = HostId("h1")
RULES = {
    "plain": Rules(),
    "priorities": Rules(priorities=True),
    "fair shares": Rules(fair_share_s=60.0),
    "fair shares, priorities": Rules(fair_share_s=60.0, priorities=True),
    "limits": Rules(user_slots=4, name_jobs=(("x", 1), ("y*", 2))),
    "in order": Rules(interleave_arrays=False, priorities=True),
}


def plain_order(line, new=None):
    """Merges all flows, and in each all arrays, whatever of it is consumed."""
    shares = line._shares
    flows = ({} if new is None else {shares.flow(new): []}) | line._flows
    ranked = [plain_flow(line, flow, heap, new) for flow, heap in flows.items()]
    return [waiter for _, waiter in merge(*ranked, key=lambda pair: pair[0])]


def plain_flow(line, flow, heap, new):
    shares, alone = line._shares, []
    for turn, item in in_order(heap):
        if not isinstance(item, Group) and item.line == line.line:
            alone.append(((0, turn, item.number), waiter_of(item)))
    sources = [alone]
    for turn, item in heap:
        if isinstance(item, Group):
            stays = shares.targets.keeps_place(item.array)
            sources.append(list(item.laps(turn, line.line, stays)))
    if new is not None and shares.flow(new) == flow:
        sources.append([((0, LAST, LAST), Waiter(JobId(""), new.slots, new.needs))])
    found = merge(*sources, key=lambda pair: pair[0])
    for place, ((lap, turn, number), waiter) in enumerate(found):
        first = place if shares.rules.fair_share_s else lap
        yield (-flow.priority, first, turn, number), waiter


def job_of(rng, name, **more):
    return QueuedJob(
        JobId(name), rng.choice([1, 1, 2]), user=rng.choice("abc"), priority=rng.randint(-1, 1),
        name=rng.choice(["", "x", "y1", "z"]), **more,
    )  # fmt: skip


@pytest.mark.parametrize("rules", RULES)
def test_the_order_is_that_of_a_plain_merge_of_all_there_is(rules, monkeypatch):
    monkeypatch.setattr(Targets, "keeps_place", lambda _, number: number % 3 == 0)
    for _ in range(4):
        seed = SystemRandom().randrange(1 << 32)
        print("seed", seed)  # in what pytest shows of a failure
        compare_through_a_history(RULES[rules], Random(seed))


def compare_through_a_history(rules, rng):
    queues, made, waiting, running = Queues(make("fcfs", ()), rules), 0, [], []
    queues.host_is(HostSlots(H1, 9, 0), 0.0, rng)
    for _ in range(70):
        started = []
        match rng.choices(["come", "host", "end", "cancel", "lose"], [8, 3, 4, 5, 3])[0]:
            case "come":
                count, at_once = rng.choice([1, 1, 2, 5]), rng.choice([0, 0, 1, 2])
                kind = job_of(rng, "")
                kind = kind._replace(array=made + 1 if count > 1 or at_once else 0, at_once=at_once)
                for _ in range(count):
                    made += 1
                    name = f"{made}" if rng.random() < 0.7 else f"j{made}"
                    waiting.append(JobId(name))
                    started += queues.arrived(kind._replace(id=JobId(name)), 0.0, rng)
            case "host":
                host = HostSlots(H1, 9, rng.choice([0, 0, 1, 3]))
                started = queues.host_is(host, 0.0, rng)
            case "end" if running:
                job = running.pop(rng.randrange(len(running)))
                started = queues.ended(job, 0.0, rng)
            case "cancel" if waiting:  # many of one array
                at, count = rng.randrange(len(waiting)), rng.choice([1, 1, 9])
                for job in waiting[at : at + count]:
                    started += queues.ended(job, 0.0, rng)
                del waiting[at : at + count]
            case "lose" if running:
                job = running.pop(rng.randrange(len(running)))
                waiting.append(job)
                started = queues.lost(job, 0.0, rng)
        for start in started:
            running.append(start.job.id)
            if start.job.id in waiting:
                waiting.remove(start.job.id)
        waiting = [job for job in waiting if job in queues.registry]
        if (line := queues.lines.get(ONLY_LINE)) is None:
            continue
        assert list(line.in_turn()) == plain_order(line)
        assert list(line.in_turn(over_time=True)) == plain_order(line)
        at_once = rng.choice([0, 0, 1])
        new = job_of(rng, "", array=999 * at_once, at_once=at_once)
        assert list(line.in_turn(new)) == plain_order(line, new)


def test_a_source_is_begun_only_when_all_before_it_is_consumed():
    begun = []

    def source(first, *ranks):
        begun.append(first)
        for rank in (first, *ranks):
            yield (rank, 0), f"{rank}"

    sources = iter(
        [((1,), source(1, 4)), ((2,), source(2, 3)), ((4,), source(4)), ((9,), source(9))]
    )
    found = merged(sources)
    assert [next(found)[1] for _ in range(3)] == ["1", "2", "3"]
    assert begun == [1, 2]
    assert [item for _, item in found] == ["4", "4", "9"]


@pytest.mark.parametrize("at_once", [0, 1])
@pytest.mark.parametrize("fair_share_s", [0.0, 60.0])
def test_of_very_many_arrays_only_those_whose_jobs_are_consumed_are_read(
    at_once, fair_share_s, monkeypatch
):
    table, laps, ranked = Table(fair_share_s=fair_share_s), [], []
    table.host("h1", open_slots=0)
    for n in range(1, 1001):
        table.arrive(f"{n}", array=n, at_once=at_once, user="ab"[n % 2])
    real_laps, real_ranked = Group.laps, Waiting._ranked
    monkeypatch.setattr(Group, "laps", lambda *given: laps.append(1) or real_laps(*given))
    monkeypatch.setattr(Waiting, "_ranked", lambda *given: ranked.append(1) or real_ranked(*given))
    in_turn = table.queues.lines[ONLY_LINE].in_turn(QueuedJob(JobId(""), user="a"))
    for _ in range(10):
        next(in_turn)
    assert len(laps) <= 14
    assert len(ranked) <= 14


@pytest.mark.parametrize("at_once", [0, 1])
def test_arrays_that_were_cancelled_are_not_passed_over_again_and_again(at_once, monkeypatch):
    table, laps = Table(), []
    table.host("h1", open_slots=0)
    for n in range(1, 402):
        table.arrive(f"{n}", array=n, at_once=at_once)
    for n in range(2, 401):
        table.ended(f"{n}")
    line = table.queues.lines[ONLY_LINE]
    assert [one.id for one in line.in_turn()] == ["1", "401"]
    laps, real = [], Group.laps
    monkeypatch.setattr(Group, "laps", lambda *given: laps.append(1) or real(*given))
    assert [one.id for one in line.in_turn()] == ["1", "401"]
    assert len(laps) == 2


@pytest.mark.parametrize("array", [0, 7])
def test_a_job_that_passed_others_and_came_back_is_in_the_order_once(array):
    """What it left in the line became valid again, so that forecasts counted it twice."""
    table = Table(backfill="limit")
    table.host("h1", slots=2)
    table.arrive("long", slots=1, limit_s=100.0)
    table.arrive("wide", slots=2)
    table.arrive("first", slots=2, array=array)
    assert table.arrive("quick", limit_s=10.0, array=array) == ["quick@h1"]
    table.host("h1", slots=2, open_slots=0)
    table.lost("quick")
    assert [waiter.id for waiter in table.queues.lines[1].order()].count("quick") == 1


@pytest.mark.parametrize("more", [{}, {"array": 7}, {"array": 7, "at_once": 3}])
def test_a_job_that_is_refused_ahead_of_others_again_and_again_starts_once(more):
    """Where its array had the place that it had left, it was listed twice, and started twice."""
    table = Table(backfill="limit")
    table.host("h1", slots=4)
    table.arrive("0", slots=4, limit_s=1000.0)
    table.arrive("1", slots=4, limit_s=1000.0)
    waiting = [str(10 + n) for n in range(4)]
    for name in waiting:
        assert table.arrive(name, limit_s=10.0, **more) == []
    for slots in (1, 1, 1, 2, 2):
        begun = [one.removesuffix("@h2") for one in table.host("h2", slots=slots)]
        assert len(set(begun)) == len(begun) == slots
        table.gone("h2")
        for name in begun:
            table.lost(name)
        assert sorted(one.id for one in table.queues.lines[1].first(100)) == ["1", *waiting]
        assert sorted(waiter.id for waiter in table.queues.lines[1].order()) == ["1", *waiting]


def test_a_job_that_stops_at_a_checkpoint_after_it_passed_others_is_listed_once():
    """It joins the end, and was also found where it had waited before: it started twice."""
    table = Table(backfill="limit")
    table.host("h1", slots=4)
    table.arrive("0", slots=4, limit_s=1000.0)
    table.arrive("1", slots=4, limit_s=1000.0)
    for name in ("10", "11"):
        assert table.arrive(name, limit_s=10.0) == []
    (begun,) = table.host("h2", slots=2, open_slots=1)
    name = begun.removesuffix("@h2")
    for _ in range(2):
        table.host("h2", slots=2, open_slots=0)
        table.lost(name)
        assert table.host("h2", slots=2, open_slots=1) == [begun]
    table.host("h2", slots=2, open_slots=0)
    table.queues.cut_off(JobId(name), table.now_s, table.rng)
    other = {"10": "11", "11": "10"}[name]
    assert [one.id for one in table.queues.lines[1].first(100)] == ["1", other, name]
    assert [waiter.id for waiter in table.queues.lines[1].order()] == ["1", other, name]
    assert sorted(table.host("h2", slots=2)) == ["10@h2", "11@h2"]
