"""LOWEST (Zhou 1987, section 3.3): ask up to L_p hosts, drawn at random, for their load, one after
the other; stop at an empty host; take the lowest."""

from collections.abc import Sequence
from random import Random

from lbd.model import HostId, PlacementRequest
from lbd.policy.probing import next_to_ask
from lbd.policy.ranking import choose, settled_early
from lbd.policy.view import Reply, Reporting, Step, View

EMPTY = 0.1  # a smoothed index at or below this means that nothing runs there


class Lowest:
    reporting = Reporting.NOBODY

    def next_step(
        self, request: PlacementRequest, view: View, replies: Sequence[Reply], rng: Random
    ) -> Step:
        if (early := settled_early(request, view)) is not None:
            return early
        answered = [reply.host for reply in replies if reply.answered]
        if not any(is_empty(view, host) for host in answered):
            found = next_to_ask(request, view, replies, rng)
            if found is not None:
                return found
        return choose(request, view, rng, answered)


def is_empty(view: View, name: HostId) -> bool:
    host = view.hosts.get(name)
    return host is not None and not host.why and host.load_now <= EMPTY
