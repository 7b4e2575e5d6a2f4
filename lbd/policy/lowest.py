"""LOWEST (Zhou 1987, section 3.3): ask up to L_p hosts drawn by lot how loaded they are, one after
the other; stop at an empty one; take the lowest.

A host that does not answer counts as asked. Each question may take an even share of the time that
is left, so that one dead host does not use up the others' time.
"""

from collections.abc import Sequence
from random import Random

from lbd.model import HostId, PlacementRequest
from lbd.policy.ranking import choose, settled_early
from lbd.policy.view import NO_SLOT, Probe, Reply, Step, View

EMPTY = 0.1  # a smoothed index at or below this: nothing runs there


class Lowest:
    exchanges_load = False

    def next_step(
        self, request: PlacementRequest, view: View, replies: Sequence[Reply], dice: Random
    ) -> Step:
        if (early := settled_early(request, view)) is not None:
            return early
        answered = [reply.host for reply in replies if reply.answered]
        left = view.params.probe_limit - len(replies)
        if left > 0 and not any(is_empty(view, host) for host in answered):
            asked = {reply.host for reply in replies}
            worth_asking = [
                host.name
                for host in view.hosts.values()
                if host is not view.me
                and host.alive
                and host.why in ("", NO_SLOT, "late")
                and host.name not in request.excluded
                and host.name not in asked
            ]
            if worth_asking:
                return Probe((dice.choice(worth_asking),), 1.0 / left)
        return choose(request, view, dice, answered)


def is_empty(view: View, name: HostId) -> bool:
    host = view.hosts.get(name)
    return host is not None and not host.why and host.load_now <= EMPTY
