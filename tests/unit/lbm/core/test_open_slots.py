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


def bobs(name, *given, **more):
    return replace(command(name, *given, **more), user="bob")


def attempt(name, width=1, needs=NO_NEEDS):
    return replace(ATTEMPT, id=JobId(name), slots=(width, width), needs=needs)


def line_of(total=8, gpus=2):
    slots = Slots(total, max_waiting=8)
    slots.pool.become(ResourcePool(("any",), {"gpu": gpus}))
    return SlotLine(slots)


def open_slots(line, *attempts):
    return max(0, line.slots.total - OthersUse(line.slots, set(map(JobId, attempts))).now().slots)


def test_nothing_is_open_behind_a_command_that_waits_for_several_slots():
    """Six were said to be open, and an attempt that needs two of them was refused and sent again
    hundreds of times a second, for as long as its user had such commands wait."""
    line = line_of()
    assert line.ask(command("a")) == SlotGranted()
    assert line.ask(attempt("7.1", 2)) == SlotGranted()
    assert open_slots(line, "7.1") == 7
    assert line.ask(bobs("b", 8, patience_s=2.0)) == SlotAwaited()
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
    assert others.now().facts.resources == (("gpu", 2, 1),)
    assert line.ask(bobs("b", needs=both, patience_s=2.0)) == SlotAwaited()
    assert others.now().facts.resources == (("gpu", 2, 2),)
    assert isinstance(line.ask(attempt("7.1", needs=GPU)), SlotRefused)
    # what needs none of it has the other slots
    assert open_slots(line) == 7
    assert line.ask(attempt("8.1", 7)) == SlotGranted()
    line.free(JobId("b"))
    assert others.now().facts.resources == (("gpu", 2, 1),)


def test_who_waits_for_a_resource_alone_keeps_no_slot():
    """Three commands that waited for a GPU kept the queue's jobs from all slots, which were idle:
    each counted as one."""
    line = line_of(4)
    assert line.ask(command("a", needs=Needs((("gpu", 2),)))) == SlotGranted()
    for name in ("b", "c", "d"):
        assert line.ask(bobs(name, needs=GPU, patience_s=2.0)) == SlotAwaited()
    assert open_slots(line) == 3
    assert line.ask(attempt("7.1", 3)) == SlotGranted()
    assert line.free(JobId("a")) == ["b"]


def test_who_waits_for_what_its_user_holds_keeps_nobody_from_the_rest():
    """One command of 1,000 s and one that waited for all slots kept everybody's jobs from the three
    that were idle."""
    line = line_of(4)
    assert line.ask(command("a")) == SlotGranted()
    assert line.ask(command("b", 4, patience_s=2.0)) == SlotAwaited()
    assert open_slots(line) == 3
    assert line.ask(replace(attempt("7.1", 2), user="bob")) == SlotGranted()
    assert line.ask(bobs("c")) == SlotGranted()
    assert line.free(JobId("c")) == []
    assert line.free(JobId("a")) == []
    assert open_slots(line, "7.1") == 2, "those of the attempt: now it is the first in line"
    assert isinstance(line.ask(bobs("d")), SlotRefused)
    assert line.free(JobId("7.1")) == ["b"]


def test_who_waits_for_gpus_that_its_user_holds_keeps_nobody_from_the_others():
    """One GPU held, and a command that waited for all: the other three of each host were idle."""
    line, all_of_them = line_of(8, gpus=4), Needs((("gpu", 4),))
    others = OthersUse(line.slots, set())
    assert line.ask(command("a", needs=GPU)) == SlotGranted()
    assert line.ask(command("b", needs=all_of_them, patience_s=2.0)) == SlotAwaited()
    assert others.now().facts.resources == (("gpu", 4, 1),)
    assert line.ask(replace(attempt("7.1", needs=GPU), user="bob")) == SlotGranted()
    assert line.ask(bobs("c", needs=GPU)) == SlotGranted()
    assert line.free(JobId("a")) == []
    assert others.now().facts.resources == (("gpu", 4, 4),), "now it is the first in line"
    assert isinstance(line.ask(bobs("d", needs=GPU)), SlotRefused)
    line.free(JobId("c"))
    assert line.free(JobId("7.1")) == ["b"]


def test_more_than_its_slots_may_be_in_use():
    line = line_of(2)
    for name in ("a", "b"):
        line.slots.hold(JobId(name), "ann", 2)
    assert line.slots.enqueue(JobId("c"), "bob")
    assert open_slots(line) == 0
    assert OthersUse(line.slots, set()).now().slots == 5


def test_it_says_whose_commands_hold_all_slots_and_what_attempts_of_others_get():
    line = line_of(8)
    attempts = set()
    others = OthersUse(line.slots, attempts)
    for number in range(7):
        assert line.ask(command(f"a{number}")) == SlotGranted()
    assert (others.note().hog, others.has_changed) == ("", False)
    assert line.ask(command("a7")) == SlotGranted()
    assert (others.now().hog, others.now().beside_hog) == ("ann", 2)
    assert others.has_changed
    assert others.may_be_less
    others.note()
    for job in ("7.1", "8.1"):
        assert line.ask(replace(attempt(job), user="bob")) == SlotGranted()
        attempts.add(JobId(job))
        assert not others.has_changed  # the dispatcher knows what it has sent
    assert isinstance(line.ask(replace(attempt("9.1"), user="cid")), SlotAwaited)
    assert isinstance(line.ask(replace(attempt("9.2", 2), user="cid")), SlotRefused)
    line.free(JobId("9.1"))
    line.free(JobId("7.1"))
    attempts.discard(JobId("7.1"))
    assert line.ask(replace(command("b"), user="bob")) == SlotGranted()
    assert (others.now().hog, others.now().beside_hog) == ("ann", 1)
    assert others.has_changed
    assert not others.may_be_less
    line.free(JobId("a0"))
    assert (others.now().hog, others.now().beside_hog) == ("ann", 1)  # b has the eighth


def test_the_queues_own_attempts_make_nobody_a_hog():
    """The queue has its own rules for whose turn it is."""
    line = line_of(4)
    attempts = {JobId(f"{number}.1") for number in range(4)}
    for job in attempts:
        assert line.ask(attempt(job)) == SlotGranted()
    assert line.slots.hog() == "ann"
    assert OthersUse(line.slots, attempts).now().hog == ""


def test_where_nothing_may_run_beyond_the_slots_attempts_get_no_more():
    line = SlotLine(Slots(4, beyond=0, max_waiting=8))
    for number in range(4):
        assert line.ask(command(f"a{number}")) == SlotGranted()
    assert OthersUse(line.slots, set()).now().beside_hog == 0
    assert isinstance(line.ask(replace(attempt("7.1"), user="bob")), SlotAwaited)
