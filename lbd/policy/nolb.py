"""NOLB (Zhou 1987, section 3.3): no load balancing; every command stays unless told otherwise."""

from collections.abc import Sequence
from random import Random

from lbd.model import PlacementRequest
from lbd.policy.ranking import choose, here, must_leave, settled_early
from lbd.policy.view import Reply, Reporting, Step, View


class NoLb:
    reporting = Reporting.NOBODY

    def next_step(
        self, request: PlacementRequest, view: View, replies: Sequence[Reply], rng: Random
    ) -> Step:
        if (early := settled_early(request, view)) is not None:
            return early
        if must_leave(request, view):
            return choose(request, view, rng)
        return here(view, "no-balancing", request)
