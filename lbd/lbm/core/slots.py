"""What this host hands out, slots and resources: who has what, and who waits. Pure.

Slots bound *foreign* jobs. A free slot goes to whoever has waited longest, of those who have least;
a command nested in a placed job never waits, since its parent may hold the very slot it would wait
for; and one that its user sent here by name (-H) does not wait for ever, since those in the slots
may be waiting for it, as the commands of a pipeline do. But nobody goes further beyond the slots
than `beyond`, and that is nothing where the owner of the host has said how many may run.

A resource is handed out by index, the lowest free ones first, or by amount where it is a size. A
job gets all that it needs at once or nothing, and slots and resources come and go together. One
that waits for a resource stands in nobody's way who does not need the same. What a job has it keeps
until its slot is free, also over a restart of the LBM, which hands its `Grant` to the next one; if
there are fewer by then, also as the owner changed what there is, it keeps what it has, and nobody
else gets that.

It is one file because a job gets slots and resources together or neither.
"""

import json
from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lbd.lbm.core.execution_events import Kind, SlotAwaited, SlotGranted, SlotRefused, Spec
from lbd.model import NO_FACTS, NO_NEEDS, Facts, JobId, Needs
from lbd.policy.needs import COUNTED_MAX, Unmet, unmet

USER_SHARE = 0.75  # of the slots, and of the places to wait for one
GPU = "gpu"

Answer = SlotGranted | SlotAwaited | SlotRefused


@dataclass(frozen=True, slots=True)
class Granted:
    """One resource, or some of it."""

    name: str
    amount: int
    indices: tuple[int, ...] = ()  # none: it is a size


@dataclass(frozen=True, slots=True)
class Grant:
    resources: tuple[Granted, ...] = ()
    memory_bytes: int = 0

    def __bool__(self) -> bool:
        return bool(self.resources or self.memory_bytes)


NOTHING = Grant()


@dataclass(slots=True)
class ResourcePool:
    features: tuple[str, ...] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    memory_total: int = 0
    held: dict[JobId, Grant] = field(default_factory=dict)
    _facts: Facts | None = None

    def become(self, other: "ResourcePool") -> None:
        """What there is has changed. Who has something keeps it, also what is there no more."""
        self.features, self.totals = other.features, other.totals
        self.memory_total, self._facts = other.memory_total, None

    def facts(self, besides: Collection[JobId] = ()) -> Facts:
        """As of now; used is what others have than those `besides`."""
        if besides and self.held:
            grants = [grant for job, grant in self.held.items() if job not in besides]
            return self._facts_of(grants)
        if self._facts is None:
            self._facts = self._facts_of(self.held.values())
        return self._facts

    def _facts_of(self, grants: Collection[Grant]) -> Facts:
        used = dict.fromkeys(self.totals, 0)
        for one in (one for grant in grants for one in grant.resources):
            used[one.name] = used.get(one.name, 0) + one.amount
        there = tuple((name, self.totals[name], used[name]) for name in sorted(self.totals))
        # A limit may be any number: of what is more than all there is nobody needs to know.
        given = min(self.memory_total, sum(grant.memory_bytes for grant in grants))
        return Facts(self.features, there, self.memory_total, given)

    def _granted(self) -> list[Granted]:
        return [one for grant in self.held.values() for one in grant.resources]

    def unmet(self, needs: Needs) -> Unmet | None:
        return unmet(needs, self.facts()) if needs else None

    def take(self, job: JobId, needs: Needs = NO_NEEDS) -> bool:
        """All that it needs, or False."""
        if not needs.is_given:
            return True
        if self.unmet(needs) is not None:
            return False
        granted = tuple(self._grant(name, amount) for name, amount in needs.resources)
        self.hold(job, Grant(granted, needs.memory_bytes + needs.counted_bytes))
        return True

    def _grant(self, name: str, amount: int) -> Granted:
        total = self.totals[name]
        if total > COUNTED_MAX:
            return Granted(name, amount)
        taken = {i for one in self._granted() if one.name == name for i in one.indices}
        free = [index for index in range(total) if index not in taken]
        return Granted(name, amount, tuple(free[:amount]))

    def hold(self, job: JobId, grant: Grant) -> None:
        """What it was given, here or by the LBM before."""
        if grant:
            self.held[job] = grant
            self._facts = None

    def free(self, job: JobId) -> None:
        if self.held.pop(job, None) is not None:
            self._facts = None

    def grant_of(self, job: JobId) -> Grant:
        return self.held.get(job, NOTHING)


