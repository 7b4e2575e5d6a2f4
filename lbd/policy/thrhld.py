"""THRHLD (Zhou 1987, section 3.3): ask up to L_p hosts, drawn at random, one after the other; the
first whose load is below the threshold T_l takes the command. If none is, it stays.

Taken literally, the rule accepts no host at T_l = 0; `probing.is_light` has the reading that does.
"""

from collections.abc import Sequence
from random import Random

from lbd.model import PlacementRequest
from lbd.policy.probing import is_light, next_to_ask
from lbd.policy.ranking import choose, here, leaves, settled_early
from lbd.policy.view import NO_SLOT, Reply, Reporting, Step, View


class Threshold:
    reporting = Reporting.NOBODY

    def next_step(
        self, request: PlacementRequest, view: View, replies: Sequence[Reply], rng: Random
    ) -> Step:
        if (early := settled_early(request, view)) is not None:
            return early
        answered = [r.host for r in replies if r.answered and r.host in view.hosts]
        for name in answered:
            host = view.hosts[name]
            if not host.why and is_light(host.load_now, view.params):
                return choose(request, view, rng, [name])
        found = next_to_ask(request, view, replies, rng)
        if found is not None:
            return found
        if leaves(request, view):
            return choose(request, view, rng, answered)
        full = [name for name in answered if view.hosts[name].why == NO_SLOT]
        if full:  # waiting for one of them may be better
            return choose(request, view, rng, full)
        return here(view, "none-below-threshold", request)
