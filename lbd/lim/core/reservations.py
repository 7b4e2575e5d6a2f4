"""RESERVE's bookkeeping: the reservations that other hosts made here, and ours with them.

After a departure, or when our load has fallen below T_l, we ask other hosts for their next command:
those we believe to be loaded first, then others at random, up to a total of R reservations. A host
that is not loaded declines and reports its load, so it is not asked again in vain; in an idle
cluster no host asks any other. When our load rises we cancel all reservations.

Everything here may be out of date, since messages get lost. So a reservation is tried before it is
relied upon, trying it uses it up on both sides, and a host that restarts or goes down is removed.
One that has left may have a reservation yet, as its answer came late.
"""

from random import Random

from lbd.lim.core import messages as m
from lbd.lim.core.table import Table
from lbd.model import HostId
from lbd.policy.probing import is_light
from lbd.policy.registry import POLICIES
from lbd.policy.view import Reporting, View


class Reservations:
    def __init__(self, table: Table, rng: Random) -> None:
        self.held: list[HostId] = []  # hosts that have reservations here, newest last
        self.made: set[HostId] = set()  # hosts that hold ours
        self._table = table
        self._rng = rng
        self._departed = False
        self._was_light = True

    def departed(self) -> None:
        """A job has ended here."""
        self._departed = True

    def clear(self) -> None:
        self.held.clear()
        self.made.clear()

    def forget(self, name: HostId) -> None:
        """Drops the reservations made with that host, and those it made with us."""
        self.made.discard(name)
        self.cancelled(name)

    # -- ours with others ------------------------------------------------------------------------

    def exchange(self, own: m.Sample, now_s: float) -> list[tuple[HostId, m.Body]]:
        """Returns this period's messages, at most R."""
        table = self._table
        light = is_light(table.own_load(), table.params) and own.vector.accepting
        light = light and not table.own_view(now_s).why
        departed = self._departed or (light and not self._was_light)
        self._departed, self._was_light = False, light
        if not light:
            cancelled, self.made = sorted(self.made & table.entries.keys()), set()
            return [(name, m.Unreserve()) for name in cancelled]
        view = table.view(None, now_s)
        if self.made:
            hosts = view.hosts
            self.made = {name for name in self.made if name in hosts and hosts[name].alive}
        return [(name, m.Reserve(own)) for name in self._to_ask(view, departed)]

    def wait(self) -> bool:
        """Whether nothing needs to be sent until our load changes or a reservation is used or given
        up: we have the maximum, or are as loaded as before and have none."""
        light = is_light(self._table.own_load(), self._table.params)
        if light != self._was_light:
            return False
        if light:
            return not self._departed and len(self.made) >= self._table.params.reservations
        return not self.made

    def _to_ask(self, view: View, departed: bool) -> list[HostId]:
        room = view.params.reservations - len(self.made)
        if room <= 0:
            return []
        limit, passed = view.params.local_threshold, {view.me.name, *self.made}
        hosts = view.hosts.values()
        loaded = [h.name for h in hosts if h.load_now > limit and h.alive and h.name not in passed]
        asked = self._rng.sample(loaded, min(room, len(loaded)))
        if departed and len(asked) < room:
            rest = [
                h.name for h in hosts if h.load_now <= limit and h.alive and h.name not in passed
            ]
            asked += self._rng.sample(rest, min(room - len(asked), len(rest)))
        return asked

    def answered(self, name: HostId, reply: m.ReserveReply) -> None:
        if reply.taken:
            self.made.add(name)

    def used(self, name: HostId) -> None:
        """`name` has probed us, so it is using our reservation."""
        self.made.discard(name)

    # -- those of other hosts with us ------------------------------------------------------------

    def asked(self, name: HostId) -> bool:
        """Returns whether the reservation is accepted."""
        params = self._table.params
        loaded = self._table.own_load() > params.local_threshold
        self.cancelled(name)
        if POLICIES[params.algorithm].reporting is not Reporting.RESERVATIONS or not loaded:
            return False
        self.held.append(name)
        return True

    def cancelled(self, name: HostId) -> None:
        if name in self.held:
            self.held.remove(name)