def granted_text(grant: Grant) -> str:
    """`gpu 0,1; scratch 5`: the indices, or how much."""
    return "; ".join(
        f"{one.name} {','.join(map(str, one.indices)) or one.amount}" for one in grant.resources
    )


def variables(grant: Grant) -> dict[bytes, bytes]:
    """By which a command learns what it was given."""
    found: dict[bytes, bytes] = {}
    for one in grant.resources:
        indices = ",".join(map(str, one.indices)) or str(one.amount)
        name = one.name.upper().replace("-", "_").replace(".", "_")
        found[b"LBD_RESOURCE_" + name.encode()] = indices.encode()
        if one.name == GPU and one.indices:
            found[b"CUDA_VISIBLE_DEVICES"] = indices.encode()
    return found


@dataclass(slots=True)
class Slots:
    """`total` foreign jobs at once, a bounded queue behind them.

    One user may have them all while nobody else wants any. Then whoever has more than USER_SHARE
    makes room: not by losing a job, but by others going beyond the slots, as many as are left of
    the share. So nobody starves, and the host has at most that much more to do.
    """

    total: int
    beyond: int = 1 << 16  # so many more may run at most
    max_waiting: int = 0
    holders: set[JobId] = field(default_factory=set)
    waiting: OrderedDict[JobId, None] = field(default_factory=OrderedDict)
    users: dict[JobId, str] = field(default_factory=dict)  # of both; "" = not known
    widths: dict[JobId, int] = field(default_factory=dict)  # of holders of more than one slot
    wanted: dict[JobId, int] = field(default_factory=dict)  # by who waits for more than one
    needs: dict[JobId, Needs] = field(default_factory=dict)  # of those that wait
    pool: ResourcePool = field(default_factory=ResourcePool)

    def take(
        self,
        job: JobId,
        user: str = "",
        *,
        beyond: bool = False,
        slots: tuple[int, int] = (1, 1),
        needs: Needs = NO_NEEDS,
    ) -> bool:
        """A slot now, or False; with `slots` at least and at most so many. `beyond`: nested and
        named by its user, so it may exceed."""
        least, most = slots
        is_free = self.used + least <= self.total and not self._goes_behind(needs)
        may_exceed = beyond or (least == 1 and self._makes_room(user))
        if not (is_free or (may_exceed and self._is_bearable(least))):
            return False
        if not self.pool.take(job, needs):
            return False
        self.hold(job, user, max(least, min(most, self.total - self.used)))
        return True

    def take_many(self, job: JobId, user: str, width: int, needs: Needs = NO_NEEDS) -> bool:
        """So many at once, for a job of the queue; one is taken as by anybody else."""
        if width < 2:
            return self.take(job, user, needs=needs)
        if self._goes_behind(needs) or self.used + width > self.total:
            return False
        if not self.pool.take(job, needs):
            return False
        self.hold(job, user, width)
        return True

    def hold(self, job: JobId, user: str, width: int = 1, grant: Grant = NOTHING) -> None:
        """Whatever is free: it runs. `grant`: what an LBM before us gave it."""
        self.holders.add(job)
        self.users[job] = user
        if width > 1:
            self.widths[job] = width
        self.pool.hold(job, grant)

    def _goes_behind(self, needs: Needs) -> bool:
        """Does anybody wait for what this one wants, too?"""
        if not self.needs:
            return bool(self.waiting)
        wanted = names_of(needs)
        blocked = self._blocked()
        return any(job not in blocked or wanted & names_of(self.needs[job]) for job in self.waiting)

    def _blocked(self) -> set[JobId]:
        """Who of those that wait would have no use for a slot, as resources are."""
        blocked: set[JobId] = set()
        awaited: set[str] = set()
        for job in self.waiting:
            if (needs := self.needs.get(job)) is None:
                continue
            names = names_of(needs)
            if names & awaited or self.pool.unmet(needs) is not None:
                blocked.add(job)
                awaited |= names
        return blocked

    @property
    def used(self) -> int:
        held = len(self.holders)
        return held + sum(self.widths.values()) - len(self.widths) if self.widths else held

    @property
    def places(self) -> int:
        """For those that run and those that wait."""
        return self.total + self.max_waiting

    def has_room(self, user: str, width: int = 1) -> bool:
        makes_room = width == 1 and self._makes_room(user) and self._is_bearable(width)
        return self.used + width <= self.total or makes_room

    def _is_bearable(self, width: int) -> bool:
        """So many more, though there are no free slots?"""
        return self.used + width <= self.total + self.beyond

    @property
    def is_full(self) -> bool:
        return self.used >= self.total

    def hog(self) -> str:
        """Who has more than a share of the slots, which are all taken; "" = nobody, or others have
        had the room that is made for them."""
        if not self.is_full:
            return ""
        (user, count), *_ = self._held().most_common(1) or [("", 0)]
        room = self.used - count < self.total - self._share
        return user if count > self._share and room else ""

    def _makes_room(self, user: str) -> bool:
        return bool(user) and self.hog() not in ("", user)

    @property
    def _share(self) -> int:
        """Less than all, of however few: of one slot that is none."""
        return int(self.total * USER_SHARE)

    def _held(self) -> "Counter[str]":
        held: Counter[str] = Counter()
        for job in self.holders:
            held[self.users.get(job, "")] += self.widths.get(job, 1)
        return held

    def enqueue(self, job: JobId, user: str = "", width: int = 1, needs: Needs = NO_NEEDS) -> bool:
        """Wait for a slot, or so many; False if too many do, or too many of the same user."""
        beyond = max(0, self.used - self.total)
        if len(self.waiting) + beyond >= self.max_waiting:
            return False
        theirs = sum(self.users.get(waiting) == user for waiting in self.waiting)
        theirs += max(0, self._held()[user] - self.total)
        if user and theirs >= max(1, int(self.max_waiting * USER_SHARE)):
            return False
        self.waiting[job] = None
        self.users[job] = user
        if width > 1:
            self.wanted[job] = width
        if needs.is_given:
            self.needs[job] = needs
        return True

    def exceed(self, job: JobId) -> bool:
        """Let a waiting job run beyond the slots, if it may."""
        may = self._is_bearable(self.wanted.get(job, 1))
        if may := may and self.pool.unmet(self.needs.get(job, NO_NEEDS)) is None:
            self._run(job)
        return may

    def _run(self, job: JobId) -> None:
        self.waiting.pop(job, None)
        self.pool.take(job, self.needs.pop(job, NO_NEEDS))
        self.holders.add(job)
        if width := self.wanted.pop(job, 0):
            self.widths[job] = width

    def release(self, job: JobId) -> list[JobId]:
        """The job has ended or given up waiting. Returns who has got a slot by that."""
        self.holders.discard(job)
        self.waiting.pop(job, None)
        self.users.pop(job, None)
        self.widths.pop(job, None)
        self.wanted.pop(job, None)
        self.needs.pop(job, None)
        self.pool.free(job)
        return self._promote()

    def resize(self, total: int, beyond: int) -> list[JobId]:
        """As many from now on; nobody loses theirs. Returns who has got one by that."""
        self.total, self.beyond = total, beyond
        return self._promote()

    def _promote(self) -> list[JobId]:
        """Who has waited longest, of those whose users have the fewest."""
        promoted = []
        while self.waiting:
            held, blocked = self._held(), self._blocked() if self.needs else ()
            able = [job for job in self.waiting if job not in blocked]
            if not able:
                break
            following = min(able, key=lambda job: held[self.users.get(job, "")])
            if self.used + self.wanted.get(following, 1) > self.total:
                break
            self._run(following)
            promoted.append(following)
        return promoted


