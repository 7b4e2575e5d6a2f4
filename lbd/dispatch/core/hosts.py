"""The hosts as the dispatcher knows them, and which are temporarily set aside. Pure."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from lbd.dispatch.core.discipline import OWN, HostSlots, QueuedJob
from lbd.model import STOPPED, Closed, HostId

MOUNTED_S = 180.0  # after a boot all file systems are mounted, also those that nothing waits for
# So often in a row a host may offer slots and then refuse what it is given, since it has filled up
# meanwhile or the order came too late. With one that did so without end, jobs would start without
# end.
OFFERS_MAX = 20
RECORDS_MAX = 1024  # of hosts that have left the cluster
SEVERAL = 2  # users; what only one of them has seen may be that user's doing
USERS_MAX = 1024  # whose complaints about a host are remembered
FILES_TIMES = 6  # so much longer may it take to begin an attempt that brings files along


@dataclass(frozen=True, slots=True)
class Terms:
    """The lifecycle's parameters; see `[dispatch]` in the configuration."""

    lease_s: float = 30.0
    crash_limit: int = 5
    host_failures: int = 3  # in a row
    aside_s: float = 10.0  # the first pause; doubles each time
    aside_max_s: float = 600.0
    attempts_max: int = 1000  # for a job that stops at checkpoints
    gang_hold_s: float = 60.0
    gang_drain_s: float = 600.0
    begin_timeout_s: float = 600.0
    inherited_s: float = 0.0  # the longest lease that an earlier dispatcher may have granted

    def waited_for_s(self, lease_s: float) -> float:
        """How long after such a lease was renewed its attempt has certainly ended: it allows for
        clocks of different pace, and for the time a kill takes."""
        return lease_s + 1.0 + 0.05 * lease_s

    @property
    def waited_s(self) -> float:
        """The same for the leases that are granted now."""
        return self.waited_for_s(self.lease_s)


@dataclass(frozen=True, slots=True)
class Contact:
    """A connection of a host, and what its latest heartbeat said."""

    number: int = 0
    keeper: str = ""
    said_s: float = 0.0  # by the host's boot clock

    def is_after(self, sent: "Contact | None") -> bool:
        """Whether the same keeper says this on a connection opened after the other one had ended.

        Connections can overtake each other on their way, so their order here proves nothing.
        """
        if sent is None or sent.keeper != self.keeper:
            return False
        return sent.number < self.number and sent.said_s < self.said_s


@dataclass(slots=True)
class Complaints:
    """What went wrong on a host, by the user whose attempts it were, as `user_at` returns them.

    A host could make up for what it does to others by jobs of its own, or by those of one user who
    helps it, and a user could have a host set aside by jobs that fail there. So what went wrong for
    a user is forgotten once the same user was served well; or, if it is one user alone, once
    several others were.
    """

    of: dict[str, int] = field(default_factory=dict)
    served_since: set[str] = field(default_factory=set)  # so many users as matter

    @property
    def count(self) -> int:
        return sum(self.of.values())

    @property
    def users(self) -> int:
        return len(self.of.keys() - {OWN})

    def add(self, user: str) -> None:
        if user in self.of or len(self.of) < USERS_MAX:
            self.of[user] = self.of.get(user, 0) + 1

    def served(self, user: str) -> None:
        self.of.pop(user, None)
        if self.of and user != OWN and len(self.served_since) <= SEVERAL:
            self.served_since.add(user)
        if self.users < SEVERAL <= len(self.served_since - self.of.keys()):
            self.of.clear()
        if not self.of:
            self.served_since.clear()


