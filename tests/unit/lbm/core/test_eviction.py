"""A command restarts elsewhere when the owner of its host is back, if that cannot be noticed."""

import dataclasses

import pytest

from lbd.lbm.core import journey_events as e
from lbd.lbm.core.journey import LOOK_S, JourneyPhase
from lbd.lbm.core.next_host_after_refusal import MAX_TRIES
from lbd.model import HostId, Verdict
from lbd.text.placement_phrases import ALL_OTHERS_EXCLUDED
from tests.unit.lbm.core.test_journey import (
    ASKED,
    BEGUN,
    EVICTED,
    FOLLOW,
    FULL,
    GO,
    H2,
    H3,
    HOLD,
    LEFT,
    LOOK,
    LOOKED,
    NONE_LEFT,
    ON_H2,
    OURS,
    SILENT,
    START_2,
    START_3,
    STAY,
    TO_H2,
    TO_H3,
    UNWILLING,
    Life,
    ask,
    failed,
)  # fmt: skip

AGAIN = (*LEFT, e.BeginAgain("the owner of h2 is back"), LOOK)
IN_WAIT = (
    "the owner of h2 is back, so the command was ended there; it waits to begin again on another "
    "host, or there once the owner has gone: "
)
WAITS = e.Warn(f"{IN_WAIT}no-willing-host")
LOOKS = e.WaitForRoom(LOOK_S)


def test_an_evicted_command_restarts_elsewhere():
    Life().goes(*ON_H2, (EVICTED, *AGAIN), (LOOKED, ask(H2, leave=True)), (TO_H3, START_3))


def test_it_waits_says_so_once_and_may_return():
    Life().goes(
        *ON_H2, (EVICTED, *AGAIN), (LOOKED, ask(H2, leave=True)), (NONE_LEFT, WAITS, LOOKS),
        (e.Waited(), LOOK), (LOOKED, ask(leave=True)), (NONE_LEFT, LOOKS),
        (e.Waited(), LOOK), (LOOKED, ask(leave=True)), (TO_H2, START_2), (e.Sent(),),
        (e.StartedThere(), BEGUN, FOLLOW), (EVICTED, *AGAIN), (LOOKED, ask(H2, leave=True)),
        (NONE_LEFT, WAITS, LOOKS),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("excluded", "left_out", "said"),
    [
        ((), "", "there is no other"),
        (("h3",), "", "no other is left (-x: h3)"),
        (("h3",), "cc is not found on h4", "no other is left (-x: h3; cc is not found on h4)"),
    ],
)
def test_that_no_other_host_is_left_is_not_called_an_exclusion(excluded, left_out, said):
    """It read `all other hosts are excluded`."""
    life = Life(excluded=frozenset(map(HostId, excluded)))
    for event in (*(GO, LOOKED, TO_H2, e.Sent(), e.StartedThere()), EVICTED, LOOKED):
        life(event)
    life.journey.search.left_out = left_out
    warned = life(e.LimRefused(ALL_OTHERS_EXCLUDED))[0]
    assert warned.text == f"{IN_WAIT}{said}, and it does not return to h1, where it was typed"


def test_it_does_not_wait_forever():
    life = Life().goes(
        *ON_H2, (EVICTED, *AGAIN), (LOOKED, ask(H2, leave=True)), (NONE_LEFT, WAITS, LOOKS),
        (e.Waited(), LOOK), (LOOKED, ask(leave=True)),
    )  # fmt: skip
    why = "no host took it within 60 s (lbm.sent_away_wait_s): no-willing-host"
    assert life(NONE_LEFT, after_s=60.0) == list(failed(f"the owner of h2 is back, and {why}"))


def test_a_host_that_was_full_before_may_have_room_by_then():
    Life().goes(
        *ASKED, (TO_H2, START_2), (FULL, *LEFT, LOOK), (LOOKED, ask(H2)), (TO_H3, START_3),
        (e.StartedThere(), e.BegunHere(H3, "lowest"), FOLLOW),
        (EVICTED, e.LetGo(H3), e.Discharge(H3, True), e.BeginAgain("the owner of h3 is back"),
         LOOK),
        (LOOKED, ask(H3, leave=True)),
    )  # fmt: skip


def test_it_also_waits_after_the_maximum_number_of_refusals():
    life = Life().goes(*ON_H2, (EVICTED, *AGAIN))
    for number in range(MAX_TRIES - 1):
        life(LOOKED)
        life(e.LimSaid(Verdict.THERE, HostId(f"x{number}")))
        life(e.Sent())
        actions = life(UNWILLING)
    assert actions[-1] == LOOKS
    assert UNWILLING.reason in actions[-2].text
    for event in (e.Waited(), LOOKED):
        life(event)
    assert UNWILLING.reason not in life(STAY, after_s=60.0)[0].end.reason  # it was long ago


@pytest.mark.parametrize(
    ("bounds", "event", "why"),
    [
        (OURS, SILENT, SILENT.reason),
        (OURS, STAY, "below-threshold"),
        (dataclasses.replace(OURS, hold_limit_s=0.0), HOLD, "no host had room within 0 s"),
    ],
)
def test_it_cannot_run_here_any_more(bounds, event, why):
    """The client has given its descriptors away."""
    life = Life(bounds)
    for one in (GO, LOOKED, TO_H2, e.Sent(), e.StartedThere(), EVICTED, LOOKED):
        life(one)
    assert [a for a in life(event) if not isinstance(a, e.Discharge)] == [
        e.Warn(f"{IN_WAIT}{why}"), LOOKS
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("demands", "ended"),
    [
        ({}, e.Ended(137, "evicted")),  # it has read or written
        ({"may_restart": False}, EVICTED),
        ({}, e.Ended(137, "killed", untouched=True)),
    ],
)
def test_a_command_that_must_not_restart_ends(demands, ended):
    life = Life(**demands)
    for event in (GO, LOOKED, TO_H2, e.Sent(), e.StartedThere()):
        life(event)
    finish = life(ended)[0]
    assert (finish.end.status, finish.end.cause) == (137, ended.cause)
    assert life.journey.phase is JourneyPhase.DONE
