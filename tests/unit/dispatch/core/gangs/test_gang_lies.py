"""A host that lies about its part of a gang: it neither leaves the other hosts' parts hanging nor
makes them run again when they must not."""

from collections import defaultdict
from dataclasses import dataclass, replace

import pytest

from lbd.dispatch.core.records import Begin, Cause, Changed, Ending, Release, Signal
from lbd.errors import LbdError
from lbd.model import CANCEL, DISBAND, REGROUP, REQUEUE, JobId, JobState
from tests.unit.dispatch.gangs import H1, H2, H3, Table, of_kind

LIAR, HONEST = H2, (H1, H3)
SAID = ("", CANCEL, DISBAND, REGROUP, REQUEUE)
PHASES = ("slot", "late", "keeper", "files", "exec", "chdir", "stage", "spawn", "request", "?")
LEASE_S = 6.0
ENDED = (JobState.DONE, JobState.FAILED, JobState.CANCELLED, JobState.LOST)


def of_the_liar(begins):
    return next(one for one in begins if one.host == LIAR)


def states(actions):
    return {one.job: one.state for one in of_kind(Changed, actions)}


def test_one_that_has_ended_unasked_leaves_the_others_held_for_nothing():
    table = Table(slots=1)
    begins = table.gang(3)
    lies, first, last = of_the_liar(begins), *(one for one in begins if one.host != LIAR)
    table.ready(first)
    actions = table.ended(lies)
    assert states(actions) == {lies.job: JobState.PENDING}
    stops = {(one.job, one.stop_reason) for one in of_kind(Signal, actions)}
    assert stops == {(first.job, REGROUP), (last.job, REGROUP)}


def test_a_task_that_ends_when_all_others_are_ready_releases_them():
    table = Table(hosts=(H1, LIAR), slots=1)
    begins = table.gang(2)
    lies, other = of_the_liar(begins), next(one for one in begins if one.host == H1)
    table.ready(other)
    assert {one.job for one in of_kind(Release, table.ended(lies))} == {lies.job, other.job}


@pytest.mark.parametrize("said", [REGROUP, REQUEUE, DISBAND, CANCEL])
def test_what_a_host_says_it_was_told_does_not_make_it_wait_for_those_that_run(said):
    table = Table(slots=1)
    begins = table.running(3)
    lies = of_the_liar(begins)
    actions = table.ended(lies, Ending(Cause.SIGNALLED, None, 9, stop_reason=said))
    assert states(actions) == {lies.job: JobState.FAILED}


def test_what_ran_and_may_not_restart_does_not_begin_again_by_a_host_that_says_none_had_begun():
    table = Table(hosts=(H1, LIAR), slots=1)
    begins = table.running(2, may_restart=False)
    lies, ran = of_the_liar(begins), next(one for one in begins if one.host == H1)
    gang = table.life.gangs.of(table.life.jobs[JobId(ran.job)].job)
    gang.released = False  # as for a new dispatcher, which has not heard from H1 yet
    gang.may_run = True
    actions = table.refused(lies, "slot")
    assert [one.stop_reason for one in of_kind(Signal, actions)] == [REGROUP]
    actions = table.ended(ran, Ending(Cause.SIGNALLED, None, 15, stop_reason=REGROUP))
    assert states(actions) == {ran.job: JobState.LOST, lies.job: JobState.CANCELLED}
    assert not table.life.jobs


# Arbitrary lies


@dataclass
class Place:
    """An attempt, as its host sees it."""

    begin: Begin
    is_alive: bool = True
    has_run: bool = False
    is_ready: bool = False
    is_released: bool = False
    stop: str = ""

    @property
    def is_honest(self):
        return self.begin.host != LIAR