@dataclass(slots=True)
class TrackRecord:
    """What a host has done to the attempts that it was given. It outlives the host's membership, or
    any host could wipe it out by leaving the cluster and joining again."""

    failures: Complaints = field(default_factory=Complaints)
    failed_s: float = -math.inf  # the last failure, or the end of the last pause
    # heartbeats after which it refused, and no attempt has begun
    vain_offers: Complaints = field(default_factory=Complaints)
    vain_s: float = -math.inf  # the last such heartbeat
    refused_since: set[str] = field(default_factory=set)  # whose attempts it has refused since
    # attempts that it has not begun in time; those of two users are enough
    in_vain: Complaints = field(default_factory=Complaints)
    aside_s: float = 0.0  # the last pause; 0: none yet
    aside_until_s: float | None = None

    def counts_until_s(self, terms: Terms) -> float:
        """Returns until when it counts though the host has left. A pause ends before that."""
        return max(self.failed_s, self.vain_s) + terms.aside_max_s

    def forget(self, before_s: float) -> None:
        """Forgets what has not happened again since then."""
        if self.failed_s <= before_s:
            self.failures, self.aside_s = Complaints(), 0.0
        if self.vain_s <= before_s:
            self.vain_offers = Complaints()


@dataclass(slots=True)
class KnownHost:
    """One host. `slots` is None while it takes no jobs: it is `closed`, or else out of contact."""

    slots: HostSlots | None = None
    closed: Closed | None = None
    more: str = ""  # details of `closed` for people, as in `closed_words`
    was_drained: bool = False  # when it was last heard of
    record: TrackRecord = field(default_factory=TrackRecord)
    contact: Contact = Contact()
    heard_s: float = -math.inf  # its last heartbeat
    rules: int = 0  # the number of its owner's rules; 0: not known
    is_compared: bool = False  # what it holds with what it was sent before this contact


