"""The resources of this host: who has which of them. Pure.

A resource is handed out by index, the lowest free ones first, or by amount where it is a size. A
job gets all that it needs at once or nothing. What it has it keeps until its slot is free, also
over a restart of the LBM, which hands its `Grant` to the next one; if there are fewer by then,
also as the owner changed what there is, it keeps what it has, and nobody else gets that.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lbd.model import NO_NEEDS, Facts, JobId, Needs
from lbd.policy.needs import COUNTED_MAX, Unmet, unmet

GPU = "gpu"


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
