"""The search for a host that takes a command: which hosts are excluded, when to give up.

Excluded are the hosts that the user excluded or that have refused the command; those that recently
said they lack its directory or its program; those that have too few free slots for it; and, until
there may be room again, those that had no free slot a moment ago. Other reasons for a refusal do
not pass so soon. What is known about other hosts may be old: the host itself has the last word.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lbd.lbm.core.environment import names_shown
from lbd.lbm.core.journey_events import (
    LBRUN_FAILED,
    NOT_FOUND,
    TAKE_ALONG,
    Looked,
    Question,
    Refused,
    Slots,
)
from lbd.model import NO_NEEDS, HostId, Needs, quick_value
from lbd.text.placement_phrases import ALL_OTHERS_EXCLUDED

MAX_TRIES = 8
REASONS_SHOWN = 3
NOWHERE = HostId("")
Directory = tuple[int, int, bytes]  # user, device, path


class Failure(NamedTuple):
    """How `lbrun` ends for a command that ran nowhere."""

    why: str
    status: int = LBRUN_FAILED


@quick_value
class Demands:
    """What the command's user asks for, and what follows from where it was called."""

    name: str  # of the program, for people
    mode: str = "auto"  # auto | remote | host
    host: HostId | None = None
    excluded: frozenset[HostId] = frozenset()
    slots: tuple[int, int] = (1, 1)  # minimum and maximum
    timeout_s: float = 0.0
    memory_bytes: int = 0
    may_fall_back: bool = True
    may_restart: bool = True
    # it moved too often already, or is the very command that was placed here
    must_stay: bool = False
    only_asks: bool = False  # the caller wants Away rather than a start
    is_staged: bool = False  # it brings its files along
    needs: Needs = NO_NEEDS
    stays_as: str = "asked-to-stay"  # the reason if it must


@quick_value
class Bounds:
    """The limits set on this host."""

    own: HostId
    hold_limit_s: float  # of the wait for room
    evicted_wait_s: float  # of an evicted command's wait for a host that takes it
    has_peers: bool = True


@quick_value
class Place:
    host: HostId = NOWHERE
    address: str = ""
    reason: str = ""


@dataclass(slots=True)
class Eviction:
    """The last eviction of a command, which has waited for another host since, or has found one."""

    host: HostId = NOWHERE
    began_s: float = 0.0
    has_warned: bool = False

    def given_up(self, why: str, limit_s: float, now_s: float) -> str:
        """Returns why the command is given up, or "" while it may wait on. `why`: why no host takes
        it now."""
        if now_s < self.began_s + limit_s:
            return ""
        within = f"no host took it within {limit_s:g} s (lbm.sent_away_wait_s)"
        return f"the owner of {self.host} is back, and {within}: {why}"

    def warning(self, why: str) -> str:
        """Returns the warning the first time, then ""."""
        if self.has_warned:
            return ""
        self.has_warned = True
        waits = "waits to begin again on another host, or there once the owner has gone"
        return (
            f"the owner of {self.host} is back, so the command was ended there; it {waits}: {why}"
        )


