"""Every discipline through random histories; the invariants are checked after each event.

It is one file because one driver runs them all.
"""

import math
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbd.config.dispatch import MODES
from lbd.dispatch.core.backlog import LEFT_MIN, shape_of
from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.queue_per_host import OwnLines
from lbd.dispatch.core.disciplines.registry import TIERED, make
from lbd.dispatch.core.malleable.decision import Rule
from lbd.dispatch.core.malleable.heads import AGAIN_S_MAX, FREE
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.registry import Entry
from lbd.dispatch.core.shares import Rules
from lbd.model import HostId, JobId

CUTOFFS = (1.0, 10.0)
LAST = len(CUTOFFS) + 1


PLAIN = Rules()
RULES = (
    PLAIN,
    Rules(interleave_arrays=False),
    Rules(priorities=True),
    Rules(fair_share_s=20.0),
    Rules(user_slots=3, name_jobs=(("x", 1), ("y", 2))),
    Rules(priorities=True, fair_share_s=5.0, user_slots=4, name_jobs=(("x", 2),)),
)


def alike(one, other):
    keys = ("user", "name", "priority", "array")
    return all(getattr(one, key) == getattr(other, key) for key in keys)


def number_of(job):
    return int(job.id.removeprefix("j"))


def listed(shapes, waiting):
    """Returns the ids of the jobs that a table of shapes lists, of those that wait in its place."""
    waiting, found = list(waiting), set()
    counts = Counter(shape_of(entry.kind) for entry in waiting)
    for kinds in shapes:
        assert kinds.count == counts.pop(shape_of(kinds.kind), 0)
        assert kinds.listed <= 2 * kinds.count + LEFT_MIN
        found |= {str(number) for number in kinds.rows} | {entry.id for entry in kinds.entries}
    assert not counts
    return found & {entry.id for entry in waiting}


