"""Hosts as seen by commands that need more than a slot. Pure.

Checking what a thousand hosts have takes longer than picking one of them. So for the latest kinds
of needs the views of all hosts are cached, and updated host by host as the table changes.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping

from lbd.model import Facts, HostId, Needs
from lbd.policy.needs import too_little_memory, unmet
from lbd.policy.view import HostView

KINDS_KEPT = 16
# What a host has, and its total and available memory.
FactsOf = Callable[[HostId], tuple[Facts, tuple[int, int]]]


def seen_needing(needs: Needs, view: HostView, facts: Facts, memory: tuple[int, int]) -> HostView:
    lack = unmet(needs, facts)
    return view.needing(lack) if lack else view.short(too_little_memory(needs, facts, memory))


class NeedsViews:
    def __init__(self) -> None:
        self.kept: OrderedDict[Needs, dict[HostId, HostView]] = OrderedDict()

    def of(
        self, needs: Needs, views: Mapping[HostId, HostView], facts: FactsOf
    ) -> dict[HostId, HostView]:
        """Returns the views for `needs`. `views`: the current ones without needs."""
        found = self.kept.get(needs)
        if found is not None:
            self.kept.move_to_end(needs)
            return found
        found = {name: seen_needing(needs, view, *facts(name)) for name, view in views.items()}
        self.kept[needs] = found
        if len(self.kept) > KINDS_KEPT:
            self.kept.popitem(last=False)
        return found

    def changed(self, view: HostView, facts: FactsOf) -> None:
        for needs, views in self.kept.items():
            views[view.name] = seen_needing(needs, view, *facts(view.name))

    def kinds(self) -> list[dict[HostId, HostView]]:
        return list(self.kept.values())

    def removed(self, name: HostId) -> None:
        for views in self.kept.values():
            views.pop(name, None)