@dataclass(slots=True)
class Search:
    """All that is known about where a command may go.

    One class because a question to the LIM is made of all of it.
    """

    demands: Demands
    bounds: Bounds
    excluded: set[HostId] = field(default_factory=set)  # by the user, or by a refusal
    lacking: set[HostId] = field(default_factory=set)  # hosts that lack what it needs
    left_out: str = ""  # `lacking` in words, for people
    lacks_program: bool = False  # what one of `lacking` lacks is its program
    full: set[HostId] = field(default_factory=set)  # hosts that were full a moment ago
    refusals: list[tuple[HostId, Refused]] = field(default_factory=list)
    tries: int = 0
    give_up_s: float = 0.0  # when to stop waiting for room
    is_patient: bool = True  # `give_up_s` has not come yet
    eviction: Eviction = field(default_factory=Eviction)
    asked_lim: bool = False
    has_moved: bool = False  # the named host is not at the address that we had
    is_unseen: bool = False  # its directory cannot be examined here, so it should stay
    is_too_wide: bool = False  # this host has too few free slots for it
    slots_here: int = 0  # slots it may use if it stays; 0 = it asked for one only

    def again(self) -> None:
        """Starts the search again, but keeps what was learnt about the command itself."""
        self.excluded, self.tries = set(self.demands.excluded), 0
        self.full.clear()
        self.refusals.clear()

    # -- the question ------------------------------------------------------------------------------

    @property
    def must_leave(self) -> bool:
        """An evicted command has no caller here any more that could run it."""
        return self.demands.mode == "remote" or self.is_too_wide or self.eviction.host != NOWHERE

    @property
    def must_stay(self) -> bool:
        return (self.demands.must_stay or self.is_unseen) and self.demands.mode == "auto"

    @property
    def needs_slots(self) -> bool:
        return self.demands.slots[1] > 1 and not self.must_stay

    @property
    def goes_anywhere(self) -> bool:
        """Whether it goes to any host, even one that lacks what it needs."""
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

    # -- what was reported -------------------------------------------------------------------------

    def looked(self, looked: Looked) -> None:
        self.lacking, self.left_out = set(looked.lacking), looked.left_out
        self.lacks_program = looked.lacks_program

    def is_known_at(self, address: str) -> bool:
        """Whether the named host is known at this address, so that there is no need to ask the
        LIM.
        """
        return bool(address) and self.demands.host is not None and not self.has_moved

    def counted(self, slots: Slots) -> str:
        """Notes the slots of all hosts that are up. Returns why none will ever do, "" if one might.
        A command for a named host waits there."""
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
        """Whether it must leave, and none of these hosts is left for it at present."""
        left = set(hosts) - self.left_over - {self.bounds.own}
        return self.demands.host is None and self.must_leave and not left

    def why_nobody(self, reason: str) -> Failure:
        """Returns how a command ends that no host can take. `reason`: why, from the LIM."""
        if self.eviction.host:
            return Failure(self._why_not_moved(reason))
        if self.refusals and self.demands.mode != "auto":
            return failure_of(self.refusals)
        if reason == ALL_OTHERS_EXCLUDED and self.left_out and not self.demands.excluded:
            reason = ""  # only because of what they lack
        given = as_excluded(reason, self.demands.excluded)
        why = "; ".join(filter(None, (given, self.left_out)))
        return Failure(why, NOT_FOUND if self.lacks_program else LBRUN_FAILED)

    def _why_not_moved(self, reason: str) -> str:
        """`reason`: why no host can take an evicted command, from the LIM. The host that it must
        leave is left out of the question, and nobody has excluded it."""
        if reason != ALL_OTHERS_EXCLUDED:
            return reason
        excluded = self.demands.excluded
        user = f"-x: {names_shown(list(excluded))}" if excluded else ""
        but = "; ".join(filter(None, (user, self.left_out)))
        none = f"no other is left ({but})" if but else "there is no other"
        return f"{none}, and it does not return to {self.bounds.own}, where it was typed"

    def refused(self, host: HostId, answer: Refused) -> None:
        self.refusals.append((host, answer))
        self.excluded.add(host)

    def may_try_again(self, host: HostId) -> bool:
        """Whether to try another host after this one did not take it. For a command that may not
        run here, a full host does not count as a try, but is a reason to wait."""
        self.tries += not (self.must_leave and host in self.full)
        return self.tries < MAX_TRIES

    def why_here(self, reason: str) -> str:
        """Returns why it stays: the LIM's reason, or what it was not asked for."""
        if reason == "asked-to-stay" and self.must_stay:
            return self.demands.stays_as if self.demands.must_stay else "unseen-directory"
        if reason == "no-willing-host" and self.full:  # they were left out of the question
            return "no-free-slot"
        return reason

    # -- may it run here? --------------------------------------------------------------------------

    @property
    def fault(self) -> str:
        """The fault of a host that should have taken it. That an owner does not want it is no
        fault."""
        faults = (r for _, r in self._failures if r.fault or r.phase != "admission")
        return next((fault.reason for fault in faults), "")

    @property
    def why_not_here(self) -> Failure | None:
        """How it ends, because its user's choice forbids running here after others have refused it;
        None if it may run here."""
        failures = self._failures
        if failures and (self._is_strict or not self.demands.may_fall_back):
            return failure_of(failures)
        if self.fault and self.bounds.own in self.demands.excluded:
            return Failure(f"{self.fault}, and --exclude forbids running here")
        return None

    @property
    def _failures(self) -> list[tuple[HostId, Refused]]:
        """The refusals, without those of hosts that were no candidates, unless it had to be one of
        those."""
        return [r for r in self.refusals if self._is_strict or not r[1].lacks_something]

    @property
    def _is_strict(self) -> bool:
        return self.demands.mode != "auto" or self.is_too_wide


