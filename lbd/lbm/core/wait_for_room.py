"""Who gets a slot of this host, and who waits for one: the answers to AskSlot. Pure.

Two kinds wait. An attached command that its user sent here by name stands in the line of `Slots`.
An attempt that the dispatcher sent ahead of a free slot takes turns with others of its kind for
what that line leaves, first come first served; it needs one slot, and waits for a moment only.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from lbd.lbm.core.execution_events import Kind, SlotAwaited, SlotGranted, SlotRefused, Spec
from lbd.lbm.core.jobs import Slots
from lbd.model import NO_NEEDS, JobId

Answer = SlotGranted | SlotAwaited | SlotRefused


@dataclass(slots=True)
class SlotLine:
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
