"""The tables of all hosts of a simulation, in space that grows with the hosts and not their square.

What was broadcast is known to everybody alike, so it is kept once, on the *board*. A host's own
table holds what the others do not know: its own load, its charges, and what it was told in answer
to a question, of the last hosts it has asked. What is asked is relied upon at once, so forgetting
it after so many further hosts changes nothing, but for RESERVE in clusters larger than that.

As in the daemons a host takes in what was broadcast when it came, here before its next decision.
"""

from collections import ChainMap
from collections.abc import ItemsView, MutableMapping, ValuesView

from lbd.config.schema import LimConfig
from lbd.lim.core.messages import Member, Sample
from lbd.lim.core.table import NEVER, Entry, Table
from lbd.model import NO_NEEDS, HostId, Needs
from lbd.policy.view import View

TOLD_MAX = 64  # hosts whose answers are kept


class Board(Table):
    """What all know. It is no host's own."""

    newest_s = NEVER  # when something was last recorded

    def record(self, sample: Sample, now_s: float) -> bool:
        self.newest_s = now_s
        return self._keep(self.entries[sample.host], sample, now_s)


class Entries(ChainMap[HostId, Entry]):
    """A host's own, then the board's. Every message is looked up here, and `ChainMap` is slow."""

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
        """A host's entry of our own, as we now know more than is on the board."""
        if len(self._own) > TOLD_MAX:
            self._forget(next(other for other in self._own if other != self.me))
        entry = self._board.entries[name]
        own = Entry(entry.member, True, 0.0, entry.sample, entry.sampled_at_s)
        own.free_at_s = entry.free_at_s
        self._own[name] = own
        return own

    def take_in(self, now_s: float) -> None:
        """What was broadcast since this was called last, if it is news of hosts we know more of."""
        since_s, self._taken_in_s = self._taken_in_s, now_s
        if self._board.newest_s <= since_s:
            return
        board, me = self._board.entries, self.me
        for name in self._own.keys() | self._charges.by_host.keys():
            entry = board[name]
            if entry.recorded_at_s <= since_s or entry.sample is None or name == me:
                continue
            own = self._own.get(name)
            if own is not None and own.sample and own.sample.number >= entry.sample.number:
                continue
            if own is None:
                self._charges.sampled(name, entry.sampled_at_s, self.smoothing_s)
            else:
                super().record(entry.sample, entry.recorded_at_s)
            if own is None or own.free_at_s <= entry.free_at_s:  # else we know more
                self._forget(name)

    def view(self, centre: HostId | None, now_s: float, needs: Needs = NO_NEEDS) -> View:
        """The workloads of the simulator need nothing."""
        ours = self.views(now_s)
        me = ours[self.me]
        hosts = {self.me: me, **self._board.views(now_s), **ours}
        return View(me, hosts, self.params, now_s, centre)

    def others_alive(self, now_s: float) -> list[HostId]:
        if now_s < self.params.down_after_s:  # all were heard of at 0, and nobody leaves
            return [name for name in self._board.entries if name != self.me]
        return super().others_alive(now_s)

    def _forget(self, name: HostId) -> None:
        self._own.pop(name, None)
        self._changed[name] = None

    def _judge(self, name: HostId, now_s: float) -> None:
        if name in self._own or name in self._charges.by_host:
            Table._judge(self, name, now_s)
        else:
            self._views.pop(name, None)  # nothing but what is on the board


def board_of(members: list[Member], params: LimConfig, smoothing_s: float) -> Board:
    """Knows every host, and of nobody how loaded it is."""
    board = Board(members[0], params, smoothing_s, now_s=0.0)
    for member in members[1:]:
        board.add(member, listed=True, now_s=0.0)
    return board
