"""PREDICT, of our own: where will everybody's commands, this one and those already there, take the
least time?

Hosts are compared as under P2C, by what one more task costs all who are there (`delay`); and here
the command's own CPU time x is looked at, as it was learnt (`eligibility`). Moving takes
`lim.move_cost_s`, so the shorter a command the more another host must be better: what T_CPU, one
threshold for all loads, can say only roughly. Old loads are treated as in `belief`.
"""

from collections.abc import Sequence
from random import Random

from lbd.model import PlacementRequest
from lbd.policy.belief import decide
from lbd.policy.view import Reply, Reporting, Step, View

UNKNOWN_S = 1.0  # CPU time of a command of which nothing is learnt


class Predict:
    reporting = Reporting.VECTOR

    def next_step(
        self, request: PlacementRequest, view: View, replies: Sequence[Reply], rng: Random
    ) -> Step:
        way = view.params.move_cost_s / (request.cpu_s or UNKNOWN_S)
        return decide(request, view, replies, rng, way)
