"""P2C, of our own: the power of two choices (Mitzenmacher 1996), and what to make of old loads
(Mitzenmacher 2000, "How useful is old information?").

Two hosts drawn by lot and the lesser load of the two are nearly as good as the least of all, and
much better than either one by lot or the least of all by loads that are old: then everybody picks
the same host until the next news. Here the lot is as wide as the loads are fresh, two when they are
old; an old load counts for less, and its host is asked if that may change the choice (`belief`).

A load counts for a command as everywhere: tasks, the command included, a core of reference speed.
"""

from collections.abc import Sequence
from random import Random

from lbd.model import PlacementRequest
from lbd.policy.belief import decide
from lbd.policy.ranking import settled_early
from lbd.policy.view import HostView, Reply, Step, Telling, View


class TwoChoices:
    telling = Telling.VECTOR

    def next_step(
        self, request: PlacementRequest, view: View, replies: Sequence[Reply], dice: Random
    ) -> Step:
        return settled_early(request, view) or decide(request, view, replies, dice, load_with_it)


def load_with_it(host: HostView, load: float) -> float:
    return load + 1.0 / (host.cores * host.speed)