class History:
    """Drives the queues as a dispatcher would, and knows what an observer knows."""

    def __init__(self, mode, conserving, seed, rules=PLAIN, prefix="", malleable=FREE):
        """`prefix` is prepended to ids: an id that is not a number is never in the backlog."""
        self.mode = mode
        self.prefix = prefix
        self.told = []
        self.rules = rules
        self.queues = Queues(make(mode, CUTOFFS, conserving), rules, malleable=malleable)
        self.rng = Random(seed)
        self.now_s = 0.0
        self.jobs = {}  # jobs in the registry, by id
        self.alive = {}  # attempts that run: their Start, by id
        self.made = 0
        self.hosts = {}
        self.came_back = set()  # lost or cut off once

    def arrive(self, slots, may_restart, tier, estimate_s, **more):
        self.made += 1
        id_ = JobId(f"{self.prefix}{self.made}")
        job = QueuedJob(id_, slots, may_restart, tier, estimate_s, **more)
        self.jobs[job.id] = job
        self.after(self.queues.arrived(job, *self.when()))

    def arrive_of(self, slots, most, user, name, priority, array):
        """A user's job arrives; it is of an array if `array` is not 0."""
        more = {"user": user, "name": name, "priority": priority, "array": array}
        self.arrive(slots, True, 1, None, slots_most=most, **more)

    def arrive_malleable(self, slots, most, parallelism, work_s):
        self.arrive(
            slots, True, 1, None, slots_most=most, speedup=(parallelism, 0.5), work_s=work_s
        )

    def passes(self, _):
        """Time passes, up to a moment at which heads may be asked again."""
        self.now_s += 20 * self.rng.random()
        self.after(self.queues.asked_again(self.now_s, self.rng))

    def host(self, number, slots, open_slots, tiers):
        name = HostId(f"h{number}")
        host = HostSlots(name, slots, min(open_slots, slots), self.rng.random(), tuple(tiers))
        if not open_slots:
            host = replace(host, hog="a", beside_hog=number % 3)
        self.hosts[name] = host
        self.after(self.queues.host_is(host, *self.when()))

    def pick(self, jobs, which):
        """Picks by the numbers in the ids, whatever their prefix."""
        return sorted(jobs, key=lambda id_: int(id_.removeprefix("j")))[which % len(jobs)]

    def rules_change(self, _):
        """From now on each host serves other tiers."""
        tiers = {
            name: tuple(self.rng.sample(range(1, LAST + 1), self.rng.randint(1, LAST)))
            for name in self.hosts
        }
        self.after(self.queues.rules_changed(tiers.__getitem__, *self.when()))

    def leave(self, which):
        if self.hosts:
            name = sorted(self.hosts)[which % len(self.hosts)]
            del self.hosts[name]
            self.after(self.queues.host_gone(name, *self.when()))

    def end(self, which):
        if self.alive:
            job = self.pick(self.alive, which)
            del self.alive[job], self.jobs[job]
            self.after(self.queues.ended(job, *self.when()))

    def cancel(self, which):
        waiting = self.jobs.keys() - self.alive.keys()
        if waiting:
            job = self.pick(waiting, which)
            del self.jobs[job]
            self.after(self.queues.ended(job, *self.when()))

    def lose(self, which):
        if self.alive:
            job = self.pick(self.alive, which)
            del self.alive[job]
            self.came_back.add(job)
            self.after(self.queues.lost(job, *self.when()))

    def cut(self, which):
        limited = [job for job, start in self.alive.items() if start.cutoff_s is not None]
        if limited:
            job = self.pick(limited, which)
            start = self.alive.pop(job)
            self.came_back.add(job)
            starts = self.queues.cut_off(job, *self.when())
            self.after(starts)
            tier = self.queues.registry[job].job.tier
            assert tier == start.tier + 1

    def when(self):
        self.now_s += self.rng.random()
        heads = ((line, self.queues.head(line)) for line in self.queues.lines)
        self.heads = {line: head.id for line, head in heads if head is not None}
        return self.now_s, self.rng

    def after(self, starts):
        self.told += [(number_of(start.job), *start[1:]) for start in starts]
        for start in starts:
            assert start.job.id in self.jobs, "it is known"
            assert start.job.id not in self.alive, "never two attempts at once"
            assert start.host in self.hosts, "the host takes jobs"
            self.check_cutoff(start)
            self.check_order(start)
            self.check_kept(start)
            self.alive[start.job.id] = start
        self.check_registry()
        self.check_limits()
        self.check_slots(starts)
        self.check_nobody_waits_for_nothing()

    def check_cutoff(self, start):
        if self.mode != "tags":
            assert start.cutoff_s is None
            return
        assert start.tier >= start.job.tier
        if not start.job.may_restart:
            assert (start.tier, start.cutoff_s) == (LAST, None)
        assert start.cutoff_s == (CUTOFFS[start.tier - 1] if start.tier < LAST else None)

    def check_registry(self):
        """Each job is in exactly one place."""
        queues = self.queues
        assert queues.registry.keys() == self.jobs.keys()
        there = [e for e in queues.registry.values() if e.line is None and e.host is None]
        aside = listed(queues.shapes_aside, there)
        assert {e.id for e in there if isinstance(e, Entry)} == queues.aside.keys()
        for job, entry in queues.registry.items():
            places = [entry.line is not None, entry.host is not None, job in aside]
            assert places.count(True) == 1
            assert (entry.host is not None) == (job in self.alive)
            if entry.host is not None:
                assert queues.servers_by_host[entry.host].running[job] is entry
        for line, waiting in queues.lines.items():
            here = [e.id for e in queues.registry.values() if e.line == line]
            assert listed(waiting.shapes, map(queues.registry.find, here)) == set(here)
            for kinds in waiting.shapes:
                server = queues.hosts[kinds.host]
                assert line in server.lines, "it serves the line"
                assert server.suits(kinds.kind), "it could take the job"
            assert waiting.jobs == len(here)
            assert waiting.slots == sum(queues.registry[id_].kind.slots for id_ in here)
            work_s = sum(queues.registry[id_].work_s for id_ in here)
            assert waiting.work_s == pytest.approx(work_s)
            assert sorted(here) == sorted(waiter.id for waiter in waiting.order())
        for server in queues.servers_by_host.values():
            assert server.used == sum(e.slots for e in server.running.values())

    def check_order(self, start):
        """Of jobs of the same user, name, priority and array, the earlier one goes first."""
        own_lines = isinstance(self.queues.discipline, OwnLines)
        line = start.host if own_lines else start.tier
        for entry in self.queues.registry.values():
            if entry.line == line and not entry.begun and alike(entry.job, start.job):
                back = start.job.id in self.came_back
                assert back or number_of(entry.job) > number_of(start.job)

    def check_kept(self, start):
        """A host's slots are reserved for the heads of lines that it serves before that of
        `start`."""
        server = self.queues.servers_by_host[start.host]
        line = start.host if start.host in server.lines else start.tier
        for earlier in server.lines[: server.lines.index(line)]:
            head = self.queues.head(earlier)
            if head is not None and head.id == self.heads.get(earlier):
                if server.host.beside_hog and head.kind.user in ("", server.host.hog):
                    continue  # what another user starts beside the hog's commands is not for it
                assert not server.suits(head.kind) or self.has_barred(start.job, earlier)

    def has_barred(self, begun, line):
        """Whether the started job may have barred the head, by the limit of its user or name."""
        waiting = [e.job for e in self.queues.registry.values() if e.line == line]
        alike = [job for job in waiting if job.user == begun.user or job.name == begun.name]
        return self.queues.shares.limits and bool(alike)

    def check_limits(self):
        """No user has more slots, and no name more jobs, than allowed."""
        slots, names = Counter(), Counter()
        for job, start in self.alive.items():
            slots[self.jobs[job].user] += start.slots
            names[self.jobs[job].name] += 1
        if self.rules.user_slots:
            assert max(slots.values(), default=0) <= self.rules.user_slots
        for name, most in self.rules.name_jobs:
            assert names[name] <= most

    def check_slots(self, starts):
        for start in starts:
            assert start.job.slots <= start.slots <= max(start.job.slots, start.job.slots_most)
            server = self.queues.servers_by_host[start.host]
            host, most = server.host, server.host.usable
            if start.slots == 1 and start.job.user not in ("", host.hog):
                most = max(most, host.beside_hog)
            assert server.used <= most, "no slot is taken twice"

    def check_nobody_waits_for_nothing(self):
        """No job waits beside a free slot that fits it and is reserved for no earlier job; in each
        line the job whose turn it is goes first."""
        queues = self.queues
        for line in queues.servers:
            waiting = [e for e in queues.registry.values() if e.line == line]
            head = queues.head(line)
            self.check_head(head, waiting)
            if head is None:
                continue
            for server in queues.servers[line]:
                if server.takes_beside_hog(head.job):
                    assert any(queues.head(one) for one in server.lines[: server.lines.index(line)])
                if server.free >= head.job.slots and not self.holds_out(line, head, server):
                    earlier = server.lines[: server.lines.index(line)]
                    kept = [queues.head(other) for other in earlier]
                    assert any(e and e.job.slots <= server.slots for e in kept)
        for entry in [e for e in queues.registry.values() if e.line is None and e.host is None]:
            line = queues.discipline.join(entry.job, queues.hosts, self.now_s, Random(0))
            servers_by_host = queues.servers.get(line, ())
            assert not any(server.slots >= entry.job.slots for server in servers_by_host)

    def holds_out(self, line, head, server):
        """Whether the head holds out, by its own choice and for a limited time, for more slots than
        this host has free."""
        queues = self.queues
        asked = queues.heads.asked.get(line)
        if asked is None:
            return False
        assert asked.job == head.id
        assert asked.again_s < math.inf
        able = [one for one in queues.servers[line] if one.suits(head.job)]
        soon = asked.again_s <= self.now_s + AGAIN_S_MAX
        assert soon or any(one.running for one in able), "it waits for what may come"
        return server.free < queues.heads.shape_of(head.job).useful

    def check_head(self, head, waiting):
        shares = self.queues.shares
        if self.rules == PLAIN and not any(entry.job.array for entry in waiting):
            first = min(waiting, key=lambda e: e.number, default=None)
            assert (head and head.id) == (first and first.id)
            return
        fronts = {}
        for entry in waiting:
            fronts.setdefault(shares.flow(entry.job), []).append(entry)
        free = [flow for flow, entries in fronts.items()
                if not any(shares.obstacle(e.job) for e in entries)]  # fmt: skip
        if head is None:
            assert not free, "somebody waits whom no limit stops"
            return
        assert head.id in [entry.id for entry in waiting]
        assert not shares.obstacle(head.job)
        if free:
            flow = shares.flow(head.job)
            assert flow.priority >= max(other.priority for other in free)
            rivals = [other for other in free if other.priority == flow.priority]
            if self.rules.fair_share_s and rivals:
                least = min(shares.standing(other.user) for other in rivals)
                assert shares.standing(flow.user) <= least

    def finish(self):
        """All hosts return for good, large and open, and every job must end."""
        for number in range(1, 5):
            self.host(number, 9, 9, [min(number, LAST)])
        for _ in range(10 * len(self.jobs) + 1):
            if not self.jobs:
                break
            self.passes(0)
            assert self.alive, "somebody runs as long as somebody is there"
            self.cut(0)
            self.end(0)
        assert not self.jobs
        assert not self.queues.registry


