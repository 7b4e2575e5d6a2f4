"""What all algorithms share: the transfer rule, and the choice of the lowest of some hosts.

Zhou 1987, section 3.3: at or below the threshold T_l commands stay; the lowest host is taken if it
is lower than ours by more than the minimum gain; ties are broken at random. Loads are compared as
they would be with the command there, so a fast or wide host wins over an equally loaded slow one.

Three rules are our own. A command that may not stay goes to the lowest willing host, gain or no
gain. If other hosts lack only a free slot and we are overloaded, the command waits for one of them
rather than making things worse here. Hosts with too little memory for the command's recent peak are
left out, ours too if another host has enough; where none has enough, the peak is ignored.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from heapq import nsmallest
from math import inf
from operator import attrgetter
from random import Random

from lbd.model import Candidate, HostId, Placement, PlacementRequest, Verdict
from lbd.policy.view import NO_SLOT, Decision, HostView, Nowhere, View
from lbd.text.placement_phrases import ALL_OTHERS_EXCLUDED

NO_HOST_HAS = "none has what it needs"
TIE = 0.02  # loads this close are equal: smaller differences are sampling noise
EXCLUDED = "excluded"
MUST_LEAVE = "the command must leave"
CANDIDATES = 16  # shown in an answer, best first
PASSED_OVER = 3  # hosts that are named as the reason why a command stayed

by_load = attrgetter("load")


def is_light_here(view: View) -> bool:
    return view.me.load_now <= view.params.local_threshold


def settled_early(
    request: PlacementRequest, view: View, stays: Callable[[View], bool] = is_light_here
) -> Decision | None:
    """Returns the decision if no other host's load matters to it, else None."""
    me = view.me
    if request.wanted is not None:
        return wanted_host(request, request.wanted, view)
    if request.must_stay and not me.fits:
        return lacks_here(request, view)
    if request.must_stay:
        return here(view, "asked-to-stay")
    if not leaves(request, view) and not me.is_short and stays(view):
        return here(view, "below-threshold")
    for host in view.hosts.values():
        if host.alive and host is not me:
            return None
    if not me.fits:
        return lacks_here(request, view)
    if must_leave(request, view):
        return Nowhere("no other host is up", ranked(request, view))
    return here(view, "no-peer")


def lacks_here(request: PlacementRequest, view: View) -> Decision:
    """This host is the only one, and lacks what the command needs."""
    if view.me.is_taken and request.may_wait:
        return waiting(request, view, [view.me], "needs-taken")
    return Nowhere(f"no suitable host: {NO_HOST_HAS}", ranked(request, view))


def wanted_host(request: PlacementRequest, name: HostId, view: View) -> Decision:
    """-H: use that host, whatever we believe about it. Our information may be old, or our own LIM
    may have been stopped; the host itself refuses and names its rule, or does not answer in time.
    """
    host = view.hosts[name]
    if host is not view.me:
        return Placement(Verdict.THERE, name, "wanted", (candidate(host, view),))
    if host.is_taken and request.may_wait:
        return Placement(Verdict.WAIT, name, "needs-taken", (candidate(host, view),))
    if host.why and not host.is_short:
        return Nowhere(f"{name} cannot take it: {host.why}")
    return here(view, "wanted")


def must_leave(request: PlacementRequest, view: View) -> bool:
    return request.must_leave or view.me.name in request.excluded or not view.me.fits


def leaves(request: PlacementRequest, view: View) -> bool:
    """Whether it should not run here, whatever our load: demanded by the request, or we are
    drained."""
    return must_leave(request, view) or view.me.why == "drained"


