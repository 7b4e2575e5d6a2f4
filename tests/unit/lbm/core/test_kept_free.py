"""Who waits for more than is free keeps it from others for a while, then leaves it for as long."""

import pytest

from lbd.lbm.core.execution_events import Kind, SlotAwaited, SlotGranted, SlotRefused, Spec
from lbd.lbm.core.kept_free import SLOTS, KeptFree
from lbd.lbm.core.slots import OthersUse, ResourcePool, SlotLine, Slots
from lbd.model import NO_NEEDS, JobId, Needs

LIMIT_S = 300.0
ONE_GPU, BOTH_GPUS = Needs((("gpu", 1),)), Needs((("gpu", 2),))


def line_of(total=4, beyond=0):
    slots = Slots(total, beyond, 64, kept_free=KeptFree(LIMIT_S))
    slots.pool.become(ResourcePool(("any",), {"gpu": 2, "tape": 2}))
    return SlotLine(slots)


def ask(line, name, user, width=1, needs=NO_NEEDS, patience_s=LIMIT_S):
    found = Spec(
        JobId(name), Kind.ATTACHED, user, 5.0, (width, width), needs=needs,
        slot_patience_s=patience_s,
    )  # fmt: skip
    return line.ask(found)


def attempt(line, name, user="bob", width=1, needs=NO_NEEDS):
    found = Spec(JobId(name), Kind.QUEUED, user, 5.0, (width, width), needs=needs)
    if isinstance(answer := line.ask(found), SlotGranted):
        line.free(JobId(name))
    return answer


def told(line):
    """What the dispatcher is told: open slots, and gpus in use."""
    use = OthersUse(line.slots, set()).now()
    in_use = {name: used for name, _, used in use.facts.resources}
    return line.slots.total - use.slots, in_use["gpu"]


def test_the_time_comes_back_as_fast_as_it_is_used():
    found, anns = KeptFree(10.0), ("ann", SLOTS)
    told = []
    # from when on it is kept, and whether its user pauses at that time
    for now_s, is_kept in [(0, 1), (4, 0), (6, 1), (14, 0), (16, 0), (24, 1), (33, 1), (34, 0)]:
        found.pass_to(1000.0 + now_s)
        told.append(anns in found.pausing)
        found.kept = {anns} if is_kept else frozenset()
    assert told == [False, False, False, True, True, False, False, True]


def test_nobody_is_remembered_who_neither_keeps_anything_nor_pauses():
    found = KeptFree(10.0)
    for number in range(1000):
        found.pass_to(float(number))
        found.kept = {(f"user{number}", SLOTS)}
    assert len(found._used_s) < 3
    found.kept = frozenset()
    found.pass_to(2000.0)
    assert (found._used_s, found.pausing) == ({}, set())


def test_who_waits_for_all_slots_has_them_idle_for_half_of_the_time_at_most():
    """One command of bob's, and ann's that waited for all slots, one after the other: bob's queued
    jobs had none of the other three slots for as long as one looked."""
    line = line_of()
    assert ask(line, "b", "bob") == SlotGranted()
    open_s = 0
    for now_s in range(0, 6000, 10):
        if now_s % 100 == 0:  # another one, before the one before gives up
            assert ask(line, f"a{now_s}", "ann", 4) == SlotAwaited()
            line.free(JobId(f"a{now_s - 200}"))
        line.slots.pass_to(float(now_s))
        assert told(line)[0] in (0, 3)
        is_open = told(line)[0] == 3
        assert isinstance(attempt(line, f"{now_s}.1"), SlotGranted if is_open else SlotRefused)
        open_s += 10 * is_open
    assert 2900 <= open_s <= 3100


def test_one_command_keeps_what_is_free_for_as_long_as_it_may_wait():
    """Jobs that end within that time make room for it."""
    line = line_of()
    for name in ("b1", "b2"):
        assert ask(line, name, "bob") == SlotGranted()
    assert ask(line, "a", "ann", 4) == SlotAwaited()
    line.slots.pass_to(0.0)
    line.slots.pass_to(LIMIT_S - 1)
    assert told(line)[0] == 0
    assert isinstance(attempt(line, "7.1"), SlotRefused)
    assert line.free(JobId("b1")) == []
    assert line.free(JobId("b2")) == ["a"]


