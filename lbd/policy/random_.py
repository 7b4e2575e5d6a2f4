"""RANDOM (Zhou 1987, section 3.3): a host above T_l sends the command to any other, at random.

It ignores the loads of other hosts, so it may send commands to busier ones. It does check whether
the other host takes commands at all.
"""

from collections.abc import Sequence
from random import Random

from lbd.model import PlacementRequest
from lbd.policy.ranking import choose, others, settled_early, there
from lbd.policy.view import Reply, Reporting, Step, View


class AnyHost:
    reporting = Reporting.NOBODY

    def next_step(
        self, request: PlacementRequest, view: View, replies: Sequence[Reply], rng: Random
    ) -> Step:
        if (early := settled_early(request, view)) is not None:
            return early
        willing = [host for host in others(request, view.me, view.hosts.values()) if not host.why]
        if willing:
            return there(view, rng.choice(willing), "random", request)
        return choose(request, view, rng)  # waits, stays, or says why it can do neither
