"""What a host tells the dispatcher it has for attempts: no more than it gives them."""

from dataclasses import replace

from lbd.lbm.core.execution_events import Kind, SlotAwaited, SlotGranted, SlotRefused, Spec
from lbd.lbm.core.slots import OthersUse, ResourcePool, SlotLine, Slots
from lbd.model import NO_NEEDS, JobId, Needs

COMMAND = Spec(JobId("a"), Kind.ATTACHED, "ann", 5.0)
ATTEMPT = Spec(JobId("7.1"), Kind.QUEUED, "ann", 5.0, slot_patience_s=0.25)
GPU = Needs((("gpu", 1),))


def command(name, width=1, needs=NO_NEEDS, patience_s=None):
    return replace(
        COMMAND, id=JobId(name), slots=(width, width), needs=needs, slot_patience_s=patience_s
    )


def attempt(name, width=1, needs=NO_NEEDS):
    return replace(ATTEMPT, id=JobId(name), slots=(width, width), needs=needs)


def line_of(total=8, gpus=2):
    slots = Slots(total, max_waiting=8)
    slots.pool.become(ResourcePool(("any",), {"gpu": gpus}))
    return SlotLine(slots)


def open_slots(line, *attempts):
    return max(0, line.slots.total - OthersUse(line.slots, set(map(JobId, attempts))).used())


def test_nothing_is_open_behind_a_command_that_waits_for_several_slots():
    """Six were said to be open, and an attempt that needs two of them was refused and sent again
    hundreds of times a second, for as long as its user had such commands wait."""
    line = line_of()
    assert line.ask(command("a")) == SlotGranted()
    assert line.ask(attempt("7.1", 2)) == SlotGranted()
    assert open_slots(line, "7.1") == 7
    assert line.ask(command("b", 8, patience_s=2.0)) == SlotAwaited()
    assert open_slots(line, "7.1") == 2  # those that it has
    assert line.ask(attempt("8.1", 2)) == SlotRefused("fewer than 2 free slots")
    line.free(JobId("b"))
    assert open_slots(line, "7.1") == 7
    assert line.ask(attempt("8.1", 2)) == SlotGranted()


def test_nothing_is_left_of_what_a_command_waits_for():
    """One gpu was said to be free while a command waited for both."""
    line = line_of()
    assert line.ask(command("a", needs=GPU)) == SlotGranted()
    both = Needs((("gpu", 2),))
    others = OthersUse(line.slots, set())
    assert others.facts().resources == (("gpu", 2, 1),)
    assert line.ask(command("b", needs=both, patience_s=2.0)) == SlotAwaited()
    assert others.facts().resources == (("gpu", 2, 2),)
    assert isinstance(line.ask(attempt("7.1", needs=GPU)), SlotRefused)
    # what needs none of it has the other slots
    assert open_slots(line) == 6
    assert line.ask(attempt("8.1", 6)) == SlotGranted()
    line.free(JobId("b"))
    assert others.facts().resources == (("gpu", 2, 1),)


def test_more_than_its_slots_may_be_in_use():
    line = line_of(2)
    for name in ("a", "b"):
        line.slots.hold(JobId(name), "ann", 2)
    assert line.ask(command("c", patience_s=2.0)) == SlotAwaited()
    assert open_slots(line) == 0
    assert OthersUse(line.slots, set()).used() == 5
