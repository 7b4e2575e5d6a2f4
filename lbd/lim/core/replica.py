"""What centres have published, as received by this host: `publication` is the other side.

Only the centre is trusted about other hosts' loads, but a host may hear from two centres, and the
centre may change. Each sender is trusted about its own load, so of the last few that are not the
centre that alone is kept, and what they say of others takes no memory. A sender that becomes the
centre is asked for everything. So is one whose delta does not follow on its copy, or whose digest
differs from the copy's: the delta is acknowledged as nothing.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from lbd.lim.core import messages as m
from lbd.lim.core.digest import mark_of
from lbd.lim.core.table import Table, aged
from lbd.model import HostId, LoadVector

COPIES_MAX = 3


class CopiedLine(NamedTuple):
    """A host's line of a copy."""

    sample: m.Sample
    sampled_at_s: float
    mark: int  # its share of the digest


@dataclass(slots=True)
class Copy:
    """The copy of what one host has published, a line for each slot. `only`: the only host whose
    line is kept; None for those of all hosts."""

    incarnation: int
    only: HostId | None
    version: int = 0
    digest: int = 0
    lines: dict[int, CopiedLine] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    unrecorded: set[int] = field(default_factory=set)  # of unknown hosts

    def put(self, slot: int, sample: m.Sample, sampled_at_s: float, silent: bool) -> None:
        self.take_out(slot)
        if self.only is not None:
            if sample.host != self.only:
                return
            for other in [*self.lines]:  # a host has one slot
                self.take_out(other)
        mark = mark_of(slot, sample, silent)
        self.lines[slot] = CopiedLine(sample, sampled_at_s, mark)
        self.digest ^= mark
        if silent:
            self.silent.add(slot)
        self.unrecorded.add(slot)

    def take_out(self, slot: int) -> None:
        known = self.lines.pop(slot, None)
        if known is not None:
            self.digest ^= known.mark
        self.silent.discard(slot)
        self.unrecorded.discard(slot)


class Replica:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._copies: dict[HostId, Copy] = {}  # the last one is the one heard last
        self.has_strangers = False  # the last delta named hosts that are unknown here

    def has_part_of(self, name: HostId) -> bool:
        """Whether of what that host has published only its own load was kept."""
        copy = self._copies.get(name)
        return copy is not None and copy.only is not None

    def take(self, message: m.Message, delta: m.Delta, believed: bool, now_s: float) -> int:
        """Records the loads of all hosts if they are `believed`, else only the sender's own.
        Returns the version that we have now; 0 if we have none and need everything."""
        self.has_strangers = False
        sender, incarnation = message.sender, message.incarnation
        only = None if believed else sender
        if believed:  # of the centre before it nothing more is needed
            self._copies = {
                name: copy for name, copy in self._copies.items() if copy.only or name == sender
            }
        copy = self._copies.pop(sender, None)
        if copy is None or (copy.incarnation, copy.only) != (incarnation, only):
            copy = Copy(incarnation, only)
        overtaken = delta.version < copy.version
        if not overtaken and delta.since == 0:
            copy = Copy(incarnation, only)
        follows = not overtaken and copy.version >= delta.since
        if follows and not self._applied(copy, delta, now_s):
            return 0
        while len(self._copies) >= COPIES_MAX:
            del self._copies[next(iter(self._copies))]
        self._copies[sender] = copy
        if follows:
            copy.version = delta.version
            self._record_copy(copy, now_s)
            self._confirm(copy, delta.fresh_age_s, now_s)
        return copy.version

    def _applied(self, copy: Copy, delta: m.Delta, now_s: float) -> bool:
        """Returns False if the delta names a slot that was never introduced, or if the digests
        differ."""
        silent = set(delta.silent)
        for slot in delta.gone:
            copy.take_out(slot)
        for slot, sample in delta.whole:
            copy.put(slot, sample, now_s - sample.age_s, slot in silent)
        for load in delta.loads:
            known = copy.lines.get(load.slot)
            if known is not None:
                sample = loaded(known.sample, load)
                copy.put(load.slot, sample, now_s - load.age_s, load.slot in silent)
            elif copy.only is None:
                return False
        if copy.only is not None:
            return True  # the digest is that of all hosts
        fits = len(copy.lines) <= m.hosts_max(self._table.params.max_hosts)
        return fits and copy.digest == delta.digest

    def _record_copy(self, copy: Copy, now_s: float) -> None:
        """Records what was not recorded yet."""
        for slot in sorted(copy.unrecorded):
            sample, sampled_at_s, _ = copy.lines[slot]
            if sample.host not in self._table.entries:
                self.has_strangers = True
                continue
            if sample.host != self._table.me:
                self._table.record(aged(sample, max(0.0, now_s - sampled_at_s)), now_s)
            copy.unrecorded.discard(slot)

    def _confirm(self, copy: Copy, fresh_age_s: float | None, now_s: float) -> None:
        if fresh_age_s is None:
            return
        fresh = [line.sample for slot, line in copy.lines.items() if slot not in copy.silent]
        self._table.confirm(fresh, fresh_age_s, now_s)


def loaded(known: m.Sample, load: m.HostLoad) -> m.Sample:
    """Returns the same host's sample with another load."""
    old = known.vector
    vector = LoadVector(
        load.index, load.queues, load.utilisation, old.cores, old.speed, old.slots_total,
        load.slots_used, load.jobs_local, load.jobs_foreign, old.accepting, old.hog, old.site,
        old.owner, old.memory_total, load.memory_available, old.facts,
        old.closed, old.opens,
    )  # fmt: skip
    return m.Sample(
        known.host, known.incarnation, load.number, load.age_s, vector, known.drained, known.more
    )
