from dataclasses import replace

from lbd.lbm.core.execution_events import Kind, SlotAwaited, SlotGranted, SlotRefused, Spec
from lbd.lbm.core.slots import TOO_MANY_WAIT, SlotLine, Slots
from lbd.model import JobId

COMMAND = Spec(JobId("a"), Kind.ATTACHED, "ann", 5.0)
ATTEMPT = Spec(JobId("7.1"), Kind.QUEUED, "ann", 5.0, slot_patience_s=0.25)


def named(name, spec=COMMAND, **changes):
    return replace(spec, id=JobId(name), **changes)


def full(total=1, beyond=8, max_waiting=2):
    line = SlotLine(Slots(total, beyond, max_waiting))
    for number in range(total):
        assert line.ask(named(f"first{number}")) == SlotGranted()
    return line


class TestAttached:
    def test_it_gets_a_free_slot_or_another_host_may_have_one(self):
        line = SlotLine(Slots(1, max_waiting=2))
        assert line.ask(named("a")) == SlotGranted()
        assert line.ask(named("b")) == SlotRefused("no free slot")
        assert line.free(JobId("a")) == []
        assert line.ask(named("b")) == SlotGranted()

    def test_it_may_have_several(self):
        line = SlotLine(Slots(4))
        assert line.ask(named("a", slots=(2, 3))) == SlotGranted()
        assert line.slots.widths == {"a": 3}
        assert line.ask(named("b", slots=(2, 2))) == SlotRefused("fewer than 2 free slots")
        wide = SlotRefused("it has 4 slots, not 5", full=False)
        assert line.ask(named("b", slots=(5, 5))) == wide

    def test_a_command_sent_here_by_name_waits_for_a_slot(self):
        line = full()
        assert line.ask(named("b", slot_patience_s=9.0)) == SlotAwaited()
        assert line.free(JobId("first0")) == ["b"]

    def test_the_line_is_bounded(self):
        line = full(max_waiting=1)
        assert line.ask(named("b", slot_patience_s=9.0)) == SlotAwaited()
        many = SlotRefused(TOO_MANY_WAIT, full=False)
        assert line.ask(named("c", slot_patience_s=9.0)) == many

    def test_it_may_exceed_the_slots_as_far_as_the_host_allows(self):
        line = full(beyond=1, max_waiting=8)
        assert line.ask(named("b", slot_patience_s=9.0)) == SlotAwaited()
        assert line.exceed(JobId("b")) == SlotGranted()
        assert line.ask(named("c", slot_patience_s=9.0, may_exceed=True)) == SlotAwaited()
        assert line.exceed(JobId("c")) == SlotRefused(
            "no free slot: at most 2 commands run there (lbm.beyond_slots)"
        )

    def test_if_the_owner_has_set_a_number_no_command_exceeds_it(self):
        line = full(beyond=0)
        assert line.ask(named("b", slot_patience_s=9.0, may_exceed=True)) == SlotAwaited()
        assert line.exceed(JobId("b")) == SlotRefused(
            "no free slot: at most 1 command runs there (admission.slots)"
        )

    def test_a_nested_command_exceeds_the_slots_at_once_and_our_own_program_always(self):
        line = full(beyond=1)
        assert line.ask(named("nested", may_exceed=True)) == SlotGranted()
        assert line.ask(named("unpack", needs_no_slot=True)) == SlotGranted()
        assert line.slots.used == 3


class TestAttempts:
    def test_they_take_turns(self):
        line = full()
        assert [line.ask(named(f"{n}.1", ATTEMPT)) for n in range(3)] == [SlotAwaited()] * 3
        assert line.give() == []
        assert line.free(JobId("first0")) == []
        assert line.give() == ["0.1"]
        assert line.free(JobId("1.1")) == []  # it no longer waits
        assert line.free(JobId("0.1")) == []
        assert line.give() == ["2.1"]
        assert line.give() == []

    def test_no_attempt_overtakes_waiting_ones(self):
        line = full()
        line.ask(named("1.1", ATTEMPT))
        line.free(JobId("first0"))
        assert line.ask(named("2.1", ATTEMPT)) == SlotAwaited()

    def test_a_wide_attempt_gets_all_its_slots_or_goes_back_at_once(self):
        line = SlotLine(Slots(3))
        assert line.ask(named("1.1", ATTEMPT, slots=(2, 2))) == SlotGranted()
        few = SlotRefused("fewer than 2 free slots")
        assert line.ask(named("2.1", ATTEMPT, slots=(2, 2))) == few
        assert line.ask(named("3.1", ATTEMPT, slot_patience_s=None)) == SlotGranted()
        assert line.ask(named("4.1", ATTEMPT, slot_patience_s=None)) == SlotRefused("no free slot")

    def test_waiting_commands_go_first(self):
        line = full()
        line.ask(named("1.1", ATTEMPT))
        line.ask(named("b", slot_patience_s=9.0))
        assert line.free(JobId("first0")) == ["b"]
        assert line.give() == []