BESIDE_ARRIVALS = (
    st.tuples(st.just("host"), st.integers(1, 4), st.integers(1, 4), st.integers(0, 4),
              st.lists(st.integers(1, LAST), min_size=1, max_size=LAST, unique=True)),
    st.tuples(st.just("leave"), st.integers(0, 3)),
    *(st.tuples(st.just(name), st.integers(0, 9)) for name in ("end", "cancel", "lose", "cut")),
)  # fmt: skip
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.sampled_from([1, 1, 1, 2, 3]), st.booleans(),
                  st.sampled_from([1, 1, 2, 3]), st.one_of(st.none(), st.floats(0.1, 100.0))),
        *BESIDE_ARRIVALS,
    ),
    max_size=60,
)  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=60, deadline=None)
@given(events=EVENTS, conserving=st.booleans(), seed=st.integers(0, 9))
def test_no_history_breaks_a_rule(mode, events, conserving, seed):
    history = History(mode, conserving and mode in TIERED, seed)
    for name, *details in events:
        getattr(history, name)(*details)
    history.finish()


WEIGHTS = {
    "arrive": 30, "host": 3, "leave": 1, "end": 20, "cancel": 5, "lose": 3, "cut": 8,
    "rules_change": 1,
}  # fmt: skip


def play(history, rng, arrive):
    """Runs a long history to its end. It depends only on the seed, so it replays from that."""
    for _ in range(300):
        (name,) = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
        if name == "arrive":
            arrive()
        elif name == "host":
            tiers = rng.sample(range(1, LAST + 1), rng.randint(1, LAST))
            history.host(rng.randint(1, 4), rng.randint(1, 4), rng.randint(0, 4), tiers)
        else:
            getattr(history, name)(rng.randrange(100))
    history.finish()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(6))