def choose(
    request: PlacementRequest, view: View, rng: Random, among: Collection[HostId] | None = None
) -> Decision:
    """Returns the lowest willing host (among the named ones, if given), or why there is none.

    Decides every request that `settled_early` left open.
    """
    me = view.me
    hosts = view.hosts.values() if among is None else named(view, among)
    best = lowest(hosts, rng, request, me)
    if leaves(request, view):
        return choose_leaving(request, view, others(request, me, hosts), best, rng)
    if best is not None and me.is_short:
        return there(view, best, "short-of-memory", request)
    if me.is_short and not is_light_here(view):
        best = lowest(map(forgiven, others(request, me, hosts)), rng, request, me)
    if best is not None and best.load < me.load - view.params.min_gain:
        return there(view, best, "lowest", request)
    if me.load_now > view.params.hold_above and request.may_wait:
        full = [host for host in others(request, me, hosts) if host.is_full]
        if full:
            return waiting(request, view, full, "no-free-slot")
    return staying(request, view, hosts, best)


def staying(
    request: PlacementRequest, view: View, hosts: Iterable[HostView], best: HostView | None = None
) -> Placement:
    """Nothing is gained elsewhere: `best` is no better, or the other hosts are full, or accept
    nothing. The answer names the hosts that this was found of."""
    if best is not None:
        return here(view, "no-gain", request, (best,))
    passed = [host for host in others(request, view.me, hosts) if host.alive]
    if full := [host for host in passed if host.why == NO_SLOT]:
        return here(view, "no-free-slot", request, full[:PASSED_OVER])
    return here(view, "no-willing-host", request, passed[:PASSED_OVER])


def choose_leaving(
    request: PlacementRequest,
    view: View,
    hosts: Iterable[HostView],
    best: HostView | None,
    rng: Random,
) -> Decision:
    if best is not None:
        reason = "only-one-fits" if is_only_one(best, view) else "lowest"
        return there(view, best, reason, request)
    full = [host for host in (*hosts, view.me) if host.is_full]
    if request.may_wait and full:
        reason = "no-free-slot" if any(host.why == NO_SLOT for host in hosts) else "needs-taken"
        return waiting(request, view, full, reason)
    if must_leave(request, view):
        best = lowest(map(forgiven, hosts), rng, request, view.me)
        if best is not None:
            return there(view, best, "lowest", request)
    if not any(host.fits or host.is_taken for host in (*hosts, view.me)):
        return Nowhere(f"no suitable host: {NO_HOST_HAS}", ranked(request, view))
    if must_leave(request, view):
        return Nowhere(why_nobody_else(request, view), ranked(request, view))
    return staying(request, view, hosts)


def is_only_one(host: HostView, view: View) -> bool:
    """Whether no other host has what the command needs."""
    if view.me.fits:
        return False
    others_too = (one for one in view.hosts.values() if one.name != host.name)
    return not any(one.fits or one.is_taken for one in others_too)


def why_nobody_else(request: PlacementRequest, view: View) -> str:
    up = (host.name for host in view.hosts.values() if host.alive and host is not view.me)
    if request.excluded.issuperset(up):
        own = view.me.name in request.excluded
        return "all hosts are excluded" if own else ALL_OTHERS_EXCLUDED
    return "no other host can take it now"


def forgiven(host: HostView) -> HostView:
    """Ignores a lack of memory for the learnt peak: what was learnt may be wrong, so it alone must
    not refuse a command."""
    return replace(host, why="") if host.is_short else host


def named(view: View, names: Iterable[HostId]) -> list[HostView]:
    """Returns these hosts, without those that have left meanwhile."""
    hosts = view.hosts
    return [hosts[name] for name in names if name in hosts]


def others(request: PlacementRequest, me: HostView, hosts: Iterable[HostView]) -> list[HostView]:
    """Returns the other hosts as the asking user sees them."""
    user, excluded = request.user, request.excluded
    found = [host for host in hosts if host is not me and host.name not in excluded]
    return [host.for_user(user) if host.hog else host for host in found]


