"""DISTED (Zhou 1987, section 3.3): as GLOBAL, but there is no centre between the hosts: each tells
every other of its changes itself.

So a host hears N - 1 messages a period where under GLOBAL it hears one, which is why the thesis
finds that DISTED gets worse as the cluster grows. The centre's keep-alive goes on: it is what says
who is alive.
"""

from collections.abc import Sequence
from random import Random

from lbd.model import PlacementRequest
from lbd.policy.ranking import choose, settled_early
from lbd.policy.view import Reply, Reporting, Step, View


class Disted:
    reporting = Reporting.EVERYBODY

    def next_step(
        self, request: PlacementRequest, view: View, replies: Sequence[Reply], rng: Random
    ) -> Step:
        return settled_early(request, view) or choose(request, view, rng)
