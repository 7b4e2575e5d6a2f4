"""A command on its way out: which actions follow from which events, as tables."""

import dataclasses
from typing import get_args

import pytest

from lbd.lbm.core import journey_events as e
from lbd.lbm.core.journey import POLL_S, Journey
from lbd.lbm.core.journey_events import CommandEnd, status_of_refusal, why_ended
from lbd.lbm.core.next_host_after_refusal import Bounds, Demands
from lbd.model import HostId, JobState, Needs, Verdict

H1, H2, H3 = HostId("h1"), HostId("h2"), HostId("h3")
OURS = Bounds(own=H1, hold_limit_s=30.0, evicted_wait_s=60.0)
INT, USR1, USR2, TSTP = 2, 10, 12, 20

GO, KEPT = e.Judged(leaves=True), e.Judged(leaves=False, reason="never")
LOOKED = e.Looked()
KNOWN = e.Looked(address="h2:1")  # where the named host is
TO_H2 = e.LimSaid(Verdict.THERE, H2, "h2:1", "lowest")
TO_H3 = e.LimSaid(Verdict.THERE, H3, "h3:1", "lowest")
STAY = e.LimSaid(Verdict.HERE, H1, "h1:1", "below-threshold")
MUST_STAY = e.LimSaid(Verdict.HERE, H1, "h1:1", "asked-to-stay")
HOLD = e.LimSaid(Verdict.WAIT, H1, "h1:1", "no-free-slot")
SILENT = e.LimSilent("lim did not answer")
FULL = e.Refused("h2: all slots are taken", "slots", full=True)
NO_PROGRAM = e.Refused("h2: cc: not found", "exec", errno=2)
NO_DIRECTORY = e.Refused("h2: /w is not there", "chdir")
UNWILLING = e.Refused("h2: not for you", "admission")
NO_USER = e.Refused("h2: no user ann", "user")
BROKEN = e.Refused("h2: connection refused", fault=True)
WELL = e.Ended(0, cpu_s=2.0, wall_s=3.0)
EVICTED = e.Ended(137, "evicted", untouched=True)

NO_PEERS = (
    "this host runs without a certificate, so it has no peers (lbctl init or lbctl join, then "
    "lbctl restart; lbctl doctor if it had one)"
)
START_2, START_3 = e.Start(H2, "h2:1"), e.Start(H3, "h3:1")
LOOK, LOOK_NOT = e.Look(lacking=True, host=None), e.Look(lacking=False, host=H2)
FOLLOW, LET_GO = e.Follow(keep=True), e.LetGo(H2)
WAIT, UNCHARGED = e.WaitForRoom(POLL_S), e.Discharge(H2, charged=True)
LEFT = (LET_GO, UNCHARGED)
BEGUN = e.BegunHere(H2, "lowest")


def ask(*excluded, wanted=None, leave=False, stay=False, wait=True, insist=False):
    return e.AskLim(e.Question(wanted, frozenset(excluded), leave, stay, wait), insist)


def failed(reason, cause="failed", status=125, host="", state=JobState.FAILED):
    end = CommandEnd(status, cause, HostId(host), reason)
    return e.Finish(end), e.RecordEnd(state, status, reason=reason)


def warned(why, once=False):
    return e.Warn(f"{why}; running here", once)


ASK = ask()
DONE = (e.Finish(CommandEnd(0, "exited", H2, cpu_s=2.0)), e.Learn(2.0, "exited"))
ENDED = (*DONE, *LEFT, e.RecordEnd(JobState.DONE, 0, 2.0, ran_s=3.0))
ASKED = ((GO, LOOK), (LOOKED, ASK))
ON_H2 = (*ASKED, (TO_H2, START_2), (e.Sent(),), (e.StartedThere(), BEGUN, FOLLOW))
HERE_FOR = {"host": H2, "mode": "host"}


class Life:
    """Feeds events to a journey, one second apart unless an event says otherwise."""

    def __init__(self, bounds=OURS, **demands):
        self.journey = Journey(Demands("cc", **demands), bounds)
        self.now_s = 100.0

    def __call__(self, event, after_s=1.0):
        self.now_s += after_s
        return self.journey.handle(event, self.now_s)

    def goes(self, *steps):
        """Each step is an event and the actions that follow from it."""
        for event, *actions in steps:
            assert self(event) == actions, f"after {event}"
        return self


