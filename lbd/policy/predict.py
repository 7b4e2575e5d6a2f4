"""PREDICT, our own: where will all commands, this one and those already there, take the least time?

Hosts are compared as under P2C, by what one more task costs all tasks there (`delay`), and the
command's own learnt CPU time x counts as well (`eligibility`). Moving takes `lim.move_cost_s`, so
the shorter a command is, the more another host must be better. T_CPU, one threshold for all loads,
can express that only roughly. Old loads are treated as in `belief`.
"""

from collections.abc import Sequence
from random import Random

from lbd.model import PlacementRequest
from lbd.policy.belief import decide
from lbd.policy.view import Reply, Reporting, Step, View

UNKNOWN_S = 1.0  # assumed CPU time of a command of which nothing is learnt


class Predict:
    reporting = Reporting.VECTOR

    def next_step(
        self, request: PlacementRequest, view: View, replies: Sequence[Reply], rng: Random
    ) -> Step:
        way = view.params.move_cost_s / (request.cpu_s or UNKNOWN_S)
        return decide(request, view, replies, rng, way)
