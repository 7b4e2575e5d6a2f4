"""Accounting outside the event loop: no trouble with the file affects a job."""

import asyncio
import sqlite3
import threading
import time
from dataclasses import replace

import pytest

from lbd.config.schema import Config, HostConfig, StatsConfig
from lbd.errors import Unavailable
from lbd.lbm.core.jobs import Job, Jobs
from lbd.lbm.handover import codec
from lbd.lbm.handover.fds import Bundle, Given
from lbd.lbm.session.job_records import ended_record, job_json
from lbd.lbm.usage import backlog, thread
from lbd.lbm.usage import log as usage_log
from lbd.lbm.usage.backlog import Unrecorded
from lbd.lbm.usage.gaps import Gap
from lbd.lbm.usage.log import UsageLog
from lbd.lbm.usage.store import UsageStore
from lbd.model import HostId, JobId, JobState
from tests.unit.until import until

NOW = time.time()


@pytest.fixture
def config(tmp_path):
    return Config(host=HostConfig(name="h1", state_dir=str(tmp_path)))


def run_jobs(log, names, finished_s=NOW + 2.0, **more):
    jobs = Jobs(10, log.note)
    for name in names:
        given = {"submitted": NOW, "started": NOW, "host": HostId("h1"), **more}
        jobs.add(Job(JobId(name), (b"cc",), "ann", HostId("h1"), **given))
        jobs.end(JobId(name), JobState.DONE, finished_s, 0, 1.0, given.get("reason", ""))


async def count(log):
    return await log.ask(lambda store: store.summary(0.0, "")[0].jobs)


async def test_a_question_sees_everything_that_has_ended(config):
    log = UsageLog(config)
    run_jobs(log, "abc")
    assert await count(log) == 3
    run_jobs(log, "d")
    await log.close()
    assert await count(UsageLog(config)) == 4


async def test_the_next_lbm_finds_what_the_last_one_wrote_at_its_end(config):
    log = UsageLog(config)
    run_jobs(log, "ab")
    log.finish()
    assert await count(UsageLog(config)) == 2


async def test_it_is_written_by_another_thread(config):
    log = UsageLog(config)
    run_jobs(log, "a")
    assert await log.ask(lambda _: threading.current_thread().name) == "accounting"
    await log.close()


async def test_commands_of_other_hosts_are_recorded_there(config):
    log = UsageLog(config)
    run_jobs(log, "a", foreign=True)
    run_jobs(log, "b", foreign=True, queued_at=HostId("h2"))
    for reason in ("cut", "lost", "evicted", "requeued"):  # it restarts
        run_jobs(log, "c", foreign=True, queued_at=HostId("h2"), reason=reason)
    assert await count(log) == 1
    await log.close()


async def test_a_command_that_continues_without_us_has_not_ended(config):
    log = UsageLog(config)
    log.is_stopping = True
    run_jobs(log, "a", reason="lowest; load with it: h2 0.9")
    run_jobs(log, "b", host=HostId("h2"))
    assert await count(log) == 1
    number, usage = await log.ask(lambda store: store.by_id("a"))
    assert (usage.state, usage.exit_status, usage.response_s) == ("unknown", None, None)
    shown = job_json(ended_record(number, usage))
    assert (
        shown["reason"]
        == "lbd on h1 was stopped while it ran, so how it ended, or whether, is not known"
    )
    assert shown["placed"] == "lowest; load with it: h2 0.9"
    await log.close()


async def test_the_next_lbm_lists_what_ended_before_it(config):
    """`lbctl jobs --all` left out what was typed before a restart of the host."""
    log = UsageLog(config)
    run_jobs(log, ["h1-1", "h1-2"], uid=7)
    run_jobs(log, ["h1-3"], uid=7, queued_at=HostId("h1"), queued_as="12")
    log.is_stopping = True
    run_jobs(log, ["h1-4"], uid=7)
    log.finish()
    log, jobs = UsageLog(config), Jobs(2)
    await log.recall(jobs, 10)
    assert [job.id for job in jobs.ended] == ["h1-1", "h1-2"]
    assert (jobs.ended[0].state, jobs.ended[0].finished) == (JobState.DONE, NOW + 2.0)
    assert (jobs.ended[0].command, jobs.ended[0].uid) == ((b"cc",), 7)
    jobs = Jobs(10)
    jobs.add(Job(JobId("h1-1"), (b"cc",), "ann", HostId("h1"), HostId("h1"), NOW))
    await log.recall(jobs, 10)
    await log.recall(jobs, 10)
    assert [job.id for job in jobs.ended] == ["h1-4", "h1-2"]
    assert (jobs.ended[0].state, jobs.ended[0].finished) == (JobState.UNKNOWN, None)
    await log.close()