def names_of(needs: Needs) -> set[str]:
    return {name for name, _ in needs.resources}


@dataclass(slots=True)
class SlotLine:
    """Who gets a slot of this host, and who waits for one: the answers to AskSlot.

    Two kinds wait. An attached command that its user sent here by name stands in the line of
    `Slots`. An attempt that the dispatcher sent ahead of a free slot takes turns with others of its
    kind for what that line leaves, first come first served; it needs one slot, and waits for a
    moment only.
    """

    slots: Slots
    turns: OrderedDict[JobId, str] = field(default_factory=OrderedDict)  # job: its user

    def ask(self, spec: Spec) -> Answer:
        if spec.kind is Kind.QUEUED:
            return self._ask_for_attempt(spec)
        least, total = spec.slots[0], self.slots.total
        if least > total:
            return SlotRefused(f"it has {total} slots, not {least}", full=False)
        if spec.needs_no_slot:
            self.slots.hold(spec.id, spec.user)
            return SlotGranted()
        unmet = self.slots.pool.unmet(spec.needs)
        if unmet is not None and not unmet.later:
            return SlotRefused(unmet.why, full=False)
        beyond, needs = spec.may_exceed, spec.needs
        if self.slots.take(spec.id, spec.user, beyond=beyond, slots=spec.slots, needs=needs):
            return SlotGranted()
        if spec.slot_patience_s is None:
            return SlotRefused(unmet.why) if unmet is not None else none_free(least)
        if self.slots.enqueue(spec.id, spec.user, least, needs):
            return SlotAwaited()
        return SlotRefused("too many commands are waiting here", full=False)

    def _ask_for_attempt(self, spec: Spec) -> Answer:
        width, needs = spec.slots[0], spec.needs
        if not self.turns and self.slots.take_many(spec.id, spec.user, width, needs):
            return SlotGranted()
        if (unmet := self.slots.pool.unmet(needs)) is not None:
            return SlotRefused(unmet.why)
        if width > 1 or needs or spec.slot_patience_s is None:
            return none_free(width)
        self.turns[spec.id] = spec.user
        return SlotAwaited()

    def exceed(self, job: JobId) -> SlotGranted | SlotRefused:
        """May one that has waited long run beyond the slots?"""
        unmet = self.slots.pool.unmet(self.slots.needs.get(job, NO_NEEDS))
        if self.slots.exceed(job):
            return SlotGranted()
        if unmet is not None:
            return SlotRefused(unmet.why)
        most = self.slots.total + self.slots.beyond
        setting = "lbm.beyond_slots" if self.slots.beyond else "admission.slots"
        commands = "1 command runs" if most == 1 else f"{most} commands run"
        return SlotRefused(f"no free slot: at most {commands} there ({setting})")

    def free(self, job: JobId) -> list[JobId]:
        """It has ended, or waits no more. Returns who of the first line has a slot by that; the
        turns are given by `give`."""
        self.turns.pop(job, None)
        return self.slots.release(job)

    def give(self) -> list[JobId]:
        """Let attempts have what is free. Returns who has got one."""
        given: list[JobId] = []
        while self.turns:
            job, user = next(iter(self.turns.items()))
            if not self.slots.take(job, user):
                break
            del self.turns[job]
            given.append(job)
        return given


