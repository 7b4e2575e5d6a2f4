"""The search for a host that takes a command: who is out of the question, and how long to go on.

Left out are the hosts that the user excluded or that have refused it; those that lack its directory
or its program, as they said lately; those that have too few free slots for it; and, until there may
be room again, those that had no slot a moment ago. Whatever else a host refuses for does not pass
so soon. What is known of others may be old: the host itself has the last word.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lbd.lbm.core.environment import names_shown
from lbd.lbm.core.journey_events import Looked, Question, Refused, Slots
from lbd.model import NO_NEEDS, HostId, Needs

MAX_TRIES = 8
NOWHERE = HostId("")
Directory = tuple[int, int, bytes]  # user, device, path


@dataclass(frozen=True, slots=True)
class Demands:
    """What the command's user asks for, and what follows from where it was called."""

    name: str  # of the program, for people
    mode: str = "auto"  # auto | remote | host
    host: HostId | None = None
    excluded: frozenset[HostId] = frozenset()
    slots: tuple[int, int] = (1, 1)  # it needs, and can use
    timeout_s: float = 0.0
    memory_bytes: int = 0
    may_fall_back: bool = True
    may_restart: bool = True
    must_stay: bool = False  # it moved too often already, or is the very command that was placed
    only_asks: bool = False  # Away is wanted rather than a start
    is_staged: bool = False  # it brings its files along
    needs: Needs = NO_NEEDS


@dataclass(frozen=True, slots=True)
class Bounds:
    """What this host says."""

    own: HostId
    hold_limit_s: float  # for room
    evicted_wait_s: float  # for a host that takes it, of an evicted command
    has_peers: bool = True


@dataclass(frozen=True, slots=True)
class Place:
    host: HostId = NOWHERE
    address: str = ""
    reason: str = ""


@dataclass(slots=True)
class Eviction:
    """The last one of a command, which waits for another host since, or has found one."""

    host: HostId = NOWHERE
    began_s: float = 0.0
    has_warned: bool = False

    def given_up(self, why: str, limit_s: float, now_s: float) -> str:
        """`why` no host takes it now. "" while it may wait on."""
        if now_s < self.began_s + limit_s:
            return ""
        within = f"no host took it within {limit_s:g} s (lbm.sent_away_wait_s)"
        return f"the owner of {self.host} is back, and {within}: {why}"

    def warning(self, why: str) -> str:
        """Once."""
        if self.has_warned:
            return ""
        self.has_warned = True
        return f"the owner of {self.host} is back; it is waiting for a host that accepts it: {why}"


@dataclass(slots=True)
class Search:
    """All that is known of where a command may go: one class because a question to the LIM is made
    of all of it."""

    demands: Demands
    bounds: Bounds
    excluded: set[HostId] = field(default_factory=set)  # by the user, or they have refused it
    lacking: set[HostId] = field(default_factory=set)  # what it needs
    left_out: str = ""  # the same for people
    full: set[HostId] = field(default_factory=set)  # a moment ago
    refusals: list[Refused] = field(default_factory=list)
    tries: int = 0
    give_up_s: float = 0.0  # waiting for room
    is_patient: bool = True  # it is not that late yet
    eviction: Eviction = field(default_factory=Eviction)
    asked_lim: bool = False
    has_moved: bool = False  # the named host is not where we believed
    is_unseen: bool = False  # its directory is, so it had better stay
    is_too_wide: bool = False  # this host has too few free slots for it
    slots_here: int = 0  # it may use if it stays; 0 = it needs no more than any

    def again(self) -> None:
        """From the start, but for what was learnt of the command itself."""
        self.excluded, self.tries = set(self.demands.excluded), 0
        self.full.clear()
        self.refusals.clear()

    # -- the question ------------------------------------------------------------------------------

    @property
    def must_leave(self) -> bool:
        """One that was evicted has no caller here any more that could run it."""
        return self.demands.mode == "remote" or self.is_too_wide or self.eviction.host != NOWHERE

    @property
    def must_stay(self) -> bool:
        return (self.demands.must_stay or self.is_unseen) and self.demands.mode == "auto"

    @property
    def needs_slots(self) -> bool:
        return self.demands.slots[1] > 1 and not self.must_stay

    @property
    def goes_anywhere(self) -> bool:
        """It does not matter who lacks what."""
        return self.demands.mode == "host" or self.demands.is_staged

    @property
    def left_over(self) -> frozenset[HostId]:
        return frozenset(self.excluded | self.full | self.lacking)

    @property
    def question(self) -> Question:
        return Question(
            wanted=self.demands.host,
            excluded=self.left_over,
            must_leave=self.must_leave,
            must_stay=self.must_stay,
            may_wait=self.is_patient,
        )

    # -- what was heard ----------------------------------------------------------------------------

    def looked(self, looked: Looked) -> None:
        self.lacking, self.left_out = set(looked.lacking), looked.left_out

    def is_known_at(self, address: str) -> bool:
        """The named host: there is no need to ask the LIM where it is."""
        return bool(address) and self.demands.host is not None and not self.has_moved

    def counted(self, slots: Slots) -> str:
        """The slots of all hosts that are up. Why none will ever do, "" if one might. Who waits for
        a named host waits there."""
        (least, most), named, own = self.demands.slots, self.demands.host, self.bounds.own
        able = {name: total for name, (total, _) in slots.items() if named in (None, name)}
        if able and max(able.values()) < least:
            return too_few(least, able, named)
        if named is None:
            few = {name for name, (_, free) in slots.items() if free < least}
            self.lacking |= few
            self.is_too_wide = own in few
            self.slots_here = min(most, slots[own][1]) if own in slots else 0
        return ""

    def is_hopeless(self, hosts: Collection[HostId]) -> bool:
        """It must leave, and none of these is left for it just now."""
        left = set(hosts) - self.left_over - {self.bounds.own}
        return self.demands.host is None and self.must_leave and not left

    def why_nobody(self, reason: str) -> str:
        """`reason`: the LIM's, why no host can take it."""
        if self.eviction.host:
            return reason
        if self.refusals and self.demands.mode != "auto":
            return self.refusals[-1].advice
        given = as_excluded(reason, self.demands.excluded)
        return "; ".join(filter(None, (given, self.left_out)))

    def refused(self, host: HostId, answer: Refused) -> None:
        self.refusals.append(answer)
        self.excluded.add(host)

    def may_try_again(self, host: HostId) -> bool:
        """After this one has not taken it. For what may not run here a full host is no try, but a
        reason to wait."""
        self.tries += not (self.must_leave and host in self.full)
        return self.tries < MAX_TRIES

    # -- may it run here? --------------------------------------------------------------------------

    @property
    def fault(self) -> str:
        """Of a host that should have taken it; that an owner does not want it is none."""
        faults = (r for r in self._failures if r.fault or r.phase != "admission")
        return next((fault.reason for fault in faults), "")

    @property
    def why_not_here(self) -> str:
        """By the user's word, after others have refused it; "" if it may."""
        failures = self._failures
        if failures and (self._is_strict or not self.demands.may_fall_back):
            return failures[-1].advice
        if self.fault and self.bounds.own in self.demands.excluded:
            return f"{self.fault}, and --exclude forbids running here"
        return ""

    @property
    def _failures(self) -> list[Refused]:
        """Without those of hosts that were no candidates, unless it had to be one of them."""
        return [r for r in self.refusals if self._is_strict or not r.lacks_something]

    @property
    def _is_strict(self) -> bool:
        return self.demands.mode != "auto" or self.is_too_wide