@dataclass(slots=True)
class HostTable:
    terms: Terms
    known: dict[HostId, KnownHost] = field(default_factory=dict)
    departed: dict[HostId, TrackRecord] = field(default_factory=dict)  # hosts that were removed
    more_until_s: float = -math.inf  # until then there may be hosts not heard of yet

    def of(self, name: HostId) -> KnownHost:
        if (known := self.known.get(name)) is None:
            record = self.departed.pop(name, None) or TrackRecord()
            known = self.known[name] = KnownHost(record=record)
        return known

    def heard(self, host: HostSlots) -> bool:
        """Returns whether the host may be given jobs now."""
        known = self.of(host.name)
        known.slots, known.closed, known.more, known.was_drained = host, None, "", False
        return known.record.aside_until_s is None

    def held_in_vain(self, name: HostId, job: QueuedJob) -> bool:
        """Notes that it did not begin an attempt of that job in time. Returns whether that is the
        host's doing: one user can have it so (a file system that does not answer)."""
        in_vain = self.of(name).record.in_vain
        in_vain.add(job.user_at(name))
        return in_vain.users >= SEVERAL

    def no_room(self, name: HostId) -> str:
        """Returns why no job begins there that would print to its disk; "" if there is room."""
        known = self.known.get(name)
        return known.slots.no_room if known is not None and known.slots is not None else ""

    def without_room(self) -> dict[str, str]:
        """Returns the same for each host without."""
        return {name: why for name in self.known if (why := self.no_room(name))}

    def heard_s(self, name: HostId) -> float:
        """Returns when its last heartbeat came."""
        known = self.known.get(name)
        return known.heard_s if known is not None else -math.inf

    def contact(self, name: HostId) -> Contact:
        known = self.known.get(name)
        return known.contact if known is not None else Contact()

    def mounting_s(self, name: HostId) -> float:
        """Returns when to ask the host again for a directory that it lacks, as it was booted a
        moment ago; 0: it lacks it for good, as far as is known."""
        up_s = self.contact(name).said_s
        return up_s / 2 if up_s < MOUNTED_S else 0.0

    def proves(self, name: HostId, keeper: str, said_s: float, *, is_first: bool) -> Contact | None:
        """Notes a heartbeat, the first of its connection or not. Returns the contact if what the
        host holds is to be compared now with what it was sent before: once, as soon as its keeper
        is known."""
        known = self.of(name)
        known.contact = Contact(known.contact.number + is_first, keeper, said_s)
        known.is_compared = known.is_compared and not is_first
        if known.is_compared or not keeper:
            return None
        known.is_compared = True
        return known.contact

    def has_other_rules(self, name: HostId, number: int) -> bool:
        """Notes the number of a host's rules. Returns whether it had others before."""
        known = self.of(name)
        before, known.rules = known.rules, number
        return before not in (0, number)

    def tiers_are(self, tiers: Callable[[HostId], tuple[int, ...]]) -> None:
        for known in self.known.values():
            if known.slots is not None:
                known.slots = replace(known.slots, tiers=tiers(known.slots.name))

    def gone(self, name: HostId, closed: Closed | None, more: str = "") -> None:
        known = self.of(name)
        if closed is None and self.is_stopped(name):
            more = STOPPED  # it said so
        known.slots, known.closed, known.more = None, closed, more
        if closed not in (None, Closed.STOPPING):  # else it says nothing new
            known.was_drained = closed is Closed.DRAINED

    def out_of_contact(self) -> list[HostId]:
        """Returns the hosts that are not connected; a closed or drained host is."""
        return [n for n, known in self.known.items() if known.slots is None and not known.closed]

    def removed(self, names: Iterable[HostId]) -> bool:
        """Drops hosts that are no longer in the cluster, but for their records. One that is still
        connected is kept, as it may have joined again. Returns whether there was one."""
        removed = set(self.out_of_contact()).intersection(names)
        for name in removed:
            self.departed[name] = self.known.pop(name).record
        while len(self.departed) > RECORDS_MAX:
            del self.departed[next(iter(self.departed))]
        return bool(removed)

    def is_stopped(self, name: HostId) -> bool:
        """Whether the host said that it is shut down, and has not come back."""
        known = self.known.get(name)
        return known is not None and (known.closed is Closed.STOPPING or known.more == STOPPED)

    def full(self, name: HostId, running: int) -> HostSlots | None:
        """Returns the host with no open slots beyond those in use; None if it gets no jobs now
        anyway."""
        known = self.known.get(name)
        if known is None or known.slots is None or known.record.aside_until_s is not None:
            return None
        known.slots = replace(known.slots, open_slots=max(0, running), ahead=0, beside_hog=0)
        return known.slots

    def begun(self, name: HostId, job: QueuedJob) -> None:
        record, user = self.of(name).record, job.user_at(name)
        record.vain_offers.served(user)
        record.in_vain.served(user)

    def refused(self, name: HostId, job: QueuedJob) -> bool:
        """Notes that it refused an attempt, which is nobody's fault unless it goes on and on.
        Returns whether it counts as a failure."""
        known, user = self.of(name), job.user_at(name)
        record = known.record
        if known.heard_s > record.vain_s:
            record.vain_s = known.heard_s
            record.refused_since.clear()
        if user not in record.refused_since:
            record.refused_since.add(user)
            record.vain_offers.add(user)
        return record.vain_offers.of.get(user, 0) > OFFERS_MAX

    def worked(self, name: HostId, job: QueuedJob) -> None:
        record = self.of(name).record
        record.failures.served(job.user_at(name))
        if not record.failures.of:
            record.aside_s = 0.0

    def failed(
        self, name: HostId, job: QueuedJob, now_s: float, *, may_be_users: bool = False
    ) -> bool:
        """Returns whether this failure causes the host to be set aside. `may_be_users`: a user can
        arrange it, so it takes several."""
        record = self.of(name).record
        record.failures.add(job.user_at(name))
        record.failed_s = now_s
        if may_be_users and record.failures.users < SEVERAL:
            return False
        if record.failures.count < self.terms.host_failures or record.aside_until_s is not None:
            return False
        record.aside_s = min(2 * record.aside_s or self.terms.aside_s, self.terms.aside_max_s)
        record.aside_until_s = now_s + record.aside_s
        return True

    def returning(self, now_s: float) -> Iterable[HostSlots]:
        """Yields the connected hosts whose pause is over. One more failure sets them aside again,
        unless they have made up for the earlier ones."""
        for name, record in list(self.departed.items()):
            if now_s >= record.counts_until_s(self.terms):
                del self.departed[name]
        for known in self.known.values():
            record = known.record
            if record.aside_until_s is not None and now_s >= record.aside_until_s:
                record.aside_until_s, record.failed_s = None, now_s
                if known.slots is not None:
                    yield known.slots
            else:
                record.forget(now_s - self.terms.aside_max_s)

    def aside(self) -> list[HostId]:
        known = self.known.items()
        return [name for name, one in known if one.record.aside_until_s is not None]
