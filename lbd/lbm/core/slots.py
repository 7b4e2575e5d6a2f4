"""What this host hands out, slots and resources: who holds what, and who waits. Pure.

Slots bound *foreign* jobs. A free slot goes to the job that has waited longest, among those of the
users that hold least. A command nested in a placed job never waits, since its parent may hold the
very slot it would wait for. A command that its user sent here by name (-H) does not wait for ever,
since the jobs in the slots may be waiting for it, as the commands of a pipeline do. But nobody
exceeds the slots by more than `beyond`, which is zero where the owner of the host has said how many
jobs may run.

A resource is handed out by index, the lowest free ones first, or by amount if it is a size. A job
gets all that it needs at once or nothing, and slots and resources are taken and freed together. A
job that waits for a resource does not block jobs that need other resources. A job keeps what it was
granted until its slot is free, also across a restart of the LBM, which hands its `Grant` to the
next one. If fewer exist by then, or the owner has changed the totals, the job keeps what it has,
and nobody else gets that.

It is one file because a job gets slots and resources together or neither.
"""

import json
import math
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter

from lbd.lbm.core.execution_events import Kind, SlotAwaited, SlotGranted, SlotRefused, Spec
from lbd.lbm.core.kept_free import SLOTS, Kept, KeptFree
from lbd.model import NO_FACTS, NO_NEEDS, Facts, JobId, Needs
from lbd.policy.needs import COUNTED_MAX, Unmet, unmet

USER_SHARE = 0.75  # of the slots, and of the places to wait for one
USER_WISHES = 256  # different ones of one user
TOO_MANY_WAIT = "too many commands are waiting here, or too many that each want something else"
GPU = "gpu"

Answer = SlotGranted | SlotAwaited | SlotRefused


@dataclass(frozen=True, slots=True)
class Granted:
    """One resource, or some of it."""

    name: str
    amount: int
    indices: tuple[int, ...] = ()  # empty if the resource is a size


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
        """Takes the totals of `other`. Jobs keep what they hold, even if it no longer exists."""
        self.features, self.totals = other.features, other.totals
        self.memory_total, self._facts = other.memory_total, None

    def facts(self, besides: Collection[JobId] = ()) -> Facts:
        """The current state; used is what is held by jobs other than `besides`."""
        if besides and self.held:
            grants = [grant for job, grant in self.held.items() if job not in besides]
            return self.facts_with(grants)
        if self._facts is None:
            self._facts = self.facts_with(self.held.values())
        return self._facts

    def facts_with(self, grants: Collection[Grant]) -> Facts:
        used = dict.fromkeys(self.totals, 0)
        for one in (one for grant in grants for one in grant.resources):
            used[one.name] = used.get(one.name, 0) + one.amount
        there = tuple((name, self.totals[name], used[name]) for name in sorted(self.totals))
        # A memory limit may be any number; amounts beyond the total need not be known.
        given = min(self.memory_total, sum(grant.memory_bytes for grant in grants))
        return Facts(self.features, there, self.memory_total, given)

    def _granted(self) -> list[Granted]:
        return [one for grant in self.held.values() for one in grant.resources]

    def unmet(self, needs: Needs) -> Unmet | None:
        return unmet(needs, self.facts()) if needs else None

    def take(self, job: JobId, needs: Needs = NO_NEEDS) -> bool:
        """Takes all that the job needs and returns True, or takes nothing."""
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
        """Notes what the job was granted, here or by the LBM before."""
        if grant:
            self.held[job] = grant
            self._facts = None

    def free(self, job: JobId) -> None:
        if self.held.pop(job, None) is not None:
            self._facts = None

    def grant_of(self, job: JobId) -> Grant:
        return self.held.get(job, NOTHING)


def granted_text(grant: Grant) -> str:
    """`gpu 0,1; scratch 5`: the indices, or the amount."""
    return "; ".join(
        f"{one.name} {','.join(map(str, one.indices)) or one.amount}" for one in grant.resources
    )


