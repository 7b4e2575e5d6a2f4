"""P2C, of our own: the power of two choices (Mitzenmacher 1996), and what to make of old loads
(Mitzenmacher 2000, "How useful is old information?").

Two hosts drawn at random and the lesser load of the two are nearly as good as the least of all, and
much better than either one at random or the least of all by loads that are old: then everybody
picks the same host until the next news. Here the lot is as wide as the loads are fresh, two when
they are old; an old load counts for less, and its host is asked if that may change the choice
(`belief`).

Hosts are compared by what one more task costs all who are there (`delay`), not by tasks per power
as Zhou's rules do: by those a wide host of slow cores looks idle for long.
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
