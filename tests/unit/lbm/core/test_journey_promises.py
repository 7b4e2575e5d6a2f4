"""Promises about a command on its way out hold for any events in any order."""

import dataclasses
import typing
from random import Random

import pytest

from lbd.lbm.core import journey_events as e
from lbd.lbm.core.journey import ENDING_SIGNALS, Journey, JourneyPhase
from lbd.lbm.core.next_host_after_refusal import MAX_TRIES, Demands
from lbd.lbm.core.slots import Grant, Granted
from lbd.lbm.handover.codec import read, write
from lbd.lbm.handover.fds import Bundle, Given
from lbd.model import NO_NEEDS, HostId, Needs, Verdict
from lbd.net.gen.handover_pb2 import HeldValue
from tests.unit.lbm.core.test_journey import (
    BROKEN,
    FULL,
    H1,
    H2,
    H3,
    NO_DIRECTORY,
    NO_PROGRAM,
    NONE_LEFT,
    OURS,
    SILENT,
    UNWILLING,
    USR1,
)  # fmt: skip

GRANTED = e.NeedsTaken(Grant((Granted("gpu", 1, (0,)),)))
NEVER_THERE = e.NeedsTaken(None, "no gpu")
HOSTS = (H1, H2, H3, HostId("h4"))


def any_of(*values):
    return lambda rng: rng.choice(values)


def some_hosts(rng):
    return frozenset(rng.sample(HOSTS, rng.randrange(3)))


def some_slots(rng):
    return {host: rng.choice([(4, 4), (4, 0), (1, 1)]) for host in some_hosts(rng)}


def an_ending(rng):
    cause, trouble = rng.choice(["exited", "evicted", "evicted"]), rng.choice(["", "", "no space"])
    return e.Ended(rng.choice([0, 137]), cause, trouble=trouble, untouched=rng.random() < 0.7)


def an_answer(rng):
    verdict = rng.choice([*Verdict, Verdict.THERE, Verdict.THERE])
    return e.LimSaid(verdict, rng.choice(HOSTS), "a:1", "why")


EVENTS = {
    e.Judged: lambda rng: e.Judged(rng.random() < 0.8, "new", rng.random() < 0.5),
    e.Looked: lambda rng: e.Looked(some_hosts(rng), "", rng.choice(["", "h2:1"])),
    e.SlotsKnown: lambda rng: e.SlotsKnown(some_slots(rng)),
    e.LimSaid: an_answer,
    e.LimRefused: any_of(NONE_LEFT),
    e.LimSilent: any_of(SILENT, e.LimSilent("no", "h2:1")),
    e.Waited: any_of(e.Waited()),
    e.Sent: any_of(e.Sent()),
    e.TurnTaken: any_of(e.TurnTaken(True), e.TurnTaken(False)),
    e.NeedsTaken: any_of(GRANTED, e.NeedsTaken(None, "both gpus in use", True), NEVER_THERE),
    e.Refused: any_of(FULL, NO_PROGRAM, NO_DIRECTORY, UNWILLING, BROKEN),
    e.Unseen: any_of(e.Unseen("no")),
    e.StartedThere: any_of(e.StartedThere(), e.StartedThere(no_less_busy=True)),
    e.Ended: an_ending,
    e.Fetched: any_of(e.Fetched(), e.Fetched("no")),
    e.ContactLost: any_of(e.ContactLost("no")),
    e.Failed: any_of(e.Failed("no")),
    e.Used: any_of(e.Used(1.0, 0), e.Used(1.0, 1)),
    e.NotRun: any_of(e.NotRun(127, "no")),
    e.EndedHere: any_of(e.EndedHere(1.0), e.EndedHere()),
    e.CallerGone: any_of(e.CallerGone()),
    e.UserSignal: any_of(*(e.UserSignal(number) for number in (*ENDING_SIGNALS, USR1))),
}
ANSWERS = {  # what may follow the last action of a list
    e.Look: (e.Looked,),
    e.AskSlots: (e.SlotsKnown, e.LimRefused, e.LimSilent),
    e.AskLim: (e.LimSaid, e.LimRefused, e.LimSilent),
    e.WaitForRoom: (e.Waited,),
    e.TakeTurn: (e.TurnTaken,),
    e.TakeNeeds: (e.NeedsTaken,),
    e.Start: (*[e.Sent] * 4, *[e.StartedThere] * 4, e.Refused, e.Refused, e.Unseen, e.ContactLost),
    e.Follow: (*[e.Ended] * 4, e.ContactLost, e.Failed, e.UserSignal),
    e.AwaitAnswer: (e.StartedThere, e.Refused, e.ContactLost),
    e.Fetch: (e.Fetched,),
    e.RunHere: (e.Used, e.EndedHere),
}


def some_demands(rng):
    mode = rng.choice(["auto", "remote", "host"])
    flags = ("may_fall_back", "may_restart", "must_stay", "only_asks", "is_staged")
    return Demands(
        "cc",
        mode,
        H2 if mode == "host" else None,
        some_hosts(rng),
        rng.choice([(1, 1), (2, 4)]),
        needs=rng.choice([NO_NEEDS, Needs((("gpu", 1),))]),
        **{flag: rng.random() < (0.8 if flag.startswith("may") else 0.3) for flag in flags},
    )


WAITING = (
    e.Look,
    e.AskSlots,
    e.AskLim,
    e.WaitForRoom,
    e.TakeTurn,
    e.TakeNeeds,
    e.Start,
    e.Follow,
    e.Fetch,
)


