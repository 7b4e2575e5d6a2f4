"""Reservations, reserved slots and shortages on random hosts, compared with exhaustive searches."""

import math
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from lbd.dispatch.core.backfill.reservation import Backfill, Reservation
from lbd.dispatch.core.backlog import Backlog
from lbd.dispatch.core.discipline import ONLY_LINE, HostSlots, QueuedJob
from lbd.dispatch.core.gangs.drains import Drain
from lbd.dispatch.core.gangs.gang_room import FEWEST_RUNS, MARGIN, GangRoom, assigned
from lbd.dispatch.core.outlook.needs_outlook import HOSTS_MAX, NeedsOutlooks, parts_of, releases_of
from lbd.dispatch.core.registry import Entry
from lbd.dispatch.core.servers import Server, room
from lbd.dispatch.core.shares import Rules, Shares
from lbd.dispatch.core.waiting_line import Waiting
from lbd.model import NO_NEEDS, Facts, HostId, JobId, Needs
from lbd.policy.needs import offer, unmet
from lbd.theory.lifetimes import UniformLog
from lbd.theory.queue_time import Releases, wait_s

NOW_S = 100.0
SEEDS = range(80)


def drawn_needs(rng):
    if rng.random() < 0.5:
        return NO_NEEDS
    gpus, disk = rng.randint(0, 2), rng.choice([0, 0, 30, 100])
    resources = [pair for pair in (("disk", disk), ("gpu", gpus)) if pair[1]]
    features = ("big",) if rng.random() < 0.1 else ()
    return Needs(tuple(resources), features, memory_bytes=rng.choice([0, 0, 3, 8]))


def drawn_job(rng, name, **more):
    return QueuedJob(
        JobId(name), rng.choice([1, 1, 2, 3]), name=rng.choice(["", "x", "y"]), user="ann",
        limit_s=rng.choice([0.0, 0.0, 20.0, 50.0, 130.0]), needs=drawn_needs(rng),
        priority=rng.randint(0, 1), **more,
    )  # fmt: skip


def drawn_servers(rng):
    """Returns random servers. Times are whole seconds, so that many are equal."""
    servers = []
    for number in range(rng.randint(1, 4)):
        features = ("big", "linux") if rng.random() < 0.5 else ("linux",)
        resources = (("disk", 200, rng.choice([0, 50])), ("gpu", rng.randint(0, 4), 0))
        slots = rng.randint(1, 6)
        host = HostSlots(
            HostId(f"h{number}"), slots, rng.choice([None, rng.randint(0, slots)]),
            rng.choice([0.1, 0.2, 0.3]),
            facts=Facts(features, resources, rng.choice([0, 16]), 0),
        )  # fmt: skip
        server = Server(host, Waiting(host.name, Shares(Rules()), Backlog()), (ONLY_LINE,))
        for n in range(rng.randint(0, 5)):
            job = drawn_job(rng, f"{number}_{n}")
            fits = slots - server.used >= job.slots and unmet(job.needs, server.facts()) is None
            if fits:
                entry = Entry(job, n, 0.0, 1, host=host.name, slots=job.slots)
                entry.started_s = NOW_S - rng.randint(0, 60)
                entry.suspended_s = NOW_S if rng.random() < 0.1 else None
                server.sits(entry)
        servers.append(server)
    return servers