def variables(grant: Grant) -> dict[bytes, bytes]:
    """The environment variables that tell a command what it was granted."""
    found: dict[bytes, bytes] = {}
    for one in grant.resources:
        indices = ",".join(map(str, one.indices)) or str(one.amount)
        name = one.name.upper().replace("-", "_").replace(".", "_")
        found[b"LBD_RESOURCE_" + name.encode()] = indices.encode()
        if one.name == GPU and one.indices:
            found[b"CUDA_VISIBLE_DEVICES"] = indices.encode()
    return found


@dataclass(frozen=True, slots=True)
class InFront:
    """What waits for others, and so comes before any job that comes now."""

    jobs: int = 0  # that could use a slot now, so that every other goes behind them
    names: frozenset[str] = frozenset()  # of the resources that they want


NOBODY = InFront()


@dataclass(slots=True, eq=False)
class Wish:
    """What waiting jobs of one user want. Most users send thousands of the same kind, if so many:
    what they lack is looked up once for all of these."""

    user: str  # "" = not known
    width: int
    needs: Needs
    names: set[str]  # of the resources
    jobs: OrderedDict[JobId, None] = field(default_factory=OrderedDict)


@dataclass(slots=True)
class Slots:
    """`total` foreign jobs at once, with a bounded queue behind them.

    One class because who gets what depends on all who hold something and all who wait.

    One user may have all slots while nobody else wants any. Then a user with more than USER_SHARE
    makes room: not by losing a job, but by others exceeding the slots, by as many as the share
    leaves. Jobs that their users have sent here by name may exceed the slots, too; of all places,
    those beyond the slots included, one user has a share as well. So no user starves, and the host
    runs at most `beyond` more.
    """

    total: int
    beyond: int = 1 << 16  # how many more may run at most
    max_waiting: int = 0
    holders: set[JobId] = field(default_factory=set)
    waiting: OrderedDict[JobId, Wish] = field(default_factory=OrderedDict)
    users: dict[JobId, str] = field(default_factory=dict)  # of all these jobs; "" = not known
    widths: dict[JobId, int] = field(default_factory=dict)  # of holders of more than one slot
    pool: ResourcePool = field(default_factory=ResourcePool)
    kept_free: KeptFree = field(default_factory=KeptFree)
    # Slots of each user. Kept up to date: counting all holders at each end takes longer.
    _held: Counter[str] = field(init=False, default_factory=Counter)
    _wishes: dict[tuple[str, int, Needs], Wish] = field(init=False, default_factory=dict)

    def take(
        self,
        job: JobId,
        user: str = "",
        *,
        beyond: bool = False,
        slots: tuple[int, int] = (1, 1),
        needs: Needs = NO_NEEDS,
    ) -> bool:
        """Takes a slot now, or returns False; with `slots`, the minimum and maximum number.
        `beyond`: nested or named by its user, so it may exceed the slots."""
        least, most = slots
        if self.used + least > self.total or self._goes_behind(needs):
            may_exceed = beyond or (least == 1 and self._makes_room(user))
            if not (may_exceed and self._is_bearable(user, least)):
                return False
        if not self.pool.take(job, needs):
            return False
        self.hold(job, user, max(least, min(most, self.total - self.used)))
        return True

    def take_many(self, job: JobId, user: str, width: int, needs: Needs = NO_NEEDS) -> bool:
        """Takes that many slots at once, for a job of the queue; a single slot is taken as by any
        job."""
        if width < 2:
            return self.take(job, user, needs=needs)
        if self._goes_behind(needs) or self.used + width > self.total:
            return False
        if not self.pool.take(job, needs):
            return False
        self.hold(job, user, width)
        return True

    def hold(self, job: JobId, user: str, width: int = 1, grant: Grant = NOTHING) -> None:
        """Counts a job that runs already, whatever is free. `grant`: what an LBM before granted
        it.
        """
        self._give(job, user, width)
        self.pool.hold(job, grant)

    def pass_to(self, now_s: float) -> list[JobId]:
        """Notes the time. To be called after each change, and now and then in between: as time
        passes, waiting jobs cease to keep what is free from others, and begin to again. Returns the
        jobs that got a slot by that."""
        has_paused = self.kept_free.pass_to(now_s)
        promoted = self._promote() if has_paused else []
        self.kept_free.kept = self._kept() if self.waiting else frozenset()
        return promoted

    def _kept(self) -> set[Kept]:
        """What is free and kept from others, and by whom: the first in line for it counts."""
        free, wishes = self.total - self.used, self._wishes.values()
        if not any(one.needs.resources or (one.width > 1 and free > 0) for one in wishes):
            return set()  # each wants any slot, or none is free
        passed = self._passed_over()
        firsts: dict[str, Wish] = {}
        left = {name for name, total, used in self.pool.facts().resources if used < total}
        for wish in self._in_line():
            if wish not in passed:
                firsts |= dict.fromkeys(wish.names & left, wish)
                left -= firsts.keys()
        if free > 0 and (wide := [one for one in self._able(passed) if one.width > free]):
            firsts[SLOTS] = min(wide, key=self._held_by_user)
        return {(wish.user, what) for what, wish in firsts.items()}

    def ahead(self) -> InFront:
        if not self.waiting:
            return NOBODY
        passed = self._passed_over()
        wanting = (wish for wish in self._wishes.values() if wish not in passed)
        names = frozenset(name for wish in wanting for name in wish.names)
        return InFront(sum(len(wish.jobs) for wish in self._able(passed)), names)

    def _passed_over(self) -> set[Wish]:
        """Those that keep nobody from anything. Some could not run though only their users' jobs
        were here: a user who holds a slot, or a GPU, could have all the others idle. The users of
        others have kept what is free for long enough; they run once all that they need is."""
        wishes = self._wishes.values()
        found = {wish for wish in wishes if self._keeps_no_slots(wish)}
        if any(wish.needs.is_given for wish in wishes):
            grants: dict[str, list[Grant]] = {}
            for job, grant in self.pool.held.items():
                grants.setdefault(self.users.get(job, ""), []).append(grant)
            own = {user: self.pool.facts_with(grants[user] if user else ()) for user in grants}
            nothing = self.pool.facts_with(())
            for wish in wishes:
                lack = unmet(wish.needs, own.get(wish.user, nothing))
                if lack is not None or self._pauses(wish, wish.names):
                    found.add(wish)
        return found

    def _keeps_no_slots(self, wish: Wish) -> bool:
        """Whether it needs more slots than there are beside those of its user, or than its user may
        keep free at present."""
        is_too_wide = wish.width + (self._held[wish.user] if wish.user else 0) > self.total
        return is_too_wide or (wish.width > 1 and self._pauses(wish, (SLOTS,)))

    def _pauses(self, wish: Wish, what: Collection[str]) -> bool:
        """Whether it cannot run now, and its user may not keep some of this from others."""
        if not (pausing := self.kept_free.pausing):
            return False
        return any((wish.user, one) in pausing for one in what) and not (
            self._fits(wish) and self.pool.unmet(wish.needs) is None
        )

    def _fits(self, wish: Wish) -> bool:
        return self.used + wish.width <= self.total

    def _held_by_user(self, wish: Wish) -> int:
        return self._held[wish.user]

    def _goes_behind(self, needs: Needs) -> bool:
        """Whether a waiting job wants what this one wants, and waits for others."""
        if not self.waiting:
            return False
        passed, names = self._passed_over(), names_of(needs)
        wanting = (wish for wish in self._wishes.values() if wish not in passed)
        return any(names & wish.names for wish in wanting) or bool(self._able(passed))

    def _able(self, passed: set[Wish]) -> list[Wish]:
        """What could be had at present, in the order of the jobs: neither `passed` over, nor in
        need of resources that are not free or that one before waits for."""
        able, awaited = list[Wish](), set[str]()
        for wish in self._in_line():
            if wish in passed:
                continue
            if awaited.isdisjoint(wish.names) and self.pool.unmet(wish.needs) is None:
                able.append(wish)
            else:
                awaited |= wish.names
        return able

    def _in_line(self) -> Iterable[Wish]:
        """In the order of the first job of each."""
        return dict.fromkeys(self.waiting.values())

    @property
    def used(self) -> int:
        held = len(self.holders)
        return held + sum(self.widths.values()) - len(self.widths) if self.widths else held

    @property
    def places(self) -> int:
        """The number of jobs that can run or wait."""
        return self.total + self.max_waiting

    def has_room(self, user: str, width: int = 1) -> bool:
        makes_room = width == 1 and self._makes_room(user) and self._is_bearable(user, width)
        return self.used + width <= self.total or makes_room

    def _is_bearable(self, user: str, width: int) -> bool:
        """Whether so many more of this user may run, though no slots are free."""
        is_room = self.used + width <= self.total + self.beyond
        return is_room and not self.is_beyond_share(user, width)

    @property
    def user_places(self) -> int:
        """How many slots, and places beyond them, one user may have by exceeding the slots:
        all of two or three."""
        return math.ceil((self.total + self.beyond) * USER_SHARE)

    def is_beyond_share(self, user: str, width: int) -> bool:
        """Whether a user with so many more would leave too few places to others."""
        return bool(user) and self._held[user] + width > self.user_places

    @property
    def is_full(self) -> bool:
        return self.used >= self.total

    def hog(self) -> str:
        """The user who has more than a share of the slots while all are taken; "" = nobody, or the
        room made for others is used up."""
        return self.room_beside_hog()[0]

    def room_beside_hog(self, besides: Collection[JobId] = ()) -> tuple[str, int]:
        """Returns the user who has more than a share of the slots while all are taken, and how many
        slots others may have in addition; ("", 0) if there is nobody or no room. All this without
        the jobs `besides`: some of that room may be theirs."""
        own = [job for job in self.holders if job in besides] if besides else []
        used = self.used - sum(self.widths.get(job, 1) for job in own)
        if used < self.total:
            return "", 0
        held = self._held
        if own:
            held = held.copy()
            for job in own:
                held[self.users.get(job, "")] -= self.widths.get(job, 1)
        user, count = max(held.items(), key=itemgetter(1), default=("", 0))
        room = min(self.total - self._share + count, self.total + self.beyond) - used
        is_hog = bool(user) and count > self._share and room > 0
        return (user, room) if is_hog else ("", 0)

    def _makes_room(self, user: str) -> bool:
        is_hog = self._held[user] > self._share  # then nobody else is
        return bool(user) and not is_hog and bool(self.hog())

    @property
    def _share(self) -> int:
        """Less than all slots, however few there are; of one slot, none."""
        return int(self.total * USER_SHARE)

    def _give(self, job: JobId, user: str, width: int) -> None:
        """Gives a job so many slots, instead of those that it holds."""
        self._let_go(job)
        self.holders.add(job)
        self.users[job] = user
        self._held[user] += width
        if width > 1:
            self.widths[job] = width

    def _let_go(self, job: JobId) -> None:
        """Takes its slots from a job, if it holds any."""
        if job not in self.holders:
            return
        self.holders.remove(job)
        user = self.users.get(job, "")
        self._held[user] -= self.widths.pop(job, 1)
        if not self._held[user]:
            del self._held[user]

    def enqueue(self, job: JobId, user: str = "", width: int = 1, needs: Needs = NO_NEEDS) -> bool:
        """Queues a job for a slot, or so many. Returns False if too many jobs wait, or too many of
        the same user."""
        beyond = max(0, self.used - self.total)
        if len(self.waiting) + beyond >= self.max_waiting:
            return False
        theirs = [wish for wish in self._wishes.values() if wish.user == user]
        count = sum(len(wish.jobs) for wish in theirs) + max(0, self._held[user] - self.total)
        if user and count >= max(1, int(self.max_waiting * USER_SHARE)):
            return False
        key = user, width, needs
        if key not in self._wishes and len(theirs) >= USER_WISHES:
            return False
        self.waiting[job] = wish = self._wishes.setdefault(key, Wish(*key, names_of(needs)))
        self.users[job] = user
        wish.jobs[job] = None
        return True

    def _stop_waiting(self, job: JobId) -> None:
        if (wish := self.waiting.pop(job, None)) is not None:
            del wish.jobs[job]
            if not wish.jobs:
                del self._wishes[wish.user, wish.width, wish.needs]

    def exceed(self, job: JobId) -> bool:
        """Lets a waiting job run beyond the slots, if it may."""
        if (wish := self.waiting.get(job)) is None:
            return job in self.holders
        may = self._is_bearable(wish.user, wish.width) and self.pool.unmet(wish.needs) is None
        if may:
            self._run(job, wish)
        return may

    def _run(self, job: JobId, wish: Wish) -> None:
        self._stop_waiting(job)
        self.pool.take(job, wish.needs)
        self._give(job, wish.user, wish.width)

    def release(self, job: JobId) -> list[JobId]:
        """Removes a job that has ended or given up waiting. Returns the jobs that got a slot by
        that."""
        self._let_go(job)
        self._stop_waiting(job)
        self.users.pop(job, None)
        self.pool.free(job)
        return self._promote() if self.waiting else []

    def resize(self, total: int, beyond: int) -> list[JobId]:
        """Changes the number of slots; nobody loses theirs. Returns the jobs that got one by
        that.
        """
        self.total, self.beyond = total, beyond
        return self._promote()

    def _promote(self) -> list[JobId]:
        """Promotes the job that has waited longest, among those of the users who hold the
        fewest.
        """
        promoted = []
        while self.waiting:
            able = self._able(self._passed_over())
            if not able or not self._fits(wish := min(able, key=self._held_by_user)):
                break
            promoted.append(job := next(iter(wish.jobs)))
            self._run(job, wish)
        return promoted


