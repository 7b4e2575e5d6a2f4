"""Before any task of a gang starts, each host checks that its task would. They move together."""

from types import SimpleNamespace

from lbd.lbm.core import execution_events as e
from lbd.lbm.core.execution_events import Treatment
from lbd.lbm.keeper_link import ProcessExit, SpawnFailed
from lbd.lbm.queue.attempt import Attempt
from lbd.model import GANG_MOVES, GANG_SHOWN
from lbd.process.boot_clock import clock_s
from tests.unit.lbm.queue.test_attempt_guards import KEY, Spool, host, news, start_of
from tests.unit.until import until

__all__ = ["host", "news"]


def one_of_a_gang(host, news, spool=None):
    start = start_of()
    start.gang_hosts.extend(["h1", "h2"])
    client = SimpleNamespace(spool=spool or Spool())
    return Attempt(host, client, start, news.append, clock_s() + 30.0)


async def test_a_task_of_a_gang_is_ready_once_everything_is_checked_that_can_be_without_starting(
    host, news
):
    host.link.answers.clear()
    attempt = one_of_a_gang(host, news)
    attempt.begin()
    await until(lambda: host.link.checked)
    assert (news, list(attempt.reports(has_ended=False))) == ([], [])
    (order,) = host.link.checked
    assert (order.check, order.job, order.argv) == (True, "check.7.1", [b"true"])
    host.link.answers.set()
    await until(lambda: news)
    assert [one.event for one in (*news, *attempt.reports(has_ended=False))] == ["ready"] * 2
    assert not host.link.orders


async def test_a_task_of_a_gang_that_would_not_start_is_refused_and_none_starts(host, news):
    host.link.forbids = SpawnFailed("admission.programs", 13)
    attempt = one_of_a_gang(host, news)
    attempt.begin()
    await until(lambda: news)
    (report,) = news
    assert (report.event, report.phase, report.errno) == ("refused", "admission", 13)
    assert "true is not allowed here (admission.programs)" in report.reason
    assert not attempt.execution.has_slot
    assert not host.link.orders


async def test_a_task_of_a_gang_that_was_to_end_meanwhile_reports_nothing_more(host, news):
    host.link.answers.clear()
    attempt = one_of_a_gang(host, news)
    attempt.begin()
    await until(lambda: host.link.checked)
    attempt.feed(e.EndWanted(0, "regroup"))
    host.link.answers.set()
    await until(lambda: not host.executions.tasks)
    assert [one.event for one in news] == ["refused"]


async def test_a_task_of_a_gang_asks_for_a_restart_of_all_unless_its_output_was_shown(host, news):
    spool = Spool()
    made = one_of_a_gang(host, news, spool)
    made.begin()
    await until(lambda: news and news[-1].event == "ready")
    made.feed(e.Released())
    await until(lambda: made.execution.process is not None)
    assert made.is_movable
    for treatment, asked in ((Treatment.STILL, ""), (Treatment.GO, GANG_MOVES)):
        made.owner_wants(treatment, f"h2's owner is back; {asked}")
        assert (news[-1].event, news[-1].stop_reason) == ("stopped", asked)
    made.owner_wants(Treatment.GO, "h2's owner is back; move")
    assert made.is_running  # the dispatcher ends it, with the others
    made.owner_wants(Treatment.NONE)
    assert (news[-1].event, news[-1].stop_reason) == ("continued", "")
    spool.shown.add(KEY)
    spool.when_shown[KEY]()
    assert (news[-1].event, news[-1].stop_reason) == ("continued", GANG_SHOWN)
    assert not made.is_movable
    (*_, last) = made.reports(has_ended=False)
    assert last.stop_reason == GANG_SHOWN  # for the next dispatcher
    host.link.spawns[0].exited.set_result(ProcessExit(0, 0.0, 0.0, 0, False, ""))
    await until(lambda: made.is_over)
    assert not spool.when_shown