def has_room(server, job, ended):
    """Returns whether the server has room for the job once these have ended there."""
    free = server.free + sum(entry.slots for entry in ended)
    facts = server.facts_when([entry.job.needs for entry in ended])
    return free >= job.slots and unmet(job.needs, facts) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_the_reservation_is_the_first_time_at_which_any_host_has_room(seed):
    rng = Random(seed)
    servers, head = drawn_servers(rng), drawn_job(rng, "head")
    backfill = Backfill("learnt", risk=0.25)
    runs_s = [float(rng.randint(10, 90)) for _ in range(rng.randint(0, 12))]
    for run_s in runs_s:
        backfill.run_times.ended(QueuedJob(JobId("1"), 1, name="x", user="ann"), run_s)

    def longest_s(job):
        alike = (job.name, job.slots) == ("x", 1)
        # The smallest count of runs such that the next run is no longer in three of four cases.
        enough = [k for k in range(1, len(runs_s) + 1) if k / (len(runs_s) + 1) >= 0.75]
        learnt_s = sorted(runs_s)[enough[0] - 1] if alike and enough else math.inf
        return min(learnt_s, job.limit_s or math.inf)

    def ends_s(entry):
        if entry.suspended_s is not None:
            return math.inf
        likely_s = entry.started_s + longest_s(entry.job)
        return likely_s if likely_s > NOW_S else entry.started_s + (entry.job.limit_s or math.inf)

    expected = None
    for server in servers:
        ends = [(ends_s(entry), entry) for entry in server.running.values()]
        for at_s in sorted({NOW_S, *(end_s for end_s, _ in ends if NOW_S < end_s < math.inf)}):
            ended = [entry for end_s, entry in ends if end_s <= at_s]
            if server.suits(head) and has_room(server, head, ended):
                if expected is None or at_s < expected.at_s:
                    spare = server.free + sum(entry.slots for entry in ended) - head.slots
                    expected = Reservation(server.name, at_s, spare)
                break
    reserved = backfill.reservation(head, servers, NOW_S)
    assert reserved == expected
    check_passing(rng, backfill, reserved, servers, head, longest_s)


def check_passing(rng, backfill, reserved, servers, head, longest_s):
    for n in range(5):
        job = drawn_job(rng, f"{n}")
        in_time = reserved is not None and NOW_S + longest_s(job) <= reserved.at_s
        for server in servers:
            if reserved is None:
                may = not server.suits(head)
            elif server.name != reserved.host or in_time:
                may = True
            else:
                both = {name for name, _ in job.needs.resources} & {
                    name for name, _ in head.needs.resources
                }
                memory = job.needs.memory_bytes and head.needs.memory_bytes
                may = job.slots <= reserved.spare and not both and not memory
            assert backfill.passes(job, server, head, reserved, NOW_S) == may
            after = backfill.after(job, server.name, reserved, NOW_S)
            if reserved is not None and server.name == reserved.host and not in_time:
                assert after == replace(reserved, spare=reserved.spare - job.slots)
            else:
                assert after == reserved


@pytest.mark.parametrize("seed", SEEDS)
def test_the_places_that_are_available_first_are_reserved_for_a_gang(seed):
    rng = Random(seed)
    servers = drawn_servers(rng)
    gang = rng.randint(1, 6)
    job = drawn_job(rng, "gang", array=9, gang=gang)
    rooms = GangRoom(Shares(Rules(priorities=seed % 2 == 0)))
    runs_s = [float(rng.randint(5, 40)) for _ in range(rng.randint(0, 5))]
    for run_s in runs_s:
        rooms.run_times.ended(QueuedJob(JobId("1"), user="ann", name="x"), run_s)
    rooms.park(Entry(job, 1, 0.0, 1))
    until_s = NOW_S + rng.choice([10, 40, 200])
    rooms.parked[0].drain = Drain(0.0, until_s, until_s)

    def longest_s(one):
        alike = (one.name, one.slots) == ("x", 1) and len(runs_s) >= FEWEST_RUNS
        return min(MARGIN * max(runs_s) if alike else math.inf, one.limit_s or math.inf)

    def over_s(one):
        likely_s = one.started_s + longest_s(one.job)
        return likely_s if likely_s > NOW_S else one.started_s + (one.job.limit_s or math.inf)

    def ended_by(server, at_s):
        """Returns those that will have ended. The end of an overdue job is unknown."""
        bounds = [(over_s(e), e) for e in server.running.values()]
        return [e for bound_s, e in bounds if NOW_S < bound_s <= at_s and bound_s < math.inf]

    def count_at(server, at_s):
        ended = ended_by(server, at_s)
        facts = server.facts_when([e.job.needs for e in ended])
        return server.now(job, server.free + sum(e.slots for e in ended), facts)

    times = {over_s(e) for s in servers for e in s.running.values()}
    times = [NOW_S, *sorted(at_s for at_s in times if NOW_S < at_s < math.inf)]
    places = []
    for order, server in enumerate(servers):
        if server.suits(job):
            for n in range(1, server.at_once(job, server.free + server.used) + 1):
                by = (at_s for at_s in times if count_at(server, at_s) >= n)
                places.append((next(by, math.inf), order))
    chosen = sorted(places)[:gang]
    ready_s = chosen[-1][0] if len(chosen) == gang else math.inf
    ends_s = min(ready_s, until_s)
    kept = Counter(order for _, order in chosen)
    plan = rooms.plan(servers, NOW_S)
    assert plan.priority == job.priority
    assert plan.ends_s == ends_s
    assert plan.kept == {servers[order].name: n * job.slots for order, n in kept.items()}
    for order, n in kept.items():
        server = servers[order]
        ended = ended_by(server, ends_s)
        back = sum(e.slots for e in ended)
        assert plan.left[server.name] == server.free + back - n * job.slots
        if job.needs:
            needs = [e.job.needs for e in ended]
            assert plan.left_facts[server.name] == server.facts_when(needs, job.needs, n)
    check_others(rng, rooms, plan, servers, job, longest_s)


