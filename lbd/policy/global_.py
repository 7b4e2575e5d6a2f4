"""GLOBAL (Zhou 1987, section 3.3): each host picks from the load vector the centre broadcasts."""

from collections.abc import Sequence
from random import Random

from lbd.model import PlacementRequest
from lbd.policy.ranking import choose, settled_early
from lbd.policy.view import Reply, Reporting, Step, View


class Global:
    reporting = Reporting.VECTOR

    def next_step(
        self, request: PlacementRequest, view: View, replies: Sequence[Reply], rng: Random
    ) -> Step:
        return settled_early(request, view) or choose(request, view, rng)
