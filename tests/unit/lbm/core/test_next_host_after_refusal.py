"""Which hosts a command may try, how many of them, and how long it waits for one."""

import dataclasses

import pytest

from lbd.lbm.core import journey_events as e
from lbd.lbm.core.journey_events import CommandEnd
from lbd.lbm.core.next_host_after_refusal import MAX_TRIES
from lbd.model import HostId, JobState, Verdict
from lbd.text.placement_phrases import ALL_OTHERS_EXCLUDED
from tests.unit.lbm.core.test_journey import (
    ASKED,
    BROKEN,
    FULL,
    GO,
    H1,
    H2,
    H3,
    HERE_FOR,
    LEFT,
    LOOK,
    LOOK_NOT,
    LOOKED,
    NO_DIRECTORY,
    NO_PROGRAM,
    NONE_LEFT,
    SILENT,
    START_2,
    STAY,
    TO_H2,
    TURN,
    UNCHARGED,
    UNWILLING,
    WAIT,
    Life,
    ask,
    failed,
    warned,
)  # fmt: skip

NOBODY = e.LimSaid(Verdict.HERE, H1, "h1:1", "no-willing-host")


def test_its_total_wait_is_bounded_however_often_hosts_are_full():
    life = Life(mode="remote")
    life(GO)
    patient = []
    for _ in range(100):
        [asked] = life(LOOKED)
        patient.append(asked.question.may_wait)
        if H2 not in asked.question.excluded:
            life(TO_H2)
            assert life(FULL)[-1] == LOOK
        elif (waits := life(NONE_LEFT)) == [WAIT]:
            assert life(e.Waited()) == [LOOK]
        else:
            break
    why = "no host had room within 30 s"
    assert waits == list(failed(why))
    assert patient[0]
    assert not patient[-1]


def test_a_full_host_is_a_try_unless_there_is_no_other_way():
    for mode, tries in (("auto", MAX_TRIES), ("remote", 50)):
        life = Life(mode=mode)
        life(GO)
        for number in range(tries):
            life(LOOKED)
            assert isinstance(life(e.LimSaid(Verdict.THERE, HostId(f"x{number}")))[-1], e.Start)
            actions = life(FULL, after_s=0.0)
        assert actions[-1] == (e.RunHere("nobody-took-it") if mode == "auto" else LOOK)


def test_it_tries_a_limited_number_and_then_runs_here():
    life = Life()
    life(GO)
    for number in range(MAX_TRIES):
        life(LOOKED)
        life(e.LimSaid(Verdict.THERE, HostId(f"x{number}")))
        actions = life(UNWILLING if number else BROKEN)
    assert actions[-1] == e.TakeTurn()
    assert life(e.TurnTaken(True)) == [warned(BROKEN.reason), e.RunHere("nobody-took-it")]