def check_others(rng, rooms, plan, servers, job, longest_s):
    """Checks which other jobs may use the reserved slots meanwhile, and how many."""
    for n in range(4):
        other = drawn_job(rng, f"{n}")
        first = rooms.shares.rules.priorities and other.priority > job.priority
        short = NOW_S + longest_s(other) <= plan.ends_s
        assert rooms.is_short(plan, other, NOW_S) == short
        assert rooms.passes(plan, other, NOW_S) == (first or short)
        for server in servers:
            free = rooms.room(plan, server, other, NOW_S)
            if server.name not in plan.kept or first or short:
                assert free == server.free
            elif not (other.needs and job.needs):
                assert free == min(server.free, plan.left[server.name])
            else:
                facts, jobs = plan.left_facts[server.name], 0
                while unmet(of_each(other.needs, jobs + 1), facts) is None and jobs < 9:
                    jobs += 1
                most = min(server.free, plan.left[server.name])
                if other.needs.resources or (other.needs.memory_bytes and facts.memory_total):
                    most = min(most, jobs * other.slots)
                assert free == most


def of_each(needs, jobs):
    """Returns the needs of this many jobs together, without features."""
    resources = tuple((name, jobs * amount) for name, amount in needs.resources)
    return Needs(resources, memory_bytes=jobs * needs.memory_bytes)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_gang_starts_where_all_its_tasks_have_room_and_nowhere_else(seed):
    rng = Random(seed)
    servers = drawn_servers(rng)
    tasks = [
        Entry(
            QueuedJob(
                JobId(f"{n}"), array=9, array_index=n,
                only=rng.choice([None, None, None, HostId("h0")]),
                barred=frozenset({HostId("h1")}) if rng.random() < 0.2 else frozenset(),
            ), n, 0.0, 1,
        )
        for n in range(rng.randint(1, 5))
    ]  # fmt: skip
    rng.shuffle(tasks)
    free = [(server, rng.randint(0, 2)) for server in servers]
    found = assigned(tasks, free)
    alike = len({(one.job.only, one.job.barred) for one in tasks}) == 1
    places = [
        (turn, server.load, order)
        for order, (server, count) in enumerate(free)
        for turn in range(count)
    ]
    if alike:
        hosts = [servers[order] for _, _, order in sorted(places)]
        in_order = sorted(tasks, key=lambda one: one.job.array_index)
        expected = {one.id: host for one, host in zip(in_order, hosts, strict=False)}
        assert found == (expected if len(hosts) >= len(tasks) else None)
    elif found is not None:
        assert found.keys() == {one.id for one in tasks}
        assert all(found[one.id].suits(one.job) for one in tasks)
        given = Counter(server.name for server in found.values())
        assert all(given[server.name] <= count for server, count in free)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_wait_for_needs_is_that_for_the_host_that_has_them_first(seed):
    rng = Random(seed)
    servers, job = drawn_servers(rng), drawn_job(rng, "job")
    job = job._replace(needs=job.needs or Needs((("gpu", 1),)))
    lifetimes = {
        part: (UniformLog(1.0, rng.uniform(50, 500)), rng.uniform(10, 90))
        for part in ("gpu", "disk", "memory", job.needs) if rng.random() < 0.8
    }  # fmt: skip
    totals, there, waits = Counter(), False, []
    too_few, able = set(), [server for server in servers if server.suits(job)]
    for server in able:
        facts = server.facts()
        there = there or has_room(server, job, [])
        short = {}
        if server.free < job.slots:
            held = [(max(0.0, e.ran_s(NOW_S)), e.slots) for e in server.running.values()]
            short[job.needs] = job.slots - server.free, held
        totals[job.needs] += server.host.usable
        rows = [row for row in facts.resources if dict(job.needs.resources).get(row[0])]
        if job.needs.memory_bytes and facts.memory_total:
            rows.append(("memory", facts.memory_total, facts.memory_given))
        for name, total, used in rows:
            totals[name] += total
            wanted = parts_of(job.needs, 1)[name]
            unit = max(1, math.ceil(total / 64))
            if total - used < wanted:
                had = [(e, parts_of(e.job.needs, 1)[name]) for e in server.running.values()]
                held = [(max(0.0, e.ran_s(NOW_S)), math.ceil(n / unit)) for e, n in had if n]
                short[name] = math.ceil((wanted - (total - used)) / unit), held
        if not short or any(sum(n for _, n in held) < missing for missing, held in short.values()):
            continue
        if unknown := {part for part in short if part not in lifetimes}:
            too_few |= {part for part in unknown if isinstance(part, str)}
            continue
        last = max(short, key=lambda part: wait_s(*short[part], lifetimes[part][0]))
        missing, held = short[last]
        waits.append((wait_s(missing, held, lifetimes[last][0]), missing, held, last))
    outlooks = NeedsOutlooks()
    found = outlooks.of(ONLY_LINE, job, servers, lifetimes.get, NOW_S)
    assert len(able) <= HOSTS_MAX
    assert found.is_there == there
    assert found.totals == totals
    assert found.wait_s == (0.0 if there else min((one[0] for one in waits), default=None))
    if not there and not waits and too_few:
        assert min(too_few) in found.why
    ahead = {part: rng.randint(0, 3) for part in ("gpu", job.needs)}
    behind_s = [
        count * lifetimes[part][1] / max(1, totals[part]) if part in lifetimes else None
        for part, count in ahead.items() if count
    ]  # fmt: skip
    expected = None if None in behind_s else max(behind_s, default=0.0)
    assert found.behind_s(ahead, lifetimes.get) == expected
    if waits and not there:
        missing, releases = releases_of(found, lifetimes.get)
        from_each = [(n, Releases.of(held, lifetimes[part][0])) for _, n, held, part in waits]
        assert (missing, releases) in from_each
    else:
        assert releases_of(found, lifetimes.get) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_how_many_jobs_a_host_holds_is_found_by_adding_them_one_by_one(seed):
    rng = Random(seed)
    servers, job = drawn_servers(rng), drawn_job(rng, "job")
    gone = Server(None, servers[0].own_line)
    for entry in servers[0].running.values():
        gone.sits(entry)
    count = gone.used // job.slots
    for server in servers:
        now, slots = 0, server.free
        facts = server.facts()
        while slots >= job.slots and unmet(of_each(job.needs, now + 1), facts) is None:
            now, slots = now + 1, slots - job.slots
        assert server.now(job, server.free) == now
        lacks = unmet(job.needs, facts)
        suits = server.slots >= job.slots and (lacks is None or lacks.later)
        assert server.suits(job) == suits
        assert server.has_for(job) == (lacks is None)
        assert server.suits(job._replace(gang=2)) == suits
        nobodys = replace(server.host, facts=offer(server.host.facts))
        empty = Server(nobodys, server.own_line)
        if server.suits(job):
            count += empty.now(job, server.usable)
        for entry in list(server.running.values()):
            server.rises(entry, 0.0)
        assert (server.used, server.given, server.memory_given) == (0, Counter(), 0)
        assert server.facts() == server.host.facts
    assert room([gone, *servers], job) == count