class World:
    """What the LIM, the hosts, the caller and the accounts have seen of one journey."""

    def __init__(self, journey):
        self.journey = journey
        self.charged = False  # by the LIM, or perhaps
        self.at = None  # a host that may have something of it
        self.may_have_run = False
        self.starts = self.turns = 0  # starts in a row; turns held
        self.grants = 0  # held
        self.answers = ()  # to the client
        self.records = 0
        self.gone = self.was_evicted = False

    def feed(self, event, now_s):
        phase = self.journey.phase
        self._sees(event, phase)
        actions = self.journey.handle(event, now_s)
        assert not (phase is JourneyPhase.DONE and actions), "after done no action"
        return self.carry_out(actions, event)

    def carry_out(self, actions, event=None):
        assert not any(isinstance(action, WAITING) for action in actions[:-1])
        for action in actions:
            self._carry_out(action, event)
        self.check()
        return actions

    def _sees(self, event, phase):
        if isinstance(event, e.LimSaid) and phase is JourneyPhase.ASKING:
            self.charged = event.verdict is not Verdict.WAIT
        if isinstance(event, e.LimRefused) and phase is JourneyPhase.ASKING:
            self.charged = False
        if phase in (JourneyPhase.CONNECTING, JourneyPhase.STARTING, JourneyPhase.RUNNING):
            if isinstance(event, e.Sent | e.StartedThere | e.ContactLost):
                self.may_have_run = True
            if isinstance(event, e.Refused) and phase is not JourneyPhase.RUNNING:
                self.may_have_run = False
        if isinstance(event, e.CallerGone) and phase not in (JourneyPhase.HERE, JourneyPhase.DONE):
            self.gone = True

    def _carry_out(self, action, event):
        match action:
            case e.AskLim() | e.Charge():
                self.charged = True
            case e.Discharge(charged=charged):
                assert charged == self.charged, "discharged exactly once"
                self.charged = False
            case e.Start(host):
                assert self.at is None, "it is on one host at a time"
                assert not self.may_have_run, "what may have run never runs again"
                self.at, self.starts = host, self.starts + 1
            case e.LetGo(host):
                assert self.at == host
                self.at = None
            case e.BeginAgain():
                assert event.cause == "evicted"
                assert event.untouched
                assert self.journey.demands.may_restart
                self.may_have_run, self.was_evicted = False, True
            case e.WaitForRoom():
                self.starts = 0
            case e.GiveTurnBack():
                self.turns -= 1
            case e.TakeNeeds():
                assert self.journey.demands.needs
                self.turns += isinstance(event, e.TurnTaken)
            case e.GiveNeedsBack():
                self.grants -= 1
            case e.RunHere():
                assert not self.may_have_run
                assert not self.was_evicted, "its caller cannot run it any more"
                self.turns += isinstance(event, e.TurnTaken)
                self.grants += isinstance(event, e.NeedsTaken)
                assert bool(action.grant) == bool(self.journey.demands.needs)
                self.answers += (action,)
            case e.Finish() | e.Away():
                self.answers += (action,)
            case e.RecordEnd():
                self.records += 1

    def check(self):
        journey = self.journey
        done, here = journey.phase is JourneyPhase.DONE, journey.phase is JourneyPhase.HERE
        assert len(self.answers) <= 1, "it ends once for its caller"
        assert bool(self.answers) == ((done and not self.gone) or here)
        if done:
            is_away = any(isinstance(answer, e.Away) for answer in self.answers)
            assert (self.at, self.charged, self.turns, self.grants) == (None, False, 0, 0)
            assert self.records == (0 if is_away else 1)
        if not done:
            assert journey.is_irrevocable == (self.may_have_run or self.was_evicted)
        if journey.demands.mode == "auto":
            assert self.starts <= MAX_TRIES + 2, "tries are bounded"
        assert journey.search.tries <= MAX_TRIES
        assert len(journey.search.refusals) <= MAX_TRIES + 1


def restored(journey):
    """Restores the journey as after a restart."""
    left = write(journey, Bundle()).SerializeToString()
    return read(Journey, HeldValue.FromString(left), Given([]))


def lives(seed, count):
    """Yields this many lives, and the random numbers of each."""
    for number in range(count):
        rng = Random(f"{seed} {number}")
        bounds = dataclasses.replace(OURS, has_peers=rng.random() < 0.9)
        yield rng, World(Journey(some_demands(rng), bounds))


@pytest.mark.parametrize("seed", range(5))
def test_promises_hold_for_any_events(seed):
    for rng, world in lives(seed, 1000):
        now_s = 0.0
        for _ in range(rng.randrange(40)):
            now_s += rng.choice([0.0, 1.0, 40.0])
            world.feed(rng.choice(list(EVENTS.values()))(rng), now_s)


@pytest.mark.parametrize("seed", range(5))
def test_promises_hold_where_answers_fit_their_questions(seed):
    """Goes deeper into a life than chance alone; it is saved and restored at any moment."""
    seen = set()
    for rng, world in lives(seed, 500):
        journey, now_s, expected = world.journey, 0.0, (e.Judged,)
        while journey.phase is not JourneyPhase.DONE and now_s < 300.0:
            kind = rng.choice(expected if rng.random() < 0.9 else list(EVENTS))
            event = EVENTS[kind](rng)
            now_s += rng.choice([0.0, 0.5, 1.0, 20.0])
            twin = restored(journey)
            assert twin == journey
            actions = world.feed(event, now_s)
            assert twin.handle(event, now_s) == actions
            assert twin == journey
            if rng.random() < 0.05:  # the LBM is restarted
                actions = world.carry_out(journey.resumed(now_s))
            seen |= {type(action) for action in actions}
            if actions and type(actions[-1]) in ANSWERS:
                expected = ANSWERS[type(actions[-1])]
    assert len(set(typing.get_args(e.Action)) - seen) <= 1, "hardly anything is left untried"
