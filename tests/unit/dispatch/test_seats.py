"""Which server starts a job: the choice by rank equals a search over all servers."""

from random import Random

import pytest

from lbd.dispatch.core.backlog import Backlog
from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.fcfs import Fcfs
from lbd.dispatch.core.disciplines.tags import Tags
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.servers import SPARE_RANKS, LineServers, OpenServers, Server
from lbd.dispatch.core.shares import Rules, Shares
from lbd.dispatch.core.waiting_line import Waiting
from lbd.model import HostId, JobId

HOSTS = 7
TIERS = ((1,), (1, 2), (2,), (3,), (2, 3))
ELSEWHERE = frozenset({HostId("elsewhere")})  # for a job barred from there all servers are examined


@pytest.mark.parametrize("seed", range(20))
def test_the_best_servers_are_those_that_a_full_search_finds(seed):
    rng, servers_by_host, ranks = Random(seed), OpenServers(), {}
    for _ in range(300):
        place, rank = rng.randrange(HOSTS), (rng.randrange(2), rng.randrange(3) / 2)
        if rng.random() < 0.3:
            ranks.pop(place, None)
            servers_by_host.put(place, None)
        else:
            ranks[place] = rank
            servers_by_host.put(place, rank)
        least = min(ranks.values(), default=None)
        assert servers_by_host.best() == sorted(
            place for place, rank in ranks.items() if rank == least
        )


def test_loads_that_never_recur_do_not_accumulate():
    servers_by_host = OpenServers()
    servers_by_host.put(
        0, (0, 0.0)
    )  # it stays the best, so that none of the others is met on the way to it
    for n in range(100 * SPARE_RANKS):
        servers_by_host.put(1, (0, 1.0 + n))
    assert len(servers_by_host) < 2 * SPARE_RANKS
    assert servers_by_host.best() == [0]


def history(seed, barred):
    """Returns the starts of a random run, in order."""
    rng, rng = Random(seed), Random(seed)
    discipline = rng.choice((Fcfs, lambda: Tags((5.0, 50.0)), lambda: Tags((5.0, 50.0), True)))()
    queues, running, found = Queues(discipline), [], []

    def heartbeat(now_s):
        host = HostSlots(
            HostId(f"h{rng.randrange(HOSTS)}"), rng.randrange(1, 4), rng.choice((None, 0, 1)),
            rng.randrange(3) / 2, rng.choice(TIERS),
        )  # fmt: skip
        return queues.host_is(host, now_s, rng)

    def step(now_s):
        kind = rng.random()
        if kind < 0.5:
            job = QueuedJob(JobId(str(int(now_s) + 1)), barred=barred)
            return queues.arrived(job, now_s, rng)
        if kind < 0.7 or not running:
            return heartbeat(now_s)
        if kind < 0.75:
            return queues.host_gone(HostId(f"h{rng.randrange(HOSTS)}"), now_s, rng)
        job = running.pop(rng.randrange(len(running)))
        gone = rng.choice((queues.ended, queues.ended, queues.lost, queues.cut_off))
        return gone(job, now_s, rng)

    for now_s in range(300):
        starts = step(float(now_s))
        running += [start.job.id for start in starts]
        found += [(now_s, start.job.id, start.host, start.tier, start.slots) for start in starts]
    return found


@pytest.mark.parametrize("seed", range(20))
def test_servers_by_room_are_those_that_a_full_search_finds(seed):
    rng, line = Random(seed), 1
    servers = []
    for place in range(HOSTS):
        host = HostSlots(HostId(f"h{place}"), 4, load=rng.randrange(3) / 2)
        waiting = Waiting(line, Shares(Rules()), Backlog())
        servers.append(Server(host, waiting, (line,), (place,)))
    found = LineServers(servers)
    for _ in range(100):
        place = rng.randrange(HOSTS)
        servers[place].used = rng.randrange(6)  # sometimes more than it has
        found.rank(place, 0)
    order = list(found.by_room(rng))
    assert sorted(map(id, order)) == sorted(map(id, servers))
    open_ = [(-one.free, one.load) for one in order if one.free > 0]
    assert open_ == sorted(open_)
    assert all(one.free <= 0 for one in order[len(open_) :])
    assert found.most_free == max(0, *(one.free for one in servers))
    for slots in (1, 2, 4):
        assert found.with_room(slots) == [one for one in servers if one.free >= slots]


@pytest.mark.parametrize("seed", range(20))
def test_a_job_starts_where_a_full_search_would_start_it(seed):
    found = history(seed, frozenset())
    assert len(found) > 20
    assert found == history(seed, ELSEWHERE)


@pytest.mark.parametrize("tiers", [(1,), (1, 2)], ids=str)
def test_hosts_that_join_together_are_served_as_if_one_after_another(tiers):
    hosts = [HostSlots(HostId(f"h{n}"), 2, tiers=tiers) for n in range(HOSTS)]
    together, singly = (Queues(Tags((5.0,))) for _ in range(2))
    together.hosts_are(hosts, 0.0, Random(1))
    for host in hosts:
        singly.host_is(host, 0.0, Random(1))
    assert list(together.hosts) == list(singly.hosts)
    for number in range(1, 20):
        job, rng = QueuedJob(JobId(str(number))), (Random(number), Random(number))
        starts = [q.arrived(job, 1.0, d) for q, d in zip((together, singly), rng, strict=True)]
        assert starts[0] == starts[1]