def use_of(slots: Slots) -> str:
    """Returns how many are taken, for people: `3 in use of 1`."""
    return f"{slots.used} in use of {slots.total}"


def names_of(needs: Needs) -> set[str]:
    return {name for name, _ in needs.resources}


@dataclass(slots=True)
class SlotLine:
    """Which jobs get a slot of this host, and which wait for one: the answers to AskSlot.

    Two kinds of jobs wait. An attached command that its user sent here by name waits in the line of
    `Slots`. An attempt that the dispatcher sent ahead of a free slot takes turns with others of its
    kind for what that line leaves, first come first served; it needs one slot, and waits only for a
    moment.
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
        return SlotRefused(TOO_MANY_WAIT, full=False)

    def _ask_for_attempt(self, spec: Spec) -> Answer:
        width, needs = spec.slots[0], spec.needs
        if not self.turns and self.slots.take_many(spec.id, spec.user, width, needs):
            return SlotGranted()
        if (unmet := self.slots.pool.unmet(needs)) is not None:
            return SlotRefused(unmet.why, full=unmet.later)
        if width > 1 or needs or spec.slot_patience_s is None:
            return none_free(width)
        self.turns[spec.id] = spec.user
        return SlotAwaited()

    def exceed(self, job: JobId) -> SlotGranted | SlotRefused:
        """Answers whether a job that has waited long may run beyond the slots."""
        wish = self.slots.waiting.get(job)
        unmet = self.slots.pool.unmet(wish.needs) if wish is not None else None
        if self.slots.exceed(job):
            return SlotGranted()
        if unmet is not None:
            return SlotRefused(unmet.why)
        slots, whose = self.slots, ""
        most, setting = slots.total + slots.beyond, "lbm.beyond_slots"
        if not slots.beyond:
            setting = "admission.slots"
        elif wish is not None and slots.used + wish.width <= most:
            most, whose = slots.user_places, " of one user"
        commands = f"1 command{whose} runs" if most == 1 else f"{most} commands{whose} run"
        return SlotRefused(f"no free slot: at most {commands} there ({setting})")

    def free(self, job: JobId) -> list[JobId]:
        """Removes a job that has ended or given up waiting. Returns the jobs of the first line that
        got a slot by that; `give` hands out the turns."""
        self.turns.pop(job, None)
        return self.slots.release(job)

    def give(self) -> list[JobId]:
        """Gives attempts what is free. Returns the attempts that got a slot."""
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


@dataclass(frozen=True, slots=True)
class Use:
    """What jobs other than the queue's attempts use of a host."""

    slots: int = 0
    facts: Facts = NO_FACTS
    hog: str = ""  # the user whose commands hold all slots, so that others may have more
    beside_hog: int = 0  # slots that attempts of other users may have then