def test_long_histories_with_queues_and_wide_jobs(mode, seed):
    rng = Random(f"{mode}{seed}")
    history = History(mode, seed % 2 == 1 and mode in TIERED, seed)

    def arrive():
        tier = rng.choice([1, 1, 2, 3])
        estimate_s = rng.choice([None, rng.expovariate(0.1)])
        history.arrive(rng.choice([1, 1, 1, 2, 3]), rng.random() < 0.7, tier, estimate_s)

    play(history, rng, arrive)


SHARED_EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("arrive_of"), st.sampled_from([1, 1, 1, 2, 3]), st.integers(0, 5),
                  st.sampled_from("abc"), st.sampled_from(["", "x", "y"]), st.integers(-1, 1),
                  st.sampled_from([0, 0, 7, 8])),
        *BESIDE_ARRIVALS,
    ),
    max_size=60,
)  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=50, deadline=None)
@given(events=SHARED_EVENTS, rules=st.sampled_from(RULES), seed=st.integers(0, 9))
def test_no_history_of_several_users_breaks_a_rule(mode, events, rules, seed):
    history = History(mode, False, seed, rules)
    for name, *details in events:
        getattr(history, name)(*details)
    history.finish()


@pytest.mark.parametrize("mode", ["fcfs", "tags", "shortest-queue"])
@pytest.mark.parametrize("rules", RULES, ids=range(len(RULES)))
def test_long_histories_of_several_users(mode, rules):
    rng = Random(f"{mode}{rules}")
    history = History(mode, False, 1, rules)

    def arrive():
        history.arrive_of(
            rng.choice([1, 1, 1, 2, 3]), rng.randint(0, 5), rng.choice("abc"),
            rng.choice(["", "x", "y"]), rng.randint(-1, 1), rng.choice([0, 0, 7, 8])
        )  # fmt: skip

    play(history, rng, arrive)


@pytest.mark.parametrize("mode", ["fcfs", "tags", "shortest-queue"])
@pytest.mark.parametrize("strategy", ["avg", "pred", "bias", "heur"])
@pytest.mark.parametrize("rules", [PLAIN, Rules(priorities=True, user_slots=4)], ids=["", "limits"])
def test_long_histories_of_malleable_jobs(mode, strategy, rules):
    rng = Random(f"{mode}{strategy}{rules}")
    rule = Rule(strategy, lock_in=rng.random() < 0.5, hold_s_max=rng.choice([math.inf, 5.0]))
    history = History(mode, mode == "tags", 1, rules, malleable=rule)

    def arrive():
        most = rng.randint(1, 6)
        history.arrive_malleable(rng.choice([1, 1, 2]), most, rng.uniform(1, 6), rng.uniform(0, 60))
        if rng.random() < 0.3:
            history.passes(0)

    play(history, rng, arrive)
    if strategy in ("avg", "heur"):  # with a prediction it depends on what else runs
        assert (history.queues.heads.held_out > 0) == (strategy == "heur")