def as_excluded(reason: str, excluded: Collection[str]) -> str:
    """`reason`, why no host can take a command, with the user's own exclusions added."""
    return f"{reason} (-x: {names_shown(list(excluded))})" if excluded else reason


def failure_of(refusals: Sequence[tuple[HostId, Refused]], otherwise: str = "") -> Failure:
    """`refusals`: the last decides the exit status; `otherwise`: why it fails if there is none."""
    if not refusals:
        return Failure(otherwise)
    return Failure(refused_by(refusals), refusals[-1][1].status)


def refused_by(refusals: Collection[tuple[HostId, Refused]]) -> str:
    """Returns who refused a command and why, hosts with the same reason together; "" if nobody."""
    hosts: dict[str, list[str]] = {}
    takes_along = ""
    for host, answer in refusals:
        said = answer.advice.removesuffix(f"; {TAKE_ALONG}")
        takes_along = takes_along or (TAKE_ALONG if said != answer.advice else "")
        why = said.removeprefix(f"{host}: ")
        hosts.setdefault(why, []).extend([host] if why != said else [])
    reasons = [
        f"{names_shown(list(dict.fromkeys(named)))}: {why}" if named else why
        for why, named in hosts.items()
    ]
    more = len(reasons) - REASONS_SHOWN
    left_out = f"{more} more {'reason' if more == 1 else 'reasons'}" if more > 0 else ""
    return "; ".join(filter(None, (*reasons[:REASONS_SHOWN], left_out, takes_along)))


def too_few(least: int, able: Mapping[HostId, int], named: HostId | None) -> str:
    """`able`: the slots of each host that may be used."""
    most = max(able.values())
    if named is not None:
        return f"-n {least}: {named} has {most} slots"
    largest = max(able, key=lambda name: (able[name], name))
    return f"-n {least}: no host has {least} slots; the largest is {largest} with {most}"


@dataclass(slots=True)
class Unshared:
    """Which hosts recently said that they do not share which directories.

    A directory that is not shared has nothing shared below it, within one file system of this host.
    So one refusal covers a whole tree, but a refusal for "/" does not cover what is mounted in it.
    Entries are per user, because one user may be let in where another is not. They expire after a
    while: a mount may come back.
    """

    kept_s: float
    limit: int = 4096
    _until: "OrderedDict[tuple[Directory, HostId], float]" = field(default_factory=OrderedDict)
    _hosts: dict[Directory, set[HostId]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._until)

    def note(self, uid: int, device: int, directory: bytes, host: HostId, now_s: float) -> None:
        """Notes that this host has just said that its directory is a different one, or does not
        exist."""
        place = (uid, device, directory.rstrip(b"/"))
        self._until[place, host] = now_s + self.kept_s
        self._until.move_to_end((place, host))
        self._hosts.setdefault(place, set()).add(host)
        if len(self._until) > self.limit:
            self._drop_oldest()

    def hosts(self, uid: int, device: int, directory: bytes, now_s: float) -> set[HostId]:
        """Returns the hosts that need not be asked about the directory."""
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
        """Notes that the host has just run a command there: what it said before is outdated."""
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