def as_excluded(reason: str, excluded: Collection[str]) -> str:
    """`reason`, why no host can take a command, with the user's own part in it."""
    return f"{reason} (-x: {names_shown(list(excluded))})" if excluded else reason


def too_few(least: int, able: Mapping[HostId, int], named: HostId | None) -> str:
    """`able`: the slots of each host that may be meant."""
    most = max(able.values())
    if named is not None:
        return f"-n {least}: {named} has {most} slots"
    largest = max(able, key=lambda name: (able[name], name))
    return f"-n {least}: no host has {least} slots; the largest is {largest} with {most}"


@dataclass(slots=True)
class Unshared:
    """Which hosts do not share which directories, as they said lately.

    What is not shared there has nothing shared below it, as far as it is one file system here: so
    one refusal speaks for a whole tree, but "/" not for what is mounted in it. Each user's own, for
    one may be let in where another is not. Forgotten after a while: a mount may come back.
    """

    kept_s: float
    limit: int = 4096
    _until: "OrderedDict[tuple[Directory, HostId], float]" = field(default_factory=OrderedDict)
    _hosts: dict[Directory, set[HostId]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._until)

    def note(self, uid: int, device: int, directory: bytes, host: HostId, now_s: float) -> None:
        """This host has just said that it is another one there, or none."""
        place = (uid, device, directory.rstrip(b"/"))
        self._until[place, host] = now_s + self.kept_s
        self._until.move_to_end((place, host))
        self._hosts.setdefault(place, set()).add(host)
        if len(self._until) > self.limit:
            self._drop_oldest()

    def hosts(self, uid: int, device: int, directory: bytes, now_s: float) -> set[HostId]:
        """Those that need not be asked about it."""
        while self._until and next(iter(self._until.values())) <= now_s:
            self._drop_oldest()
        found: set[HostId] = set()
        path = directory.rstrip(b"/")
        while self._hosts:
            found |= self._hosts.get((uid, device, path), set())
            if not path:
                break
            path = path.rpartition(b"/")[0]
        return found

    def shares(self, uid: int, device: int, directory: bytes, host: HostId) -> None:
        """It has just run a command there: whatever it said before is over."""
        path = directory.rstrip(b"/")
        while self._until:
            place = (uid, device, path)
            if self._until.pop((place, host), None) is not None:
                self._forget(place, host)
            if not path:
                return
            path = path.rpartition(b"/")[0]

    def _drop_oldest(self) -> None:
        (place, host), _ = self._until.popitem(last=False)
        self._forget(place, host)

    def _forget(self, place: Directory, host: HostId) -> None:
        self._hosts[place].discard(host)
        if not self._hosts[place]:
            del self._hosts[place]