@pytest.fixture
def away(config, tmp_path):
    """Returns a configuration whose state directory does not exist, and that directory."""
    path = tmp_path / "state"
    return replace(config, host=replace(config.host, state_dir=str(path))), path


async def gaps(log):
    return await log.ask(lambda _: log.gaps())


async def test_an_unwritable_disk_costs_nothing_while_there_is_room_in_memory(away, caplog):
    config, path = away
    log = UsageLog(config)
    for name in "abc":
        run_jobs(log, name)
        with pytest.raises(Unavailable, match="accounting cannot be read"):
            await count(log)
    assert "No such file" in log.trouble
    lines = [record.message.partition(":")[0] for record in caplog.records]
    assert lines == ["cannot record jobs in the accounting"]  # once, not for each
    path.mkdir()
    assert await count(log) == 3
    assert (log.lost, log.trouble, await gaps(log)) == (0, "", [])
    await log.close()


async def test_they_are_written_though_nothing_more_happens(away, monkeypatch):
    monkeypatch.setattr(thread, "RETRY_S", 0.02)
    config, path = away
    log = UsageLog(config)
    run_jobs(log, "a")
    log._flush()
    await until(lambda: log.trouble)
    path.mkdir()
    await until(lambda: not log._writer.is_behind)
    assert await count(log) == 1
    await log.close()


async def test_beyond_the_room_in_memory_they_are_counted_for_good(away, monkeypatch, caplog):
    monkeypatch.setattr(backlog, "KEPT_MAX", 2)
    config, path = away
    log = UsageLog(config)
    run_jobs(log, "ab")
    for at, name in enumerate("cd"):
        run_jobs(log, name, finished_s=NOW + 10.0 * at)
        with pytest.raises(Unavailable):
            await count(log)
    assert [line for line in caplog.messages if "only counted" in line] != []
    path.mkdir()
    assert await count(log) == 2
    assert (await gaps(log), log.lost) == ([Gap(2, NOW, NOW + 10.0)], 2)
    await log.close()
    after = UsageLog(config)
    after.begin()
    assert await gaps(after) == [Gap(2, NOW, NOW + 10.0)]
    assert after.lost == 2, "the counter goes on"
    await after.close()


async def test_the_next_lbm_writes_what_the_last_one_could_not(away):
    config, path = away
    log = UsageLog(config)
    run_jobs(log, "ab")
    left = log.finish()
    assert [usage.id for usage in left.usages] == ["a", "b"]
    assert read_again(left) == left == log.finish()
    path.mkdir()
    after = UsageLog(config)
    after.begin(left)
    assert (await count(after), await gaps(after)) == (2, [])
    await after.close()


def read_again(left):
    return codec.read(Unrecorded, codec.write(left, Bundle()), Given([]))


async def test_what_an_lbm_that_was_killed_could_not_write_is_counted(config, monkeypatch):
    log = UsageLog(config)
    log.begin()
    assert await count(log) == 0
    with monkeypatch.context() as full:
        full.setattr(UsageStore, "add", no_room)
        run_jobs(log, "ab", finished_s=NOW)
        run_jobs(log, "c", finished_s=NOW + 60.0)
        assert await gaps(log) == [Gap(3, NOW, NOW + 60.0, not_yet=True)]
    killed, log = log, UsageLog(config)
    log.begin()
    found = await gaps(log)
    assert [(gap.commands, gap.not_yet) for gap in found] == [(3, False)]
    assert (found[0].since, found[0].until) == pytest.approx((NOW, NOW + 60.0), abs=0.001)
    await log.close()
    again = UsageLog(config)
    again.begin()
    assert len(await gaps(again)) == 1, "once"
    await again.close()
    killed._thread.end(20.0)


def no_room(*_):
    problem = sqlite3.OperationalError("database or disk is full")
    problem.sqlite_errorcode = sqlite3.SQLITE_FULL
    raise problem


async def test_the_lbm_goes_on_if_it_cannot_hand_over(config):
    log = UsageLog(config)
    run_jobs(log, "a")
    log.finish()
    run_jobs(log, "b")
    assert await count(log) == 2
    await log.close()


async def test_the_queue_of_unwritten_records_is_bounded(config, monkeypatch):
    monkeypatch.setattr(usage_log, "PENDING_MAX", 5)
    log = UsageLog(config)
    run_jobs(log, "abcdefgh")
    assert await count(log) == 5
    assert (log.lost, [gap.commands for gap in await gaps(log)]) == (3, [3])
    await log.close()