def none_free(width: int) -> SlotRefused:
    return SlotRefused("no free slot" if width < 2 else f"fewer than {width} free slots")


@dataclass(slots=True)
class OthersUse:
    """What others than the queue's attempts have of this host: as it is, and as the dispatcher was
    sent it last."""

    slots: Slots
    names: Collection[JobId]  # of the attempts
    reported: int = 0
    reported_facts: Facts = NO_FACTS

    def used(self) -> int:
        """Slots that commands from elsewhere hold or wait for."""
        slots = self.slots
        own = 0
        if self.names:
            own = sum(slots.widths.get(job, 1) for job in slots.holders if job in self.names)
        return slots.used - own + len(slots.waiting)

    def facts(self) -> Facts:
        return self.slots.pool.facts(besides=self.names)

    def note(self) -> tuple[int, Facts]:
        """It is being sent."""
        self.reported, self.reported_facts = self.used(), self.facts()
        return self.reported, self.reported_facts

    @property
    def has_changed(self) -> bool:
        return self.used() != self.reported or self.facts() != self.reported_facts

    @property
    def may_be_less(self) -> bool:
        return self.used() < self.reported or self.facts() != self.reported_facts


@dataclass(frozen=True, slots=True)
class Belongings:
    """What a command holds of its host.

    An LBM that is killed hands nothing over, and its keeper ends what it ran. That takes a while:
    what ignores TERM lives until KILL. So the keeper remembers of each command what it holds of the
    host, in bytes that it does not look into, and says it to the next LBM, for which the command
    holds all that until its whole tree is gone. Without that another command would get the same GPU
    meanwhile.
    """

    width: int = 1  # slots
    grant: Grant = NOTHING


ONE_SLOT = Belongings()


def pack_belongings(held: Belongings) -> bytes:
    """Nothing, of a command with one slot."""
    if held == ONE_SLOT:
        return b""
    resources = [[one.name, one.amount, one.indices] for one in held.grant.resources]
    return json.dumps([held.width, resources, held.grant.memory_bytes]).encode()


def read_belongings(data: bytes) -> Belongings:
    """Raises ValueError."""
    if not data:
        return ONE_SLOT
    try:
        width, resources, memory_bytes = json.loads(data)
        grant = Grant(
            tuple(
                Granted(str(name), int(amount), tuple(map(int, indices)))
                for name, amount, indices in resources
            ),
            int(memory_bytes),
        )
        return Belongings(max(1, int(width)), grant)
    except (ValueError, TypeError) as problem:
        raise ValueError(f"a command's state cannot be read: {problem}") from None