WIDE = ({"slots": (2, 4)}, (GO, LOOK), (LOOKED, e.AskSlots(insist=False)))
AT_H2 = ({"slots": (2, 4), **HERE_FOR}, (GO, LOOK_NOT), (LOOKED, e.AskSlots(insist=True)))
SLOTS = {
    "those with too few free are left out": (
        *WIDE, (e.SlotsKnown({H1: (4, 3), H2: (4, 1), H3: (4, 0)}), ask(H2, H3)),
        (STAY, e.RunHere("below-threshold", slots=3)),
    ),
    "of a range it may use no more than it can": (
        *WIDE, (e.SlotsKnown({H1: (9, 9)}), ask()), (STAY, e.RunHere("below-threshold", slots=4)),
    ),
    "it must leave where there are too few": (
        *WIDE, (e.SlotsKnown({H1: (4, 1), H2: (4, 4)}), ask(H1, leave=True)),
    ),
    "nobody has so many free": (
        *WIDE, (e.SlotsKnown({H1: (4, 1), H2: (4, 1)}), WAIT), (e.Waited(), LOOK),
    ),
    "nobody has so many at all": (
        *WIDE, (e.SlotsKnown({H1: (1, 1), H2: (1, 1)}),
                *failed("-n 2: no host has 2 slots; the largest is h2 with 1")),
    ),
    "the named host has so many": (*AT_H2, (e.SlotsKnown({H1: (1, 1), H2: (2, 0)}),
                                            ask(wanted=H2, insist=True))),
    "the named host has fewer": (*AT_H2, (e.SlotsKnown({H1: (4, 4), H2: (1, 1)}),
                                          *failed("-n 2: h2 has 1 slots"))),
    "its user names a host, however deep it is nested": (
        {"must_stay": True, "stays_as": "nested", **HERE_FOR}, (GO, e.Look(False, H2)),
        (LOOKED, ask(wanted=H2, insist=True)), (TO_H2, START_2),
    ),
    "hosts that were full on arrival are the reason why it stays": (
        {}, *ASKED, (TO_H2, START_2), (e.Refused("no slot", full=True), *LEFT, LOOK),
        (LOOKED, ask(H2)), (NOBODY, e.RunHere("no-free-slot")),
    ),
    "what must stay asks for none": (
        {"slots": (2, 4), "must_stay": True}, (GO, LOOK), (LOOKED, ask(stay=True)),
    ),
    "no LIM": (*WIDE, (SILENT, e.TakeTurn()), TURN),
    "it is too wide for here, so others' refusals are its end": (
        *WIDE, (e.SlotsKnown({H1: (4, 1), H2: (4, 4)}), ask(H1, leave=True)), (TO_H2, START_2),
        (NO_PROGRAM, *LEFT, e.Lacks(H2, "exec"), LOOK), (LOOKED, e.AskSlots(insist=False)),
        (e.SlotsKnown({H1: (4, 1), H2: (4, 4), H3: (4, 4)}), ask(H1, H2, leave=True)),
        (STAY, e.Finish(CommandEnd(127, "refused", reason=NO_PROGRAM.reason)), UNCHARGED,
         e.RecordEnd(JobState.FAILED, 127, reason=NO_PROGRAM.reason)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("life", SLOTS.values(), ids=SLOTS.keys())
def test_several_slots(life):
    demands, *steps = life
    Life(**demands).goes(*steps)


def test_a_command_that_no_host_takes_names_the_hosts_that_its_user_excluded():
    search = Life(excluded=frozenset({H2, H1})).journey.search
    assert search.why_nobody("no host is left").why == "no host is left (-x: h1, h2)"
    search.left_out = "h3: no such directory"
    said = "no host is left (-x: h1, h2); h3: no such directory"
    assert search.why_nobody("no host is left").why == said
    assert Life().journey.search.why_nobody("no host is left").why == "no host is left"


def test_each_host_that_refused_a_command_is_named_with_its_reason():
    search = Life(mode="remote").journey.search

    def said_after(host, *answer):
        search.refused(host, e.Refused(*answer))
        return search.why_nobody("no host is left").why

    assert (
        said_after(H2, "h2: takes no commands until 19:00") == "h2: takes no commands until 19:00"
    )
    both = "h2: takes no commands until 19:00; h3 (h3:7902) cannot be reached"
    assert said_after(H3, "h3 (h3:7902) cannot be reached") == both
    assert said_after(HostId("h4"), "h4: takes no commands until 19:00") == both.replace(
        "h2:", "h2, h4:", 1
    )
    assert search.why_not_here.why.startswith("h2, h4: takes")


def test_their_advice_is_given_once_and_their_number_is_bounded():
    search = Life(mode="remote").journey.search
    for number in range(2, 6):
        search.refused(f"h{number}", e.Refused(f"h{number}: /x{number}: no", "chdir", 2))
    assert search.why_nobody("").why == (
        "h2: /x2: no; h3: /x3: no; h4: /x4: no; 1 more reason; "
        "--send takes files along, --fetch brings them back"
    )


def test_a_user_who_excluded_no_host_reads_only_what_the_hosts_lack():
    search = Life(mode="remote").journey.search
    assert search.why_nobody(ALL_OTHERS_EXCLUDED).why == ALL_OTHERS_EXCLUDED
    search.left_out = "cc is not found on h2, h3"
    assert search.why_nobody(ALL_OTHERS_EXCLUDED).why == search.left_out
    assert search.why_nobody("no host is left").why == f"no host is left; {search.left_out}"


def test_at_first_only_hosts_excluded_by_the_user_or_lacking_something_are_left_out():
    search = Life(excluded=frozenset({H1})).journey.search
    search.excluded.add(H2)
    search.full.add(H3)
    search.tries = 2
    search.refusals.append((H2, e.Refused("full", full=True)))
    search.again()
    assert (search.left_over, search.tries, search.refusals) == ({H1}, 0, [])


def test_files_taken_along_are_not_suggested_where_a_directory_may_not_be_entered():
    gone = dataclasses.replace(NO_DIRECTORY, reason="h2: /w/d (deleted): No such file or directory")
    assert gone.advice == (
        "h2: /w/d: the working directory has been removed; go to another one, or use -C DIR"
    )
    assert NO_DIRECTORY.advice.endswith("; --send takes files along, --fetch brings them back")
    closed = e.Refused("h2: /root: Permission denied", "chdir", errno=13)
    assert closed.advice == closed.reason
