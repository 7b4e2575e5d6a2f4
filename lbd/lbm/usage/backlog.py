"""The commands that have ended and are not on record yet, and those that never will be. Pure."""

from collections import deque
from dataclasses import dataclass, field
from itertools import islice

from lbd.lbm.usage.gaps import Gap, gap_of, joined
from lbd.lbm.usage.record import Usage

KEPT_MAX = 10_000  # a restart of the LBM takes about 2 s longer with so many
KEPT_BYTES = 16 << 20
OVERHEAD_BYTES = 500  # of each, besides its texts


@dataclass(slots=True)
class Unrecorded:
    """What one LBM leaves for the next one."""

    usages: tuple[Usage, ...] = ()
    lost: Gap | None = None


@dataclass(slots=True)
class Backlog:
    lost: Gap | None = None  # commands that were lost, which is not on record yet
    _kept: deque[Usage] = field(default_factory=deque)
    _bytes: int = 0

    @property
    def is_empty(self) -> bool:
        return not self._kept and self.lost is None

    def add(self, usage: Usage) -> None:
        """Keeps it, or counts it as lost if there is no room for it."""
        size = bytes_of(usage)
        if len(self._kept) >= KEPT_MAX or self._bytes + size > KEPT_BYTES:
            self.lose(gap_of([usage.finished]))
            return
        self._kept.append(usage)
        self._bytes += size

    def lose(self, gap: Gap | None) -> None:
        self.lost = joined(self.lost, gap)

    def first(self, most: int) -> list[Usage]:
        return list(islice(self._kept, most))

    def written(self, count: int) -> None:
        """Drops the first `count` commands, which are on record now, as is what was lost."""
        self._drop(count)
        self.lost = None

    def lose_first(self) -> None:
        self.lose(gap_of([self._kept[0].finished]))
        self._drop(1)

    def _drop(self, count: int) -> None:
        for _ in range(count):
            self._bytes -= bytes_of(self._kept.popleft())

    def kept(self) -> Gap | None:
        """The commands that are still to be recorded."""
        return gap_of((usage.finished for usage in self._kept), not_yet=True)

    def in_danger(self) -> Gap | None:
        """What an LBM that was killed now would have lost."""
        return joined(self.lost, gap_of(usage.finished for usage in self._kept))

    def left(self) -> Unrecorded:
        return Unrecorded(tuple(self._kept), self.lost)


def bytes_of(usage: Usage) -> int:
    texts = usage.user, usage.command, usage.origin, usage.host, usage.id, usage.name, usage.reason
    return OVERHEAD_BYTES + sum(map(len, texts)) + len(usage.words)
