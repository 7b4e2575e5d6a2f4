"""RESERVE (Zhou 1987, section 3.3): the idle host takes the initiative. A host whose load falls
below T_l registers with up to R loaded hosts for their next command; they keep these reservations
newest first. A host with a command to send tries the newest, and first asks that host whether it is
still lightly loaded. A host cancels the reservations it made when its load rises.

(The thesis has them cancelled "if the host's load falls below T_l", a slip for rises above.) Trying
a reservation uses it up. `lim.reservations` makes the reservations.
"""

from collections.abc import Sequence
from random import Random

from lbd.model import PlacementRequest
from lbd.policy.probing import is_light
from lbd.policy.ranking import choose, here, leaves, settled_early
from lbd.policy.view import Probe, Reply, Reporting, Step, View


class Reserve:
    reporting = Reporting.RESERVATIONS

    def next_step(
        self, request: PlacementRequest, view: View, replies: Sequence[Reply], rng: Random
    ) -> Step:
        if (early := settled_early(request, view)) is not None:
            return early
        for reply in replies:
            host = view.hosts.get(reply.host)
            if (
                reply.answered
                and host is not None
                and not host.why
                and is_light(host.load_now, view.params)
            ):
                return choose(request, view, rng, [host.name])
        asked = {reply.host for reply in replies} | request.excluded
        left = view.params.probe_limit - len(replies)
        newest = next((name for name in view.reserved if name not in asked), None)
        if left > 0 and newest is not None:
            return Probe((newest,), 1.0 / left)
        if leaves(request, view):
            return choose(request, view, rng)
        return here(view, "no-reservation", request)
