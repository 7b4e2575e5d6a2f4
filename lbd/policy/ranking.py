"""What all algorithms share: the transfer rule, and the choice of the lowest of some hosts.

Zhou 1987, section 3.3: at or below the threshold T_l commands stay; the lowest host is taken if it
is lower than ours by more than the minimum gain; hosts of equal load are drawn by lot. Loads are
compared as they would be with the command there, so a fast or wide host wins over an equally
loaded slow one.

Two rules are ours. A command that may not stay goes to the lowest willing host, gain or no gain.
And where others would take it but for their slots and we are overloaded, it waits for one of them
rather than making things worse here.
"""

from collections.abc import Callable, Collection, Iterable
from heapq import nsmallest
from operator import attrgetter
from random import Random

from lbd.model import Candidate, HostId, Placement, PlacementRequest, Verdict
from lbd.policy.view import NO_SLOT, Decision, HostView, Nowhere, View

TIE = 0.02  # loads this close are equal: less is noise of the sampling
CANDIDATES = 16  # that an answer shows, best first

by_load = attrgetter("load")


def is_light_here(view: View) -> bool:
    return view.me.load_now <= view.params.local_threshold


def settled_early(
    request: PlacementRequest, view: View, stays: Callable[[View], bool] = is_light_here
) -> Decision | None:
    """The decision if no other host's load matters to it, else None."""
    me = view.me
    if request.wanted is not None:
        return wanted_host(request.wanted, view)
    if request.must_stay:
        return here(view, "must-stay")
    if not leaves(request, view) and stays(view):
        return here(view, "below-threshold")
    if not any(host.alive for host in view.hosts.values() if host is not me):
        if must_leave(request, view):
            return Nowhere("no-willing-host: no other host is up", ranked(request, view))
        return here(view, "no-peer")
    return None


def wanted_host(name: HostId, view: View) -> Decision:
    """-H: there, whatever we believe of it. Our news of it may be old, or our own LIM may have
    stood still; the host itself says no, by which of its rules, or does not answer in time."""
    host = view.hosts[name]
    if host is not view.me:
        return Placement(Verdict.THERE, name, "wanted", (candidate(host, view),))
    if host.why:
        return Nowhere(f"{name} cannot take it: {host.why}")
    return here(view, "wanted")


def must_leave(request: PlacementRequest, view: View) -> bool:
    return request.must_leave or view.me.name in request.excluded


def leaves(request: PlacementRequest, view: View) -> bool:
    """Whether it should not run here, whatever our load: demanded, or we are drained."""
    return must_leave(request, view) or view.me.why == "drained"


def choose(
    request: PlacementRequest, view: View, dice: Random, among: Collection[HostId] | None = None
) -> Decision:
    """The lowest willing host (of those named, if any are), or why not.

    Every request that `settled_early` left open gets its decision here.
    """
    me = view.me
    hosts = others(request, view, among)
    best = lowest(hosts, dice)
    if leaves(request, view):
        return choose_leaving(request, view, hosts, best)
    if best is not None and best.load < me.load - view.params.min_gain:
        return there(view, best, "lowest", request)
    overloaded = me.load_now > view.params.hold_above
    if overloaded and request.may_wait and some_are_full(hosts):
        return Placement(Verdict.WAIT, me.name, "no-free-slot", ranked(request, view))
    return here(view, "no-willing-host" if best is None else "no-gain", request)


def choose_leaving(
    request: PlacementRequest, view: View, hosts: Iterable[HostView], best: HostView | None
) -> Decision:
    if best is not None:
        return there(view, best, "lowest", request)
    if request.may_wait and some_are_full(hosts):
        return Placement(Verdict.WAIT, view.me.name, "no-free-slot", ranked(request, view))
    if must_leave(request, view):
        return Nowhere("no-willing-host: nobody else can take it now", ranked(request, view))
    return here(view, "no-willing-host", request)


def some_are_full(hosts: Iterable[HostView]) -> bool:
    return any(host.why == NO_SLOT for host in hosts)


def others(
    request: PlacementRequest, view: View, among: Collection[HostId] | None
) -> list[HostView]:
    """As they are for who asks."""
    me, excluded = view.me, request.excluded
    if among is not None:
        named = [view.hosts[n] for n in among if n in view.hosts]  # one may have left meanwhile
        found = [host for host in named if host is not me and host.name not in excluded]
    elif not excluded:
        found = [host for host in view.hosts.values() if host is not me]
    else:
        found = [h for h in view.hosts.values() if h is not me and h.name not in excluded]
    return [host.for_user(request.user) if host.hog else host for host in found]


def lowest(hosts: Iterable[HostView], dice: Random) -> HostView | None:
    """The willing host of the lowest load, by lot among those within TIE of it."""
    willing = [host for host in hosts if not host.why]
    if not willing:
        return None
    limit = min(map(by_load, willing)) + TIE
    best = [host for host in willing if host.load <= limit]
    return best[0] if len(best) == 1 else dice.choice(best)


def here(view: View, reason: str, request: PlacementRequest | None = None) -> Placement:
    if request is None or not request.shown:
        return Placement(Verdict.HERE, view.me.name, reason, (candidate(view.me, view),))
    return Placement(Verdict.HERE, view.me.name, reason, ranked(request, view))


def there(view: View, host: HostView, reason: str, request: PlacementRequest) -> Placement:
    shown = ranked(request, view) if request.shown else ()
    if not shown or shown[0].name != host.name:  # a tie that the lot decided
        shown = (candidate(host, view), *(c for c in shown if c.name != host.name))
    return Placement(Verdict.THERE, host.name, reason, shown)


def ranked(request: PlacementRequest, view: View, limit: int = CANDIDATES) -> tuple[Candidate, ...]:
    """The hosts best first: those that may be picked, by load, then the others."""
    hosts = view.hosts.values()
    willing = [host for host in hosts if not host.why and host.name not in request.excluded]
    best = nsmallest(limit, willing, key=by_load)
    if len(best) < limit and len(willing) < len(hosts):
        rest = [host for host in hosts if host.why or host.name in request.excluded]
        best += nsmallest(limit - len(best), rest, key=by_load)
    return tuple(candidate(host, view, request.excluded) for host in best)


def candidate(host: HostView, view: View, excluded: frozenset[HostId] = frozenset()) -> Candidate:
    why = "excluded" if host.name in excluded else host.why
    age_s = max(0.0, view.now_s - host.sampled_at_s)
    return Candidate(host.name, host.load, age_s, not why, why)
