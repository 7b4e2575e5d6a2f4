"""Where a suspended command could go that needs more of a host than slots."""

from dataclasses import replace
from random import Random

import pytest

from lbd.lbm.core.owner_book import Standing
from lbd.lbm.core.room_for_suspended import LASTING_LOOKS, RoomElsewhere
from lbd.model import NO_NEEDS, Facts, HostId, JobId, Needs
from tests.unit.lbm.core.test_owner_book import clock, known, lived, rules

GPU = Needs((("gpu", 1),))


def gpus(total, used=0):
    return Facts(("linux",), (("gpu", total, used),) if total else ())


H1 = HostId("h1")


def test_room_does_not_count_until_it_has_lasted():
    elsewhere = RoomElsewhere()
    found = []
    for slots in (2, 3, 1, 4):
        elsewhere.look(True, {H1: slots}, {}, step_s=3.0)
        found.append((elsewhere.others_free, elsewhere.takes(H1, 1, NO_NEEDS)))
    assert found == [(False, 0), (False, 0), (True, 1), (True, 1)]


def test_how_many_commands_a_host_has_room_for():
    elsewhere = RoomElsewhere(True, {H1: 7}, [{H1: gpus(4)}, {H1: gpus(4, used=2)}])
    assert elsewhere.takes(H1, 3, NO_NEEDS) == 2
    assert elsewhere.takes(H1, 0, NO_NEEDS) == 7
    assert elsewhere.takes(H1, 1, GPU) == 2  # the fewest at any look
    assert elsewhere.takes(H1, 1, Needs(features=("linux",))) == 7
    assert elsewhere.takes(HostId("h2"), 1, NO_NEEDS) == 0
    assert elsewhere.beside(HostId("h2"), 1, GPU)
    assert not elsewhere.beside(H1, 1, GPU)
    elsewhere.facts = [{H1: gpus(4)}, {}]  # at one look it did not report its resources
    assert (elsewhere.takes(H1, 1, GPU), elsewhere.takes(H1, 1, NO_NEEDS)) == (0, 7)
    elsewhere.facts = ()  # it was not asked
    assert (elsewhere.takes(H1, 1, GPU), elsewhere.takes(H1, 1, NO_NEEDS)) == (0, 7)


def test_if_no_host_accepts_anything_none_accepts_a_command_with_needs():
    elsewhere = RoomElsewhere(False, {H1: 7}, [{H1: gpus(4)}])
    assert not elsewhere.beside(HostId("h2"), 1, GPU)
    assert not elsewhere.beside(HostId("h2"), 1, NO_NEEDS)
    assert replace(elsewhere, others_free=True).beside(HostId("h2"), 1, GPU)


@pytest.mark.parametrize(
    ("needs", "h4", "h5", "goes"),
    [
        (GPU, gpus(2), gpus(0), True),
        (GPU, gpus(1), gpus(1), True),
        (GPU, gpus(1), gpus(1, used=1), False),
        (GPU, gpus(0), gpus(0), False),
        (NO_NEEDS, gpus(0), gpus(0), True),
        (Needs(features=("big",)), gpus(0), gpus(0), False),
        (Needs(not_features=("big",)), gpus(0), gpus(0), True),
    ],
)
def test_a_gang_is_moved_only_where_the_needs_of_its_tasks_are_free(needs, h4, h5, goes):
    made, now_s = lived([300.0] * 10)
    hosts = {"h1": True, "h2": False, "h3": False, "h4": True, "h5": True}
    known(
        made, {HostId(name): away for name, away in hosts.items()}, True, Random(1), step=False,
        room={HostId("h4"): 8, HostId("h5"): 8}, facts={HostId("h4"): h4, HostId("h5"): h5},
    )  # fmt: skip
    one = Standing(JobId("j1"), 1.0, True, (HostId("h2"), HostId("h3")), needs=needs)
    assert made.verdict(one, rules("threshold"), now_s, 0, clock).goes is goes


def test_a_command_that_needs_a_gpu_is_moved_only_where_one_has_been_free_for_a_while():
    made, now_s = lived([10_000.0] * 10)
    away, room = {HostId("h1"): True, HostId("h3"): False}, {HostId("h1"): 4}
    one = Standing(JobId("j1"), 1.0, True, needs=GPU)

    def moved(**more):
        known(made, away, True, Random(1), step=False, room=room, **more)
        return made.verdict(one, rules("work"), now_s + 9000.0, 0, clock)

    assert moved(facts={HostId("h1"): gpus(1)}).goes
    for facts in ({HostId("h1"): gpus(1, 1)}, {}):  # taken, and not known
        made, now_s = lived([10_000.0] * 10)
        waits = moved(facts=facts)
        assert not waits.goes
        assert waits.reason.endswith("no other host has had room for it for long enough: waiting")
    made.cluster_is(away, True, Random(1), step=False, room=room, facts={HostId("h1"): gpus(1)})
    assert not made.fits_beside(one)  # it has just become free


def test_a_slot_that_has_just_become_free_does_not_count_yet():
    """It goes to a job that waits in the queue."""
    made, _ = lived([300.0] * 4)
    away = {HostId("h1"): True, HostId("h3"): False}
    for look in range(LASTING_LOOKS):
        known(made, away, True, Random(1), step=False, room={HostId("h1"): 2})
        assert (made.elsewhere.others_free, made.elsewhere.room) == (True, {"h1": 2})
        made.cluster_is(away, False, Random(1), step=False)
        for _ in range(look):
            made.cluster_is(away, True, Random(1), step=False, room={HostId("h1"): 2})
        assert not made.elsewhere.others_free
        assert not any(made.elsewhere.room.values())


def test_two_commands_do_not_leave_for_one_slot():
    """The second had lost what it had done, and waited in line."""
    made, now_s = lived([10_000.0] * 10)
    away, room = {HostId("h1"): True, HostId("h3"): False}, {HostId("h1"): 1}
    known(made, away, True, Random(1), step=False, room=room)
    now_s += 9000.0
    jobs = [Standing(JobId(name), 1.0, True) for name in ("j1", "j2")]

    def gone():
        return [made.verdict(one, rules(), now_s, 0, clock).goes for one in jobs]

    assert gone() == [True, False]
    for _ in range(LASTING_LOOKS - 1):
        made.cluster_is(away, True, Random(1), step=False, room=room)
        now_s += 1.0
        assert gone() == [True, False]
    made.cluster_is(away, True, Random(1), step=False, room=room)  # beside the first, too
    assert gone() == [True, True]
