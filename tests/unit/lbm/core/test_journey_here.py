"""A command that no other host takes: whether it runs here, and with which of its needs."""

import pytest

from lbd.lbm.core import journey_events as e
from lbd.lbm.core.next_host_after_refusal import MAX_TRIES
from lbd.lbm.core.slots import Grant, Granted
from lbd.model import HostId, JobState, Needs, Verdict
from tests.unit.lbm.core.test_journey import (
    ASKED,
    BROKEN,
    FAILED_ONCE,
    GO,
    H1,
    H2,
    HERE_FOR,
    LEFT,
    LOOK,
    LOOK_NOT,
    LOOKED,
    NO_PROGRAM,
    NONE_LEFT,
    START_2,
    STAY,
    TO_H2,
    WAIT,
    Life,
    ask,
    failed,
    warned,
)  # fmt: skip


@pytest.mark.parametrize("mode", ["remote", "auto"])
def test_a_command_that_must_leave_does_not_run_here_however_many_hosts_lack_its_program(mode):
    life, tried = Life(mode=mode), ()
    for _ in range(MAX_TRIES):
        life(GO if not tried else LOOKED)
        if not tried:
            life(LOOKED)
        host = HostId(f"x{len(tried)}")
        life(e.LimSaid(Verdict.THERE, host, "x:1", "lowest"))
        *_, last = life(NO_PROGRAM)
        tried += (host,)
    assert last == (
        e.RunHere("nobody-took-it")
        if mode == "auto"
        else failed(NO_PROGRAM.advice, "refused", 127)[1]
    )


def test_the_exit_status_tells_a_command_that_nobody_can_execute_from_one_that_is_not_there():
    not_ours = e.Refused("h2: ./cc: Permission denied", "exec", errno=13)
    Life(mode="remote").goes(
        (GO, LOOK), (LOOKED, ask(leave=True, insist=True)), (TO_H2, START_2),
        (not_ours, *LEFT, LOOK), (LOOKED, ask(H2, leave=True, insist=True)),
        (NONE_LEFT, *failed(not_ours.reason, status=126)),
    )  # fmt: skip
    lacking = e.Looked(frozenset({H2}), "cc is not found on h2", lacks_program=True)
    Life(mode="remote").goes(
        (GO, LOOK), (lacking, ask(H2, leave=True, insist=True)),
        (NONE_LEFT, *failed("no-willing-host; cc is not found on h2", status=127)),
    )  # fmt: skip


NEEDS = {"needs": Needs((("gpu", 1),))}
GRANT = Grant((Granted("gpu", 1, (0,)),))
NEEDED = (*ASKED, (STAY, e.TakeNeeds()))


@pytest.mark.parametrize(
    "life",
    [
        (*NEEDED, (e.NeedsTaken(GRANT), e.RunHere("below-threshold", grant=GRANT)),
         (e.EndedHere(0.5, 0), e.GiveNeedsBack(), e.Discharge(H1, True),
          e.RecordEnd(JobState.DONE, 0, 0.5))),
        (*NEEDED, (e.NeedsTaken(None, "taken", True), e.Discharge(H1, True), WAIT)),
        (*NEEDED, (e.NeedsTaken(None, "no gpu"), failed("h1: no gpu", "refused")[0],
                   e.Discharge(H1, True), failed("h1: no gpu", "refused")[1])),
        (*FAILED_ONCE, (LOOKED, ask(H2)), (STAY, e.TakeTurn()),
         (e.TurnTaken(True), warned(BROKEN.reason), e.TakeNeeds()),
         (e.NeedsTaken(None, "no gpu"), failed(BROKEN.reason, "refused")[0], e.GiveTurnBack(),
          e.Discharge(H1, True), failed(BROKEN.reason, "refused")[1])),
    ],
    ids=["granted", "others have it", "it has none", "another host has failed before"],
)  # fmt: skip
def test_its_needs_here_are_taken_and_given_back(life):
    Life(**NEEDS).goes(*life)


def test_a_missing_program_on_one_host_is_not_the_reason_if_it_may_run_anywhere():
    life = Life().goes(*ASKED, (TO_H2, START_2), (NO_PROGRAM, *LEFT, e.Lacks(H2, "exec"), LOOK))
    life.goes((LOOKED, ask(H2)), (NONE_LEFT, *failed(NONE_LEFT.reason)))


def test_a_too_deeply_nested_command_still_goes_to_the_host_its_user_chose():
    life = Life(must_stay=True, **HERE_FOR)
    life.goes((GO, LOOK_NOT), (LOOKED, ask(wanted=H2, insist=True)), (TO_H2, START_2))


def test_where_its_directory_cannot_be_examined_and_it_must_leave_nothing_has_run():
    """`/w cannot be accessed here` left open whether something ran all the same."""
    finish, record = failed("no; nothing ran")
    must_leave = ask(leave=True, insist=True)
    Life(mode="remote").goes(
        (GO, LOOK), (LOOKED, must_leave), (TO_H2, START_2), (e.Unseen("no"), finish, *LEFT, record)
    )


def test_a_command_that_could_not_be_executed_here_has_not_run():
    life, why = Life(), "nosuch: not found"
    never = e.RecordEnd(JobState.FAILED, 127, reason=why, never_ran=True)
    for event in (GO, LOOKED, STAY):
        life(event)
    life(e.NotRun(127, why))
    assert life(e.EndedHere(0.1))[-1] == never
