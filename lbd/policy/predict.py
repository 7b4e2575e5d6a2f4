"""PREDICT, of our own: where will everybody's commands, this one and those already there, take the
least time?

Of a command the learnt CPU time x is known (`eligibility`), of a host its cores c, their speed s,
and by its load the tasks n. They share the cores evenly, so the command will take
x max(1, (n + 1) / c) / s; and once there are more tasks than cores it delays each of the n others
by x / (c s). The sum of both for each second of x is what the hosts are compared by. A fast core
that is free wins over a wide host's slow ones, which tasks per core would not show; and a host that
is fast but full does not draw everybody, as it would if each looked at its own time alone.

Moving takes `lim.move_cost_s`, so the shorter a command the more another host must be better: what
T_CPU, one threshold for all loads, can say only roughly. Old loads are treated as in `belief`.
"""

from collections.abc import Sequence
from random import Random

from lbd.model import PlacementRequest
from lbd.policy.belief import decide
from lbd.policy.ranking import settled_early
from lbd.policy.view import HostView, Reply, Step, Telling, View

UNKNOWN_S = 1.0  # CPU time of a command of which nothing is learnt


class Predict:
    telling = Telling.VECTOR

    def next_step(
        self, request: PlacementRequest, view: View, replies: Sequence[Reply], dice: Random
    ) -> Step:
        way = view.params.move_cost_s / (request.cpu_s or UNKNOWN_S)

        def cost(host: HostView, load: float) -> float:
            found = time_for_all(load * host.cores * host.speed, host.cores, host.speed)
            return found if host.name == view.me.name else found + way

        return settled_early(request, view) or decide(request, view, replies, dice, cost)


def time_for_all(tasks: float, cores: float, speed: float) -> float:
    """Seconds for each CPU second of one more task: its own, and what the others lose by it.

    `tasks` is a mean: between c - 1 and c the last core is free at times only.
    """
    own = max(1.0, (tasks + 1.0) / cores)
    crowded = min(1.0, max(0.0, tasks + 1.0 - cores))
    return (own + crowded * tasks / cores) / speed
