"""What holds in a LIM after every event, whatever was lost, late, duplicated or reordered."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from lbd.lim.core.signed import policy_version
from lbd.lim.core.state import LimState
from lbd.policy.view import HostView

if TYPE_CHECKING:
    from lbd.model import HostId


class Invariants:
    """Checks one host from its start on; some rules say that its knowledge never gets older."""

    def __init__(self) -> None:
        self._newest: dict[HostId, tuple[int, int]] = {}  # incarnation and number of the sample
        self._settings = self._policy = (0, "")

    def check(self, state: LimState, now_s: float, where: str) -> None:
        """Raises AssertionError that begins with `where`."""
        assert state.me in state.table.entries, where
        assert state.centre in state.table.entries, where
        assert math.isfinite(state.next_due_s), where
        assert state.settings.version >= self._settings, f"{where}: settings went back"
        self._settings = state.settings.version
        policy = policy_version(state.settings)
        assert policy >= self._policy, f"{where}: the policy went back"
        self._policy = policy
        self._check_views(state, now_s, where)
        check_reservations(state, where)

    def _check_views(self, state: LimState, now_s: float, where: str) -> None:
        """Checks that the views used for placement match the samples and charges at this time."""
        table = state.table
        seen = table.view(state.centre, now_s)
        assert set(seen.hosts) == set(table.entries), where
        for name, entry in table.entries.items():
            charges = table.charges(name)
            assert charges >= 0, where
            kept = seen.hosts[name]
            fresh = table._make_view(entry, charges, now_s, own=name == state.me)
            assert kept == fresh or nearly(kept, fresh), f"{where}: stale: {kept}, now {fresh}"
            if entry.sample is not None:
                order = (entry.sample.incarnation, entry.sample.number)
                assert order >= self._newest.get(name, (0, 0)), f"{where}: {name} went back"
                self._newest[name] = order
                assert entry.sampled_at_s <= now_s + 1e-6, where


def nearly(kept: HostView, fresh: HostView) -> bool:
    """The sum of the charges, added in another order, may differ in its last digit."""
    close = math.isclose(fresh.load, kept.load, abs_tol=1e-9)
    same = replace(fresh, load=kept.load, load_now=kept.load_now, charged=kept.charged)
    return close and same == kept


def check_reservations(state: LimState, where: str) -> None:
    held, made = state.reservations.held, state.reservations.made
    assert len(set(held)) == len(held), f"{where}: reserved twice"
    assert state.me not in {*made, *held}, f"{where}: reserved for itself"
    assert set(held) <= set(state.table.entries), f"{where}: reserved for a stranger"
    assert len(made) <= state.in_force.lim.reservations, f"{where}: reserved too much"
