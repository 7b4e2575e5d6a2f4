"""What the probing algorithms share: which host to ask next, and what a light load is.

A host that does not answer counts as asked. Each question may take an even share of the remaining
time, so that one dead host does not use up the time of the others.
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
    """Returns one more host, at random; None if L_p were asked, or no host is left that could take
    it."""
    left = view.params.probe_limit - len(replies)
    if left <= 0:
        return None
    passed = {reply.host for reply in replies} | request.excluded
    names = list(view.hosts)
    for _ in range(TRIES):  # mostly the first will do, and the others need no look
        name = rng.choice(names)
        if is_worth_asking(view.hosts[name], view, passed):
            return Probe((name,), 1.0 / left)
    found = [host.name for host in view.hosts.values() if is_worth_asking(host, view, passed)]
    return Probe((rng.choice(found),), 1.0 / left) if found else None


def is_worth_asking(host: HostView, view: View, passed: frozenset[HostId] | set[HostId]) -> bool:
    able = host.alive and (host.why in ("", NO_SLOT, "late") or host.is_taken)
    return able and host is not view.me and host.name not in passed


def is_light(load_now: float, params: LimConfig) -> bool:
    """Below T_l. Where T_l is less than one task per core, the limit is one task: at T_l = 0 no
    host would be light otherwise."""
    limit = params.local_threshold
    return load_now < (limit if limit > ONE_TASK else ONE_TASK)
