"""What others than the queue's attempts have of this host: slots, and what jobs may need."""

from collections.abc import Collection
from dataclasses import dataclass

from lbd.lbm.core.jobs import Slots
from lbd.model import NO_FACTS, Facts, JobId


@dataclass(slots=True)
class OthersUse:
    """As it is, and as the dispatcher was sent it last."""

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
