"""What the algorithms that ask other hosts share: whom to ask next, and what a light load is.

A host that does not answer counts as asked. Each question may take an even share of the time that
is left, so that one dead host does not use up the others' time.
"""

from collections.abc import Sequence
from random import Random

from lbd.config.schema import LimConfig
from lbd.model import HostId, PlacementRequest
from lbd.policy.view import NO_SLOT, HostView, Probe, Reply, View

ONE_TASK = 1.0
TRIES = 4


def next_to_ask(
    request: PlacementRequest, view: View, replies: Sequence[Reply], rng: Random
) -> Probe | None:
    """One more host, at random; None when L_p were asked, or nobody is left who could take it."""
    left = view.params.probe_limit - len(replies)
    if left <= 0:
        return None
    passed = {reply.host for reply in replies} | request.excluded
    names = list(view.hosts)
    for _ in range(TRIES):  # mostly the first will do, and the others need not be looked at
        name = rng.choice(names)
        if is_worth_asking(view.hosts[name], view, passed):
            return Probe((name,), 1.0 / left)
    found = [host.name for host in view.hosts.values() if is_worth_asking(host, view, passed)]
    return Probe((rng.choice(found),), 1.0 / left) if found else None


def is_worth_asking(host: HostView, view: View, passed: frozenset[HostId] | set[HostId]) -> bool:
    able = host.alive and (host.why in ("", NO_SLOT, "late") or host.is_taken)
    return able and host is not view.me and host.name not in passed


def is_light(load_now: float, params: LimConfig) -> bool:
    """Below T_l; or below one task a core where T_l is less, or at T_l = 0 nobody would be."""
    limit = params.local_threshold
    return load_now < (limit if limit > ONE_TASK else ONE_TASK)