FAILED_ONCE = (*ASKED, (TO_H2, START_2), (BROKEN, *LEFT, e.Trouble(H2, BROKEN.reason), LOOK))
NO_LIM = (*ASKED, (SILENT, e.TakeTurn()))
TURN = (e.TurnTaken(granted=True), warned(SILENT.reason, once=True), e.RunHere("no-lim"))
NONE_LEFT = e.LimRefused("no-willing-host")

LIVES = {
    # Destination
    "the load is low: it stays": ({}, *ASKED, (STAY, e.RunHere("below-threshold"))),
    "it goes, runs, ends": ({}, *ON_H2, (WELL, *ENDED)),
    "it is not worth it": ({}, (KEPT, e.RunHere("never", pinned=True))),
    "it is not worth it, and measured": (
        {}, (e.Judged(False, "new", True), e.RunHere("new", 0, True, True)),
    ),
    "the owner keeps it": (
        {"mode": "remote"}, (KEPT, *failed("cc must not leave this host (eligibility.never)")),
    ),
    "the owner keeps it here, where its user wants it": (
        {"host": H1, "mode": "host"},
        (KEPT, e.Look(False, H1)), (LOOKED, ask(wanted=H1, insist=True)),
        (STAY, e.RunHere("below-threshold")),
    ),
    "those that lack its directory are left out": (
        {},
        (GO, LOOK), (e.Looked(frozenset({H3}), "/w is not the same on h3"), ask(H3)),
        (STAY, e.RunHere("below-threshold; /w is not the same on h3")),
    ),
    "nested too deep, it must stay": (
        {"must_stay": True, "stays_as": "nested"}, (GO, LOOK), (LOOKED, ask(stay=True)),
        (MUST_STAY, e.RunHere("nested")),
    ),
    "it only asks": ({"only_asks": True}, *ASKED, (TO_H2, e.Discharge(HostId(""), True), e.Away())),
    "no peers": (
        {"bounds": dataclasses.replace(OURS, has_peers=False)}, *ASKED,
        (TO_H2, *failed(NO_PEERS)[:1], e.Discharge(HostId(""), True), failed(NO_PEERS)[1]),
    ),
    # Refusals
    "who lacks it was no candidate": (
        {}, *ASKED, (TO_H2, START_2), (NO_PROGRAM, *LEFT, e.Lacks(H2, "exec"), LOOK),
        (LOOKED, ask(H2)), (STAY, e.RunHere("below-threshold")),
    ),
    "its owner does not want it": (
        {}, *ASKED, (TO_H2, START_2), (UNWILLING, *LEFT, LOOK),
        (LOOKED, ask(H2)), (STAY, e.RunHere("below-threshold")),
    ),
    "it could not become its user there, which is a fault": (
        {}, *ASKED, (TO_H2, START_2), (NO_USER, *LEFT, LOOK), (LOOKED, ask(H2)),
        (STAY, e.TakeTurn()),
        (e.TurnTaken(True), warned(NO_USER.reason), e.RunHere("below-threshold")),
    ),
    "one that failed is reported, and another one found": (
        {}, *FAILED_ONCE, (LOOKED, ask(H2)), (TO_H3, START_3),
    ),
    "one that failed, and it runs here once it has a turn": (
        {}, *FAILED_ONCE, (LOOKED, ask(H2)), (STAY, e.TakeTurn()),
        (e.TurnTaken(granted=False), WAIT), (e.Waited(), e.TakeTurn()),
        (e.TurnTaken(granted=True), warned(BROKEN.reason), e.RunHere("below-threshold")),
        (e.EndedHere(1.5), e.GiveTurnBack(), e.Discharge(H1, True),
         e.RecordEnd(JobState.UNKNOWN, None, 1.5)),
    ),
    "no fallback": (
        {"may_fall_back": False}, *FAILED_ONCE, (LOOKED, ask(H2)),
        (STAY, e.Finish(CommandEnd(125, "refused", reason=BROKEN.reason)), UNCHARGED,
         e.RecordEnd(JobState.FAILED, 125, reason=BROKEN.reason)),
    ),
    "not here either": (
        {"excluded": frozenset({H1})},
        (GO, LOOK), (LOOKED, ask(H1)), (TO_H2, START_2),
        (BROKEN, *LEFT, e.Trouble(H2, BROKEN.reason), LOOK), (LOOKED, ask(H1, H2)),
        (STAY, e.Finish(CommandEnd(125, "refused", reason=(
            no := f"{BROKEN.reason}, and --exclude forbids running here"))), UNCHARGED,
         e.RecordEnd(JobState.FAILED, 125, reason=no)),
    ),
    "it must leave, and nobody can take it": (
        {"mode": "remote"},
        (GO, LOOK), (LOOKED, ask(leave=True, insist=True)), (TO_H2, START_2),
        (NO_PROGRAM, *LEFT, e.Lacks(H2, "exec"), LOOK),
        (LOOKED, ask(H2, leave=True, insist=True)),
        (NONE_LEFT, *failed(NO_PROGRAM.reason, status=127)),
    ),
    "those that were left out are named": (
        {}, (GO, LOOK), (e.Looked(frozenset({H2}), "cc is not found on h2"), ask(H2)),
        (NONE_LEFT, *failed("no-willing-host; cc is not found on h2")),
    ),
    "its directory cannot be accessed": (
        {}, *ASKED, (TO_H2, START_2), (e.Unseen("/w cannot be looked at here"), *LEFT, LOOK),
        (LOOKED, ask(H2, stay=True)), (STAY, e.RunHere("below-threshold")),
    ),
    # The LIM
    "no LIM": ({}, *NO_LIM, TURN),
    "no LIM, and it must leave": (
        {"mode": "remote"}, (GO, LOOK), (LOOKED, ask(leave=True, insist=True)),
        (SILENT, failed(SILENT.reason)[0], e.Discharge(HostId(""), True),
         failed(SILENT.reason)[1]),
    ),
    "a named host whose address is known": (
        HERE_FOR, (GO, LOOK_NOT),
        (KNOWN, e.Charge(ask(wanted=H2).question), START_2), (e.Sent(),),
        (e.StartedThere("a note"), e.BegunHere(H2, "wanted", "a note"), FOLLOW), (WELL, *ENDED),
    ),
    "a named host that has moved": (
        HERE_FOR, (GO, LOOK_NOT), (KNOWN, e.Charge(ask(wanted=H2).question), START_2),
        (BROKEN, *LEFT, LOOK_NOT), (KNOWN, ask(wanted=H2, insist=True)), (TO_H2, START_2),
    ),
    "a named host, as the LIM said last": (
        HERE_FOR, (GO, LOOK_NOT), (LOOKED, ask(wanted=H2, insist=True)),
        (e.LimSilent("lim rests", "h2:1"), e.Charge(ask(wanted=H2).question), START_2),
    ),
    "a named host that lacks the program": (
        HERE_FOR, (GO, LOOK_NOT), (LOOKED, ask(wanted=H2, insist=True)), (TO_H2, START_2),
        (NO_PROGRAM, *LEFT, e.Lacks(H2, "exec"),
         *failed(NO_PROGRAM.reason, "refused", 127, "h2")),
    ),
    "a named host that lacks the directory": (
        HERE_FOR, (GO, LOOK_NOT), (LOOKED, ask(wanted=H2, insist=True)), (TO_H2, START_2),
        (NO_DIRECTORY, *LEFT, e.Lacks(H2, "chdir"),
         *failed(f"{NO_DIRECTORY.reason}; {e.TAKE_ALONG}", "refused", 125, "h2")),
    ),
    "a named host that is full": (
        HERE_FOR, (GO, LOOK_NOT), (LOOKED, ask(wanted=H2, insist=True)), (TO_H2, START_2),
        (FULL, *LEFT, *failed(FULL.reason, "refused", host="h2")),
    ),
    # Room
    "it waits for room": ({}, *ASKED, (HOLD, WAIT), (e.Waited(), LOOK), (LOOKED, ASK)),
    "full hosts are left out until there may be room": (
        {}, *ASKED, (TO_H2, START_2), (FULL, *LEFT, LOOK), (LOOKED, ask(H2)),
        (NONE_LEFT, WAIT), (e.Waited(), LOOK), (LOOKED, ASK),
    ),
    # Its end
    "lost contact is its end": (
        {}, *ON_H2,
        (e.ContactLost("lost contact with h2"),
         (lost := failed("lost contact with h2; it may have run in part and is not run again",
                         "lost", host="h2", state=JobState.LOST))[0], *LEFT, lost[1]),
    ),
    "lost as it was sent": (
        {}, *ASKED, (TO_H2, START_2), (e.Sent(),),
        # It read `it may have run in part`, also of one that waited for a slot.
        (e.ContactLost("gone"), (gone := failed("gone; it had not begun there as far as is known, "
                                                "but may have, so it is not run again", "lost",
                                                state=JobState.LOST))[0],
         *LEFT, gone[1]),
    ),
    "its output was not all moved": (
        {}, *ON_H2,
        (e.Ended(3, trouble="standard output: no space"),
         (bad := failed("standard output: no space; the command itself exited with 3",
                        host="h2"))[0], *LEFT, bad[1]),
    ),
    "a wrong transfer": (
        {}, *ASKED, (TO_H2, START_2), (e.StartedThere(no_less_busy=True),
                                       e.BegunHere(H2, "lowest", wrong=True), FOLLOW),
    ),
    "files come back": (
        {"is_staged": True, "may_restart": False}, (GO, e.Look(False, None)), (LOOKED, ASK),
        (TO_H2, START_2), (e.StartedThere(), BEGUN, e.Follow(False)), (WELL, e.Fetch(0)),
        (e.UserSignal(INT), e.Forward(INT)), (e.Fetched(), *ENDED),
    ),
    "files do not come back": (
        {"is_staged": True, "may_restart": False}, (GO, e.Look(False, None)), (LOOKED, ASK),
        (TO_H2, START_2), (e.StartedThere(), BEGUN, e.Follow(False)), (WELL, e.Fetch(0)),
        (e.Fetched("no space"),
         (no_space := failed("no space; the command itself exited with 0", host="h2"))[0],
         *LEFT, no_space[1]),
    ),
    "interrupted before it begins": (
        {}, *ASKED, (e.UserSignal(USR1),),
        (e.UserSignal(INT), e.Finish(CommandEnd(130, "signalled", signal=2)),
         e.Discharge(HostId(""), True),
         e.RecordEnd(JobState.CANCELLED, 130, reason="interrupted before it started")),
    ),
    "interrupted while it begins there": (
        {}, *ASKED, (TO_H2, START_2), (e.Sent(),),
        (e.UserSignal(INT), e.Finish(CommandEnd(130, "signalled", signal=2)),
         e.LetGo(H2, INT), UNCHARGED,
         e.RecordEnd(JobState.CANCELLED, 130, reason="interrupted before it started")),
    ),
    "another signal before it begins there": (
        {}, *ASKED, (e.UserSignal(USR1),), (TO_H2, START_2), (e.Sent(),),
        (e.UserSignal(USR2),), (e.UserSignal(USR1),), (e.UserSignal(TSTP),),
        (e.StartedThere(), BEGUN, e.Forward(USR2), e.Forward(USR1), FOLLOW),
        (e.UserSignal(USR1), e.Forward(USR1)),
    ),
    "signals are the command's": ({}, *ON_H2, (e.UserSignal(USR1), e.Forward(USR1))),
    "its lbrun is gone": (
        {}, *ON_H2, (e.CallerGone(), *LEFT, e.RecordEnd(JobState.CANCELLED,
                                                     reason="its lbrun has gone")),
    ),
    "it cannot have the caller's descriptors": (
        {}, *ON_H2, (e.Failed("no"), failed("no", host="h2")[0], *LEFT, failed("no")[1]),
    ),
    # Running here
    "a measured one": (
        {}, (e.Judged(False, "new", True), e.RunHere("new", 0, True, True)),
        (e.Used(0.5, 2), e.Measured(0.5, 2)), (e.Used(9.0, 0),),
        (e.EndedHere(), e.Discharge(H1, charged=False), e.RecordEnd(JobState.FAILED, 2, 0.5)),
    ),
    "it ran here, and its end was seen": (
        {}, *ASKED, (STAY, e.RunHere("below-threshold")),
        (e.EndedHere(0.5, 0), e.Discharge(H1, True), e.RecordEnd(JobState.DONE, 0, 0.5)),
    ),
    "it ran here and failed": (
        {}, *ASKED, (STAY, e.RunHere("below-threshold")),
        (e.EndedHere(0.5, 127), e.Discharge(H1, True), e.RecordEnd(JobState.FAILED, 127, 0.5)),
    ),
    "the caller is the command": (
        {}, *ASKED, (STAY, e.RunHere("below-threshold")), (e.UserSignal(INT),), (e.CallerGone(),),
        (e.Failed("whatever"),), (e.Used(1.0, 0),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("life", LIVES.values(), ids=LIVES.keys())
def test_life(life):
    demands, *steps = life
    Life(**demands).goes(*steps)


def test_a_waiting_command_says_what_it_waits_for():
    life = Life()
    assert life.journey.why_waiting == ""
    life.goes(*ASKED, (TO_H2, START_2), (e.Sent(),))
    assert life.journey.why_waiting == "waiting for a slot on h2"
    life(e.StartedThere())
    assert life.journey.why_waiting == ""
    waiting = Life(mode="remote")
    for event in (GO, LOOKED, e.LimSaid(Verdict.WAIT, HostId(""))):
        waiting(event)
    assert waiting.journey.why_waiting == "waiting for room on a host"
    waiting.journey.search.full |= {H3, H2}
    assert waiting.journey.why_waiting == "waiting for room on a host: h2, h3 full"


def test_its_turn_here_is_given_back_if_its_lbrun_goes_away_before_it_starts():
    gone = e.RecordEnd(JobState.CANCELLED, reason="its lbrun has gone")
    life = Life(needs=Needs((("gpu", 1),)))
    for event in (GO, LOOKED, TO_H2, BROKEN, LOOKED, STAY):
        life(event)
    assert life(e.TurnTaken(granted=True)) == [warned(BROKEN.reason), e.TakeNeeds()]
    assert life(e.CallerGone()) == [e.GiveTurnBack(), e.Discharge(H1, True), gone]


# -- words -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cause", "reason", "why"),
    [
        ("exited", "", ""),
        ("exited", "it\nsaid", "h2: it said"),
        ("timeout", "whatever", "ended at its time limit of 1.5 s"),
        ("evicted", "", "ended because the owner of h2 is back"),
        ("memory", "", "over its memory limit of 4096 bytes"),
        ("memory", "over 1 GiB", "h2: over 1 GiB"),
    ],
)
def test_why_it_ended(cause, reason, why):
    assert why_ended(cause, reason, H2, 1.5, 4096) == why


@pytest.mark.parametrize(
    ("phase", "errno", "status"),
    [("exec", 2, 127), ("exec", 13, 126), ("chdir", 2, 125), ("", 0, 125)],
)
def test_status_of_a_refusal(phase, errno, status):
    assert status_of_refusal(phase, errno) == status


# -- a restart of the LBM --------------------------------------------------------------------------

SENT = (GO, LOOKED, TO_H2, e.Sent())
RESTARTS = [
    ((), []),
    ((GO,), [LOOK]),
    ((GO, LOOKED), [e.Discharge(HostId(""), True), LOOK]),
    ((GO, LOOKED, HOLD), [WAIT]),
    ((GO, LOOKED, SILENT), [WAIT]),
    ((GO, LOOKED, TO_H2), [*LEFT, LOOK]),
    (SENT, [e.AwaitAnswer()]),
    ((*SENT, e.StartedThere()), [FOLLOW]),
    ((*SENT, e.StartedThere(), EVICTED, LOOKED, NONE_LEFT), [WAIT]),
    ((GO, LOOKED, STAY), []),
]  # fmt: skip


@pytest.mark.parametrize(("events", "actions"), RESTARTS)
def test_it_continues_after_a_restart(events, actions):
    """It keeps its waits; open questions are asked again."""
    life = Life()
    for event in events:
        life(event)
    assert life.journey.resumed(life.now_s) == actions


def test_files_in_transit_do_not_survive_a_restart():
    life = Life(is_staged=True)
    for event in (*SENT, e.StartedThere(), WELL):
        life(event)
    why = "this host's LBM was restarted before its files were back"
    assert life.journey.resumed(life.now_s)[0].end.reason.startswith(why)


def test_a_command_that_must_leave_and_finds_no_host_says_how_to_take_files_along():
    life = Life(mode="remote")
    for event in (GO, LOOKED, TO_H2, e.Sent(), NO_DIRECTORY, LOOKED):
        life(event)
    assert failed(NO_DIRECTORY.advice)[-1] in life(NONE_LEFT)


def test_the_docstrings_name_the_actions_that_are_answered():
    """The code that carries out an action uses the list, the reader its docstring."""
    said = {one for one in get_args(e.Action) if "nswered " in (one.__doc__ or "")}
    assert said == e.ANSWERED
