"""What this host knows of every host: its addresses, its newest sample, its state.

Samples of one host are ordered by (incarnation, number), whichever way they came. Times are ours:
the time of a sample is our clock at its arrival minus its age. The state follows from that age
alone: up, then late after `stale_after_s`, then down after `down_after_s`; late is not zero and not
trusted.

Placements are requested thousands of times a second and samples change a few times a second, so a
host's HostView is cached until something about it changes, and rebuilt when a view is next
requested. The time at which a view changes by time alone (`_changes_at_s`) is known beforehand.

One file because a view follows from everything known about its host.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lbd.config.schema import LimConfig
from lbd.lim.core.charges import ChargeBook
from lbd.lim.core.election import ranking
from lbd.lim.core.messages import Member, Sample
from lbd.lim.core.needs_views import NeedsViews, seen_needing
from lbd.model import (
    NO_FACTS,
    NO_NEEDS,
    STOPPED,
    Facts,
    HostId,
    HostState,
    JobId,
    LoadVector,
    Needs,
)
from lbd.policy.view import AVOIDED, NO_SLOT, HostView, View
from lbd.text.closed_words import NOT_HEARD_YET, closed_words

if TYPE_CHECKING:
    from collections.abc import MutableMapping

NEVER = -math.inf
UP, DOWN = HostState.UP, HostState.DOWN
UNLISTED_RANK = 1 << 20  # behind every configured host in the election
ROUNDING_S = 1e-3
SILENT_PERIODS = 2  # one for the report to be due, one for it to arrive


@dataclass(slots=True)
class Entry:
    """One host. `member.incarnation` is the newest that the host has reported itself: claims of
    other hosts must not make us ignore it."""

    member: Member
    listed: bool  # in the configuration: never forgotten
    known_since_s: float
    sample: Sample | None = None
    sampled_at_s: float = NEVER
    recorded_at_s: float = NEVER  # when that sample arrived; its slots are those of that time
    drained: bool = False  # by that sample, or confirmed by the host since
    freed_slots: int = 0  # by the ends of our own jobs there that no sample shows yet
    heard_at_s: float = NEVER  # any message from the host itself
    before_s: float = NEVER  # when an earlier start of the host, or its load, was last heard
    left: bool = False
    has_said_hello: bool = False  # since our start and its own: only that says where it is
    free_at_s: float = NEVER  # time of the newest sample that showed a free core, or of the first
    avoid_until_s: float = NEVER
    avoid_reason: str = ""
    skew: str = ""  # why our release and its release are incompatible

    @property
    def last_heard_s(self) -> float:
        return max(self.known_since_s, self.sampled_at_s, self.heard_at_s)


def aged(sample: Sample, age_s: float) -> Sample:
    """Spelled out, as `dataclasses.replace` takes three times as long."""
    if age_s == sample.age_s:
        return sample
    return Sample(
        sample.host, sample.incarnation, sample.number, age_s, sample.vector, sample.drained,
        sample.more,
    )  # fmt: skip


class Table:
    """One class because a host's view follows from its sample, its charges and its state."""

    def __init__(self, me: Member, params: LimConfig, smoothing_s: float, now_s: float) -> None:
        self.me = me.name
        self.params = params
        self.smoothing_s = smoothing_s
        self.entries: MutableMapping[HostId, Entry] = {}
        self.joined: set[HostId] = set()  # not listed, so they may be forgotten
        self.drains: Mapping[HostId, bool] = {}
        self._charges = ChargeBook()
        self._views: dict[HostId, HostView] = {}
        self._needing = NeedsViews()  # the same, for commands with needs
        self._changed: dict[HostId, None] = {}  # hosts whose views must be rebuilt, in this order
        self._changes_at_s = math.inf
        self._has_list = False  # the configuration lists other hosts
        self._ranking: list[HostId] = []  # best first; empty when it must be rebuilt
        self.add(me, listed=True, now_s=now_s)
        self.mine = self.entries[me.name]

    # -- members ---------------------------------------------------------------------------------

    def add(self, member: Member, listed: bool, now_s: float) -> None:
        """Adds a host that was not known before."""
        if not listed:
            self.joined.add(member.name)
            member = replace(member, rank=self.allowed(member.rank))
        else:
            self._has_list |= member.name != self.me
        self.entries[member.name] = Entry(member, listed, now_s)
        self._ranking.clear()
        self._changed[member.name] = None

    def update(self, member: Member) -> None:
        """A known host has another address or a new incarnation, so it has not left."""
        entry = self.entries[member.name]
        if entry.member.rank != member.rank:
            self._ranking.clear()
        entry.member = member
        entry.left = False
        self._changed[member.name] = None

    def rank(self, name: HostId, rank: int) -> None:
        """The ranking must be the same everywhere: the best rank heard of applies, but claims of
        other hosts never move a host configured here, nor put another before those that are."""
        entry, rank = self.entries[name], self.allowed(rank)
        if rank < entry.member.rank:
            entry.member = replace(entry.member, rank=rank)
            self._ranking.clear()

    def allowed(self, rank: int) -> int:
        """Limits the rank of a host that is not configured here; any rank if none is configured."""
        return max(rank, UNLISTED_RANK) if self._has_list else rank

    def ranking(self) -> list[HostId]:
        """Returns the hosts in order of election, best first."""
        if not self._ranking:
            self._ranking = ranking(entry.member for entry in self.entries.values())
        return self._ranking

    def remove(self, name: HostId) -> None:
        self.entries.pop(name, None)
        self.joined.discard(name)
        self._ranking.clear()
        self._views.pop(name, None)
        self._needing.removed(name)
        self._changed.pop(name, None)
        self._charges.forget_host(name)

    def leave(self, name: HostId) -> None:
        self.entries[name].left = True
        self._changed[name] = None

    def skewed(self, name: HostId, why: str) -> bool:
        """Our releases are incompatible; "": they are compatible. Returns whether that is new."""
        entry = self.entries.get(name)
        if entry is None or entry.skew == why or name == self.me:
            return False
        entry.skew = why
        self._changed[name] = None
        return True

    def set_params(
        self, params: LimConfig, smoothing_s: float, drains: Mapping[HostId, bool]
    ) -> None:
        """`drains`: hosts that were drained, or undrained, and have not heard of it yet."""
        self.params = params
        self.drains = drains
        self.smoothing_s = smoothing_s
        self._changes_at_s = NEVER

    # -- load ------------------------------------------------------------------------------------

    def record(self, sample: Sample, now_s: float) -> bool:
        """Keeps a sample if it is the newest of its host. Returns whether it was."""
        entry = self.entries.get(sample.host)
        return entry is not None and self._keep(entry, sample, now_s)

    def publish(self, sample: Sample, now_s: float) -> None:
        """Keeps our own sample, which is always the newest."""
        self._put(self.mine, sample, now_s)

    def _keep(self, entry: Entry, sample: Sample, now_s: float) -> bool:
        if sample.incarnation < entry.member.incarnation:
            return False
        old, sampled_at_s = entry.sample, now_s - sample.age_s
        if (
            old is not None
            and (sample.incarnation, sample.number) <= (old.incarnation, old.number)
            # A sample that claimed to be newer, but is older by that much, was wrong.
            and sampled_at_s <= entry.sampled_at_s + self.params.stale_after_s
        ):
            return False
        if sample.incarnation > entry.member.incarnation:  # the host was restarted
            entry.left = False
        if old is not None and sample.incarnation > old.incarnation:
            entry.before_s = max(entry.before_s, entry.sampled_at_s)
        self._put(entry, sample, now_s)
        return True

    def _put(self, entry: Entry, sample: Sample, now_s: float) -> None:
        host, old, sampled_at_s = sample.host, entry.sample, now_s - sample.age_s
        entry.sample = sample
        entry.sampled_at_s = sampled_at_s
        entry.recorded_at_s = now_s
        entry.drained = sample.drained
        entry.freed_slots = 0
        if old is None or has_free_core(sample.vector):
            entry.free_at_s = sampled_at_s
        if host in self._charges.by_host:
            self._charges.sampled(host, sampled_at_s, self.smoothing_s)
        self._changed[host] = None

    def confirm(self, samples: Iterable[Sample], age_s: float, now_s: float) -> None:
        """These hosts still had these loads `age_s` ago. Views that do not change keep everything
        but their age: rebuilding all of them each period would take milliseconds."""
        at_s, stale_after_s = now_s - age_s, self.params.stale_after_s
        kinds, me = [self._views, *self._needing.kinds()], self.me
        for sample in samples:
            entry = self.entries.get(sample.host)
            if entry is None or entry.sampled_at_s >= at_s or sample.host == me:
                continue
            old = entry.sample
            if old is None or old.incarnation != sample.incarnation:
                self._keep(entry, aged(sample, age_s), now_s)
                continue
            if entry.member.incarnation > sample.incarnation:
                continue
            if old.vector is not sample.vector and aged(old, sample.age_s) != sample:
                # Ours is another sample, but an older one, whatever its number. (If this
                # confirmation is late, it takes the number of a newer sample, which comes next with
                # the same number.)
                renumbered = replace(sample, number=max(old.number, sample.number), age_s=age_s)
                self._put(entry, renumbered, now_s)
                continue
            was_late = now_s >= entry.sampled_at_s + stale_after_s
            entry.sampled_at_s = at_s
            if free := has_free_core(old.vector):
                entry.free_at_s = at_s
            if was_late or self._charges.of(sample.host).total:
                self._charges.sampled(sample.host, at_s, self.smoothing_s)
                self._changed[sample.host] = None
            for views in kinds:
                if (view := views.get(sample.host)) is not None:
                    view.sampled_at_s = at_s
                    view.free_at_s = at_s if free else view.free_at_s

    def own_sample(self, now_s: float) -> Sample:
        mine = self.mine
        assert mine.sample is not None  # the state publishes one first of all
        return aged(mine.sample, max(0.0, now_s - mine.sampled_at_s))

    def drained_there(self, name: HostId, drained: bool) -> None:
        """The host's next sample will say so too. The current one stays unchanged: if it were
        published with other contents under its number, hosts that have it would keep the old
        one."""
        if (entry := self.entries.get(name)) is not None:
            entry.drained = drained
            self._changed[name] = None

    def avoid(self, name: HostId, reason: str, now_s: float) -> None:
        """A command failed there: do not pick the host for `avoid_s`."""
        entry = self.entries[name]
        entry.avoid_until_s = now_s + self.params.avoid_s
        entry.avoid_reason = reason
        self._changed[name] = None

    def charge(self, name: HostId, job: JobId, now_s: float) -> None:
        before = self._charges.add(name, job, now_s)
        self._changed[name] = None
        if before is not None:
            self._changed[before] = None

    def discharge(self, job: JobId) -> HostId | None:
        """The job has ended, or goes elsewhere. Its slot counts as free if a sample shows it as
        taken. Returns the host that was charged for the job."""
        host, picked_at_s = self._charges.drop(job)
        if host is None:
            return None
        entry = self.entries[host]
        if picked_at_s < entry.recorded_at_s:
            entry.freed_slots += 1
        self._changed[host] = None
        return host

    def charged_host(self, job: JobId) -> HostId | None:
        return self._charges.host_of(job)

    def charges(self, name: HostId) -> float:
        """Returns the host's charges, in tasks."""
        return self._charges.of(name).total

    def charged_jobs(self) -> int:
        return self._charges.jobs()

    def expire_charges(self, now_s: float, silence_counts: bool = False) -> None:
        """Drops the oldest charges. `silence_counts`: a host that reports no change is unchanged,
        so its charges fade as if a sample had come."""
        if not self._charges.by_host:
            return
        for host in self._charges.expire(now_s, self.params.down_after_s):
            self._changed[host] = None
        if not silence_counts:
            return
        heard_s = now_s - SILENT_PERIODS * self.params.exchange_period_s
        for host in self._charges.hosts():
            entry = self.entries[host]
            if host != self.me and entry.sampled_at_s < heard_s:
                self._charges.sampled(host, heard_s, self.smoothing_s)
                self._changed[host] = None

    # -- what follows from it --------------------------------------------------------------------

    def state(self, name: HostId, now_s: float) -> tuple[HostState, str]:
        """Returns the state shown to people, and why the host is down if it is."""
        return self._state_of(self.entries[name], now_s)

    def _state_of(self, entry: Entry, now_s: float) -> tuple[HostState, str]:
        if entry.skew or entry.left:
            return DOWN, entry.skew or STOPPED
        if entry.sample is None:
            return DOWN, NOT_HEARD_YET
        if entry.member.name != self.me:
            # the same sums as in `_judge`, or rounding could make it look a moment too early
            if now_s >= entry.sampled_at_s + self.params.down_after_s:
                return DOWN, f"no sample for over {self.params.down_after_s:g} s"
            if now_s >= entry.sampled_at_s + self.params.stale_after_s:
                return HostState.LATE, ""
        return (HostState.DRAINED if self.is_drained(entry) else UP), ""

    def is_drained(self, entry: Entry) -> bool:
        """Returns whether the host was drained, by itself or by others while it was away."""
        drains = self.drains
        return drains.get(entry.member.name, entry.drained) if drains else entry.drained

    def is_gone(self, name: HostId, now_s: float) -> bool:
        """Whether the host is down, and not just unheard because we are new. Same as `_state_of`,
        but without the reason, since it is called for all hosts each period."""
        entry = self.entries[name]
        unheard = entry.sample is None and not entry.left
        if unheard and now_s - entry.known_since_s <= self.params.centre_silence_s:
            return False
        if entry.skew or entry.left or entry.sample is None:
            return True
        return now_s >= entry.sampled_at_s + self.params.down_after_s and name != self.me

    def silent(self, now_s: float) -> set[HostId]:
        """Returns the hosts that are gone for no other reason than that nothing was heard of them.
        The age is compared first, since it leaves nearly none: a host without a sample is older
        than any limit."""
        oldest_s = now_s - self.params.down_after_s + ROUNDING_S
        old = [(name, e) for name, e in self.entries.items() if e.sampled_at_s <= oldest_s]
        return {name for name, e in old if not (e.left or e.skew) and self.is_gone(name, now_s)}

    def others_alive(self, now_s: float) -> list[HostId]:
        """Returns the other hosts that are not down, as in `_state_of`, without building their
        views."""
        me, down_after_s = self.me, self.params.down_after_s
        return [
            name for name, entry in self.entries.items()
            if entry.sample is not None and not entry.left and not entry.skew
            and now_s < entry.sampled_at_s + down_after_s and name != me
        ]  # fmt: skip

    def most_slots(self) -> int:
        """Returns the most slots of any host, as far as is known."""
        samples = (entry.sample for entry in self.entries.values())
        return max(sample.vector.slots_total for sample in samples if sample is not None)

    def own_view(self, now_s: float) -> HostView:
        """Returns our own view, where no other host matters."""
        return self.views(now_s)[self.me]

    def own_load(self) -> float:
        """Returns the load of our own view, without building the view."""
        if (sample := self.mine.sample) is None:
            return math.inf
        vector, charges = sample.vector, self._charges.by_host.get(self.me)
        if charges is None:
            return vector.index
        return vector.index + charges.total / (vector.cores * vector.speed)

    def _facts(self, name: HostId) -> tuple[Facts, tuple[int, int]]:
        if (sample := self.entries[name].sample) is None:
            return NO_FACTS, (0, 0)
        vector = sample.vector
        return vector.facts, vector.memory

    def views(self, now_s: float) -> dict[HostId, HostView]:
        if self._changed or now_s >= self._changes_at_s:
            self._judge_changed(now_s)
        return self._views

    def view(self, centre: HostId | None, now_s: float, needs: Needs = NO_NEEDS) -> View:
        views = self.views(now_s)
        if needs:
            views = self._needing.of(needs, views, self._facts)
        return View(views[self.me], views, self.params, now_s, centre)

    def view_from(
        self,
        origin: HostId,
        charges: float,
        centre: HostId | None,
        now_s: float,
        needs: Needs = NO_NEEDS,
    ) -> View:
        """Returns the cluster as `origin` sees it; `origin` knows its own picks better than we
        do."""
        view = self.view(centre, now_s, needs)
        me = self._make_view(self.entries[origin], charges, now_s, own=True)
        ours = self._make_view(self.entries[self.me], self.charges(self.me), now_s, own=False)
        if needs:
            me = seen_needing(needs, me, *self._facts(origin))
            ours = seen_needing(needs, ours, *self._facts(self.me))
        hosts = {**view.hosts, self.me: ours, origin: me}
        return View(me, hosts, self.params, now_s, centre)

    def _judge_changed(self, now_s: float) -> None:
        if now_s >= self._changes_at_s:
            self._changes_at_s = math.inf
            self._changed.update(dict.fromkeys(self._views))
        for name in self._changed:
            self._judge(name, now_s)
        self._changed.clear()

    def _judge(self, name: HostId, now_s: float) -> None:
        entry = self.entries[name]
        charges = self._charges.by_host.get(name)
        own = name == self.me
        view = self._make_view(entry, charges.total if charges is not None else 0.0, now_s, own)
        self._views[name] = view
        if self._needing.kept:
            self._needing.changed(view, self._facts)
        if own:
            return  # never late to itself
        params, sampled_at_s = self.params, entry.sampled_at_s
        late_s = sampled_at_s + params.stale_after_s
        down_s = sampled_at_s + params.down_after_s
        if now_s < late_s < self._changes_at_s:
            self._changes_at_s = late_s
        if now_s < down_s < self._changes_at_s:
            self._changes_at_s = down_s
        if now_s < entry.avoid_until_s < self._changes_at_s:
            self._changes_at_s = entry.avoid_until_s

    def _make_view(self, entry: Entry, charges: float, now_s: float, own: bool) -> HostView:
        """Makes a view of the host; `own` means as seen by its own commands."""
        name, sample = entry.member.name, entry.sample
        if sample is None:
            return HostView(name, math.inf, math.inf, NEVER, own, NOT_HEARD_YET)
        vector = sample.vector
        cores, speed = vector.cores, vector.speed
        power = cores * speed
        charged = charges / power
        load_now = vector.index + charged
        state, _ = self._state_of(entry, now_s)
        if state is not UP:
            why = str(state.value)
        else:
            why = "" if own else self._why_not(entry, vector, now_s)
        return HostView(
            name, load_now, load_now + 1.0 / power, entry.sampled_at_s, state is not DOWN, why,
            vector.hog, cores, speed, charged, entry.free_at_s,
        )  # fmt: skip

    def _why_not(self, entry: Entry, vector: LoadVector, now_s: float) -> str:
        """Returns why another host's job may not run there although it is up, or ""."""
        if now_s < entry.avoid_until_s:
            return f"{AVOIDED}: {entry.avoid_reason}"
        if not vector.accepting:
            return why_closed(vector)
        used = max(0, vector.slots_used - entry.freed_slots)
        if (charges := self._charges.by_host.get(entry.member.name)) is not None:
            used += charges.picked_since(entry.recorded_at_s)
        return "" if used < vector.slots_total else NO_SLOT


def has_free_core(vector: LoadVector) -> bool:
    """Whether a core is free. Queues are means: with every core busy the index may be slightly
    lower."""
    return vector.index * vector.cores * vector.speed <= vector.cores - 0.5


def why_closed(vector: LoadVector) -> str:
    """Returns why a host that is up takes no jobs; "" if it takes some."""
    if vector.accepting:
        return ""
    return closed_words(vector.closed, vector.opens)
