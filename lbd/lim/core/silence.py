"""Which hosts have fallen silent. Each is logged once, by the coordinator and by no other."""

from typing import TYPE_CHECKING

from lbd.lim.core.events import Log
from lbd.lim.core.table import Table

if TYPE_CHECKING:
    from lbd.model import HostId


class Silence:
    """Every LIM keeps this, since any may become the coordinator."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._down: set[HostId] = set()

    def look(self, now_s: float, *, says: bool) -> list[Log]:
        """Hosts that were stopped, or whose release is another, are logged when that is learnt."""
        table = self._table
        down = table.silent(now_s)
        before, self._down = self._down, down
        if not says or down == before:
            return []
        fresh, back = down - before, before - down
        lines = [
            Log(f"host {name} is down: {table.state(name, now_s)[1]}", warning=True, peer=name)
            for name in sorted(fresh)
        ]
        is_up = [
            one for one in sorted(back & table.entries.keys()) if not table.is_gone(one, now_s)
        ]
        return lines + [Log(f"host {name} is up again", peer=name) for name in is_up]
