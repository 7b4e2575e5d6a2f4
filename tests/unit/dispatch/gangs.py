"""A dispatcher's lifecycle with a few hosts, and the steps that tests of gangs take with it."""

from random import Random

from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.hosts import Terms
from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.core.records import Begin, Cause, Ending
from lbd.dispatch.core.shares import Rules
from lbd.dispatch.core.why_waiting import waiting_reason
from lbd.model import HostId, JobId

H1, H2, H3 = HostId("h1"), HostId("h2"), HostId("h3")
OK = Ending(Cause.EXITED, 0)
LOST = Ending(Cause.LOST, reason="gone")
LATE = Ending(Cause.LOST, reason="no free slot")
MISSING = Ending(Cause.LOST, 2, reason="no such file")


class Table:
    """A lifecycle with three hosts of two slots each."""

    def __init__(self, hosts=(H1, H2, H3), slots=2, rules=None, **terms):
        self.life = Lifecycle(make("fcfs", ()), Terms(**terms), rules or Rules())
        self.now_s = 0.0
        self.rng = Random(1)
        self.made = 0
        for host in hosts:
            self.host(host, slots)

    def host(self, name, slots=2, **more):
        return self.life.host_is(HostSlots(name, slots, **more), *self.when)

    @property
    def when(self):
        return self.now_s, self.rng

    def submit(self, **more):
        self.made += 1
        job = QueuedJob(JobId(str(self.made)), submission=self.made, **more)
        return self.life.submitted([job], *self.when)

    def gang(self, size, **more):
        first = self.made + 1
        self.made += size
        more |= {"array": first, "gang": size, "submission": first}
        jobs = [QueuedJob(JobId(str(first + n)), array_index=n, **more) for n in range(size)]
        return self.life.submitted(jobs, *self.when)

    def still(self, begin, wanted="", *, stopped=True):
        """Suspends a job because its host's owner is back; `wanted` is what the host asks for."""
        reason = f"{begin.host}'s owner came back at 14:02; moves"
        where = begin.host, begin.job, begin.attempt
        return self.life.stopped(*where, stopped, self.now_s, reason, wanted)

    def ready(self, begin):
        return self.life.ready(begin.host, begin.job, begin.attempt)

    def running(self, size, **more):
        """Starts a gang and all its tasks."""
        begins = self.gang(size, **more)
        for begin in begins:
            self.ready(begin)
        for begin in begins:
            self.life.begun(begin.host, begin.job, begin.attempt)
        return begins

    def begun(self, begin):
        return self.life.begun(begin.host, begin.job, begin.attempt)

    def ended(self, begin, ending=OK):
        return self.life.ended(begin.host, begin.job, begin.attempt, ending, *self.when)

    def refused(self, begin, phase="slot", ending=LATE):
        return self.life.refused(begin.host, begin.job, begin.attempt, phase, ending, *self.when)

    def why(self, number):
        live = self.life.jobs[JobId(str(number))]
        return waiting_reason(self.life, live, time_of="{:g}".format)


def of_kind(kind, actions):
    return [action for action in actions if isinstance(action, kind)]


def send(table, actions):
    """Sends the attempts that these begin, and returns them."""
    begins = of_kind(Begin, actions)
    for one in begins:
        assert table.life.sending(one.job, one.attempt, table.now_s)
    return begins