@dataclass(slots=True)
class OthersUse:
    """What jobs other than the queue's attempts use of this host: now, and in the last report to
    the dispatcher."""

    slots: Slots
    names: set[JobId]  # of the attempts
    reported: Use = Use()
    _alone: Use = Use()  # with what nobody else uses

    def _used(self, ahead: InFront) -> int:
        """Slots that commands from elsewhere hold or wait for: all that attempts do not hold if an
        attempt would go behind one that waits. It would be refused, and sent again at once. One
        that waits for a resource alone leaves the slots to what needs none of it."""
        slots = self.slots
        own = 0
        if self.names:
            own = sum(slots.widths.get(job, 1) for job in slots.holders if job in self.names)
        others = slots.used + ahead.jobs
        return (max(others, slots.total) if ahead.jobs else others) - own

    def _facts(self, ahead: InFront) -> Facts:
        """Nothing is left of the resources that a command waits for."""
        facts = self.slots.pool.facts(besides=self.names)
        if not ahead.names:
            return facts
        left = tuple(
            (name, total, total if name in ahead.names else used)
            for name, total, used in facts.resources
        )
        return replace(facts, resources=left)

    def now(self) -> Use:
        slots = self.slots
        if not slots.waiting and slots.holders <= self.names:  # most often there is nobody else
            facts = slots.pool.facts(besides=self.names)
            if facts is not self._alone.facts:
                self._alone = Use(facts=facts)
            return self._alone
        ahead = slots.ahead()
        return Use(self._used(ahead), self._facts(ahead), *slots.room_beside_hog(self.names))

    def note(self) -> Use:
        """Notes the current use as reported, and returns it."""
        self.reported = self.now()
        return self.reported

    @property
    def has_changed(self) -> bool:
        now = self.now()
        return now is not self.reported and now != self.reported

    @property
    def may_be_less(self) -> bool:
        """Whether an attempt may find room that was not reported."""
        now, before = self.now(), self.reported
        is_other = now.hog != before.hog or now.beside_hog > before.beside_hog
        return is_other or now.slots < before.slots or now.facts != before.facts


@dataclass(frozen=True, slots=True)
class Belongings:
    """What a command holds of its host.

    An LBM that is killed hands nothing over, and its keeper ends what it ran. That takes a while,
    because a command that ignores TERM lives until KILL. So the keeper remembers what each command
    holds of the host, in bytes that it does not interpret, and passes them to the next LBM. There
    the command holds all that until its whole tree is gone. Otherwise another command could get the
    same GPU meanwhile.
    """

    width: int = 1  # slots
    grant: Grant = NOTHING


ONE_SLOT = Belongings()


def pack_belongings(held: Belongings) -> bytes:
    """Returns no bytes for a command with one slot."""
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
