"""P2C, our own: the power of two choices (Mitzenmacher 1996), adapted to old loads (Mitzenmacher
2000, "How useful is old information?").

The lower load of two hosts drawn at random is nearly as good as the lowest of all. It is much
better than one host at random, and better than the lowest of all by old loads: with those,
everybody picks the same host until the next report. Here more hosts are drawn the fresher the loads
are, two when they are old; an old load counts for less, and its host is asked if the reply may
change the choice (`belief`).

Hosts are compared by what one more task costs all tasks there (`delay`), not by tasks per power as
in Zhou's rules: by that measure a wide host of slow cores looks idle for long.
"""

from collections.abc import Sequence
from random import Random

from lbd.model import PlacementRequest
from lbd.policy.belief import decide
from lbd.policy.view import Reply, Reporting, Step, View


class TwoChoices:
    reporting = Reporting.VECTOR

    def next_step(
        self, request: PlacementRequest, view: View, replies: Sequence[Reply], rng: Random
    ) -> Step:
        return decide(request, view, replies, rng)
