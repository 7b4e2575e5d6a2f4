"""What a host reports is heard in steps, and what it costs is bounded."""

import asyncio

import pytest

from lbd.dispatch import host_connection
from lbd.dispatch.daemon import Dispatcher
from lbd.dispatch.host_connection import HostConnection
from lbd.net.gen import dispatch_pb2 as pb
from tests.unit.dispatch.services import opened


async def test_a_host_that_reports_very_much_at_once_is_heard_in_portions(
    tmp_path, monkeypatch, caplog
):
    """A message of 60,000 short reports, each of a refusal that was logged, took seconds in which
    no other host was heard: their leases would have expired. Nor may a host report attempts that
    are not its own."""
    caplog.set_level("INFO")
    async with opened(tmp_path / "ledger.sqlite") as world:
        line = HostConnection(None, 1)
        report = pb.AttemptReport(job="1", attempt=1, event="refused", reason="a lie")
        many = pb.WorkUp(reports=[report] * 3 * host_connection.REPORTS_AT_ONCE)
        many.heartbeat.MergeFrom(pb.Heartbeat(number=7, slots=1, open_slots=1))
        heard, others, process = [], [], Dispatcher.heard

        def hear(*said):
            left = process(*said)
            heard.append((len(left.reports) if left is not None else 0, len(others)))
            return left

        async def other():
            while True:
                others.append(1)
                await asyncio.sleep(0)

        monkeypatch.setattr(Dispatcher, "heard", hear)
        monkeypatch.setattr("lbd.dispatch.host_connection.STEP_S", 60.0)
        beside = asyncio.create_task(other())
        await world.desk._hear("h2", line, many.SerializeToString())
        beside.cancel()
    assert [left for left, _ in heard] == [512, 256, 0]
    assert len({turns for _, turns in heard}) == 3, "others had their turns in between"
    assert "a lie" not in caplog.text


async def test_reports_that_take_long_are_heard_in_steps(tmp_path, monkeypatch):
    """With a limited name that 5,000 users' jobs had, 256 ends in one message were one step of 5.2
    s."""
    async with opened(tmp_path / "ledger.sqlite") as world:
        line = HostConnection(None, 1)
        up = pb.WorkUp(reports=[pb.AttemptReport(job=f"{n}") for n in range(5)], sent_s=3.0)
        up.heartbeat.MergeFrom(pb.Heartbeat(number=7, slots=1, open_slots=1))
        now_s, heard, others = [0.0], [], []

        def report(_life, _name, report, *_):
            now_s[0] += 0.6 * host_connection.STEP_S
            heard.append((report.job, len(others)))
            return []

        async def other():
            while True:
                others.append(1)
                await asyncio.sleep(0)

        def beat(*_):
            heard.append(("beat", len(others)))

        monkeypatch.setattr("lbd.dispatch.host_connection.reported", report)
        monkeypatch.setattr(Dispatcher, "_heartbeat", beat)
        world.dispatcher.lines["h2"] = line
        monkeypatch.setattr("lbd.dispatch.host_connection.clock_s", lambda: now_s[0])
        beside = asyncio.create_task(other())
        await world.desk._hear("h2", line, up.SerializeToString())
        beside.cancel()
        monkeypatch.undo()
    assert [what for what, _ in heard] == ["0", "1", "2", "3", "4", "beat"]
    turns = [turn for _, turn in heard]
    assert turns[0] == turns[1] < turns[2] == turns[3] < turns[4] == turns[5]


async def test_what_follows_from_the_reports_before_an_invalid_one_is_carried_out(
    tmp_path, monkeypatch
):
    """Otherwise the jobs that start in place of those that ended are never sent, and hold their
    slots for ever."""

    def report(_life, _name, report, *_):
        if report.event == "nonsense":
            raise ValueError("event 'nonsense'")
        return [f"what follows from job {report.job}"]

    async with opened(tmp_path / "ledger.sqlite") as world:
        carried = []
        monkeypatch.setattr("lbd.dispatch.host_connection.reported", report)
        monkeypatch.setattr(Dispatcher, "carry", lambda _, actions, *__: carried.extend(actions))
        up = pb.WorkUp(reports=[pb.AttemptReport(job="7", event="ended")])
        up.reports.add(job="8", event="nonsense")
        with pytest.raises(ValueError, match="nonsense"):
            await world.desk._hear("h2", HostConnection(None, 1), up.SerializeToString())
        monkeypatch.undo()
    assert carried == ["what follows from job 7"]


async def test_a_host_that_comes_and_goes_waits_for_its_next_connection(tmp_path, monkeypatch):
    """Each time all waiting jobs are looked at: with 30,000 arrays that only it may run, others
    waited 1.5 s for each answer for as long as it went on."""
    async with opened(tmp_path / "ledger.sqlite") as world:
        paces, line, now_s = world.desk._paces, HostConnection(None, 1), [0.0]
        monkeypatch.setattr("lbd.dispatch.host_connection.time.thread_time", lambda: now_s[0])
        for _ in range(2):
            async with asyncio.timeout(60.0):
                await paces.opening("h2", line)
            with paces.changing("h2"):
                now_s[0] += host_connection.CHANGES_S
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await paces.opening("h2", line)
        await paces.opening("h3", line)
        line.changes_cpu_s = 0.01
        with pytest.raises(ValueError, match="h2 changes more often"):
            paces.check_changes("h2", line)
        paces.check_changes("h3", line)
        assert not line.changes_cpu_s