def test_in_the_pause_it_keeps_its_place_and_gets_what_it_needs_once_all_is_free():
    line = line_of()
    assert ask(line, "b", "bob") == SlotGranted()
    assert ask(line, "a", "ann", 4) == SlotAwaited()
    line.slots.pass_to(0.0)
    line.slots.pass_to(LIMIT_S)
    assert ask(line, "c", "cid", 2) == SlotGranted()
    assert line.free(JobId("b")) == []
    assert line.free(JobId("c")) == ["a"]


def test_what_waits_behind_it_begins_as_the_pause_does():
    line = line_of()
    assert ask(line, "b", "bob") == SlotGranted()
    assert ask(line, "a", "ann", 4) == SlotAwaited()
    assert [ask(line, name, "cid") for name in ("c1", "c2")] == 2 * [SlotAwaited()]
    assert line.slots.pass_to(0.0) == []
    assert line.slots.pass_to(LIMIT_S - 1) == []
    assert line.slots.pass_to(LIMIT_S) == ["c1", "c2"]
    assert line.slots.pass_to(LIMIT_S + 1) == []


def test_the_next_command_of_the_same_user_pauses_and_another_users_does_not():
    line = line_of()
    assert ask(line, "b", "bob") == SlotGranted()
    assert ask(line, "a1", "ann", 4) == SlotAwaited()
    line.slots.pass_to(0.0)
    line.slots.pass_to(LIMIT_S)
    line.free(JobId("a1"))
    line.slots.pass_to(LIMIT_S + 100.0)
    assert ask(line, "a2", "ann", 4) == SlotAwaited()
    assert told(line)[0] == 3
    assert ask(line, "c", "cid", 4) == SlotAwaited()
    assert told(line)[0] == 0
    line.free(JobId("c"))
    line.slots.pass_to(2 * LIMIT_S + 1.0)
    assert told(line)[0] == 0, "its pause is over"


def test_who_waits_for_gpus_keeps_those_that_are_free_for_a_while():
    line = line_of(8)
    assert ask(line, "b", "bob", needs=ONE_GPU) == SlotGranted()
    assert ask(line, "a", "ann", needs=BOTH_GPUS) == SlotAwaited()
    line.slots.pass_to(0.0)
    assert told(line)[1] == 2
    assert isinstance(attempt(line, "7.1", needs=ONE_GPU), SlotRefused)
    line.slots.pass_to(LIMIT_S)
    assert told(line)[1] == 1
    assert attempt(line, "8.1", needs=ONE_GPU) == SlotGranted()
    assert ask(line, "a2", "ann", needs=Needs((("gpu", 1), ("tape", 2)))) == SlotGranted()
    assert ask(line, "a3", "ann", needs=Needs((("tape", 1),))) == SlotAwaited()
    line.slots.pass_to(LIMIT_S + 1)
    assert line.free(JobId("a2")) == ["a3"]
    assert line.free(JobId("b")) == ["a"]


def test_time_spent_waiting_for_what_is_all_in_use_does_not_count():
    line = line_of(2)
    for name in ("b1", "b2"):
        assert ask(line, name, "bob", needs=ONE_GPU) == SlotGranted()
    assert ask(line, "a1", "ann", 2) == SlotAwaited()
    assert ask(line, "a2", "ann", needs=ONE_GPU) == SlotAwaited()
    line.slots.pass_to(0.0)
    line.slots.pass_to(10 * LIMIT_S)
    assert not line.slots.kept_free.pausing


@pytest.mark.parametrize("ahead", ["cid", "ann"])
def test_the_first_in_line_is_charged_and_not_who_waits_behind(ahead):
    line = line_of()
    assert ask(line, "b", "bob", 2) == SlotGranted()
    assert ask(line, "first", ahead, 4) == SlotAwaited()
    assert ask(line, "second", "dan", 3) == SlotAwaited()
    line.slots.pass_to(0.0)
    line.slots.pass_to(LIMIT_S)
    assert line.slots.kept_free.pausing == {(ahead, SLOTS)}
    assert told(line)[0] == 0, "the second is the first in line now"
    line.slots.pass_to(2 * LIMIT_S - 1)
    assert line.slots.kept_free.pausing == {(ahead, SLOTS)}
