"""How much to trust loads that are no longer fresh, and which hosts to ask before deciding. Shared
by our own rules, P2C and PREDICT.

Staying. As under every rule, commands stay at or below T_l, but not while faster cores are free
elsewhere: T_l counts tasks and ignores how long they take. With T_l alone, a third of all commands
of a cluster may run at half the speed beside free cores.

Trust. A load reported a moment ago is accurate; a load from a minute ago says little. In between, a
load is pulled towards the mean of the hosts considered: trust = exp(-age / `lim.trust_s`). The
commands we ourselves have sent there since are known for certain and never discounted.
(Mitzenmacher 2000 shows why: if everybody follows old loads, everybody picks the same few hosts,
which is worse than choosing at random.)

Herds. Each decision considers only some of the hosts, drawn at random: half of them, at most
sixteen, while their loads are fresh, and fewer the older the loads are, down to two. So hosts that
decide at the same instant do not consider the same hosts, whatever the loads are.

Questions. A host that may turn out better than the best trusted one is asked for its current load,
most promising first, at most `lim.probe_limit` times: the untrusted part of its load may be gone.
One decision in 32 first asks the host with the oldest load anyway: a host that is rarely picked
because of a wrong load must get the chance to correct it.
"""

import math
from collections.abc import Mapping, Sequence
from operator import attrgetter
from random import Random

from lbd.model import HostId, PlacementRequest
from lbd.policy.delay import time_for_all
from lbd.policy.ranking import TIE, choose, is_light_here, leaves, named, others, settled_early
from lbd.policy.view import HostView, Probe, Reply, Step, View

DRAWN_MAX = 16
CHOICES = 2
SURE = 0.99  # trust from which a host need not be asked
HOPE = 4  # how many times as fast as trust a promising host's load is assumed to fade
ASKED_ANYWAY = 1 / 32  # share of all decisions
SILENT_PERIODS = 2  # after so many, a changed load would have been reported

by_age = attrgetter("sampled_at_s")


def decide(
    request: PlacementRequest, view: View, replies: Sequence[Reply], rng: Random, way: float = 0.0
) -> Step:
    """Returns the next question, or the host with the lowest believed cost: its `time_for_all`,
    plus `way`, the moving time per CPU second of the command."""
    if (early := settled_early(request, view, stays)) is not None:
        return early
    asked = {reply.host for reply in replies}
    answered = [reply.host for reply in replies if reply.answered]
    known = others(request, view.me, named(view, answered)) if answered else []
    picked, trusts = fewer_if_old(drawn(request, view, asked, rng), view)
    if not known and not picked:
        return choose(request, view, rng)
    left = view.params.probe_limit - len(replies)
    if left > 0 and trusts and min(trusts) < SURE:
        if not replies and rng.random() < ASKED_ANYWAY:
            unsure = [host for host, trust in zip(picked, trusts, strict=True) if trust < SURE]
            return Probe((min(unsure, key=by_age).name,), 1.0 / left)
        promising = most_promising(known, picked, trusts, view, rng, way)
        if promising is not None:
            return Probe((promising.name,), 1.0 / left)
    hosts, now_s = known + picked, view.now_s
    loads = believed_loads(hosts, trusted(known, view) + trusts)
    looked_at = [
        (host, load, time_for_all(host, load, now_s) + way)
        for host, load in zip(hosts, loads, strict=True)
    ]
    full, rest = full_ones(request, view), view.hosts
    if not (request.shown or full or leaves(request, view)):
        rest = {}  # nobody will look at them
        limit = min([c for host, _, c in looked_at if not host.why], default=0.0) + TIE
        looked_at = [one for one in looked_at if one[2] <= limit and not one[0].why]
    seen = as_believed(looked_at, rest, view)
    names = [host.name for host, _, _ in looked_at] + full
    return choose(request, seen, rng, names)


def stays(view: View) -> bool:
    """Whether we are lightly loaded and no core elsewhere is faster by more than Δ, the gain a move
    must bring."""
    if not is_light_here(view):
        return False
    limit = 1.0 / view.me.speed - view.params.min_gain
    return not any(1.0 / host.speed < limit for host in view.hosts.values() if not host.why)