async def test_recording_begins_once_a_thread_can_be_had(config, monkeypatch):
    """Any user can have all processes of a host for a while. Nothing was recorded ever after."""

    def none_left(_):
        raise RuntimeError("can't start new thread")

    log = UsageLog(config)
    with monkeypatch.context() as short:
        short.setattr(threading.Thread, "start", none_left)
        run_jobs(log, "a")
        log._flush()
    assert await count(log) == 1
    assert log.lost == 0
    await log.close()


async def test_a_disk_that_hangs_delays_nobody(config, monkeypatch):
    monkeypatch.setattr(usage_log, "CLOSE_S", 0.05)
    monkeypatch.setattr(thread, "ANSWER_S", 0.05)
    log, hang = UsageLog(config), threading.Event()
    with pytest.raises(Unavailable, match="does not answer"):
        await log.ask(lambda _: hang.wait(20.0))
    run_jobs(log, "a")  # appended, nothing more
    await log.close()
    hang.set()


async def test_a_question_of_who_has_hung_up_is_not_asked_and_keeps_its_turn_until_then(config):
    """Questions that nobody waits for any more kept everybody else from the accounting."""
    log, goes_on, made = UsageLog(config), threading.Event(), []
    slow = asyncio.create_task(log.ask(lambda _: goes_on.wait(20.0)))
    gone = [asyncio.create_task(log.ask(lambda _: made.append(1))) for _ in range(50)]
    await asyncio.sleep(0)
    for task in gone:
        task.cancel()
    done, _ = await asyncio.wait(gone, timeout=0.05)
    assert not done
    goes_on.set()
    assert await slow
    await asyncio.wait(gone)
    assert made == []
    assert await count(log) == 0
    await log.close()


async def test_questions_wait_behind_the_records_of_ended_jobs(config):
    """While many ask, an LBM that is ended still writes what has ended."""
    log, goes_on, made = UsageLog(config), threading.Event(), []
    log.begin()
    asked = [asyncio.create_task(log.ask(lambda _: goes_on.wait(20.0)))]
    asked += [asyncio.create_task(log.ask(lambda _: made.append(1))) for _ in range(60)]
    await asyncio.sleep(0)
    run_jobs(log, "abc")
    closing = asyncio.create_task(log.close())
    await asyncio.sleep(0)
    goes_on.set()
    await closing
    assert made == []
    assert await count(UsageLog(config)) == 3
    for task in asked:
        task.cancel()


async def test_a_thread_that_ended_too_late_to_hand_over_is_followed_by_another(
    config, monkeypatch
):
    monkeypatch.setattr(usage_log, "CLOSE_S", 0.01)
    log, hangs, goes_on = UsageLog(config), threading.Event(), threading.Event()
    hanging = asyncio.create_task(log.ask(lambda _: hangs.set() or goes_on.wait(20.0)))
    await until(hangs.is_set)
    assert log.finish() is None
    assert log.finish() is None
    goes_on.set()
    assert await hanging
    monkeypatch.setattr(usage_log, "CLOSE_S", 20.0)
    await until(lambda: not log._thread._thread.is_alive())
    run_jobs(log, "a")
    assert await count(log) == 1
    await log.close()


async def test_so_many_questions_wait_for_the_accounting_and_no_more(config, monkeypatch):
    monkeypatch.setattr(thread, "QUESTIONS_MAX", 2)
    log, goes_on = UsageLog(config), threading.Event()
    asked = [asyncio.create_task(log.ask(lambda _: goes_on.wait(20.0))) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="too far behind"):
        await count(log)
    goes_on.set()
    await asyncio.gather(*asked)
    assert await count(log) == 0
    await log.close()


async def test_no_accounting_is_kept_if_the_owner_wants_none(config, tmp_path):
    log = UsageLog(replace(config, stats=StatsConfig(max_rows=0)))
    run_jobs(log, "abc")
    with pytest.raises(Unavailable, match=r"stats\.max_rows"):
        await count(log)
    await log.close()
    assert list(tmp_path.iterdir()) == []


async def test_what_cannot_be_asked_or_written_ends_no_accounting(config):
    """A number from another host that SQLite cannot hold once ended the thread, for good."""
    log = UsageLog(config)
    run_jobs(log, "ab")
    with pytest.raises(Unavailable, match="cannot answer this"):
        await log.ask(lambda store: store.page(0.0, 1 << 64, 1))
    run_jobs(log, "c", uid=1 << 64)
    run_jobs(log, "d", name="\udcff")
    run_jobs(log, "e")
    assert await count(log) == 3
    assert log.lost == 2
    log._thread.do(lambda: 1 / 0)
    assert await count(log) == 3
    await log.close()