def lowest(
    hosts: Iterable[HostView], rng: Random, request: PlacementRequest, me: HostView
) -> HostView | None:
    """Returns the willing host with the lowest load of `others`, at random among those within TIE
    of it.

    Passes over the hosts only once, as there may be a thousand, and looks twice only at hosts that
    were among the lowest when they were reached.
    """
    user, excluded = request.user, request.excluded
    found: list[HostView] = []
    low = limit = inf
    for host in hosts:
        if host.why:
            if not host.hog:
                continue
            host = host.for_user(user)
            if host.why:
                continue
        load = host.load
        if load <= limit and host is not me and host.name not in excluded:
            found.append(host)
            if load < low:
                low, limit = load, load + TIE
    found = [host for host in found if host.load <= limit]
    if not found:
        return None
    return found[0] if len(found) == 1 else rng.choice(found)


def here(
    view: View,
    reason: str,
    request: PlacementRequest | None = None,
    beside: Iterable[HostView] = (),
) -> Placement:
    """`beside`: other hosts to show in any case."""
    if request is None or not request.shown:
        seen = tuple(candidate(host, view) for host in (view.me, *beside))
        return Placement(Verdict.HERE, view.me.name, reason, seen)
    return Placement(Verdict.HERE, view.me.name, reason, ranked(request, view))


def there(view: View, host: HostView, reason: str, request: PlacementRequest) -> Placement:
    shown = ranked(request, view) if request.shown else (candidate(view.me, view),)
    if shown[0].name != host.name:  # a tie broken at random
        shown = (candidate(host, view), *(c for c in shown if c.name != host.name))
    return Placement(Verdict.THERE, host.name, reason, shown)


def waiting(
    request: PlacementRequest, view: View, full: Iterable[HostView], reason: str
) -> Placement:
    """The command waits here for one of these hosts to have room; the named host is the first
    choice."""
    best = min(full, key=by_load)
    return Placement(Verdict.WAIT, best.name, reason, ranked(request, view))


def ranked(request: PlacementRequest, view: View, limit: int = CANDIDATES) -> tuple[Candidate, ...]:
    """Returns the hosts, best first: those that may be picked, by load; then those that could take
    it once other jobs have ended; then the rest."""
    hosts = view.hosts.values()
    willing = [host for host in hosts if not (host.why or ruled_out(host, view, request))]
    best = nsmallest(limit, willing, key=by_load)
    if len(best) < limit:
        rest = [host for host in hosts if host.why or ruled_out(host, view, request)]
        best += nsmallest(limit - len(best), rest, key=lambda host: (not host.is_full, host.load))
    return tuple(candidate(host, view, request) for host in best)


def ruled_out(host: HostView, view: View, request: PlacementRequest) -> str:
    """Returns why the request itself leaves the host out; "" if it does not."""
    if host.name in request.excluded:
        return EXCLUDED
    return MUST_LEAVE if request.must_leave and host is view.me else ""


def first_of_its_tie(found: tuple[Candidate, ...], chosen: HostId) -> tuple[Candidate, ...]:
    """Moves the chosen host before those that are as good: `lowest` breaks such ties at random."""
    one = next((one for one in found if one.name == chosen and one.willing), None)
    if one is None:
        return found
    better = [other for other in found if other.willing and other.load < one.load - TIE]
    return (*better, one, *(other for other in found if other not in better and other is not one))


def candidate(host: HostView, view: View, request: PlacementRequest | None = None) -> Candidate:
    why = (ruled_out(host, view, request) if request is not None else "") or host.why
    age_s = max(0.0, view.now_s - host.sampled_at_s)
    return Candidate(host.name, host.load, age_s, not why, why)


def as_low_as(chosen: str, willing: Mapping[str, float | None]) -> tuple[str, ...]:
    """Returns the other hosts whose load would be as low as that of the chosen one. `willing`: the
    loads with the command of the hosts that it may leave for."""
    load = willing.get(chosen)
    if load is None:
        return ()
    known = ((name, other) for name, other in willing.items() if other is not None)
    tied = (name for name, other in known if max(load, other) <= min(load, other) + TIE)
    return tuple(name for name in tied if name != chosen)