def trusted(hosts: Sequence[HostView], view: View) -> list[float]:
    """Returns the trust in each host's load, 0 to 1. Under both rules hosts report changes, so
    silence means that nothing changed."""
    now_s, trust_s = view.now_s, view.params.trust_s
    oldest_s = SILENT_PERIODS * view.params.exchange_period_s
    least = math.exp(-oldest_s / trust_s)
    found = []
    for host in hosts:
        age_s = now_s - host.sampled_at_s
        if age_s >= oldest_s:
            found.append(least)
        else:
            found.append(math.exp(-age_s / trust_s) if age_s > 0 else 1.0)
    return found


def drawn(request: PlacementRequest, view: View, asked: set[HostId], rng: Random) -> list[HostView]:
    """Draws at random from the hosts that might take the command, by their last reports. Draws no
    more hosts than are considered."""
    most, random = drawn_max(view), rng.random
    passed = {view.me.name} | request.excluded | asked
    hosts = list(view.hosts.values())
    found: list[HostView] = []
    for left in range(len(hosts), 0, -1):
        at = int(random() * left)
        host = hosts[at]
        hosts[at] = hosts[left - 1]
        if host.name in passed:
            continue
        if host.hog:
            host = host.for_user(request.user)
        if host.alive and (not host.why or host.why == "late"):
            found.append(host)
            if len(found) == most:
                break
    return found


def drawn_max(view: View) -> int:
    return max(CHOICES, min(DRAWN_MAX, len(view.hosts) // 2))


def fewer_if_old(picked: list[HostView], view: View) -> tuple[list[HostView], list[float]]:
    """Keeps fewer of the drawn hosts the older their loads are. Returns them and the trust in
    each."""
    trusts = trusted(picked, view)
    if len(picked) <= CHOICES:
        return picked, trusts
    mean_trust = sum(trusts) / len(picked)
    looked_at = max(CHOICES, math.ceil(drawn_max(view) * mean_trust))
    return picked[:looked_at], trusts[:looked_at]


def most_promising(
    known: Sequence[HostView], picked: Sequence[HostView], trusts: Sequence[float], view: View,
    rng: Random, way: float,
) -> HostView | None:  # fmt: skip
    """Returns the host to ask: the one that would be best if the untrusted part of its load were
    gone. None if no host would gain enough."""
    me, now_s = view.me, view.now_s
    best = time_for_all(me, me.load_now, now_s)
    for host in known:
        if not host.why:
            best = min(best, time_for_all(host, host.load_now, now_s) + way)
    hope, hopeful = math.inf, []
    for host, trust in zip(picked, trusts, strict=True):
        if trust >= SURE:
            if not host.why:
                best = min(best, time_for_all(host, host.load_now, now_s) + way)
            continue
        hoped = time_for_all(host, host.load_now * trust**HOPE, now_s) + way
        if hoped < hope:
            hope, hopeful = hoped, [host]
        elif hoped == hope:
            hopeful.append(host)
    return rng.choice(hopeful) if hope < best - view.params.min_gain else None


def believed_loads(hosts: Sequence[HostView], trusts: Sequence[float]) -> list[float]:
    known = [host.load_now - host.charged for host in hosts]
    mean = sum(known) / len(hosts)
    return [
        mean + (load - mean) * trust + host.charged
        for host, load, trust in zip(hosts, known, trusts, strict=True)
    ]


def as_believed(
    looked_at: Sequence[tuple[HostView, float, float]],
    rest: Mapping[HostId, HostView],
    view: View,
) -> View:
    """Returns a view of these and the remaining hosts with loads as believed, ours included. `load`
    is the command's cost on that host."""
    me, now_s = view.me, view.now_s
    me = me.believed(me.load_now, time_for_all(me, me.load_now, now_s))
    seen = {**rest, me.name: me}
    for host, load, there in looked_at:
        seen[host.name] = host.believed(load, there)
    return View(me, seen, view.params, now_s, view.centre)


def full_ones(request: PlacementRequest, view: View) -> list[HostId]:
    """Returns the full hosts that the command may have to wait for."""
    overloaded = view.me.load_now > view.params.hold_above or leaves(request, view)
    if not (request.may_wait and overloaded):
        return []
    return [h.name for h in view.hosts.values() if h.why and h.is_full]
