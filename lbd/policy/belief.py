"""What to believe of loads that are not news any more, and whom to ask before deciding: what our
own rules, P2C and PREDICT, share.

Staying. At or below T_l commands stay, as under every rule, but not while faster cores are to be
had: T_l counts tasks and says nothing of how long they take. By it alone a third of all commands of
a cluster may run at half the speed beside free cores.

Trust. A load told a moment ago is the load; one of a minute ago says little. Between them it is
drawn towards the mean of the hosts looked at: trust = exp(-age / `lim.trust_s`). What we ourselves
have sent there since is known for certain and never discounted. (Mitzenmacher 2000 shows why: who
follows old loads sends everybody to the same few hosts, and does worse than at random.)

Herds. Each decision looks at some of the hosts only, drawn at random: half of them, sixteen at
most, while their loads are news, and fewer the older these are, down to two. So callers that
decide in the same instant do not look at the same hosts, whatever the loads are.

Questions. A host that may turn out better than the best we are sure of is asked, most promising
first, `lim.probe_limit` times at most: what is not trusted of its load may be gone. One decision in
32 begins with asking the host of the oldest load anyway: one that is hardly picked, for a load that
was wrong, must get the chance to say so.
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
HOPE = 4  # times as fast as trust fades what a hopeful one holds against a host
ASKED_ANYWAY = 1 / 32  # of all decisions
SILENT_PERIODS = 2  # after which an unchanged load would have been told, had it changed

by_age = attrgetter("sampled_at_s")


def decide(
    request: PlacementRequest, view: View, replies: Sequence[Reply], rng: Random, way: float = 0.0
) -> Step:
    """The next question, or the host of the least cost by what is believed: that is `time_for_all`
    there, and the `way`, what moving takes for each CPU second of the command."""
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
    """Light here, and no core elsewhere is faster by more than Δ, the gain a move must bring."""
    if not is_light_here(view):
        return False
    limit = 1.0 / view.me.speed - view.params.min_gain
    if limit <= 0.0:
        return True  # no core is that fast
    return not any(1.0 / host.speed < limit for host in view.hosts.values() if not host.why)


def trusted(hosts: Sequence[HostView], view: View) -> list[float]:
    """0 to 1. Under both rules changes are told, so silence means that there was none."""
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
    """Draws at random from the hosts that might take the command, by the last that was heard. No
    more are drawn than are looked at."""
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
    """Of those drawn the fewer are looked at, the older their loads are; and the trust in each."""
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
    """The one to ask: it would be the best, if what is not trusted of its load had gone."""
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
    """A view of them and the rest, with their loads, and ours, as believed; `load` is the command's
    cost there."""
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
