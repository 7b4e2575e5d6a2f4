"""The disk of the spool is full: an attempt that would print there is refused, and nobody's job
fails because its output could not be written."""

import errno
import os
from types import SimpleNamespace

import pytest

from lbd.lbm.core import execution_events as e
from lbd.lbm.keeper_link import ProcessExit
from lbd.lbm.queue.attempt import Attempt
from lbd.lbm.queue.spool import Spool
from lbd.net.gen import lbm_pb2
from lbd.process.boot_clock import clock_s
from tests.unit.lbm.queue.test_attempt_guards import host, news, start_of
from tests.unit.until import until

__all__ = ["host", "news"]
FULL = "refused", "stage", errno.ENOSPC


class Disk(Spool):
    """A spool on a disk that is full until the test frees it."""

    full = True

    def is_full(self):
        return self.full


@pytest.fixture
def spool(tmp_path):
    return Disk(str(tmp_path), 1 << 20)


def printing(host, news, spool, closed_fds=0, gang=(), **files):
    host.link.uid = os.geteuid()
    start = start_of()
    request = lbm_pb2.RunRequest.FromString(start.spec.run_request)
    request.closed_fds = closed_fds
    start.spec.run_request = request.SerializeToString()
    for name, value in files.items():
        setattr(start.spec, name, value)
    start.gang_hosts.extend(gang)
    client = SimpleNamespace(spool=spool)
    attempt = Attempt(host, client, start, news.append, clock_s() + 30.0)
    attempt.begin()
    return attempt


def told(report):
    return report.event, report.phase, report.errno


@pytest.mark.parametrize(
    ("closed_fds", "files", "begins"),
    [
        (0, {}, False),
        (2, {}, False),
        (0, {"error": b"e"}, False),
        (4, {"error": b"e"}, False),
        (0, {"output": b"o"}, True),  # errors go there, too
        (0, {"output": b"o", "error": b"e"}, True),
        (2, {"error": b"e"}, True),
        (6, {}, True),  # it cannot print
    ],
)
async def test_on_a_full_disk_only_those_begin_that_print_nothing_there(
    host, news, spool, closed_fds, files, begins
):
    """All that printed failed there, one after the other, though other hosts had room."""
    attempt = printing(host, news, spool, closed_fds, **files)
    await until(lambda: news)
    if begins:
        assert [one.event for one in news] == ["begun"]
        return
    assert [told(one) for one in news] == [FULL]
    assert news[0].reason == f"no room for its output: the disk of {spool.root} is full"
    assert not host.link.spawns
    assert not attempt.execution.has_slot


async def test_what_runs_when_the_disk_becomes_full_goes_on(host, news, spool):
    spool.full = False
    attempt = printing(host, news, spool)
    await until(lambda: attempt.execution.process is not None)
    spool.full = True
    attempt.feed(e.Tick())
    host.link.spawns[0].exited.set_result(ProcessExit(0, 0.0, 0.0, 0, False))
    await until(lambda: attempt.is_over)
    assert [one.event for one in news] == ["begun", "ended"]
    assert "may be incomplete" in news[-1].reason


async def test_a_gang_looks_for_room_before_any_of_it_begins_and_only_then(host, news, spool):
    printing(host, news, spool, gang=("h1", "h2"))
    await until(lambda: news)
    assert [told(one) for one in news] == [FULL]
    news.clear()
    spool.full = False
    attempt = printing(host, news, spool, gang=("h1", "h2"))
    await until(lambda: news)
    spool.full = True  # others of it run by now
    attempt.feed(e.Released())
    await until(lambda: len(news) > 1)
    assert [one.event for one in news] == ["ready", "begun"]


async def test_a_disk_without_room_for_the_name_of_an_output_is_no_fault_of_its_host(
    host, news, spool, monkeypatch
):
    """It counted as a failed start, and the host got no job of anybody's for a while."""

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(spool, "open", full)
    printing(host, news, spool, output=b"o")
    await until(lambda: news)
    assert [told(one) for one in news] == [FULL]
