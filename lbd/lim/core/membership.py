"""Who belongs to the cluster, and how hosts come and go.

A host says Hello to every host it knows, some at once and the others gradually; the best-ranked
hosts tell it about further hosts and the settings. Most Hellos are redundant: the centre's vectors
name every host and its incarnation. A host that gets a message from an unknown sender, or from an
older incarnation, answers so, and the sender says Hello again: that repairs whatever was lost. A
live host keeps its name: a later host with that name at another address is refused. A restarted
host has a higher incarnation; if its clock was set back meanwhile, it learns the known one, goes
above it, and saves its own: its next start is above that, whatever the clock says then.

Configured hosts stay in the table for good. Joined hosts are forgotten when they leave for good, or
are down for `forget_after_s`; a tombstone keeps old gossip from bringing them back. Any host may
tell of others, which may not exist, so a host that speaks for itself takes the place of one that
never has, or that was stopped.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random

from lbd.lim.core import messages as m
from lbd.lim.core.broadcast import timeout_s
from lbd.lim.core.events import Action, Log, SaveIncarnation, Send, Stop
from lbd.lim.core.table import NEVER, Entry, Table
from lbd.lim.core.ways_in import WaysIn
from lbd.model import HostId, HostState

FIRST_ASKED = 3  # hosts that a newcomer asks for the members, best-ranked first
# Hosts greeted at the start, and at once of those heard of: each takes a connection, and
# descriptors.
GREETED_FIRST = 32
INTRODUCED_MAX = 3  # Hellos per keep-alive to a host that says it does not know us
CLOCK_WRONG_MS = 100 * 365 * 86_400 * 1000  # by how much a host's clock may have been ahead
TOO_HIGH = (
    "{0} remembers a start of this host a hundred years after its clock, so this host counts as "
    "gone there until the LIM of {0} has been restarted"
)
FIRST_NEWS_S = 1.5  # after our start, by when all hosts that are up have been heard of
GREETED_LATER = 8  # further hosts greeted each keep-alive, until every host has answered a Hello


class Membership:
    def __init__(
        self, me: m.Member, table: Table, ways_in: WaysIn, now_s: float, clock_ms: int = 0
    ) -> None:
        """`clock_ms`: the time of day of our start, if our incarnation is above it."""
        self.me = me
        self.accepted = False  # some host has taken us in
        self.leaves_for_good = False
        self._table = table
        self.ways_in = ways_in
        self.started_at_s = now_s
        self.tombstones: dict[HostId, int] = {}
        self._members_asked_at_s = NEVER
        self._greeted: set[HostId] = set()  # answered our Hello, and have not said one since
        self._introduced: Counter[HostId] = Counter()  # Hellos since the last keep-alive
        self._name_taken: set[HostId] = set()  # hosts that say our name is taken
        self._incarnation_max = (clock_ms or me.incarnation) + CLOCK_WRONG_MS

    def unknown_at(self, name: HostId, known: int, after_hello: bool) -> tuple[bool, list[Action]]:
        """`name` does not know us, or knows us as started later: say Hello with a higher
        incarnation.

        Returns whether ours has changed, and the Hello; not so often that `name` could keep us
        busy.
        """
        self._introduced[name] += 1
        if self._introduced[name] > INTRODUCED_MAX:
            return False, []
        ours = self.me.incarnation
        wanted = known > ours or (known == ours and after_hello)
        # Not so high that a host whose own is lost could not go above it by its clock.
        higher, saving = wanted and known < self._incarnation_max, list[Action]()
        if higher:
            self.me = replace(self.me, incarnation=known + 1)
            self._table.entries[self.me.name].member = self.me
            saving = [SaveIncarnation(known + 1)]
        elif wanted:
            saving = [Log(TOO_HIGH.format(name), warning=True, peer=name)]
        entry = self._table.entries.get(name)
        if entry is None:
            return higher, saving + self.join_again()
        return higher, [*saving, self.hello(entry.member, wants_members=not self.accepted)]

    # -- outgoing --------------------------------------------------------------------------------

    def first_hellos(self) -> list[Action]:
        others = sorted(self._others(), key=lambda m: (m.rank, m.name))
        actions: list[Action] = [
            self.hello(member, wants_members=place < FIRST_ASKED)
            for place, member in enumerate(others[:GREETED_FIRST])
        ]
        return actions + self.join_again() + self._greet_remembered(GREETED_FIRST)

    def join_again(self) -> list[Action]:
        if not self.ways_in.is_open(self._table.entries, accepted=self.accepted):
            return []
        return [self._send(HostId(""), self.ways_in.target, m.Hello(self.me, wants_members=True))]

    def greet_again(self, now_s: float, rng: Random) -> list[Action]:
        """Says Hello to some hosts that have not answered one, or that we no longer hear.

        So a late start or a healed network is noticed, whichever side was away.
        """
        lost = [
            member
            for member in self._others()
            if not self._table.entries[member.name].left
            and (
                member.name not in self._greeted
                or self._table.state(member.name, now_s)[0] is HostState.DOWN
            )
        ]
        self._introduced.clear()
        some = rng.sample(lost, min(len(lost), GREETED_LATER))
        hellos = [self.hello(member, wants_members=not self.accepted) for member in some]
        return hellos + self._greet_remembered(GREETED_LATER)

    def _greet_remembered(self, count: int) -> list[Action]:
        members = self.ways_in.take(count, self._table.entries, accepted=self.accepted)
        return [self.hello(member, wants_members=not self.accepted) for member in members]

    def hello_answered(self, name: HostId, to: HostId) -> None:
        """`to`: "" if it was sent to the configured address: what answers there proves no name."""
        self.accepted = True
        (self._greeted.add if to else self.ways_in.answered)(name)

    def hello(self, member: m.Member, wants_members: bool) -> Send:
        return self._send(member.name, member.lim_target, m.Hello(self.me, wants_members))

    def ask_members(self, name: HostId, now_s: float) -> list[Action]:
        """`name` mentioned a host unknown here; asks at most once a keep-alive."""
        if now_s - self._members_asked_at_s < self._table.params.keepalive_s:
            return []
        self._members_asked_at_s = now_s
        return [self.hello(self._table.entries[name].member, wants_members=True)]

    def _send(self, name: HostId, target: str, body: m.Body) -> Send:
        return Send(name, target, body, timeout_s(self._table))

    def _others(self) -> list[m.Member]:
        return [e.member for e in self._table.entries.values() if e.member.name != self.me.name]

    # -- incoming --------------------------------------------------------------------------------

    def knows(self, sender: HostId, incarnation: int, now_s: float) -> bool:
        """Whether the sender of a message is a known host; a restarted one is, Hello or not."""
        entry = self._table.entries.get(sender)
        if entry is None or incarnation < entry.member.incarnation:
            return False
        if sender == self.me.name:  # another host that uses our name
            return False
        if incarnation > entry.member.incarnation:
            entry.before_s = max(entry.before_s, entry.heard_at_s)
            entry.has_said_hello = False
            self._table.update(replace(entry.member, incarnation=incarnation))
        if entry.left:
            return False
        entry.heard_at_s = now_s
        if entry.skew:
            self._table.skewed(sender, "")
        return True

    def unknown(self, name: HostId) -> m.Ack:
        entry = self._table.entries.get(name)
        known = entry.member.incarnation if entry else self.tombstones.get(name, 0)
        return m.Ack(unknown_sender=True, known_incarnation=known)

    def hello_from(self, hello: m.Hello, now_s: float) -> tuple[m.Ack | None, list[Action]]:
        """Returns a refusal, or None if the host is taken in."""
        member = hello.self
        entry = self._table.entries.get(member.name)
        stale_s = now_s - self._table.params.stale_after_s
        if member.name == self.me.name or (entry and is_other(entry, member, stale_s)):
            holder = entry.member if entry else self.me
            text = f"the name {member.name} is taken by {holder.lim_target}, which is alive"
            return m.Ack(error=text, name_taken=True), []
        known = entry.member.incarnation if entry else self.tombstones.get(member.name, 0)
        if member.incarnation < known or (entry is None and member.incarnation == known):
            return m.Ack(unknown_sender=True, known_incarnation=known), []
        if entry is None and self._is_full() and not make_room(self._table):
            text = (
                f"the table of {self.me.name} is full (lim.max_hosts = {len(self._table.entries)})"
            )
            return m.Ack(error=text), []
        return None, self._take_in(member, now_s)

    def _is_full(self) -> bool:
        return len(self._table.entries) >= self._table.params.max_hosts

    def _take_in(self, member: m.Member, now_s: float) -> list[Action]:
        entry = self._table.entries.get(member.name)
        self.tombstones.pop(member.name, None)
        news = entry is None or entry.left or entry.member.incarnation != member.incarnation
        if news:
            self._greeted.discard(member.name)
        if entry is None:
            self._table.add(member, listed=False, now_s=now_s)
        else:
            self._table.update(replace(member, rank=entry.member.rank))
            self._table.rank(member.name, member.rank)
        entry = self._table.entries[member.name]
        entry.heard_at_s, entry.has_said_hello = now_s, True
        self._table.skewed(member.name, "")
        text = f"host {member.name} is here address={member.lim_target}"
        return [Log(text, peer=member.name)] if news else []

    def members_from(self, members: Iterable[m.Member], now_s: float) -> list[Action]:
        """Another host told us about these hosts: say Hello to the new ones, at once to as many as
        at the start. Otherwise one host could make us connect to a thousand addresses of its
        choice."""
        actions: list[Action] = []
        for member in members:
            entry = self._table.entries.get(member.name)
            if member.name == self.me.name:
                continue
            if entry is not None:
                self._table.rank(member.name, member.rank)
                continue
            if self._is_full():
                return [*actions, Log("the table is full: lim.max_hosts", warning=True)]
            if member.incarnation > self.tombstones.get(member.name, -1):
                # Incarnation unknown until the host speaks itself, so that its Hello or sample
                # counts as new.
                heard_of = replace(member, incarnation=0)
                self._table.add(heard_of, listed=False, now_s=now_s)
                if len(actions) < GREETED_FIRST:
                    actions.append(self.hello(member, wants_members=False))
        return actions

    def goodbye(self) -> m.Leave:
        return m.Leave(self.leaves_for_good)

    def left(self, name: HostId, for_good: bool) -> list[Action]:
        """A host sent Leave, or was forgotten. A host that was only stopped is shown as down, so
        that it does not vanish silently, until it is back or is forgotten."""
        if name not in self._table.entries:
            return []  # forgotten already
        if for_good and not self._table.entries[name].listed:
            self._bury(name)
        else:
            self._table.leave(name)
        return [Log(f"host {name} {'has left' if for_good else 'was stopped'}", peer=name)]

    def gone(self, message: m.Message, now_s: float) -> HostId | None:
        """Returns the host that leaves by that message; None if we still hear it."""
        if not isinstance(message.body, m.Forget):
            return message.sender
        name = message.body.host
        return name if name not in self._table.entries or self.is_lost(name, now_s) else None

    def is_lost(self, name: HostId, now_s: float) -> bool:
        """Whether it is another known host that is not heard."""
        if name == self.me.name or name not in self._table.entries:
            return False
        return self._table.state(name, now_s)[0] in (HostState.LATE, HostState.DOWN)

    def forget_the_lost(self, now_s: float) -> list[Action]:
        """Drops joined hosts that have not been heard of for too long."""
        if not self._table.joined:
            return []
        limit_s = self._table.params.forget_after_s
        entries = self._table.entries
        lost = [name for name in self._table.joined if now_s - entries[name].last_heard_s > limit_s]
        for name in lost:
            self._bury(name)
        return [Log(f"host {name} is removed", peer=name) for name in lost]

    def _bury(self, name: HostId) -> None:
        self.tombstones[name] = self._table.entries[name].member.incarnation
        self._table.remove(name)
        self._greeted.discard(name)
        while len(self.tombstones) > self._table.params.max_hosts:
            del self.tombstones[next(iter(self.tombstones))]

    def refused(self, name: HostId, ack: m.Ack, now_s: float, *, is_proved: bool) -> list[Action]:
        """`name` refused our Hello.

        `is_proved`: a certificate says that our name is ours. Then nobody's word stops us: two bad
        hosts, or the only other one, could keep us from starting for ever. Otherwise a taken name
        is final while we are new, if two hosts say so or the only other one.
        """
        if ack.name_taken and not is_proved:
            self._name_taken.add(name)
            fresh = now_s - self.started_at_s < self._table.params.down_after_s
            if fresh and len(self._name_taken) >= min(2, max(1, len(self._table.entries) - 1)):
                return [Stop(f"{ack.error}; give this host another host.name")]
        text = f"refused by {name or self.ways_in.target}: {ack.error}"
        return [Log(text, warning=True, peer=name)]


def awaits_news(ours: Membership, table: Table, now_s: float) -> bool:
    """Whether we are so new that hosts which are up may not have been heard of. Until then a
    command must not be told that there is no host for it."""
    if now_s >= ours.started_at_s + FIRST_NEWS_S:
        return False
    return ours.ways_in.has_more(table.entries, accepted=ours.accepted) or any(
        entry.sample is None and not (entry.left or entry.skew) for entry in table.entries.values()
    )


def forget_remembered(ours: Membership, table: Table, name: HostId) -> bool:
    """Drops a host that was known before our start, and not heard of since. Returns whether it is
    one."""
    if name in table.entries or not ours.ways_in.remembers(name):
        return False
    ours.ways_in.forget(name)
    ours.tombstones[name] = 0
    return True


def told_of(table: Table) -> tuple[m.Member, ...]:
    """Returns the hosts to tell a newcomer about, those first of which we know more than others
    say, as others may have made them up. If there are too many, the last are left out."""
    known = [entry for entry in table.entries.values() if not entry.left]
    known.sort(key=lambda entry: entry.heard_at_s == NEVER and entry.sample is None)
    return tuple(entry.member for entry in known)


def make_room(table: Table) -> bool:
    """Removes a silent joined host: first one that never spoke for itself, as others may have made
    it up, else one that was stopped; among several the one last heard of longest ago. Returns
    whether there was one."""
    entries = table.entries
    silent = [n for n in table.joined if entries[n].left or entries[n].heard_at_s == NEVER]
    if not silent:
        return False
    table.remove(min(silent, key=lambda n: (entries[n].left, entries[n].last_heard_s, n)))
    return True


def is_other(entry: Entry, member: m.Member, stale_s: float) -> bool:
    """Whether `member` is another machine using the name of a host that was alive since `stale_s`.

    What `member` itself has sent since its start, to us or through the centre, shows no life at the
    known address: it may have replaced the machine there.
    """
    known, sample = entry.member, entry.sample
    if entry.left or known.lim_target == member.lim_target:
        return False
    is_its_own = sample is not None and sample.incarnation == member.incarnation
    last_heard_s = max(
        entry.before_s,
        NEVER if known.incarnation == member.incarnation else entry.heard_at_s,
        NEVER if is_its_own else entry.sampled_at_s,
    )
    return last_heard_s > stale_s
