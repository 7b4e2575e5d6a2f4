"""A queued attempt is unchanged by a restart of its LBM, and ends with its lease."""

from types import SimpleNamespace

import pytest

from lbd.config.schema import Config
from lbd.lbm.core import execution_events as e
from lbd.lbm.core.execution import Asked, Phase, Timer
from lbd.lbm.core.jobs import Jobs
from lbd.lbm.core.leases import Leases
from lbd.lbm.core.slots import Slots
from lbd.lbm.inbound.executions import Executions
from lbd.lbm.inbound.submitted import Submitted
from lbd.lbm.keeper_link import ProcessExit, Spawned
from lbd.lbm.queue.dispatcher_line import DispatcherLine, all_reports
from lbd.process.boot_clock import clock_s
from tests.unit.lbm.handover.passing import handed_over
from tests.unit.lbm.queue.test_attempt_guards import KEY, Link, Spool, admit, start
from tests.unit.until import until


class Keeper(Link):
    """It continues with what another LBM had it start."""

    def adopt(self, job, stopped, begun):
        self.spawns.append(Spawned(stopped))
        return self.spawns[-1]


def line_of():
    slots = Slots(2, 10)
    host = SimpleNamespace(
        config=Config(), rules=SimpleNamespace(config=Config()), link=Keeper(), slots=slots,
        jobs=Jobs(10), submitted=Submitted(), admit=admit, changed=lambda: None,
        job_began=lambda *_: None, job_ended=lambda *_: None, executions=Executions(slots),
    )  # fmt: skip
    client = SimpleNamespace(spool=Spool(), spools=SimpleNamespace(), leases=Leases())
    return host, DispatcherLine(host, client, lambda: None)


@pytest.fixture
async def running():
    host, line = line_of()
    attempt = start(line)
    await until(lambda: attempt.execution.process is not None)
    return host, line, attempt


def taken_up(line):
    host, following = line_of()
    for left in line.left():
        following.adopt(handed_over(left))
    return host, following


async def test_it_continues_with_its_slot_its_lease_and_its_name(running):
    before, line, _ = running
    host, following = taken_up(line)
    taken = following._held[KEY].attempt
    assert taken.execution.phase is Phase.RUNNING
    assert following._leases.until_s == line._leases.until_s
    assert (host.slots.used, host.jobs.running) == (1, before.jobs.running)
    assert host.link.spawns, "the keeper is asked how it ends"
    host.link.spawns[0].exited.set_result(ProcessExit(0, 0.0, 0.0, 0, False))
    await until(lambda: taken.is_over)
    assert following._held[KEY].end.cause == "exited"
    assert host.slots.used == 0


async def test_only_a_dispatcher_of_the_same_ledger_decides_of_it(running):
    """Whoever was named at the first renewal after a restart could renew it."""
    _, line, _ = running
    line._held[KEY].ledger_token = b"one"
    _, following = taken_up(line)
    for token, is_theirs in ((b"another", False), (b"one", True)):
        following._held.connected(token, 0.0)
        assert (following._held.ordered(KEY) is not None) is is_theirs


async def test_moving_it_costs_as_much_as_before(running):
    _, line, attempt = running
    attempt.files_s = 40.0
    _, following = taken_up(line)
    assert 40.0 <= following._held[KEY].attempt.moving_cost_s < 100.0


async def test_without_its_lease_it_is_ended_by_any_lbm_that_has_it(running):
    _, line, attempt = running
    attempt.execution.timers[Timer.LEASE] = clock_s() - 1.0
    _, following = taken_up(line)
    assert following._held[KEY].attempt.execution.asked is Asked.KILL


async def test_an_unsettled_end_is_reported_again(running):
    host, line, attempt = running
    attempt.feed(e.EndWanted(0, "cancel"))
    host.link.spawns[0].exited.set_result(ProcessExit(15, 0.0, 0.0, 0, False))
    await until(lambda: attempt.is_over)
    following_host, following = taken_up(line)
    reports = all_reports(following._held.values()).take()
    assert [report.event for report in reports] == ["begun", "ended"]
    assert reports[-1].stop_reason == "cancel"
    assert not following.alive(*KEY)
    assert (following_host.slots.used, following_host.link.spawns) == (0, [])


async def test_its_stop_is_known(running):
    _, line, attempt = running
    attempt.stopped(True)
    _, following = taken_up(line)
    reports = all_reports(following._held.values()).take()
    assert [report.event for report in reports] == ["begun", "stopped"]
