"""The tables of all simulated hosts, in space that grows with the hosts and not with their square.

What was broadcast is known to all hosts alike, so it is stored once, on the *board*. A host's own
table holds what the others do not know: its own load, its charges, and the answers of the last
hosts that it asked. An answer is used at once, so forgetting it after that many more hosts changes
nothing, except for RESERVE in clusters larger than that.

As in the daemons, a host processes broadcasts when they arrive, here before its next decision.
"""

from collections import ChainMap
from collections.abc import ItemsView, Iterable, KeysView, MutableMapping, ValuesView

from lbd.config.schema import LimConfig
from lbd.lim.core.messages import Delta, Member, Message, Sample
from lbd.lim.core.replica import Replica
from lbd.lim.core.table import NEVER, Entry, Table, aged
from lbd.model import NO_NEEDS, HostId, Needs
from lbd.policy.view import View

NOBODY = HostId("")
TOLD_MAX = 64  # hosts whose answers are kept


class Board(Table):
    """What all hosts know. It is not the table of any host."""

    newest_s = NEVER  # when something was last recorded or confirmed

    def __init__(self, members: list[Member], params: LimConfig, smoothing_s: float) -> None:
        super().__init__(members[0], params, smoothing_s, now_s=0.0)
        self.me = NOBODY
        self._replica = Replica(self)
        for member in members[1:]:
            self.add(member, listed=True, now_s=0.0)

    def take(self, message: Message, delta: Delta, now_s: float) -> int:
        """Takes what the centre has published, for all hosts alike. Returns the version that they
        then have."""
        return self._replica.take(message, delta, believed=True, now_s=now_s)

    def confirm(self, samples: Iterable[Sample], age_s: float, now_s: float) -> None:
        self.newest_s = now_s
        super().confirm(samples, age_s, now_s)

    def record(self, sample: Sample, now_s: float) -> bool:
        self.newest_s = now_s
        return self._keep(self.entries[sample.host], sample, now_s)


class Entries(ChainMap[HostId, Entry]):
    """A host's own entries, then the board's. Faster than plain `ChainMap`, for every message."""

    def __init__(self, own: dict[HostId, Entry], board: MutableMapping[HostId, Entry]) -> None:
        super().__init__(own, board)
        self._own = own
        self._board = board

    def __getitem__(self, name: HostId) -> Entry:
        found = self._own.get(name)
        return self._board[name] if found is None else found

    def get(self, name: HostId, default: Entry | None = None) -> Entry | None:  # type: ignore[override]
        found = self._own.get(name)
        return self._board.get(name, default) if found is None else found

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._board

    def keys(self) -> KeysView[HostId]:
        return {**self._board, **self._own}.keys()

    def items(self) -> ItemsView[HostId, Entry]:
        return {**self._board, **self._own}.items()

    def values(self) -> ValuesView[Entry]:
        return {**self._board, **self._own}.values()


class SharedTable(Table):
    def __init__(self, me: Member, params: LimConfig, smoothing_s: float, board: Board) -> None:
        super().__init__(me, params, smoothing_s, now_s=0.0)
        assert isinstance(self.entries, dict)
        self._own = self.entries
        self._board = board
        self._taken_in_s = 0.0
        self.entries = Entries(self._own, board.entries)

    def ranking(self) -> list[HostId]:
        return self._board.ranking()

    def record(self, sample: Sample, now_s: float) -> bool:
        return self._keep(self._own.get(sample.host) or self._reported(sample.host), sample, now_s)

    def _reported(self, name: HostId) -> Entry:
        """Makes a host's entry of our own, because we now know more than the board."""
        if len(self._own) > TOLD_MAX:
            self._forget(next(other for other in self._own if other != self.me))
        entry = self._board.entries[name]
        own = Entry(entry.member, True, 0.0, entry.sample, entry.sampled_at_s)
        own.free_at_s = entry.free_at_s
        self._own[name] = own
        return own

    def take_in(self, now_s: float) -> None:
        """Processes broadcasts since the last call about hosts for which we have own entries."""
        since_s, self._taken_in_s = self._taken_in_s, now_s
        if self._board.newest_s <= since_s:
            return
        board, me = self._board.entries, self.me
        for name in self._own.keys() | self._charges.by_host.keys():
            entry, own = board[name], self._own.get(name)
            if entry.sample is None or name == me:
                continue
            if own is None:
                self._charges.sampled(name, entry.sampled_at_s, self.smoothing_s)
            elif is_newer(entry, own):
                self._put(own, aged(entry.sample, now_s - entry.sampled_at_s), now_s)
            else:
                continue
            if own is None or own.free_at_s <= entry.free_at_s:  # otherwise we know more
                self._forget(name)

    def view(self, centre: HostId | None, now_s: float, needs: Needs = NO_NEEDS) -> View:
        """Ignores `needs`, because simulated workloads have none."""
        ours = self.views(now_s)
        me = ours[self.me]
        hosts = {self.me: me, **self._board.views(now_s), **ours}
        return View(me, hosts, self.params, now_s, centre)

    def others_alive(self, now_s: float) -> list[HostId]:
        if now_s < self.params.down_after_s:  # all were heard from at time 0, and none leaves
            return [name for name in self._board.entries if name != self.me]
        return super().others_alive(now_s)

    def silent(self, now_s: float) -> set[HostId]:
        return super().silent(now_s) if now_s >= self.params.down_after_s else set()

    def _forget(self, name: HostId) -> None:
        self._own.pop(name, None)
        self._changed[name] = None

    def _judge(self, name: HostId, now_s: float) -> None:
        if name in self._own or name in self._charges.by_host:
            Table._judge(self, name, now_s)
        else:
            self._views.pop(name, None)  # only the board knows it


def is_newer(shared: Entry, own: Entry) -> bool:
    """Whether the board knows a later load of a host; a load that was confirmed since it was
    recorded is later than a sample of another number taken before."""
    assert shared.sample is not None
    if own.sample is None or own.sample.number < shared.sample.number:
        return True
    confirmed = shared.sampled_at_s > shared.recorded_at_s - shared.sample.age_s
    return confirmed and shared.sampled_at_s > own.sampled_at_s
