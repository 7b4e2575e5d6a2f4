"""Commands on their way out through LIMs as they run in production, on a small virtual network."""

from collections import Counter

import pytest

from lbd.lbm.core import journey_events as e
from lbd.lbm.core.journey import Journey, JourneyPhase
from lbd.lbm.core.next_host_after_refusal import Bounds, Demands
from lbd.lim.core import events as lim
from lbd.model import JobId, JobState, PlacementRequest, Verdict
from lbd.policy.view import Nowhere
from lbd.testing.virtual_cluster import settled

SLOTS = 2
COMMANDS = 60
OVER_S = 300.0  # every command has ended by then, and every charge is gone
STAGES = ("directory", "exec", "admission", "")


class World:
    """The hosts' LBMs: they take commands while they have slots, refuse, lose and evict some."""

    def __init__(self, seed, **params):
        self.cluster = settled(4, seed)
        self.cluster.twice = 0.1
        self.rng = self.cluster.rng
        self.running = Counter()  # of other hosts' commands, on each
        self.commands = []
        for name in self.cluster.names:
            self.report(name)

    def report(self, name):
        """Reports a host's slots to its LIM."""
        status = lim.LbmStatus(accepting=True, slots_total=SLOTS, slots_used=self.running[name])
        self.cluster.handle(self.cluster[name], status)

    def take(self, name, count):
        self.running[name] += count
        assert 0 <= self.running[name] <= SLOTS
        self.report(name)

    def charged_host(self, own, job):
        return self.cluster[own].state.table.charged_host(job)


class Command:
    """One `lbrun`, with an LBM that carries out what its journey wants."""

    def __init__(self, world, own, number, demands):
        self.world, self.cluster, self.rng = world, world.cluster, world.rng
        self.job = JobId(f"{own}-{number}")
        self.own = own
        self.journey = Journey(demands, Bounds(own, hold_limit_s=20.0, evicted_wait_s=20.0))
        self.at = None  # the host where it holds a slot
        self.answers, self.records = [], []
        self.may_have_run = False

    def feed(self, event):
        for action in self.journey.handle(event, self.cluster.now_s):
            self.carry_out(action)
        if self.journey.phase in (JourneyPhase.DONE, JourneyPhase.WAITING, JourneyPhase.EVICTED):
            assert self.world.charged_host(self.own, self.job) is None, self.journey

    def later(self, event, delay_s=0.001):
        """Handles the event later, unless the command has moved on by then."""
        phase, place = self.journey.phase, self.journey.place

        def arrive():
            if (self.journey.phase, self.journey.place) == (phase, place):
                self.feed(event)

        self.cluster.at(delay_s, arrive)

    def carry_out(self, action):
        match action:
            case e.Look():
                self.later(e.Looked())
            case e.AskLim(question):
                self.ask(question)
            case e.WaitForRoom(limit_s):
                self.later(e.Waited(), limit_s)
            case e.TakeTurn():
                self.later(e.TurnTaken(granted=True))
            case e.Start(host):
                assert not self.may_have_run
                assert self.at is None
                self.cluster.at(0.002, lambda: self.start(host))
            case e.Follow():
                self.later(self.end(), self.rng.expovariate(0.5))
            case e.LetGo():
                self.leave_slot()
            case e.RunHere():
                assert not self.may_have_run
                self.answers.append(action)
                self.later(e.EndedHere(1.0), self.rng.expovariate(0.5))
            case e.Finish():
                self.answers.append(action)
            case e.RecordEnd(state):
                self.records.append(state)
            case e.BeginAgain():
                self.may_have_run = False
            case e.Discharge():
                self.cluster.handle(self.cluster[self.own], lim.JobEnded(self.job))

    def ask(self, question):
        request = PlacementRequest(
            job=self.job,
            wanted=question.wanted,
            excluded=question.excluded,
            must_leave=question.must_leave,
            must_stay=question.must_stay,
            may_wait=question.may_wait,
        )

        def decided(found):
            if isinstance(found, Nowhere):
                self.later(e.LimRefused(found.reason))
            else:
                address = f"{found.host}:1" if found.verdict is Verdict.THERE else ""
                self.later(e.LimSaid(found.verdict, found.host, address, found.reason))

        self.cluster.submit(self.own, request, decided)

    def start(self, host):
        if self.journey.phase is not JourneyPhase.CONNECTING or self.journey.place.host != host:
            return
        if self.world.running[host] >= SLOTS:
            self.feed(e.Refused("all slots are taken", "slots", full=True))
        elif self.rng.random() < 0.15:
            stage = self.rng.choice(STAGES)
            self.feed(e.Refused("it will not", stage, fault=not stage))
        else:
            self.at = host
            self.world.take(host, 1)
            self.may_have_run = True
            self.feed(e.Sent())
            self.feed(e.StartedThere() if self.rng.random() < 0.95 else e.ContactLost("cut off"))

    def end(self):
        if self.rng.random() < 0.1:
            return e.ContactLost("cut off")
        cause = "evicted" if self.rng.random() < 0.2 else "exited"
        return e.Ended(0, cause, untouched=self.rng.random() < 0.7)

    def leave_slot(self):
        if self.at is not None:
            self.world.take(self.at, -1)
            self.at = None


def some_demands(rng, names):
    mode = rng.choice(["auto", "auto", "auto", "remote", "host"])
    return Demands("cc", mode, rng.choice(names) if mode == "host" else None)


@pytest.mark.parametrize("seed", range(4))
def test_no_command_is_lost_and_every_charge_goes_away(seed):
    world = World(seed)
    cluster, rng = world.cluster, world.rng
    cluster.load(h1=6.0, h2=3.0, h3=0.0, h4=0.5)
    cluster.run(10.0)
    for number in range(COMMANDS):
        own = rng.choice(cluster.names[:2])
        command = Command(world, own, number, some_demands(rng, cluster.names))
        world.commands.append(command)
        cluster.at(rng.uniform(0, 60), lambda it=command: it.feed(e.Judged(leaves=True)))
        if rng.random() < 0.1:
            cluster.at(rng.uniform(0, 60), lambda it=command: it.feed(e.CallerGone()))
    cluster.run(OVER_S)
    for command in world.commands:
        if command.journey.phase is JourneyPhase.NEW:
            continue  # its caller had left before
        assert command.journey.phase is JourneyPhase.DONE, command.journey
        assert len(command.records) == 1, command.journey
        assert len(command.answers) == (JobState.CANCELLED not in command.records)
    states = Counter(state for command in world.commands for state in command.records)
    assert states[JobState.DONE] > COMMANDS / 2
    assert not +world.running
    assert not any(cluster[name].state.table.charges(name) for name in cluster.names)
    assert sum(any(isinstance(a, e.Finish) for a in c.answers) for c in world.commands) > 5
