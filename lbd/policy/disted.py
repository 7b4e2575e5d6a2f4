"""DISTED (Zhou 1987, section 3.3): as GLOBAL, but without a centre: each host sends its changes to
every other host itself.

So a host receives N - 1 messages a period where under GLOBAL it receives one, which is why the
thesis finds that DISTED gets worse as the cluster grows. The centre's keep-alive continues: it
tells who is alive.
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
