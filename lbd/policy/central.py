"""CENTRAL (Zhou 1987, section 3.3): hosts report as under GLOBAL, but the centre places each
eligible command, and charges its own copy of the chosen host by one.

As printed, that charge would stay as long as the host's load is unchanged, since unchanged loads
are not sent. Here the charge is removed when the command ends, which its origin reports to the
centre with its next question or report; it also fades while the chosen host reports no change
(`lim.charges`).

A silent centre must never hinder a command: the command then stays here. Only a command that may
not stay is placed by our own view.
"""

from collections.abc import Sequence
from random import Random

from lbd.model import PlacementRequest
from lbd.policy.ranking import choose, here, leaves, settled_early
from lbd.policy.view import Ask, Reply, Reporting, Step, View


class Central:
    reporting = Reporting.CENTRE

    def next_step(
        self, request: PlacementRequest, view: View, replies: Sequence[Reply], rng: Random
    ) -> Step:
        if (early := settled_early(request, view)) is not None:
            return early
        if view.centre == view.me.name:
            return choose(request, view, rng)
        if view.centre is not None and not replies:
            return Ask(view.centre)
        if replies and replies[0].decision is not None:
            return replies[0].decision
        if leaves(request, view):
            return choose(request, view, rng)
        return here(view, "centre-silent", request)