class History:
    """Random jobs and gangs on two honest hosts and one liar."""

    def __init__(self, seed):
        self.table = Table(hosts=(), lease_s=LEASE_S, aside_s=4.0, aside_max_s=10.0)
        self.life, self.rng = self.table.life, self.table.rng
        self.rng.seed(seed)
        self.places = defaultdict(dict)  # by job and attempt
        self.ended, self.runs_once = set(), {}

    def took(self, actions):
        for one in actions:
            match one:
                case Begin(job, attempt):
                    before = [place for place in self.places[job].values() if place.is_honest]
                    assert not any(place.is_alive for place in before)
                    once = one.host != LIAR and self.runs_once[job]
                    assert not (once and any(place.has_run for place in before))
                    self.places[job][attempt] = Place(one)
                    self.table.life.sending(job, attempt, self.table.now_s)
                case Signal(job, attempt) if attempt in self.places[job]:
                    self.places[job][attempt].stop = one.stop_reason or "?"
                case Release(job, attempt):
                    self.places[job][attempt].is_released = True
                case Changed(job) if one.state in ENDED:
                    mine = [place for place in self.places[job].values() if place.is_honest]
                    assert not any(place.is_alive for place in mine)
                    assert job not in self.ended
                    self.ended.add(job)
        assert self.life.jobs.keys() == self.runs_once.keys() - self.ended

    def submit(self):
        size, may_restart = self.rng.choice((1, 2, 3)), self.rng.random() < 0.6
        first = self.table.made + 1
        self.runs_once |= dict.fromkeys(map(str, range(first, first + size)), not may_restart)
        submit = self.table.submit if size == 1 else lambda **more: self.table.gang(size, **more)
        self.took(submit(may_restart=may_restart))

    def of_hosts(self, hosts):
        """Returns the attempts that are alive on honest hosts."""
        places = [place for mine in self.places.values() for place in mine.values()]
        return [place for place in places if place.is_alive and place.begin.host in hosts]

    def beat(self):
        for host in HONEST:
            self.took(self.table.host(host))
            held = [(one.begin.job, one.begin.attempt) for one in self.of_hosts({host})]
            renewed, actions = self.life.heartbeat(host, held, self.table.now_s)
            assert renewed == held
            self.took(actions)

    def honest(self):
        table, mine = self.table, self.of_hosts(HONEST)
        if not mine:
            return
        place = self.rng.choice(mine)
        begin = place.begin
        if place.stop:
            place.is_alive = False
            killed = Ending(Cause.SIGNALLED, None, 9, stop_reason=place.stop)
            over = table.ended(begin, killed) if place.has_run else table.refused(begin, "late")
            self.took(over)
        elif begin.gang_hosts and not place.is_ready:
            place.is_ready = True
            self.took(table.ready(begin))
        elif begin.gang_hosts and not place.is_released:
            return
        elif not place.has_run:
            place.has_run = True
            self.took(table.begun(begin))
        else:
            place.is_alive = False
            self.took(table.ended(begin))

    def lie(self):
        rng, table = self.rng, self.table
        begun = [place.begin for mine in self.places.values() for place in mine.values()]
        if not begun:
            return
        begin = rng.choice(begun)
        begin = replace(begin, host=LIAR, attempt=begin.attempt + rng.choice((0, 0, 0, 1)))
        status, said = rng.choice((None, 0, 1)), rng.choice(SAID)
        ending = Ending(rng.choice(list(Cause)), status, reason="lies", stop_reason=said)
        match rng.randrange(7):
            case 0:
                self.took(table.begun(begin))
            case 1:
                self.took(table.ready(begin))
            case 2:
                self.took(table.ended(begin, ending))
            case 3:
                self.took(table.refused(begin, rng.choice(PHASES), ending))
            case 4:
                self.took(table.still(begin, said, stopped=rng.random() < 0.5))
            case 5:
                held = [(one.job, one.attempt) for one in begun]
                renewed, actions = self.life.heartbeat(LIAR, held, table.now_s)
                assert all(self.places[job][n].begin.host == LIAR for job, n in renewed)
                self.took(actions)
            case 6:
                self.took(table.host(LIAR, rng.choice((1, 2, 60_000))))

    def wait(self):
        self.table.now_s += self.rng.choice((0.1, 0.5, 1.0))
        self.beat()
        self.took(self.life.tick(*self.table.when))

    def user(self):
        job = self.rng.choice(sorted(self.life.jobs) or [""])
        try:
            match self.rng.randrange(3):
                case 0:
                    self.took(self.life.kill(job, 0, *self.table.when))
                case 1:
                    self.took(self.life.requeue(job))
                case 2:
                    self.took(self.life.release(job, *self.table.when))
        except LbdError:
            pass

    def finish(self):
        """The liar is gone, and every other job must come to its end."""
        self.took(self.life.host_gone(LIAR, *self.table.when))
        for _ in range(300):
            self.wait()
            for _ in range(12):
                self.honest()
            for job in list(self.life.jobs):
                if job in self.life.jobs and self.life.jobs[job].held:
                    self.took(self.life.release(job, *self.table.when))
            if not self.life.jobs:
                return
        pytest.fail(f"these never end: {sorted(self.life.jobs)}")


STEPS = {"submit": 4, "honest": 30, "lie": 25, "wait": 15, "user": 2}


@pytest.mark.parametrize("seed", range(60))
def test_whatever_one_host_says_nothing_runs_twice_and_nothing_is_forgotten(seed):
    history = History(seed)
    for step in history.rng.choices(list(STEPS), list(STEPS.values()), k=300):
        getattr(history, step)()
    history.finish()
