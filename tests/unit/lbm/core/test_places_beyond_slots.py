"""The places beyond a host's slots: no user takes them all."""

from dataclasses import replace

from lbd.lbm.core.execution_events import Kind, SlotAwaited, SlotGranted, SlotRefused, Spec
from lbd.lbm.core.slots import SlotLine, Slots
from lbd.model import JobId

BY_NAME = Spec(JobId("a"), Kind.ATTACHED, "ann", 5.0, slot_patience_s=300.0, slot_retry_s=2.0)
ATTEMPT = Spec(JobId("7.1"), Kind.QUEUED, "bob", 5.0, slot_patience_s=0.25)


def by_name(number, user):
    return replace(BY_NAME, id=JobId(f"{user}-{number}"), user=user)


def line_full_of(user, total=8, beyond=32):
    """As many of the user's commands as the host runs, with others that wait."""
    line = SlotLine(Slots(total, beyond, max_waiting=4096))
    for number in range(total + beyond + 20):
        if line.ask(by_name(number, user)) == SlotAwaited():
            line.exceed(JobId(f"{user}-{number}"))
    return line


def test_who_sends_very_many_by_name_leaves_places_to_others():
    """Forty `lbrun -H h2 sleep 1000` of one user kept all others from h2 for as long as they ran:
    nobody else got a slot, nor a place beyond the slots."""
    line = line_full_of("ann")
    assert line.slots.used == 30
    assert line.ask(by_name(0, "bob")) == SlotGranted()
    assert line.ask(ATTEMPT) == SlotGranted()
    for number in range(1, 9):
        assert line.ask(by_name(number, "bob")) == SlotAwaited()
        assert line.exceed(JobId(f"bob-{number}")) == SlotGranted()
    assert line.slots.used == line.slots.total + line.slots.beyond


def test_a_place_that_is_left_goes_to_whoever_has_fewer():
    """Of thousands that wait of one user, some asked hundreds of times a second and took each place
    that was left, while another user's command asked every other second."""
    line = line_full_of("ann")
    for number in range(10):
        line.slots.hold(JobId(f"cid-{number}"), "cid")
    assert line.ask(by_name(0, "bob")) == SlotAwaited()
    line.free(JobId("ann-0"))
    assert isinstance(line.exceed(JobId("ann-50")), SlotGranted)
    line.free(JobId("cid-0"))
    assert isinstance(line.exceed(JobId("ann-51")), SlotRefused)
    assert line.exceed(JobId("bob-0")) == SlotGranted()


def test_it_says_how_many_one_user_may_have():
    line = line_full_of("ann")
    refused = line.exceed(JobId("ann-59"))
    assert isinstance(refused, SlotRefused)
    assert "at most 30 commands of one user run there (lbm.beyond_slots)" in refused.reason


def test_of_few_places_one_user_may_have_all():
    line = line_full_of("ann", total=1, beyond=1)
    assert line.slots.used == 2
    assert line_full_of("ann", total=2, beyond=2).slots.used == 3
